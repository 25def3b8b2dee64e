// SPDX-License-Identifier: MIT
//
// Time in nanoseconds. The coarse clocks move in steps of a scheduler tick (4 ms at 250 Hz) and cost a fraction of the
// exact ones. Monotonic ones start at boot, stop while the host is suspended, and are the same in all processes of one
// time namespace; wall clocks are since 1970 and may step either way.
// Threads: any. No errors: these calls cannot fail on Linux.
#pragma once

#include <cstdint>

namespace rondo::os {

[[nodiscard]] std::uint64_t mono_ns() noexcept;         // CLOCK_MONOTONIC
[[nodiscard]] std::uint64_t mono_coarse_ns() noexcept;  // CLOCK_MONOTONIC_COARSE: never ahead of mono_ns()
[[nodiscard]] std::uint64_t coarse_step_ns() noexcept;  // by how much the coarse ones may be behind
[[nodiscard]] std::uint64_t wall_ns() noexcept;         // CLOCK_REALTIME; 0 before 1970
[[nodiscard]] std::uint64_t wall_coarse_ns() noexcept;  // CLOCK_REALTIME_COARSE

#ifdef RONDO_TEST_HOOKS
// Test builds: added to all later readings in this process (exact and coarse alike), saturating at 0. For tests of
// clock steps; {0, 0} restores the true time.
void set_clock_offsets(std::int64_t mono_offset_ns, std::int64_t wall_offset_ns) noexcept;
#endif

}  // namespace rondo::os
