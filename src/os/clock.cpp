// SPDX-License-Identifier: MIT
#include "os/clock.hpp"

#include <atomic>
#include <ctime>

namespace rondo::os {

namespace {

#ifdef RONDO_TEST_HOOKS
std::atomic<std::int64_t> mono_offset{0};
std::atomic<std::int64_t> wall_offset{0};

std::int64_t shifted(std::int64_t now, const std::atomic<std::int64_t>& offset) noexcept {
    std::int64_t sum = 0;
    // ORD(none): relaxed; a lone number that a test sets, carries nothing.
    if (!__builtin_add_overflow(now, offset.load(std::memory_order_relaxed), &sum)) return sum;
    return INT64_MAX;
}
#endif

std::uint64_t read_clock(clockid_t clock, bool wall) noexcept {
    timespec now{};
    ::clock_gettime(clock, &now);
    std::int64_t nanoseconds = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
#ifdef RONDO_TEST_HOOKS
    nanoseconds = shifted(nanoseconds, wall ? wall_offset : mono_offset);
#else
    (void)wall;
#endif
    return nanoseconds > 0 ? static_cast<std::uint64_t>(nanoseconds) : 0;
}

}  // namespace

std::uint64_t mono_ns() noexcept { return read_clock(CLOCK_MONOTONIC, false); }
std::uint64_t mono_coarse_ns() noexcept { return read_clock(CLOCK_MONOTONIC_COARSE, false); }
std::uint64_t coarse_step_ns() noexcept {
    timespec step{};
    ::clock_getres(CLOCK_MONOTONIC_COARSE, &step);
    return static_cast<std::uint64_t>(step.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(step.tv_nsec);
}
std::uint64_t wall_ns() noexcept { return read_clock(CLOCK_REALTIME, true); }
std::uint64_t wall_coarse_ns() noexcept { return read_clock(CLOCK_REALTIME_COARSE, true); }

#ifdef RONDO_TEST_HOOKS
void set_clock_offsets(std::int64_t mono_offset_ns, std::int64_t wall_offset_ns) noexcept {
    // ORD(none): relaxed; see shifted().
    mono_offset.store(mono_offset_ns, std::memory_order_relaxed);
    // ORD(none): relaxed; see shifted().
    wall_offset.store(wall_offset_ns, std::memory_order_relaxed);
}
#endif

}  // namespace rondo::os
