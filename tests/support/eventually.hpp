// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Waiting for another thread or process in a test: poll a condition, never sleep for a guessed time. If the condition
// does not come true within the limit, eventually() throws: doctest reports it as a failure, a Child ends with 125, a
// plain thread terminates the program. The limit only bounds a failing test, so it is generous.
//
//     eventually([&] { return book->received.load(std::memory_order_acquire) == 100; });
//
// Whoever sits, or works along, for as long as the rest of the test takes has no limit of its own: until_the_watchdog.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace rondo::test {

/// More than the program's own watchdog (main.cpp) can be set to: that one ends the wait, and names the test case.
inline constexpr std::chrono::milliseconds until_the_watchdog = std::chrono::hours(25);

template <class Predicate>
void eventually(Predicate&& predicate, std::chrono::milliseconds limit = std::chrono::seconds(20),
                const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point deadline = Clock::now() + limit;
    for (int round = 0; !predicate(); ++round) {
        if (Clock::now() >= deadline) {
            throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": not true within " +
                                     std::to_string(limit.count()) + " ms");
        }
        if (round < 100) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(200));  // between two looks at the predicate
        }
    }
}

}  // namespace rondo::test
