// SPDX-License-Identifier: MIT
//
// Sleeping on a 32-bit word of shared memory, across processes (no FUTEX_PRIVATE_FLAG; std::atomic::wait would sleep
// on a private one and never be woken from another process). The only place in rondo that waits on memory.
//
// - A sleeper may be woken for nothing; the caller re-checks its condition, always. A wake may be lost when its sender
//   dies before the call: every sleep needs a timeout.
// - Ordering: none is promised to the caller; the protocol's own atomics on the word carry it.
// - Threads and processes: any. Waiting and waking only read the word: a read_only mapping will do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace rondo::os {

enum class FutexWait : std::uint8_t {
    woken,      // by a wake, a signal handler or for nothing
    timed_out,  // the timeout passed
    changed,    // the word was not `expected`: no sleep
};

// Sleeps while word == expected, at most `timeout` (relative, CLOCK_MONOTONIC; zero or less never sleeps).
[[nodiscard]] FutexWait futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                                   std::chrono::nanoseconds timeout) noexcept;

// Wakes at most `count` sleepers; returns how many were woken.
int futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept;
int futex_wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace rondo::os
