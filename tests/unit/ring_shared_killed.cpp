// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// What is left of a shared group when a member is killed or stopped between any two of its words.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "unit/ring_shared_group.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("killed after the pin or after B: the message is taken by another as if nothing had been") {
    Bed b;
    const Seq p = b.put(1);
    b.pin(5) = p;
    b.set_b(p, 17, 5, 1);
    auto h = b.member(6);
    const Leased l = must_take(h, b.pin(6));
    CHECK(l.position == p);
    CHECK(b.sweep(later - 1).empty());  // the B that counts is the new holder's
    CHECK(b.sweep(later).at(p) == Found_::lapsed);
    CHECK(h.settle(l, Outcome::acked));
    h.advance_low_water();
    b.m.advance();
    CHECK(b.m.limit() == p + 64);  // the dead one's pin holds the ring until its handle is cleared
    b.pin(5) = format::nowhere;
    CHECK(b.pin(6) == p);
    b.pin(6) = format::nowhere;
    CHECK(b.m.advance());
    CHECK(b.m.limit() == b.m.tail() + 64);
}

TEST_CASE("killed after the lease, before the hint: the next taker helps the hint") {
    Bed b;
    const Seq p = b.put(1, 200);
    const Seq q = b.put(2);
    b.set(p, EntryState::handed, 5, 1);
    b.set_b(p, later, 5, 1);
    auto h = b.member(6);
    const Leased l = must_take(h, b.pin(6));
    CHECK(l.position == q);
    CHECK(b.hint() == b.m.tail());
    CHECK(b.sweep(later).at(p) == Found_::lapsed);
}

TEST_CASE("killed after the ack, before low water: anyone moves it") {
    Bed b;
    const Seq p = b.put(1, 200);
    const Seq q = b.put(2);
    b.set(p, EntryState::settled, 0, 1);
    b.m.groups[0].hint.store(q);
    auto h = b.member(6);
    CHECK(h.advance_low_water());
    CHECK(b.low() == q);
    CHECK_FALSE(h.advance_low_water());
}

TEST_CASE("padding settled by one who died before the hint moved does not strand the hint") {
    // Low water would pass the hint; the slot would be used again and the hint wait for a stamp that never comes.
    Bed b;
    const Seq pad = b.put_void(4);
    const Seq q = b.put(1);
    b.set(pad, EntryState::settled, 0, static_cast<std::uint32_t>(Outcome::skipped));
    CHECK(b.hint() == pad);
    auto h = b.member(6);
    CHECK(h.advance_low_water());
    CHECK(b.low() == q);
    CHECK(b.hint() == q);
    CHECK(must_take(h, b.pin(6)).position == q);
}

TEST_CASE("a lapsed message at the hint that another took and acked moves the hint along") {
    Bed b;
    const Seq p = b.put(1, 100);
    auto h = b.member(6);
    // Taken by one who died before the hint moved; lapsed and acked through the sweep by another.
    b.set(p, EntryState::settled, 0, 1);
    CHECK(h.advance_low_water());
    CHECK(b.hint() == b.m.tail());
    CHECK(b.low() == b.hint());
    const Seq q = b.put(2);
    CHECK(must_take(h, b.pin(6)).position == q);
}

TEST_CASE("a helper whose hint is a lap old moves nothing") {
    Bed b;
    auto g = b.member(5);
    std::vector<Seq> all;
    const auto round = [&] {
        for (int i = 0; i < 8; ++i) all.push_back(b.put(static_cast<std::uint64_t>(i), 300));
        for (int i = 0; i < 8; ++i) {
            const Leased l = must_take(g, b.pin(5));
            REQUIRE(g.settle(l, Outcome::acked));
            REQUIRE(g.advance_low_water());
            b.pin(5) = format::nowhere;
            CHECK(b.low() <= b.hint());
        }
        b.m.advance();
    };
    for (int i = 0; i < 20; ++i) round();
    // A member that was stopped with p in hand: each word it would change has moved on.
    for (const Seq p : all) {
        const Leased old{p, format::pack_lease({b.m.view.lap1(p), EntryState::handed, 5, 1}), {}};
        CHECK_FALSE(g.settle(old, Outcome::acked));
        CHECK_FALSE(g.give_back(old));
        CHECK_FALSE(g.extend(old, later));
        std::uint64_t word = old.word;
        CHECK_FALSE(g.begin_failing(p, word, 5));
        Leased untouched{p, format::pack_lease({b.m.view.lap1(p), EntryState::leased, 5, 0}), {}};
        CHECK_FALSE(g.hand_over(untouched, later));
    }
    CHECK(b.low() == b.m.tail());
    CHECK(b.hint() == b.m.tail());
}
