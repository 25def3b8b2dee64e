// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// A shared group at the level of its words: leases, hint and low water, the sweep, and what is left when a member is
// killed between any two of them.
#include "flow/shared_group.hpp"

#include <doctest/doctest.h>

#include <map>

#include "unit/ring_group.hpp"

using namespace rondo;
using namespace rondo::test;
using flow::Leased;
using flow::SharedGroup;
using flow::Take;
using format::EntryState;
using format::LeaseWord;
using format::Outcome;
using Found_ = SharedGroup::Found;

namespace {

constexpr Seq start = 3 * 64 + 5;
constexpr std::uint64_t later = 1'000'000;  // a deadline, in due ticks
constexpr std::uint64_t lease = 300'000;    // 30 s

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

Leased must_take(SharedGroup& g, format::Word& pin, bool hand_over = true, std::uint64_t deadline = later) {
    Leased l;
    REQUIRE(g.take_new(deadline, hand_over, pin, l) == Take::taken);
    return l;
}

}  // namespace

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

// ---- killed in between ---------------------------------------------------------------------------------------

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

TEST_CASE("a hint beyond which nothing is published is empty, not a wait for the past") {
    Bed b;
    auto g = b.member(5);
    Leased l;
    CHECK(g.take_new(later, true, b.pin(5), l) == Take::empty);
    CHECK(b.hint() == start);
    CHECK(b.pin(5) == format::nowhere);
}

// ---- the sweep -----------------------------------------------------------------------------------------------

TEST_CASE("the sweep tells each state, and skips what belongs to somebody at work") {
    Bed b;
    std::vector<Seq> p;
    for (int i = 0; i < 11; ++i) p.push_back(b.put(static_cast<std::uint64_t>(i)));
    b.m.groups[0].hint.store(p[10]);
    b.set(p[0], EntryState::settled, 0, 1);
    b.set(p[1], EntryState::ready, 0, 2);
    b.set(p[2], EntryState::leased, 7, 0);
    b.set_b(p[2], 500, 7, 0);
    b.set(p[3], EntryState::handed, 7, 1);
    b.set_b(p[3], 600, 7, 1);
    b.set(p[4], EntryState::failing, 7, 1);
    b.set(p[5], EntryState::backoff, format::encode_delay(600), 1);
    b.set_b(p[5], 700, format::encode_delay(600), 1);
    b.set(p[6], EntryState::moving, 7, 3);
    b.set(p[7], EntryState::dead_pending, 0, 3);
    b.set(p[8], EntryState::settled, 0, 1);
    // p[9]: nobody has leased it in this lap. p[10]: beyond the hint.
    b.m.entries[p[9] & 63].a = format::pack_lease({b.m.view.lap1(p[9]) - 1, EntryState::handed, 7, 1});
    std::uint64_t due = 0;
    const auto early = b.sweep(499, &due);
    CHECK(early == std::map<Seq, Found_>{{p[1], Found_::ready}, {p[7], Found_::dead_pending}});
    CHECK(due == 500);
    const auto late = b.sweep(700, &due);
    CHECK(late == std::map<Seq, Found_>{{p[1], Found_::ready},
                                        {p[2], Found_::lapsed_untouched},
                                        {p[3], Found_::lapsed},
                                        {p[5], Found_::due},
                                        {p[7], Found_::dead_pending}});
    CHECK(due == ~std::uint64_t{0});
}

TEST_CASE("the sweep goes on where it stopped and ends at the hint") {
    Bed b;
    std::vector<Seq> p;
    for (int i = 0; i < 6; ++i) {
        p.push_back(b.put(static_cast<std::uint64_t>(i), 100));
        b.set(p.back(), EntryState::ready, 0, 1);
    }
    b.m.groups[0].hint.store(b.m.tail());
    auto g = b.member(5);
    Seq at = 0;
    std::uint64_t due = 0;
    for (const Seq expected : p) CHECK(g.sweep(at, 0, lease, due).position == expected);
    CHECK(g.sweep(at, 0, lease, due).found == Found_::nothing);
    CHECK(at == b.m.tail());
}

TEST_CASE("a deadline of a taker that was paused is not believed: the holder's lease runs anew") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    const Leased l = must_take(g, b.pin(5), true, 900'000);
    // Member 8 was about to take p long ago; it wakes, stores its old B, and its CAS fails.
    b.set_b(p, 10, 8, 1);
    std::uint64_t due = 0;
    CHECK(b.sweep(1000, &due).empty());
    CHECK(due == 1000 + lease);
    const auto mended = format::unpack_due(b.m.entries[p & 63].b.load());
    CHECK(mended.owner == 5);
    CHECK(mended.attempts == 1);
    CHECK(mended.value == due);
    CHECK(b.sweep(due - 1).empty());
    CHECK(b.sweep(due).at(p) == Found_::lapsed);
    CHECK(g.settle(l, Outcome::acked));  // the lease itself was never in danger
}

TEST_CASE("a deadline stored for an earlier hand-over is not believed for a later one") {
    Bed b;
    const Seq p = b.put(1);
    b.m.groups[0].hint.store(b.m.tail());
    b.set(p, EntryState::handed, 5, 2);
    b.set_b(p, 10, 5, 1);  // by the same participant, one attempt ago
    CHECK(b.sweep(1000).empty());
}

TEST_CASE("a wait that a paused taker overwrote begins anew as long as it was, not as long as a lease") {
    Bed b;
    const Seq p = b.put(1);
    b.m.groups[0].hint.store(b.m.tail());
    const std::uint32_t code = format::encode_delay(20'000);
    b.set(p, EntryState::backoff, code, 1);
    b.set_b(p, 10, 8, 2);
    std::uint64_t due = 0;
    CHECK(b.sweep(1000, &due).empty());
    CHECK(due == 1000 + format::decode_delay(code));
    CHECK(due >= 1000 + 20'000);
    CHECK(due < 1000 + 21'300);  // coded in 5 bits and an exponent, rounded up
    CHECK(b.sweep(due).at(p) == Found_::due);
}

TEST_CASE("extend moves the deadline of the lease that is there, and says so when it is gone") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    const Leased l = must_take(g, b.pin(5), true, 100);
    CHECK(g.extend(l, 5000));
    CHECK(b.sweep(4999).empty());
    CHECK(b.sweep(5000).at(p) == Found_::lapsed);
    CHECK(g.settle(l, Outcome::acked));
    CHECK_FALSE(g.extend(l, 9000));
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

TEST_CASE("what is moving remembers where the search for its copy begins, beyond 44 bits of position too") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    for (const Seq tail :
         {Seq{0}, Seq{77}, (Seq{1} << 44) - 1, Seq{1} << 44, (Seq{1} << 44) + 5, (Seq{5} << 46) + 12345}) {
        CAPTURE(tail);
        b.set(p, EntryState::failing, 5, 3);
        std::uint64_t word = b.m.entries[p & 63].a;
        REQUIRE(g.begin_moving(p, word, 5, tail));
        CHECK(b.word(p).state == EntryState::moving);
        for (const std::uint64_t ahead : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}})
            CHECK(g.noted_dead_tail(p, tail + ahead) == tail);
        g.end_moving(p, word, false);
        CHECK(b.word(p).state == EntryState::dead_pending);
        CHECK(b.word(p).attempts == 3);
        word = b.m.entries[p & 63].a;
        REQUIRE(g.begin_moving(p, word, 6, tail));
        g.end_moving(p, word, true);
        CHECK(b.word(p).state == EntryState::settled);
        CHECK(b.word(p).attempts == static_cast<std::uint32_t>(Outcome::dead_lettered));
    }
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

TEST_CASE("a message with a damaged header is skipped by the size of its claim, or holds the group if nobody knows") {
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
    REQUIRE(g.take_new(later, true, b.pin(5), l) == Take::corrupt);
    CHECK_FALSE(g.skip_corrupt(r));
    b.set(r, EntryState::settled, 0, 1);
    CHECK_FALSE(g.advance_low_water());  // and no hang
}

// ---- histories -----------------------------------------------------------------------------------------------

TEST_CASE("after any history of three members each message is settled once and its charge is exact") {
    for (const Seq from : start_positions(64)) {
        CAPTURE(from);
        auto random = rng(from + 3);
        Bed b(from);
        struct Held {
            Leased l;
            std::uint32_t owner;
            bool handed;
        };
        std::vector<Held> held;
        std::map<Seq, std::uint32_t> charged;  // of unsettled messages
        std::uint64_t published = 0, settled = 0, now = 1;
        std::vector<SharedGroup> members;
        for (std::uint32_t i = 1; i <= 3; ++i) members.push_back(b.member(i));
        const auto repin = [&](std::uint32_t owner) {
            Seq low = format::nowhere;
            for (const auto& h : held)
                if (h.owner == owner) low = std::min(low, h.l.position);
            b.pin(owner) = low;
        };
        const auto taken = [&](const Leased& l, std::uint32_t owner, bool hand_over) {
            held.push_back({l, owner, hand_over});
            if (hand_over) ++charged[l.position];
            REQUIRE(l.attempts() == charged[l.position]);
        };
        for (int turn = 0; turn < 6000; ++turn) {
            now += random.below(4);
            const auto owner = static_cast<std::uint32_t>(1 + random.below(3));
            auto& g = members[owner - 1];
            switch (random.below(8)) {
                case 0:
                case 1: {
                    if (random.one_in(6)) {
                        b.put_void(1 + random.below(4));
                    } else if (const Seq p = b.put(published, random.below(300)); p != format::nowhere) {
                        charged[p] = 0;
                        ++published;
                    }
                    break;
                }
                case 2:
                case 3: {
                    const bool hand_over = random.one_in(2);
                    Leased l;
                    if (g.take_new(now + 1 + random.below(200), hand_over, b.pin(owner), l) == Take::taken)
                        taken(l, owner, hand_over);
                    break;
                }
                case 4: {
                    Seq at = 0;
                    std::uint64_t due = ~std::uint64_t{0};
                    const auto r = g.sweep(at, now, lease, due);
                    if (r.found == Found_::ready || r.found == Found_::due) {
                        const bool hand_over = random.one_in(2);
                        Leased l;
                        REQUIRE(g.take_returned(r, now + 50, hand_over, b.pin(owner), l));
                        taken(l, owner, hand_over);
                    } else if (r.found == Found_::lapsed_untouched) {
                        REQUIRE(g.give_back({r.position, r.word, {}}));
                    } else if (r.found == Found_::lapsed) {
                        std::uint64_t word = r.word;
                        REQUIRE(g.begin_failing(r.position, word, owner));
                        g.end_failing(r.position, word, now, random.below(20));
                    }
                    break;
                }
                default: {
                    if (held.empty()) break;
                    const std::size_t i = random.below(held.size());
                    Held h = held[i];
                    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
                    auto& mine = members[h.owner - 1];
                    const bool valid = b.m.entries[h.l.position & 63].a.load() == h.l.word;
                    if (!h.handed) {
                        const bool ok = random.one_in(2) ? mine.give_back(h.l) : mine.hand_over(h.l, later);
                        REQUIRE(ok == valid);
                        if (ok && format::unpack_lease(h.l.word).state == EntryState::handed) {
                            h.handed = true;
                            ++charged[h.l.position];
                            held.push_back(h);
                        }
                    } else if (random.one_in(4)) {
                        std::uint64_t word = h.l.word;
                        REQUIRE(mine.begin_failing(h.l.position, word, h.owner) == valid);
                        if (valid && random.one_in(2)) {
                            mine.end_releasing(h.l.position, word);
                            --charged[h.l.position];
                        } else if (valid) {
                            mine.end_failing(h.l.position, word, now, random.below(20));
                        }
                    } else {
                        REQUIRE(mine.settle(h.l, Outcome::acked) == valid);
                        if (valid) {
                            ++settled;
                            charged.erase(h.l.position);
                            mine.advance_low_water();
                        }
                    }
                    repin(h.owner);
                }
            }
            REQUIRE(b.low() <= b.hint());
            REQUIRE(b.hint() <= b.m.tail());
            if (!charged.empty()) REQUIRE(charged.begin()->first >= b.low());
        }
        CHECK(b.m.tail() > from + 3 * 64);  // the slots were used again
        CHECK(settled + charged.size() == published);
    }
}
