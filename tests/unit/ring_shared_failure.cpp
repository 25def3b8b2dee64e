// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// Messages of a shared group that were not acked: noted, tried again, moved to the dead-letter ring; and what the
// holder of a dead member's lock makes of each state it can have left.
#include "flow/shared_failure.hpp"

#include <doctest/doctest.h>

#include "unit/ring_group.hpp"

using namespace rondo;
using namespace rondo::test;
using flow::Fate;
using flow::Leased;
using flow::SharedGroup;
using flow::Take;
using format::EntryState;
using format::LeaseWord;
using format::Outcome;

namespace {

constexpr Seq start = 3 * 64 + 5;
constexpr std::uint32_t dead = 9;
constexpr std::uint32_t me = 5;
constexpr std::uint64_t mono = 1'000'000'000'000;
constexpr std::uint64_t wall = 1'700'000'000'000'000'000;

struct Bed : GroupBed {
    Bed() : GroupBed(start) {}

    flow::FailureContext context(std::uint64_t mono_ns = mono, std::uint64_t wall_ns = wall) {
        return {group, policy, dead_letters_of, super, random, "billing", mono_ns, wall_ns};
    }
    LeaseWord word(Seq p) const { return format::unpack_lease(raw(p)); }
    std::uint64_t raw(Seq p) const { return m.entries[p & 63].a.load(); }
    void set(Seq p, EntryState s, std::uint32_t owner, std::uint32_t attempts) {
        m.entries[p & 63].a.store(format::pack_lease({m.view.lap1(p), s, owner, attempts}));
        if (m.groups[0].hint.load() <= p) m.groups[0].hint.store(m.tail());
    }
    std::uint64_t due(Seq p) const { return format::unpack_due(m.entries[p & 63].b.load()).value; }
    Leased take() {
        Leased l;
        REQUIRE(group.take_new(~std::uint64_t{0} >> 24, true, m.handles[0].borrow, l) == Take::taken);
        return l;
    }
    flow::Failure failure(Outcome outcome, std::string_view code = "boom") const {
        flow::Failure f;
        f.outcome = outcome;
        f.reason.code = code;
        f.reason.message = "it did not work";
        f.started_ns = wall - 5;
        f.started_mono_ns = mono;
        f.ended_ns = wall;
        f.handler = {"worker", "prog", 4711};
        return f;
    }

    flow::GroupPolicy policy = policy_of(format::GroupMode::shared);
    base::BackoffRng random{1};
    flow::DeadRing dead_letters_of = dead_ring(me);
    SharedGroup group{m.view, m.groups[0], 0, life, m.table(), me};
};

constexpr std::uint64_t due_after(std::uint64_t ns) { return flow::due_of(mono + ns); }

}  // namespace

TEST_CASE("a nack waits for the backoff of its attempt, then for twice as long, then is dead") {
    Bed b;
    const Seq p = b.put(1, 50);
    Leased l = b.take();
    CHECK(flow::fail_message(b.context(), p, l.word, me, b.failure(Outcome::nacked)) == Fate::scheduled);
    CHECK(b.word(p).state == EntryState::backoff);
    CHECK(b.word(p).attempts == 1);
    CHECK(b.due(p) == due_after(1'000'000'000));
    CHECK(flow::fail_message(b.context(), p, l.word, me, b.failure(Outcome::nacked)) == Fate::stale);
    b.set(p, EntryState::handed, me, 2);
    CHECK(flow::fail_message(b.context(), p, b.raw(p), me, b.failure(Outcome::nacked)) == Fate::scheduled);
    CHECK(b.due(p) == due_after(2'000'000'000));
    b.set(p, EntryState::handed, me, 3);
    CHECK(flow::fail_message(b.context(), p, b.raw(p), me, b.failure(Outcome::nacked, "last")) == Fate::dead_lettered);
    CHECK(b.word(p).state == EntryState::settled);
    CHECK(b.m.groups[0].cursor.load() == b.m.tail());
    const auto letters = b.dead_letters();
    REQUIRE(letters.size() == 1);
    const auto& d = letters[0];
    CHECK(d.seq == p);
    CHECK(d.group == "billing");
    CHECK(d.payload == message_bytes(1, 50));
    CHECK(d.reason == DeadReason::max_deliveries);
    CHECK(d.code == "last");
    CHECK(d.delivery_count == 3);
    REQUIRE(d.attempts.size() == 3);
    CHECK(d.attempts[0].number == 1);
    CHECK(d.attempts[0].delay_ns == 1'000'000'000);
    CHECK(d.attempts[1].delay_ns == 2'000'000'000);
    CHECK(d.attempts[2].delay_ns == 0);
    CHECK(d.consumer == "worker");
    CHECK(d.consumer_pid == 4711);
    CHECK(b.m.groups[0].dead_lettered == 1);
    CHECK(b.m.table().find_note(p) == nullptr);  // the story lies in the dead letter now
}

TEST_CASE("a nack with a delay of its own, a release, a reject") {
    Bed b;
    const Seq p = b.put(1), q = b.put(2), r = b.put(3);
    const Leased lp = b.take(), lq = b.take(), lr = b.take();
    auto f = b.failure(Outcome::nacked);
    f.delay_ns = 7'000'000;
    CHECK(flow::fail_message(b.context(), p, lp.word, me, f) == Fate::scheduled);
    CHECK(b.due(p) == due_after(7'000'000));
    CHECK(flow::release_message(b.context(), q, lq.word, me, b.failure(Outcome::released)) == Fate::given_back);
    CHECK(b.word(q).state == EntryState::ready);
    CHECK(b.word(q).attempts == 0);
    CHECK(flow::fail_message(b.context(), r, lr.word, me, b.failure(Outcome::rejected, "bad")) == Fate::dead_lettered);
    REQUIRE(b.dead_letters().size() == 1);
    CHECK(b.dead_letters()[0].reason == DeadReason::rejected);
    CHECK(b.dead_letters()[0].delivery_count == 1);
}

TEST_CASE("a message older than retry_max_age is dead at its next failure or release") {
    for (const bool release : {false, true}) {
        Bed b;
        const Seq p = b.put(1);
        Leased l = b.take();
        auto f = b.failure(release ? Outcome::released : Outcome::nacked);
        auto c = b.context();
        REQUIRE(flow::fail_message(c, p, l.word, me, f) == Fate::scheduled);
        b.set(p, EntryState::handed, me, 2);
        // By the monotonic clock alone: the wall clock went back meanwhile.
        const auto late = b.context(mono + b.policy.retry_max_age_ns, wall - 5);
        const auto fate =
            release ? flow::release_message(late, p, b.raw(p), me, f) : flow::fail_message(late, p, b.raw(p), me, f);
        CHECK(fate == Fate::dead_lettered);
        REQUIRE(b.dead_letters().size() == 1);
        CHECK(b.dead_letters()[0].reason == DeadReason::retry_timeout);
    }
}

TEST_CASE("without a limit of deliveries a message comes again for ever") {
    Bed b;
    b.policy.max_deliveries = 0;
    const Seq p = b.put(1);
    (void)b.take();
    b.set(p, EntryState::handed, me, format::max_attempts);
    CHECK(flow::fail_message(b.context(), p, b.raw(p), me, b.failure(Outcome::nacked)) == Fate::scheduled);
    CHECK(b.due(p) == due_after(b.policy.backoff_max_ns));
}

TEST_CASE("a full dead-letter ring keeps the message pending, and a later try moves it with its story") {
    Bed b;
    const Seq p = b.put(1, 40);
    const Leased l = b.take();
    b.fill_dead();
    CHECK(flow::fail_message(b.context(), p, l.word, me, b.failure(Outcome::rejected, "bad")) == Fate::dead_pending);
    CHECK(b.word(p).state == EntryState::dead_pending);
    CHECK(b.m.groups[0].cursor.load() == p);
    CHECK(flow::retry_move(b.context(), p, b.raw(p), me) == Fate::dead_pending);
    b.empty_dead();
    CHECK(flow::retry_move(b.context(), p, b.raw(p), me) == Fate::dead_lettered);
    CHECK(b.word(p).state == EntryState::settled);
    const auto found = read_from(b.dead.view, b.dead.groups[0].cursor.load());
    REQUIRE_FALSE(found.empty());
    const auto letter = format::decode_dead_entry(found.back().payload);
    REQUIRE(letter);
    CHECK(letter->reason == DeadReason::rejected);
    CHECK(letter->code == "bad");
    CHECK(letter->payload == message_bytes(1, 40));
}

TEST_CASE("a message without room for a note still ends as it should") {
    Bed b;
    for (auto& n : b.m.notes.all()) n.position.store(Seq{1} << 60 | 1);  // all taken, for unsettled messages
    const Seq p = b.put(1, 30);
    Leased l = b.take();
    CHECK(flow::fail_message(b.context(), p, l.word, me, b.failure(Outcome::nacked)) == Fate::scheduled);
    CHECK(b.due(p) == due_after(1'000'000'000));
    b.set(p, EntryState::handed, me, 3);
    CHECK(flow::fail_message(b.context(), p, b.raw(p), me, b.failure(Outcome::nacked, "x")) == Fate::dead_lettered);
    REQUIRE(b.dead_letters().size() == 1);
    CHECK(b.dead_letters()[0].reason == DeadReason::max_deliveries);
    CHECK(b.dead_letters()[0].attempts.empty());
    CHECK(b.dead_letters()[0].code == "x");
    CHECK(b.dead_letters()[0].delivery_count == 3);
}

// ---- a dead member -------------------------------------------------------------------------------------------

TEST_CASE("what a dead member had leased untouched is ready, uncharged; others' leases stay") {
    Bed b;
    const Seq p = b.put(1), q = b.put(2), r = b.put(3);
    b.set(p, EntryState::leased, dead, 1);
    b.set(q, EntryState::handed, 7, 1);
    b.set(r, EntryState::settled, dead, 1);
    CHECK(flow::repair_leases(b.context(), dead, {"gone", "prog", 1}) == 1);
    CHECK(b.word(p).state == EntryState::ready);
    CHECK(b.word(p).attempts == 1);
    CHECK(b.word(q).owner == 7);
    CHECK(b.word(q).state == EntryState::handed);
    CHECK(flow::repair_leases(b.context(), dead, {}) == 0);
}

TEST_CASE("what a dead member was handling is noted and comes again: the first time at once, then with backoff") {
    Bed b;
    const Seq p = b.put(1);
    b.set(p, EntryState::handed, dead, 1);
    CHECK(flow::repair_leases(b.context(), dead, {"gone", "prog", 77}) == 1);
    CHECK(b.word(p).state == EntryState::backoff);
    CHECK(b.due(p) <= due_after(0));
    const auto* note = b.m.table().find_note(p);
    REQUIRE(note != nullptr);
    CHECK(note->attempt_count == 1);
    CHECK(note->attempts[0].outcome == Outcome::owner_died);
    CHECK(note->attempts[0].pid == 77);
    b.set(p, EntryState::handed, dead, 2);
    CHECK(flow::repair_leases(b.context(), dead, {"gone", "prog", 78}) == 1);
    CHECK(b.due(p) == due_after(1'000'000'000));
    b.set(p, EntryState::handed, dead, 3);
    CHECK(flow::repair_leases(b.context(), dead, {"gone", "prog", 79}) == 1);
    CHECK(b.word(p).state == EntryState::settled);
    const auto letters = b.dead_letters();
    REQUIRE(letters.size() == 1);
    CHECK(letters[0].reason == DeadReason::owner_died_limit);
    CHECK(letters[0].attempts.size() == 3);
    CHECK(letters[0].consumer == "gone");
}

TEST_CASE("killed while it noted a failure: the attempt is noted once") {
    Bed b;
    const Seq p = b.put(1);
    b.set(p, EntryState::failing, dead, 2);
    auto* note = b.m.table().note_for(p, start);
    flow::note_attempt(*note, 1, b.failure(Outcome::nacked, "first"), 5);
    flow::note_attempt(*note, 2, b.failure(Outcome::nacked, "second"), 6);
    CHECK(flow::repair_leases(b.context(), dead, {}) == 1);
    CHECK(b.word(p).state == EntryState::backoff);
    CHECK(b.word(p).attempts == 2);
    CHECK(note->attempt_count == 2);
    CHECK(note->attempts[0].outcome == Outcome::nacked);
}

TEST_CASE("killed before or after the copy into dead.ring: one dead letter, and a repairer may be killed as well") {
    for (const bool copied : {false, true}) {
        for (const bool twice : {false, true}) {
            CAPTURE(copied);
            CAPTURE(twice);
            Bed b;
            b.put(7);
            const Seq p = b.put(1, 33);
            b.set(start, EntryState::settled, 0, 1);
            // Others' dead letters before and behind.
            flow::Death other;
            ring::RecordView r{};
            REQUIRE(b.group.read(start, r));
            other.position = start;
            other.record = r;
            other.life = GroupBed::life;
            REQUIRE(b.dead_letters_of.append(b.m.view, b.super, other) == flow::DeadRing::Append::done);
            b.set(p, EntryState::failing, dead, 3);
            std::uint64_t word = b.raw(p);
            REQUIRE(b.group.begin_moving(p, word, dead));
            if (copied) {
                flow::Death d = other;
                d.position = p;
                REQUIRE(b.group.read(p, d.record));
                d.reason = DeadReason::max_deliveries;
                REQUIRE(b.dead_letters_of.append(b.m.view, b.super, d) == flow::DeadRing::Append::done);
            }
            other.group = 3;  // the same message of another group is another death
            other.position = p;
            REQUIRE(b.group.read(p, other.record));
            REQUIRE(b.dead_letters_of.append(b.m.view, b.super, other) == flow::DeadRing::Append::done);
            // A slower rival's words say nothing of where the copy is.
            b.m.entries[p & 63].b.store(format::pack_due({b.dead.tail() + 12'345, dead, 3}));
            CHECK(flow::repair_leases(b.context(), dead, {}) == 1);
            if (twice) {  // the repairer settled nothing: as if killed right after its copy
                b.m.entries[p & 63].a.store(word);
                b.m.groups[0].cursor.store(start);
                CHECK(flow::repair_leases(b.context(), dead, {}) == 1);
            }
            CHECK(b.word(p).state == EntryState::settled);
            CHECK(b.dead_letters().size() == 3);
        }
    }
}

TEST_CASE("an open claim of another in dead.ring does not hide the copy behind it") {
    Bed b;
    const Seq p = b.put(1, 33);
    b.set(p, EntryState::failing, dead, 3);
    std::uint64_t word = b.raw(p);
    REQUIRE(b.group.begin_moving(p, word, dead));
    ring::MpmcRing<> stuck(b.dead.view, 44);
    ring::Claimed c;
    REQUIRE(stuck.claim(5, c) == ring::ClaimStatus::ok);
    flow::Death d;
    d.position = p;
    d.life = GroupBed::life;
    REQUIRE(b.group.read(p, d.record));
    REQUIRE(b.dead_letters_of.append(b.m.view, b.super, d) == flow::DeadRing::Append::done);
    const Seq tail = b.dead.tail();
    CHECK(flow::repair_leases(b.context(), dead, {}) == 1);
    CHECK(b.dead.tail() == tail);
    CHECK(b.word(p).state == EntryState::settled);
}

TEST_CASE("a message that dead.ring cannot take waits, whatever the cause, and is never settled without a copy") {
    Bed b;
    const Seq p = b.put(1, 33);
    Leased l = b.take();
    // A claim word that fits no ring: nobody can append any more.
    b.dead.view.claim(b.dead.tail()).store(format::pack_claim(b.dead.view.lap1(b.dead.tail()), 7, 16000));
    CHECK(flow::fail_message(b.context(), p, l.word, me, b.failure(Outcome::rejected)) == Fate::dead_pending);
    CHECK(b.word(p).state == EntryState::dead_pending);
    CHECK(b.dead_letters().empty());
    b.dead.view.claim(b.dead.tail()).store(0);
    CHECK(flow::retry_move(b.context(), p, b.raw(p), me) == Fate::dead_lettered);
    CHECK(b.dead_letters().size() == 1);
}

TEST_CASE("entries of earlier laps and settled ones below low water are not repaired") {
    Bed b;
    for (int i = 0; i < 8; ++i) b.put(static_cast<std::uint64_t>(i), 200);
    b.m.entries[5 & 63].a.store(format::pack_lease({b.m.view.lap1(5), EntryState::handed, dead, 1}));
    b.m.entries[(start + 1) & 63].a.store(format::pack_lease({b.m.view.lap1(start) - 1, EntryState::moving, dead, 1}));
    CHECK(flow::repair_leases(b.context(), dead, {}) == 0);
    CHECK(b.dead_letters().empty());
}
