// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "perf/ring_perf/physical.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/cpu.hpp"

namespace perf {

namespace {

struct alignas(128) Line {
    std::atomic<std::uint64_t> value{0};
};

constexpr std::size_t ring_bytes = std::size_t{1} << 20;

struct Bare {
    Line written, read;
    alignas(4096) std::byte data[ring_bytes];
};

/// Memory that is mapped once and used by all runs.
Bare& bare() {
    static auto* const b = new (shared_memory(sizeof(Bare))) Bare;
    b->written.value.store(0);
    b->read.value.store(0);
    return *b;
}

}  // namespace

std::optional<double> handoff_ns(Control& control, std::uint64_t rounds) {
    auto& line = bare().written.value;
    const bool ok = run_pair(
        control,
        [&] {
            return [&](Control& c) {
                std::vector<std::uint32_t> times(rounds);
                for (std::uint64_t i = 1; i <= rounds; ++i) {
                    const std::uint64_t begin = now_ns();
                    line.store(2 * i - 1, std::memory_order_release);
                    while (line.load(std::memory_order_acquire) != 2 * i) {
                    }
                    times[i - 1] = static_cast<std::uint32_t>(now_ns() - begin);
                }
                std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(rounds / 2), times.end());
                c.quantiles_ns[0] = times[rounds / 2] / 2.0;
            };
        },
        [&] {
            return [&](Control&) {
                for (std::uint64_t i = 1; i <= rounds; ++i) {
                    while (line.load(std::memory_order_acquire) != 2 * i - 1) {
                    }
                    line.store(2 * i, std::memory_order_release);
                }
            };
        });
    if (!ok) return std::nullopt;
    return control.quantiles_ns[0];
}

std::optional<double> ideal_rate(Control& control, std::size_t bytes, bool each, double seconds) {
    auto& b = bare();
    const std::size_t stride = bytes < 64 ? bytes : (bytes + 63) / 64 * 64;
    const std::uint64_t slots = std::min<std::uint64_t>(ring_bytes / stride, 16384);
    const std::uint64_t batch = each ? 1 : std::max<std::uint64_t>(4096 / stride, 1);
    const bool ok = run_pair(
        control,
        [&] {
            return [&](Control&) {
                std::vector<std::byte> message(bytes, std::byte{0x5a});
                Schedule schedule(seconds, bytes);
                std::uint64_t i = 0, published = 0, freed = 0;
                for (bool more = true; more;) {
                    while (i - freed == slots) {
                        freed = b.read.value.load(std::memory_order_acquire);
                        if (i - freed == slots) rondo::base::pause();
                    }
                    const std::uint64_t head = schedule.head(i);
                    auto* slot = b.data + i % slots * stride;
                    // Whichever is faster: small ones without a reload of what was just stored, large ones whole and
                    // to aligned lines.
                    std::byte* const first = bytes < 4096 ? slot : message.data();
                    std::memcpy(first, &head, 8);
                    if (bytes < 4096) {
                        std::memcpy(slot + 8, message.data() + 8, bytes - 8);
                    } else {
                        std::memcpy(slot, message.data(), bytes);
                    }
                    ++i;
                    more = (head & last_flag) == 0;
                    if (i - published >= batch || !more) {
                        b.written.value.store(i, std::memory_order_release);
                        published = i;
                    }
                }
            };
        },
        [&] {
            return [&](Control& c) {
                Tally tally(bytes);
                std::uint64_t i = 0, seen = 0;
                while (!tally.done()) {
                    while ((seen = b.written.value.load(std::memory_order_acquire)) == i) rondo::base::pause();
                    while (i != seen) {
                        tally.take(b.data + i % slots * stride, bytes);
                        ++i;
                        if (i % batch == 0) b.read.value.store(i, std::memory_order_release);
                    }
                    b.read.value.store(i, std::memory_order_release);
                }
                tally.report(c);
            };
        });
    if (!ok || control.ns == 0) return std::nullopt;
    return static_cast<double>(control.messages) * 1e9 / static_cast<double>(control.ns);
}

}  // namespace perf
