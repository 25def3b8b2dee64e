// SPDX-License-Identifier: MIT
// A ring as the algorithms see it: pointers into one mapping and the immutable geometry, copied at attach.
// The algorithms are templates over a view, so that tests can put 64 slots of their own memory, or instrumented
// atomics, behind the same code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/racy_copy.hpp"
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

using base::copy_in;
using base::copy_out;

}  // namespace rondo::ring
