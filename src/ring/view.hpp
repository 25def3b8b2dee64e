// SPDX-License-Identifier: MIT
// A ring as the algorithms see it: pointers into one mapping and the immutable geometry, copied at attach.
// The algorithms are templates over a view, so that tests can put 64 slots of their own memory, or instrumented
// atomics, behind the same code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "format/words.hpp"
#include "rondo/format.hpp"
#include "rondo/types.hpp"

namespace rondo::ring {

struct RingView {
    format::HotWords* hot = nullptr;
    format::Word* claims = nullptr;
    std::byte* bytes = nullptr;  // slots
    std::uint64_t slots = 0;     // a power of two
    std::uint64_t salt = 0;
    bool checksums = false;

    std::uint64_t mask() const { return slots - 1; }
    std::byte* at(Seq p) const { return bytes + (p & mask()) * format::slot_bytes; }
    format::RecordHeader& header(Seq p) const { return *reinterpret_cast<format::RecordHeader*>(at(p)); }
    format::Word& stamp(Seq p) const { return header(p).stamp; }
    format::Word& head(Seq p) const { return header(p).head; }
    format::Word& claim(Seq p) const { return claims[p & mask()]; }
    format::Word& tail() const { return hot->tail; }
    format::Word& limit() const { return hot->limit; }
    std::uint64_t lap1(Seq p) const { return format::lap1_of(p, slots); }
    std::uint64_t stamp_of(Seq p) const { return format::stamp_of(p, salt); }
    Seq end_of_positions() const { return format::end_of_positions(slots); }
    std::byte* body(Seq p) const { return at(p) + format::header_bytes; }
    Epoch epoch() const {
        // ORD(none): set before the ring gets its name.
        return static_cast<Epoch>(hot->epoch.load(std::memory_order_relaxed));
    }
};

#if defined(__SANITIZE_THREAD__)
#define RONDO_RACE_DETECTOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RONDO_RACE_DETECTOR 1
#endif
#endif

/// Copies into a record that nobody may read yet. A paused reader may still peek at the first words of a slot that
/// was its record a lap ago (it finds out and discards what it saw), so under the race detector these copies are
/// made of atomic bytes; elsewhere they are a memcpy.
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

/// Copies a few bytes of a record that may be overwritten meanwhile; the caller finds out afterwards.
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

}  // namespace rondo::ring
