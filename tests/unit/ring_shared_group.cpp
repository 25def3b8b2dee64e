// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// A shared group at the level of its words: leases, hint and low water, failing, moving, and damage.
#include "flow/shared_group.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "unit/ring_shared_group.hpp"

using namespace rondo;
using namespace rondo::test;

// ---- taking --------------------------------------------------------------------------------------------------

TEST_CASE("a message is taken once, handed over, settled, and low water follows") {
    Bed b;
    const Seq p = b.put(1, 100);
    const Seq q = b.put(2);
    auto g = b.member(5);
    auto other = b.member(6);
    Leased l = must_take(g, b.pin(5));
    CHECK(l.position == p);
    CHECK(l.attempts() == 1);
    CHECK(l.record.head.payload_bytes == 100);
    CHECK(b.word(p).state == EntryState::handed);
    CHECK(b.word(p).owner == 5);
    CHECK(b.hint() == q);
    CHECK(b.low() == p);
    CHECK(b.pin(5) == p);
    const Leased l2 = must_take(other, b.pin(6));
    CHECK(l2.position == q);
    Leased none;
    CHECK(g.take_new(later, true, b.pin(5), none) == Take::empty);
    CHECK(other.settle(l2, Outcome::acked));
    CHECK_FALSE(other.advance_low_water());  // p is open
    CHECK(g.settle(l, Outcome::acked));
    CHECK_FALSE(g.settle(l, Outcome::acked));
    CHECK(g.advance_low_water());
    CHECK(b.low() == b.m.tail());
    CHECK(b.hint() == b.m.tail());
    CHECK(b.word(p).state == EntryState::settled);
    CHECK(b.word(p).attempts == static_cast<std::uint32_t>(Outcome::acked));
}

TEST_CASE("a lease is charged at the hand-over, and given back untouched it is not") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    Leased l = must_take(g, b.pin(5), false);
    CHECK(l.attempts() == 0);
    CHECK(b.word(p).state == EntryState::leased);
    const auto returns = g.returns();
    CHECK(g.give_back(l));
    CHECK(g.returns() == returns + 1);
    CHECK(b.word(p).state == EntryState::ready);
    CHECK(b.word(p).owner == 0);
    CHECK_FALSE(g.hand_over(l, later));
    const auto found = b.sweep(0);
    REQUIRE(found.size() == 1);
    CHECK(found.at(p) == Found_::ready);
    Seq at = 0;
    std::uint64_t due = ~std::uint64_t{0};
    const auto r = g.sweep(at, 0, lease, due);
    Leased again;
    REQUIRE(g.take_returned(r, later, false, b.pin(5), again));
    CHECK(again.attempts() == 0);
    REQUIRE(g.hand_over(again, later));
    CHECK(again.attempts() == 1);
    CHECK(b.word(p).state == EntryState::handed);
    CHECK(g.settle(again, Outcome::acked));
}

TEST_CASE("of two members who saw the same message one gets it") {
    Bed b;
    b.put(1);
    auto g = b.member(5);
    auto h = b.member(6);
    const Leased l = must_take(g, b.pin(5), false);
    g.give_back(l);
    Seq at = 0, at2 = 0;
    std::uint64_t due = 0;
    const auto r = g.sweep(at, 0, lease, due);
    const auto r2 = h.sweep(at2, 0, lease, due);
    CHECK(r.word == r2.word);
    Leased mine, theirs;
    CHECK(g.take_returned(r, later, true, b.pin(5), mine));
    CHECK_FALSE(h.take_returned(r2, later, true, b.pin(6), theirs));
    CHECK(mine.attempts() == 1);
}

TEST_CASE("padding, voids and copies for other groups are stepped over") {
    Bed b;
    b.put_void(3, ring::RecordType::pad);
    const Seq other_group = b.put_only(1, 1);
    const Seq other_life = b.put_only(0, 2);
    const Seq mine = b.put_only(0, 1);
    const Seq plain = b.put(9);
    b.put_void(2);
    auto g = b.member(5);
    Leased l = must_take(g, b.pin(5));
    CHECK(l.position == mine);
    CHECK(b.low() == mine);
    for (const Seq p : {start, other_group, other_life}) {
        CHECK(b.word(p).state == EntryState::settled);
        CHECK(b.word(p).attempts == static_cast<std::uint32_t>(Outcome::skipped));
    }
    Leased l2 = must_take(g, b.pin(5));
    CHECK(l2.position == plain);
    Leased none;
    CHECK(g.take_new(later, true, b.pin(5), none) == Take::empty);
    CHECK(g.settle(l, Outcome::acked));
    CHECK(g.settle(l2, Outcome::acked));
    g.advance_low_water();
    CHECK(b.low() == b.m.tail());
}

TEST_CASE("a hint beyond which nothing is published is empty, not a wait for the past") {
    Bed b;
    auto g = b.member(5);
    Leased l;
    CHECK(g.take_new(later, true, b.pin(5), l) == Take::empty);
    CHECK(b.hint() == start);
    CHECK(b.pin(5) == format::nowhere);
}

// ---- failing and moving --------------------------------------------------------------------------------------

TEST_CASE("a nack notes, waits and comes again with its charge; a release comes again without") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    Leased l = must_take(g, b.pin(5));
    std::uint64_t word = l.word;
    REQUIRE(g.begin_failing(p, word, 5));
    CHECK(b.word(p).state == EntryState::failing);
    CHECK_FALSE(g.settle(l, Outcome::acked));  // the handed word is gone
    g.end_failing(p, word, 100, 200);
    CHECK(b.word(p).state == EntryState::backoff);
    CHECK(format::decode_delay(b.word(p).owner) >= 200);  // nobody's: the bits say how long the wait is
    CHECK(b.sweep(299).empty());
    Seq at = 0;
    std::uint64_t due = ~std::uint64_t{0};
    const auto r = g.sweep(at, 300, lease, due);
    REQUIRE(r.found == Found_::due);
    REQUIRE(g.take_returned(r, later, true, b.pin(5), l));
    CHECK(l.attempts() == 2);
    word = l.word;
    REQUIRE(g.begin_failing(p, word, 5));
    g.end_releasing(p, word);
    CHECK(b.word(p).state == EntryState::ready);
    CHECK(b.word(p).attempts == 1);
}

TEST_CASE("a wait of nothing makes a failed message due at once, with its charge") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    const Leased l = must_take(g, b.pin(5));
    std::uint64_t word = l.word;
    REQUIRE(g.begin_failing(p, word, 5));
    g.end_failing(p, word, 100, 0);
    CHECK(b.word(p).attempts == 1);
    CHECK(b.sweep(0).at(p) == Found_::due);
}

TEST_CASE("a slower rival of the same participant leaves the winner's deadline alone") {
    Bed b;
    const Seq p = b.put(1);
    auto winner = b.member(5), rival = b.member(5);
    Leased l = must_take(winner, b.pin(5), false);
    CHECK(winner.give_back(l));
    Seq at = 0;
    std::uint64_t due = ~std::uint64_t{0};
    const auto seen = rival.sweep(at, 0, lease, due);
    REQUIRE(seen.found == Found_::ready);
    // The rival is paused here. The winner takes the message and extends its lease.
    REQUIRE(winner.take_returned(seen, later, true, b.pin(5), l));
    REQUIRE(winner.extend(l, 10 * later));
    const std::uint64_t kept = b.m.entries[p & 63].b.load();
    Leased none;
    CHECK_FALSE(rival.take_returned(seen, later / 2, true, b.pin(5), none));
    CHECK(b.m.entries[p & 63].b.load() == kept);
    CHECK(b.sweep(9 * later).empty());
    CHECK(b.sweep(10 * later).at(p) == Found_::lapsed);
}

TEST_CASE("the deadline of an earlier lease is not taken for a new one's that looks the same") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    Leased l = must_take(g, b.pin(5), false, 10);
    CHECK(g.give_back(l));
    Seq at = 0;
    std::uint64_t due = ~std::uint64_t{0};
    // As if it were killed between the entry's change and the deadline's store: owner and attempts are the same.
    REQUIRE(g.take_returned(g.sweep(at, 0, lease, due), later, false, b.pin(5), l));
    CHECK(b.sweep(later - 1).empty());
    CHECK(b.sweep(later).at(p) == Found_::lapsed_untouched);
}

TEST_CASE("what came back is told by position, as long as few came since") {
    Bed b;
    auto g = b.member(5);
    std::vector<Leased> all;
    for (std::uint64_t i = 0; i < 10; ++i) {
        (void)b.put(i);
        all.push_back(must_take(g, b.pin(5), false));
    }
    const std::uint64_t before = g.returns();
    for (const auto& l : all) CHECK(g.give_back(l));
    REQUIRE(g.returns() == before + 10);
    for (std::uint64_t n = 0; n < 10; ++n) {
        const auto told = g.returned_at(before + n);
        const bool kept = n + SharedGroup::returns_kept >= 10;
        REQUIRE(told.has_value() == kept);
        if (kept) CHECK(*told == all[n].position);
    }
    CHECK_FALSE(g.returned_at(before + 10).has_value());
    std::uint64_t due = ~std::uint64_t{0};
    CHECK(g.look(all[9].position, 0, lease, due).found == Found_::ready);
}

TEST_CASE("a moving message ends settled, or waits for dead.ring with its attempts kept") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    b.set(p, EntryState::failing, 5, 3);
    std::uint64_t word = b.m.entries[p & 63].a;
    REQUIRE(g.begin_moving(p, word, 5));
    CHECK(b.word(p).state == EntryState::moving);
    g.end_moving(p, word, false);
    CHECK(b.word(p).state == EntryState::dead_pending);
    CHECK(b.word(p).attempts == 3);
    word = b.m.entries[p & 63].a;
    REQUIRE(g.begin_moving(p, word, 6));
    g.end_moving(p, word, true);
    CHECK(b.word(p).state == EntryState::settled);
    CHECK(b.word(p).attempts == static_cast<std::uint32_t>(Outcome::dead_lettered));
}

TEST_CASE("attempts stop at the largest count their field holds") {
    Bed b;
    const Seq p = b.put(1);
    b.m.groups[0].hint.store(b.m.tail());
    b.set(p, EntryState::ready, 0, format::max_attempts);
    auto g = b.member(5);
    Seq at = 0;
    std::uint64_t due = 0;
    Leased l;
    REQUIRE(g.take_returned(g.sweep(at, 0, lease, due), later, true, b.pin(5), l));
    CHECK(l.attempts() == format::max_attempts);
    CHECK(b.word(p).owner == 5);
    CHECK(b.word(p).state == EntryState::handed);
    b.set(p, EntryState::leased, 5, format::max_attempts);
    l.word = b.m.entries[p & 63].a;
    CHECK(g.hand_over(l, later));
    CHECK(l.attempts() == format::max_attempts);
}

// ---- chosen messages, damage ---------------------------------------------------------------------------------

TEST_CASE("a member may take the message it wants, once") {
    Bed b;
    b.put(1);
    const Seq q = b.put(2);
    auto g = b.member(5);
    std::uint64_t former = 1;
    Leased l;
    REQUIRE(g.take_at(q, former, l));
    CHECK(l.position == q);
    CHECK(b.word(q).state == EntryState::handed);
    Leased no;
    CHECK_FALSE(b.member(6).take_at(q, former, no));
    CHECK_FALSE(g.take_at(q + 1, former, no));
    CHECK(g.give_back(l));
    CHECK(b.member(6).take_at(q, former, no));
    CHECK(no.attempts() == 2);
    CHECK(b.member(6).settle(no, Outcome::redriven));
    CHECK_FALSE(g.take_at(q, former, no));
}

TEST_CASE("a message with a damaged header is skipped by its claim, and without one up to whatever follows") {
    Bed b;
    const Seq p = b.put(1, 200);
    const Seq q = b.put(2);
    b.m.view.head(p).store(~std::uint64_t{0});
    auto g = b.member(5);
    Leased l;
    REQUIRE(g.take_new(later, true, b.pin(5), l) == Take::corrupt);
    CHECK(l.position == p);
    CHECK(g.skip_corrupt(p));
    CHECK(b.low() == q);
    CHECK_FALSE(g.skip_corrupt(p));
    CHECK(must_take(g, b.pin(5)).position == q);
    // The claim word is damaged as well.
    const Seq r = b.put(3, 200);
    b.m.view.head(r).store(~std::uint64_t{0});
    b.m.view.claim(r).store(0);
    const Seq s = b.put(4);
    REQUIRE(g.take_new(later, true, b.pin(5), l) == Take::corrupt);
    CHECK(l.position == r);
    CHECK(g.skip_corrupt(r));
    CHECK(must_take(g, b.pin(5)).position == s);
    // And with nothing behind it: up to the tail.
    const Seq t = b.put(5, 200);
    b.m.view.head(t).store(~std::uint64_t{0});
    b.m.view.claim(t).store(0);
    const Seq tail = b.m.view.tail().load();
    REQUIRE(g.take_new(later, true, b.pin(5), l) == Take::corrupt);
    CHECK(g.skip_corrupt(t));
    CHECK(g.hint() == tail);
    // Settled first and damaged then: low water goes the same way.
    const Seq u = b.put(6, 200);
    CHECK(g.settle(must_take(g, b.pin(5)), Outcome::acked));
    b.m.view.head(u).store(~std::uint64_t{0});
    b.m.view.claim(u).store(0);
    (void)g.advance_low_water();  // and no hang
}
