// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What the full_* programs share: counts (a hundredth of the full ones unless RONDO_FULL=1), and producers and
// consumers as processes of their own.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "stress/queue_traffic.hpp"
#include "support/child.hpp"
#include "support/eventually.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

namespace rondo::test {

inline std::uint64_t full_count(std::uint64_t n) {
    const char* text = std::getenv("RONDO_FULL");
    return text != nullptr && text[0] == '1' ? n : n / 100;
}

/// Starts all processes at one moment, and takes the time.
struct StartLine {
    std::atomic<std::uint32_t> ready{0};
    std::atomic<bool> go{false};
    void wait() {
        ready.fetch_add(1);
        eventually([&] { return go.load(std::memory_order_acquire); }, until_the_watchdog);
    }
};

inline int report(const std::string& error) {
    if (error.empty()) return 0;
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
}

inline void print_rate(const char* what, std::uint64_t capacity, std::uint64_t messages, double seconds) {
    std::printf("%s, %llu slots: %llu messages in %.1f s, %.2f M/s\n", what,
                static_cast<unsigned long long>(capacity / format::slot_bytes),
                static_cast<unsigned long long>(messages), seconds, static_cast<double>(messages) / seconds / 1e6);
    std::fflush(stdout);
}

}  // namespace rondo::test
