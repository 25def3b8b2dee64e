// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// An exclusive group at the level of its words: order, cumulative ack, failures in place, and successors of owners
// that closed or died in any state.
#include "flow/exclusive_group.hpp"

#include <doctest/doctest.h>

#include <map>

#include "unit/ring_group.hpp"

using namespace rondo;
using namespace rondo::test;
using flow::ExclusiveGroup;
using format::Outcome;
using Next = ExclusiveGroup::Next;
using Settled = ExclusiveGroup::Settled;

namespace {

constexpr Seq start = 3 * 64 + 5;
constexpr std::uint64_t wall = 1'700'000'000'000'000'000;

struct Bed : GroupBed {
    explicit Bed(Seq from = start) : GroupBed(from) {}

    /// A consumer with handle number `id` of a participant of the same number.
    ExclusiveGroup member(std::uint32_t id, std::size_t in_flight = 64) {
        return {m.view, m.groups[0],   0,     life,     "orders", format::pack_owner(id, id + 1),
                policy, dead_ring(id), super, in_flight};
    }
    ExclusiveGroup::Clock now() const { return {mono, wall + mono}; }
    Next next(ExclusiveGroup& g, ExclusiveGroup::Handed& h) { return g.next(now(), {"worker", "prog", 42}, h); }
    ExclusiveGroup::Handed take(ExclusiveGroup& g) {
        ExclusiveGroup::Handed h;
        REQUIRE(next(g, h) == Next::handed);
        return h;
    }
    Next look(ExclusiveGroup& g) {
        ExclusiveGroup::Handed h;
        return next(g, h);
    }
    static flow::Failure failure(Outcome outcome, std::string_view code = "boom") {
        flow::Failure f;
        f.outcome = outcome;
        f.reason.code = code;
        f.started_ns = wall;
        f.ended_ns = wall + 1;
        f.handler = {"worker", "prog", 42};
        return f;
    }
    Settled nack(ExclusiveGroup& g, const ExclusiveGroup::Handed& h) {
        return g.fail(h.position, h.session, failure(Outcome::nacked), now());
    }
    /// What the scavenger does for an owner that was killed.
    void kill_owner() {
        flow::note_owner_death(m.view, m.groups[0], 0, life, {"gone", "prog", 41}, wall);
        m.groups[0].owner.store(0);
    }
    Seq cursor() const { return m.groups[0].cursor.load(); }

    std::uint64_t mono = 1'000'000'000'000;
    flow::GroupPolicy policy = policy_of(format::GroupMode::exclusive);
};

}  // namespace

TEST_CASE("messages come in order, and an ack settles all before it") {
    Bed b;
    std::vector<Seq> p;
    for (std::uint64_t i = 0; i < 5; ++i) p.push_back(b.put(i, 100 * i));
    auto g = b.member(1);
    std::vector<ExclusiveGroup::Handed> h;
    for (std::uint64_t i = 0; i < 5; ++i) {
        h.push_back(b.take(g));
        CHECK(h[i].position == p[i]);
        CHECK(h[i].attempts == 1);
        CHECK(b.m.groups[0].handed.load() == h[i].end);
    }
    CHECK(b.look(g) == Next::empty);
    CHECK(b.cursor() == start);
    CHECK(g.ack(p[2], h[2].session) == Settled::ok);
    CHECK(b.cursor() == p[3]);
    CHECK(g.ack(p[1], h[1].session) == Settled::stale);
    CHECK(g.ack(p[2], h[2].session) == Settled::stale);
    CHECK(g.ack(p[4], h[4].session) == Settled::ok);
    CHECK(b.cursor() == b.m.tail());
}

TEST_CASE("attempts stand still at the highest count, and do not spill into the position") {
    Bed b;
    b.policy.max_deliveries = 0;
    const Seq p = b.put(1);
    auto g = b.member(1);
    auto h = b.take(g);
    b.m.groups[0].retry.store(format::pack_retry(p, format::max_attempts));
    CHECK(b.nack(g, h) == Settled::ok);
    b.m.groups[0].retry.store(format::pack_retry(p, format::max_attempts));
    b.mono += 1'000'000'000'000;
    for (int i = 0; i < 3; ++i) {
        h = b.take(g);
        CHECK(h.attempts == format::max_attempts);
        CHECK(b.nack(g, h) == Settled::ok);
        CHECK(format::retry_position(b.m.groups[0].retry.load()) == p);
        CHECK(b.look(g) == Next::backing_off);
        b.mono += 1'000'000'000'000;
    }
}

TEST_CASE("a message whose header is damaged in hand holds up nobody") {
    Bed b;
    const Seq p = b.put(1);
    const Seq q = b.put(2);
    auto g = b.member(1);
    const auto h = b.take(g);
    b.m.view.head(p).store(~std::uint64_t{0});
    CHECK(b.nack(g, h) == Settled::ok);
    const auto next = b.take(g);
    CHECK(next.position == q);
    CHECK(b.m.groups[0].skipped.load() == 1);
}

TEST_CASE("an owner's death is told of the message it held, not of another group's copy before it") {
    Bed b;
    const Seq copy = b.put_only(2, 1);
    const Seq p = b.put(1);
    {
        auto g = b.member(1);
        CHECK(b.take(g).position == p);
        b.m.groups[0].cursor.store(copy);  // as if killed before it moved
    }
    b.kill_owner();
    CHECK(b.m.groups[0].note.position.load() == (p << 1 | 1));
}

TEST_CASE("padding, voids and other groups' copies are stepped over and settled with what stands before them") {
    Bed b;
    b.put_void(3);
    b.put_only(2, 1);
    const Seq p = b.put(1);
    b.put_void(2, ring::RecordType::pad);
    b.put_only(0, 7);
    auto g = b.member(1);
    const auto h = b.take(g);
    CHECK(h.position == p);
    CHECK(b.cursor() == p);
    CHECK(b.look(g) == Next::empty);
    CHECK(b.cursor() == p);
    CHECK(g.ack(p, h.session) == Settled::ok);
    CHECK(b.cursor() == b.m.tail());
    const Seq own = b.put_only(0, GroupBed::life);
    CHECK(b.take(g).position == own);
}

TEST_CASE("one member is active, the others wait, and take over when it closes") {
    Bed b;
    const Seq p = b.put(1);
    b.put(2);
    auto g = b.member(1), h = b.member(2);
    const auto got = b.take(g);
    (void)b.take(g);
    CHECK(b.look(h) == Next::standby);
    CHECK_FALSE(h.active());
    g.give_up();
    CHECK(g.ack(p, got.session) == Settled::stale);
    const auto again = b.take(h);
    CHECK(again.position == p);
    CHECK(again.attempts == 2);
    CHECK(b.look(h) == Next::waiting_for_outcome);  // one at a time below what was handed over
    CHECK(h.ack(p, again.session) == Settled::ok);
    CHECK(b.take(h).attempts == 2);
    CHECK(b.look(g) == Next::standby);
}

TEST_CASE("nack, reject and release of any but the first are refused without effect") {
    Bed b;
    b.put(1);
    b.put(2);
    auto g = b.member(1);
    const auto first = b.take(g), second = b.take(g);
    CHECK(b.nack(g, second) == Settled::not_first);
    CHECK(g.release(second.position, second.session, Bed::failure(Outcome::released), b.now()) == Settled::not_first);
    CHECK(g.ack(first.position, first.session) == Settled::ok);
    CHECK(b.nack(g, second) == Settled::ok);
}

TEST_CASE("a nacked message holds the group until its backoff is over, and the later ones are stale") {
    Bed b;
    const Seq p = b.put(1), q = b.put(2);
    auto g = b.member(1);
    const auto h = b.take(g), later = b.take(g);
    CHECK(b.nack(g, h) == Settled::ok);
    CHECK(g.ack(later.position, later.session) == Settled::stale);
    CHECK(b.look(g) == Next::backing_off);
    CHECK(g.due_ns() == b.mono + 1'000'000'000);
    b.mono += 999'999'999;
    CHECK(b.look(g) == Next::backing_off);
    b.mono += 1;
    auto again = b.take(g);
    CHECK(again.position == p);
    CHECK(again.attempts == 2);
    CHECK(b.look(g) == Next::waiting_for_outcome);
    CHECK(b.nack(g, again) == Settled::ok);
    CHECK(g.due_ns() == b.mono);
    CHECK(b.look(g) == Next::backing_off);
    CHECK(g.due_ns() == b.mono + 2'000'000'000);
    b.mono += 2'000'000'000;
    again = b.take(g);
    CHECK(again.attempts == 3);
    CHECK(b.nack(g, again) == Settled::ok);  // the third of three
    CHECK(b.cursor() == q);
    const auto letters = b.dead_letters();
    REQUIRE(letters.size() == 1);
    CHECK(letters[0].reason == DeadReason::max_deliveries);
    CHECK(letters[0].delivery_count == 3);
    CHECK(letters[0].attempts.size() == 3);
    const auto neighbour = b.take(g);
    CHECK(neighbour.position == q);
    CHECK(neighbour.attempts == 2);  // it had been handed over before: charged once more, not blamed
    CHECK(g.ack(q, neighbour.session) == Settled::ok);
}

TEST_CASE("a released message is not charged, wherever it lies") {
    for (const Seq from : {Seq{0}, start, format::end_of_positions(64) - 40}) {
        CAPTURE(from);
        Bed b(from);
        b.policy.max_deliveries = 1;
        const Seq p = b.put(1);
        auto g = b.member(1);
        for (int i = 0; i < 5; ++i) {
            const auto h = b.take(g);
            CHECK(h.position == p);
            CHECK(h.attempts == 1);
            CHECK(g.release(p, h.session, Bed::failure(Outcome::released), b.now()) == Settled::ok);
        }
        CHECK(b.dead_letters().empty());
        CHECK(b.m.groups[0].note.release_count == 5);
    }
}

TEST_CASE("a reject is a dead letter at once") {
    Bed b;
    const Seq p = b.put(1, 77);
    const Seq q = b.put(2);
    auto g = b.member(1);
    const auto h = b.take(g);
    CHECK(g.fail(p, h.session, Bed::failure(Outcome::rejected, "bad"), b.now()) == Settled::ok);
    CHECK(b.cursor() == q);
    REQUIRE(b.dead_letters().size() == 1);
    CHECK(b.dead_letters()[0].reason == DeadReason::rejected);
    CHECK(b.dead_letters()[0].payload == message_bytes(1, 77));
    CHECK(b.take(g).position == q);
}

TEST_CASE("a dropped message is not swallowed by the ack of a later one") {
    Bed b;
    std::vector<Seq> p;
    for (std::uint64_t i = 0; i < 4; ++i) p.push_back(b.put(i));
    auto g = b.member(1);
    std::vector<ExclusiveGroup::Handed> h;
    for (int i = 0; i < 4; ++i) h.push_back(b.take(g));
    CHECK(g.drop(p[1], h[1].session, Bed::failure(Outcome::nacked, "handler_dropped"), b.now()));
    CHECK(g.ack(p[2], h[2].session) == Settled::stale);
    CHECK(g.ack(p[3], h[3].session) == Settled::stale);
    CHECK(g.ack(p[1], h[1].session) == Settled::stale);
    CHECK(b.look(g) == Next::waiting_for_outcome);
    CHECK(g.ack(p[0], h[0].session) == Settled::ok);
    CHECK(b.look(g) == Next::backing_off);
    CHECK(b.cursor() == p[1]);
    b.mono += 1'000'000'000;
    for (int i = 1; i < 4; ++i) {
        const auto again = b.take(g);
        CHECK(again.position == p[static_cast<std::size_t>(i)]);
        CHECK(again.attempts == 2);
        CHECK(g.ack(again.position, again.session) == Settled::ok);
    }
    CHECK(b.cursor() == b.m.tail());
}

TEST_CASE("of several dropped messages none is swallowed, in whatever order they are dropped") {
    for (const auto& order : {std::array{1, 2, 3}, std::array{3, 2, 1}, std::array{2, 1, 3}, std::array{3, 1, 2}}) {
        Bed b;
        b.policy.backoff_initial_ns = 0;
        std::vector<Seq> p;
        for (std::uint64_t i = 0; i < 5; ++i) p.push_back(b.put(i));
        auto g = b.member(1);
        std::vector<ExclusiveGroup::Handed> h;
        for (int i = 0; i < 5; ++i) h.push_back(b.take(g));
        for (const int i : order)
            (void)g.drop(p[static_cast<std::size_t>(i)], h[static_cast<std::size_t>(i)].session,
                         Bed::failure(Outcome::nacked), b.now());
        CHECK(g.ack(p[4], h[4].session) == Settled::stale);
        CHECK(g.ack(p[0], h[0].session) == Settled::ok);
        for (int i = 1; i < 5; ++i) {
            const auto again = b.take(g);
            CHECK(again.position == p[static_cast<std::size_t>(i)]);
            CHECK(again.attempts == 2);
            CHECK(g.ack(again.position, again.session) == Settled::ok);
        }
    }
}

TEST_CASE("a released message out of turn comes again uncharged once it is first") {
    Bed b;
    const Seq p = b.put(1), q = b.put(2);
    auto g = b.member(1);
    const auto h = b.take(g), later = b.take(g);
    CHECK(g.drop(q, later.session, Bed::failure(Outcome::released), b.now()));
    CHECK(b.look(g) == Next::waiting_for_outcome);
    CHECK(g.ack(p, h.session) == Settled::ok);
    const auto again = b.take(g);
    CHECK(again.position == q);
    CHECK(again.attempts == 1);
}

TEST_CASE("no more messages are in hand than the consumer may have") {
    Bed b;
    for (std::uint64_t i = 0; i < 5; ++i) b.put(i);
    auto g = b.member(1, 2);
    const auto h = b.take(g);
    b.take(g);
    CHECK(b.look(g) == Next::full);
    CHECK(g.ack(h.position, h.session) == Settled::ok);
    b.take(g);
    CHECK(b.look(g) == Next::full);
}

// ---- dead owners ---------------------------------------------------------------------------------------------

TEST_CASE("killed with messages in hand: they come one at a time, the first one is blamed") {
    Bed b;
    std::vector<Seq> p;
    for (std::uint64_t i = 0; i < 4; ++i) p.push_back(b.put(i));
    {
        auto g = b.member(1);
        const auto h = b.take(g);
        b.take(g);
        b.take(g);
        CHECK(g.ack(h.position, h.session) == Settled::ok);
        b.kill_owner();
    }
    auto g = b.member(2);
    auto h = b.take(g);
    CHECK(h.position == p[1]);
    CHECK(h.attempts == 2);
    CHECK(b.m.groups[0].note.attempts[0].outcome == Outcome::owner_died);
    CHECK(b.look(g) == Next::waiting_for_outcome);
    CHECK(g.ack(h.position, h.session) == Settled::ok);
    h = b.take(g);
    CHECK(h.position == p[2]);
    CHECK(h.attempts == 2);
    CHECK(g.ack(h.position, h.session) == Settled::ok);
    h = b.take(g);
    CHECK(h.position == p[3]);
    CHECK(h.attempts == 1);
}

TEST_CASE("a message that kills each owner is dead after max_deliveries, its neighbours are not") {
    Bed b;
    std::vector<Seq> p;
    for (std::uint64_t i = 0; i < 6; ++i) p.push_back(b.put(i));
    std::map<Seq, std::uint32_t> handed;
    std::map<Seq, bool> settled;
    for (std::uint32_t life = 1; life < 20; ++life) {
        auto g = b.member(life);
        bool died = false;
        for (;;) {
            ExclusiveGroup::Handed h;
            const auto n = b.next(g, h);
            if (n != Next::handed) {
                CHECK(n == Next::empty);
                break;
            }
            CHECK(h.attempts == ++handed[h.position]);
            if (h.position == p[2]) {
                b.kill_owner();
                died = true;
                break;
            }
            CHECK(g.ack(h.position, h.session) == Settled::ok);
            settled[h.position] = true;
        }
        if (!died) break;
    }
    CHECK(handed[p[2]] == 3);
    CHECK(settled.size() == 5);
    const auto letters = b.dead_letters();
    REQUIRE(letters.size() == 1);
    CHECK(letters[0].seq == p[2]);
    CHECK(letters[0].reason == DeadReason::owner_died_limit);
    CHECK(letters[0].delivery_count == 3);
    CHECK(letters[0].attempts.size() == 3);
    CHECK(b.cursor() == b.m.tail());
}

TEST_CASE("killed between the mark of a move and its end: one dead letter") {
    for (const bool copied : {false, true}) {
        for (const bool pad_before : {false, true}) {
            CAPTURE(copied);
            CAPTURE(pad_before);
            Bed b;
            b.policy.max_deliveries = 1;
            if (pad_before) b.put_void(2);
            const Seq p = b.put(1, 44);
            const Seq q = b.put(2);
            {
                auto g = b.member(1);
                const auto h = b.take(g);
                flow::note_attempt(b.m.groups[0].note, 1, Bed::failure(Outcome::nacked), 0);
                b.m.groups[0].note.position.store(p << 1 | 1);
                b.m.groups[0].note.reason = static_cast<std::uint32_t>(DeadReason::max_deliveries);
                auto dead = b.dead_ring(1);
                b.m.groups[0].move_tail.store(dead.tail());
                b.m.groups[0].move.store(p << 1 | 1);
                if (copied) {
                    flow::Death d;
                    d.position = p;
                    d.record = h.record;
                    d.life = GroupBed::life;
                    REQUIRE(dead.append(b.m.view, b.super, d) == flow::DeadRing::Append::done);
                }
                b.kill_owner();
            }
            auto g = b.member(2);
            const auto h = b.take(g);
            CHECK(h.position == q);
            CHECK(b.dead_letters().size() == 1);
            CHECK(b.m.groups[0].move.load() == 0);
            CHECK(b.cursor() == q);
        }
    }
}

TEST_CASE("a full dead-letter ring blocks the group at its message, also for a successor, until there is room") {
    Bed b;
    const Seq p = b.put(1, 50);
    const Seq q = b.put(2);
    b.fill_dead();
    {
        auto g = b.member(1);
        const auto h = b.take(g);
        CHECK(g.fail(p, h.session, Bed::failure(Outcome::rejected, "bad"), b.now()) == Settled::ok);
        CHECK(b.look(g) == Next::dead_pending);
        CHECK(b.cursor() == p);
        b.kill_owner();
    }
    auto g = b.member(2);
    CHECK(b.look(g) == Next::dead_pending);
    b.empty_dead();
    CHECK(b.take(g).position == q);
    CHECK(b.cursor() == q);
    const auto found = read_from(b.dead.view, b.dead.groups[0].cursor.load());
    REQUIRE_FALSE(found.empty());
    const auto letter = format::decode_dead_entry(found.back().payload);
    REQUIRE(letter);
    CHECK(letter->reason == DeadReason::rejected);
    CHECK(letter->code == "bad");
}

TEST_CASE("a death is noted once, and not for a message whose attempt has an outcome already") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(1);
    const auto h = b.take(g);
    CHECK(b.nack(g, h) == Settled::ok);
    b.kill_owner();
    CHECK(b.m.groups[0].note.attempt_count == 1);
    CHECK(b.m.groups[0].note.attempts[0].outcome == Outcome::nacked);
    b.mono += 1'000'000'000;
    auto successor = b.member(2);
    CHECK(b.take(successor).attempts == 2);
    b.kill_owner();
    b.kill_owner();  // the repairer was killed before it cleared the owner
    CHECK(b.m.groups[0].note.attempt_count == 2);
    CHECK(b.m.groups[0].note.attempts[1].outcome == Outcome::owner_died);
    CHECK(b.m.groups[0].note.position.load() == (p << 1 | 1));
}

TEST_CASE("a backoff goes on under a successor") {
    Bed b;
    b.put(1);
    auto g = b.member(1);
    const auto h = b.take(g);
    CHECK(b.nack(g, h) == Settled::ok);
    g.give_up();
    auto s = b.member(2);
    CHECK(b.look(s) == Next::backing_off);
    b.mono += 1'000'000'000;
    CHECK(b.take(s).attempts == 2);
}

TEST_CASE("a message with a damaged header is told once and stepped over by the size of its claim") {
    Bed b;
    const Seq p = b.put(1, 200);
    const Seq q = b.put(2);
    b.m.view.head(p).store(~std::uint64_t{0});
    auto g = b.member(1);
    ExclusiveGroup::Handed h;
    CHECK(b.next(g, h) == Next::corrupt);
    CHECK(h.position == p);
    CHECK(b.take(g).position == q);
    CHECK(b.cursor() == q);
}

TEST_CASE("after any history of owners that ack, fail, drop, close and die each message is settled or dead, in order") {
    for (const Seq from : start_positions(64)) {
        CAPTURE(from);
        auto random = rng(from + 4);
        Bed b(from);
        b.policy.backoff_initial_ns = 0;
        std::vector<Seq> published;
        std::map<Seq, std::uint32_t> handed;  // hand-overs as the program saw them
        std::map<Seq, std::uint32_t> charged;
        Seq acked_to = from;
        std::uint32_t id = 1;
        auto g = std::make_unique<ExclusiveGroup>(b.member(id));
        std::vector<ExclusiveGroup::Handed> held;
        for (int turn = 0; turn < 4000; ++turn) {
            b.mono += 1;
            switch (random.below(10)) {
                case 0:
                case 1:
                case 2:
                    if (random.one_in(6)) {
                        b.put_void(1 + random.below(3));
                    } else if (const Seq p = b.put(published.size(), random.below(200)); p != format::nowhere) {
                        published.push_back(p);
                    }
                    break;
                case 3:
                case 4:
                case 5: {
                    ExclusiveGroup::Handed h;
                    if (b.next(*g, h) == Next::handed) {
                        REQUIRE(h.position >= acked_to);
                        if (!held.empty()) REQUIRE(h.position > held.back().position);
                        ++handed[h.position];
                        REQUIRE(h.attempts >= 1);
                        REQUIRE(h.attempts <= 3);
                        charged[h.position] = h.attempts;
                        held.push_back(h);
                    }
                    break;
                }
                case 6:
                case 7: {
                    if (held.empty()) break;
                    const std::size_t i = random.below(held.size());
                    if (g->ack(held[i].position, held[i].session) != Settled::ok) break;
                    acked_to = held[i].end;
                    held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(i) + 1);
                    REQUIRE(b.cursor() >= acked_to);
                    break;
                }
                case 8: {
                    if (held.empty()) break;
                    const auto& h = held[random.below(held.size())];
                    switch (random.below(4)) {
                        case 0:
                            if (b.nack(*g, h) == Settled::ok) held.clear();
                            break;
                        case 1:
                            if (g->release(h.position, h.session, Bed::failure(Outcome::released), b.now()) ==
                                Settled::ok)
                                held.clear();
                            break;
                        default: {
                            const Seq at = h.position;
                            (void)g->drop(at, h.session, Bed::failure(Outcome::nacked), b.now());
                            std::erase_if(held, [&](const auto& x) { return x.position >= at; });
                        }
                    }
                    break;
                }
                default:
                    if (!random.one_in(4)) break;
                    held.clear();
                    if (random.one_in(2)) {
                        b.kill_owner();
                    } else {
                        g->give_up();
                    }
                    g = std::make_unique<ExclusiveGroup>(b.member(++id));
            }
            if (b.dead.tail() > 3000) b.empty_dead();
        }
        b.kill_owner();
        // To the end: everything is acked.
        auto last = b.member(++id);
        for (ExclusiveGroup::Handed h; b.next(last, h) == Next::handed;) {
            ++handed[h.position];
            REQUIRE(last.ack(h.position, h.session) == Settled::ok);
        }
        CHECK(b.cursor() == b.m.tail());
        CHECK(published.size() > 100);
        for (const Seq p : published) REQUIRE(handed[p] >= 1);
    }
}
