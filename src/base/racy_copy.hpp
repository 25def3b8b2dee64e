// SPDX-License-Identifier: MIT
// Copies into and out of records in shared memory. A paused reader may still look at a slot that was its record a lap
// ago (it finds out and discards what it saw), so under the race detector these copies are made of atomic bytes;
// elsewhere they are a memcpy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define RONDO_RACE_DETECTOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RONDO_RACE_DETECTOR 1
#endif
#endif

namespace rondo::base {

/// Into a record that nobody may read yet.
inline void copy_in(std::byte* to, const std::byte* from, std::size_t n) {
#ifdef RONDO_RACE_DETECTOR
    for (std::size_t i = 0; i < n; ++i) {
        // ORD(none): published by the stamp.
        reinterpret_cast<std::atomic<std::byte>*>(to + i)->store(from[i], std::memory_order_relaxed);
    }
#else
    if (n != 0) std::memcpy(to, from, n);
#endif
}

inline void zero_in(std::byte* to, std::size_t n) {
    constexpr std::byte zero{};
    for (std::size_t i = 0; i < n; ++i) copy_in(to + i, &zero, 1);
}

/// A few bytes of a record that may be overwritten meanwhile; the caller finds out afterwards.
inline void copy_out(std::byte* to, const std::byte* from, std::size_t n) {
#ifdef RONDO_RACE_DETECTOR
    for (std::size_t i = 0; i < n; ++i) {
        // ORD(none): validated by a later CAS of the reader.
        to[i] = reinterpret_cast<const std::atomic<std::byte>*>(from + i)->load(std::memory_order_relaxed);
    }
#else
    if (n != 0) std::memcpy(to, from, n);
#endif
}

}  // namespace rondo::base
