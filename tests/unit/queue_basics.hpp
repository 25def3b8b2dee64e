// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What unit tests of the public interface share: the size of a small queue, payloads as text, receiving with and
// without a wait.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rondo/rondo.hpp"

namespace rondo::test {

using namespace std::chrono_literals;

/// The least capacity of a queue.
inline constexpr std::uint64_t small = 256 << 10;
inline constexpr Duration long_wait = 20s;  // bounds a failing test only

inline Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

inline std::uint64_t wall_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
}

/// The group has nothing to hand over now.
inline bool empty(Consumer& c) {
    const auto m = c.try_receive();
    return !m && m.error().code == Errc::empty;
}

/// The next message, however long its lease or delay still lasts.
inline Message next(Consumer& c) { return c.receive(long_wait).value(); }

/// The error of an outcome that was refused.
inline Errc code_of(const Result<void>& r) {
    REQUIRE_FALSE(r);
    return r.error().code;
}

}  // namespace rondo::test
