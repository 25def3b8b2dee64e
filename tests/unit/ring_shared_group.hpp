// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A shared group in private memory, its lease words and its sweep at hand, for tests at the level of its words.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <map>

#include "unit/ring_group.hpp"

namespace rondo::test {

using flow::Leased;
using flow::SharedGroup;
using flow::Take;
using format::EntryState;
using format::LeaseWord;
using format::Outcome;
using Found_ = SharedGroup::Found;

inline constexpr Seq start = 3 * 64 + 5;
inline constexpr std::uint64_t later = 1'000'000;  // a deadline, in due ticks
inline constexpr std::uint64_t lease = 300'000;    // 30 s

/// A queue of one shared group, and its words.
struct Bed : GroupBed {
    explicit Bed(Seq from = start, std::uint64_t slots = 64) : GroupBed(from, slots) {}

    SharedGroup member(std::uint32_t participant) { return {m.view, m.groups[0], 0, life, m.table(), participant}; }
    format::Word& pin(std::uint32_t participant) { return m.handles[participant].borrow; }
    LeaseWord word(Seq p) const { return format::unpack_lease(m.entries[p & m.view.mask()].a.load()); }
    void set(Seq p, EntryState s, std::uint32_t owner, std::uint32_t attempts) {
        m.entries[p & m.view.mask()].a.store(format::pack_lease({m.view.lap1(p), s, owner, attempts}));
    }
    void set_b(Seq p, std::uint64_t due, std::uint32_t owner, std::uint32_t attempts) {
        m.entries[p & m.view.mask()].b.store(format::pack_due({due, owner, attempts}));
    }
    Seq hint() const { return m.groups[0].hint.load(); }
    Seq low() const { return m.groups[0].cursor.load(); }
    /// Everything a sweep over the whole window finds.
    std::map<Seq, Found_> sweep(std::uint64_t now, std::uint64_t* next_due = nullptr) {
        std::map<Seq, Found_> all;
        Seq at = 0;
        std::uint64_t due = ~std::uint64_t{0};
        auto g = member(99);
        for (;;) {
            const auto r = g.sweep(at, now, lease, due);
            if (r.found == Found_::nothing) break;
            all[r.position] = r.found;
        }
        if (next_due != nullptr) *next_due = due;
        return all;
    }
};

/// Takes the next message, which is there.
inline Leased must_take(SharedGroup& g, format::Word& pin, bool hand_over = true, std::uint64_t deadline = later) {
    Leased l;
    REQUIRE(g.take_new(deadline, hand_over, pin, l) == Take::taken);
    return l;
}

}  // namespace rondo::test
