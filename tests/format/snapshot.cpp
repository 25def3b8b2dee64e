// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "format/snapshot.hpp"

#include <doctest/doctest.h>

#include <string>

#include "hand_ring.hpp"
#include "support/seed.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::HandRing;

namespace {

std::vector<RecordInfo> walked(const RingBytes& ring, Seq from, Seq to, WalkEnd* end = nullptr) {
    std::vector<RecordInfo> all;
    const WalkEnd how = walk_records(ring, from, to, [&](const RecordInfo& r) {
        all.push_back(r);
        return true;
    });
    if (end != nullptr) *end = how;
    return all;
}

MessageStatus status(HandRing& r, std::uint32_t group, Seq p, const Now& now = {100'000'000'000, 1}) {
    const auto table = r.table(group);
    const auto records = walked(r.ring, p, r.tail());
    REQUIRE_FALSE(records.empty());
    return status_of(*r.ring.group(group), &table, records.front(), only_group_of(r.ring, records.front()),
                     HandRing::slots, now);
}

Survey surveyed(HandRing& r, const Now& now = {100'000'000'000, 1}) {
    std::vector<LeaseBytes> tables;
    for (std::uint32_t g = 0; g < 4; ++g) tables.push_back(r.table(g));
    return survey(r.ring, tables, now);
}

}  // namespace

TEST_CASE("an empty ring has nothing to walk and all of its credit") {
    HandRing r;
    const auto s = surveyed(r);
    CHECK(s.messages == 0);
    CHECK(s.used_slots == 0);
    CHECK(s.credit_slots == HandRing::slots);
    CHECK(s.complete());
    CHECK(who_blocks(r.ring, s, r.ring.handles(), {}).empty());
}

TEST_CASE("a walk names every record of every size and type once") {
    HandRing r;
    const Seq a = r.publish(1);
    const Seq b = r.publish(5, std::string(200, 'x'));
    const Seq c = r.claim(3);
    ring::write_void(r.view, c, 3, RecordType::void_claim);
    const Seq d = r.claim(2);
    ring::write_void(r.view, d, 2, RecordType::pad);
    const Seq e = r.publish(1);
    WalkEnd end{};
    const auto all = walked(r.ring, 0, r.tail(), &end);
    CHECK(end == WalkEnd::reached);
    REQUIRE(all.size() == 5);
    CHECK(all[0].position == a);
    CHECK(all[1].position == b);
    CHECK(all[1].slots == 5);
    CHECK(all[1].head.payload_bytes == 200);
    CHECK(all[2].state == RecordState::void_claim);
    CHECK(all[3].state == RecordState::pad);
    CHECK(all[4].position == e);
    CHECK(all[4].state == RecordState::message);
}

TEST_CASE("a claim that nobody committed is stepped over and names its owner") {
    HandRing r;
    r.make_handle(2, 3, HandleKind::producer);
    r.publish();
    const Seq open = r.claim(4, 3);
    const Seq behind = r.claim(1);
    r.commit(behind, 1, "x", {}, 77);
    const auto s = surveyed(r);
    CHECK(s.messages == 2);
    REQUIRE(s.open_claims.size() == 1);
    CHECK(s.open_claims[0].position == open);
    CHECK(s.open_claims[0].slots == 4);
    CHECK(s.open_claims[0].owner == 3);
    CHECK(s.open_claims[0].accepted_behind == 77);
    const auto blockers = who_blocks(r.ring, s, r.ring.handles(), {});
    const auto* claim = &blockers.at(0);
    for (const auto& b : blockers) {
        if (b.kind == BlockKind::open_claim) claim = &b;
    }
    CHECK(claim->kind == BlockKind::open_claim);
    CHECK(claim->participant == 3);
    CHECK(claim->handle == 2);
    CHECK(claim->age_at_least);
}

TEST_CASE("a claim that none of its owner's producers can have open is damage") {
    for (const bool went_on : {false, true}) {
        HandRing r;
        // The owner has no producer any more, or one that has published behind it.
        r.make_handle(2, 3, went_on ? HandleKind::producer : HandleKind::consumer);
        r.publish();
        const Seq lost = r.claim(4, 3);
        const Seq behind = r.publish();
        if (went_on) r.handles[2].last_seq.store(behind);
        const auto s = surveyed(r);
        CHECK(s.messages == 2);
        CHECK(s.open_claims.empty());
        CHECK(s.damaged == 1);
        CHECK(s.first_damaged == lost);
    }
}

TEST_CASE("a claim made before its tail moved is found too") {
    HandRing r;
    r.make_handle(2, 5, HandleKind::producer);
    r.publish();
    const Seq p = r.tail();
    r.view.claim(p).store(pack_claim(r.view.lap1(p), 5, 2));
    const auto s = surveyed(r);
    REQUIRE(s.open_claims.size() == 1);
    CHECK(s.open_claims[0].position == p);
    CHECK(s.open_claims[0].owner == 5);
}

TEST_CASE("damage is one entry up to the next claim, and the walk goes on behind it") {
    HandRing r;
    r.publish();
    const Seq bad = r.publish(2);
    const Seq after = r.publish();
    SUBCASE("a head that makes no sense: the claim knows its size") { r.view.head(bad).store(~std::uint64_t{0}); }
    SUBCASE("neither stamp nor claim: up to the next claim") {
        r.view.stamp(bad).store(0);
        r.view.claim(bad).store(0);
    }
    WalkEnd end{};
    const auto all = walked(r.ring, 0, r.tail(), &end);
    CHECK(end == WalkEnd::reached);
    REQUIRE(all.size() == 3);
    CHECK(all[1].state == RecordState::damaged);
    CHECK(all[1].position == bad);
    CHECK(all[1].slots == 2);
    CHECK(all[2].position == after);
    CHECK(surveyed(r).first_damaged == bad);
}

TEST_CASE("damage with nothing behind it ends the walk") {
    HandRing r;
    r.publish();
    const Seq bad = r.publish(3);
    r.view.stamp(bad).store(1);
    r.view.claim(bad).store(0);
    WalkEnd end{};
    const auto all = walked(r.ring, 0, r.tail(), &end);
    CHECK(end == WalkEnd::lost);
    CHECK(all.size() == 2);
    CHECK_FALSE(surveyed(r).complete());
}

TEST_CASE("with a single producer a missing record ends the walk") {
    HandRing r(Producers::one);
    r.publish();
    r.publish();
    CHECK(surveyed(r).messages == 2);
    CHECK(surveyed(r).complete());
    r.claim(1);  // the tail moved, but no record came
    WalkEnd end{};
    CHECK(walked(r.ring, 0, r.tail(), &end).size() == 2);
    CHECK(end == WalkEnd::silent);
}

TEST_CASE("a walk that was overtaken goes on at the floor") {
    HandRing r;
    const auto all = r.publish_many(10);
    RecordWalk walk(r.ring, 0, r.tail());
    CHECK(walk.next()->position == all[0]);
    r.set_floor(all[6]);
    CHECK(walk.next()->position == all[6]);
    CHECK(walk.overtaken_slots() == all[6] - all[1]);
}

TEST_CASE("a walk stops when its steps are used up") {
    HandRing r;
    for (int i = 0; i < 10; ++i) r.publish();
    RecordWalk walk(r.ring, 0, r.tail(), 4);
    int n = 0;
    while (walk.next()) ++n;
    CHECK(n == 4);
    CHECK(walk.end() == WalkEnd::budget);
    r.make_group(0, GroupMode::exclusive);
    const auto counts = count_group(r.ring, nullptr, 0, {}, 4);
    CHECK(counts.ready == 4);
    CHECK_FALSE(counts.complete);
}

TEST_CASE("records of the former lap are no records") {
    HandRing r;
    r.make_handle(0, 2, HandleKind::producer);
    for (std::uint64_t i = 0; i < HandRing::slots; ++i) r.publish();
    r.set_floor(HandRing::slots);
    const Seq p = r.claim(1, 2);
    CHECK(p == HandRing::slots);
    const auto all = walked(r.ring, p, r.tail());
    REQUIRE(all.size() == 1);
    CHECK(all[0].state == RecordState::open_claim);
}

TEST_CASE("a copied record is the record, unless producers took it back meanwhile") {
    HandRing r;
    const Seq p = r.publish(2, "payload");
    const auto record = walked(r.ring, p, r.tail()).front();
    const auto copy = copy_record(r.ring, record);
    REQUIRE(copy);
    CHECK(copy->size() == 128);
    const auto parts = parts_of(record.head, *copy);
    REQUIRE(parts);
    CHECK(std::string(reinterpret_cast<const char*>(parts->payload.data()), parts->payload.size()) == "payload");
    const auto cut = copy_record(r.ring, record, header_bytes + 3);
    REQUIRE(cut);
    CHECK(cut->size() == 40);
    CHECK(parts_of(record.head, *cut)->payload.size() == 7);
    r.set_floor(p + 1);
    CHECK_FALSE(copy_record(r.ring, record));
}

TEST_CASE("an exclusive group: behind the cursor settled, handed over in flight, the rest ready") {
    HandRing r;
    const auto p = r.publish_many(6);
    auto& g = r.make_group(1, GroupMode::exclusive, p[1]);
    g.handed.store(p[3]);
    CHECK(status(r, 1, p[0]).state == MessageState::settled);
    CHECK(status(r, 1, p[1]).state == MessageState::ready);  // nobody owns the group
    r.make_handle(4, 6, HandleKind::consumer, 1);
    r.handles[4].in_flight.store(2);
    g.owner.store(pack_owner(6, 4 + 1));
    CHECK(status(r, 1, p[1]).state == MessageState::in_flight);
    CHECK(status(r, 1, p[1]).owner == 6);
    CHECK(status(r, 1, p[2]).state == MessageState::in_flight);
    CHECK(status(r, 1, p[3]).state == MessageState::ready);
    const auto s = surveyed(r);
    REQUIRE(s.counts.size() == 1);
    CHECK(s.counts[0].in_flight == 2);
    CHECK(s.counts[0].ready == 3);
    CHECK(s.counts[0].lag == 5);
    CHECK(s.counts[0].oldest_unsettled == p[1]);
    const auto blockers = who_blocks(r.ring, s, r.ring.handles(), {});
    REQUIRE(blockers.size() == 1);
    CHECK(blockers[0].kind == BlockKind::exclusive_owner);
    CHECK(blockers[0].participant == 6);
    CHECK(blockers[0].handle == 4);
    CHECK(blockers[0].position == p[1]);
    CHECK(blockers[0].holds_floor);
}

TEST_CASE("an exclusive group that backs off has one scheduled message and nothing in flight") {
    HandRing r;
    const auto p = r.publish_many(4);
    auto& g = r.make_group(0, GroupMode::exclusive, p[0]);
    r.make_handle(0, 2, HandleKind::consumer, 0);
    r.handles[0].in_flight.store(1);
    g.owner.store(pack_owner(2, 1));
    g.handed.store(p[3]);
    g.retry.store(pack_retry(p[0], 2));
    g.not_before.store(200'000'000'000);
    auto s = surveyed(r, {100'000'000'000, 1});
    CHECK(s.counts[0].scheduled == 1);
    CHECK(s.counts[0].in_flight == 0);
    CHECK(s.counts[0].ready == 3);
    CHECK(s.counts[0].oldest.attempts == 2);
    CHECK(who_blocks(r.ring, s, r.ring.handles(), {}).at(0).kind == BlockKind::retry);
    s = surveyed(r, {300'000'000'000, 1});  // due, handed over again, alone
    CHECK(s.counts[0].scheduled == 0);
    CHECK(s.counts[0].in_flight == 1);
    s = surveyed(r, {0, 1});  // a clock that means nothing here
    CHECK(s.counts[0].scheduled == 1);
    g.dead_pending.store(p[0] << 1 | 1);
    s = surveyed(r, {300'000'000'000, 1});
    CHECK(s.counts[0].dead_pending == 1);
    CHECK(who_blocks(r.ring, s, r.ring.handles(), {}).at(0).kind == BlockKind::dead_pending);
}

TEST_CASE("a shared group: what each entry says") {
    HandRing r;
    const auto p = r.publish_many(12);
    auto& g = r.make_group(2, GroupMode::shared, p[0]);
    g.hint.store(p[10]);
    const std::uint64_t future = 1'020'000;  // 102 s in units of 100 us
    r.lease(2, p[0], EntryState::settled, 0, static_cast<std::uint32_t>(Outcome::acked));
    r.lease(2, p[1], EntryState::leased, 3, 0, future);
    r.lease(2, p[2], EntryState::handed, 3, 1, future);
    r.lease(2, p[3], EntryState::backoff, 3, 1, future);
    r.lease(2, p[4], EntryState::backoff, 3, 1, 1);  // due
    r.lease(2, p[5], EntryState::moving, 3, 5);
    r.lease(2, p[6], EntryState::dead_pending, 0, 5);
    r.lease(2, p[7], EntryState::failing, 3, 1, future);
    r.lease(2, p[8], EntryState::ready, 0, 1);
    // p[9]: no entry of this lap; p[10], p[11]: not reached yet
    const MessageState expected[] = {MessageState::settled,      MessageState::in_flight, MessageState::in_flight,
                                     MessageState::scheduled,    MessageState::ready,     MessageState::dead_pending,
                                     MessageState::dead_pending, MessageState::in_flight, MessageState::ready,
                                     MessageState::ready,        MessageState::ready,     MessageState::ready};
    for (std::size_t i = 0; i < p.size(); ++i) {
        CAPTURE(i);
        CHECK(status(r, 2, p[i]).state == expected[i]);
    }
    CHECK(status(r, 2, p[0]).outcome == Outcome::acked);
    CHECK(status(r, 2, p[2]).attempts == 1);
    CHECK(status(r, 2, p[2]).due_ns == 102'000'000'000);
    const auto s = surveyed(r);
    const auto& c = s.counts.at(0);
    CHECK(c.in_flight == 3);
    CHECK(c.scheduled == 1);
    CHECK(c.dead_pending == 2);
    CHECK(c.ready == 5);
    CHECK(c.lag == 11);
    CHECK(c.oldest_unsettled == p[1]);
    CHECK(c.oldest_scheduled == p[3]);
    CHECK(c.oldest_dead_pending == p[5]);
    CHECK(c.complete);
    const auto table = r.table(2);
    const auto one = count_group(r.ring, &table, 2, {100'000'000'000, 1});
    CHECK(one.lag == c.lag);
    CHECK(one.in_flight == c.in_flight);
    const auto blind = count_group(r.ring, nullptr, 2, {100'000'000'000, 1});
    CHECK(blind.unknown == 10);
    CHECK(blind.lag == 2);
    CHECK_FALSE(blind.complete);
    r.make_handle(1, 3, HandleKind::consumer, 2);
    const auto blockers = who_blocks(r.ring, s, r.ring.handles(), {100'000'000'000, 1});
    REQUIRE(blockers.size() == 1);
    CHECK(blockers[0].kind == BlockKind::lease);
    CHECK(blockers[0].participant == 3);
    CHECK(blockers[0].handle == 1);
    // The lease of 30 s ends in 2 s: it is 28 s old.
    CHECK(blockers[0].age_ns == 28'000'000'000);
}

TEST_CASE("a deadline that belongs to another lease is not believed") {
    HandRing r;
    const Seq p = r.publish();
    auto& g = r.make_group(0, GroupMode::shared, p);
    g.hint.store(r.tail());
    r.lease(0, p, EntryState::handed, 3, 2, 500);
    auto* entries = reinterpret_cast<Entry*>(r.table_bytes(0).data() + r.table(0).layout.entries);
    entries[p].b.store(pack_due({500, 3, 1}));
    CHECK(status(r, 0, p).state == MessageState::in_flight);
    CHECK_FALSE(status(r, 0, p).due_ns);
}

TEST_CASE("another group's copy is nobody else's message") {
    HandRing r;
    r.publish();
    r.publish_for(1, 7);
    r.publish_for(1, 6);  // of a group that had this block before
    r.make_group(0, GroupMode::exclusive);
    r.make_group(1, GroupMode::exclusive);
    const auto s = surveyed(r);
    CHECK(s.messages == 3);
    CHECK(s.counts[0].lag == 1);
    CHECK(s.counts[1].lag == 2);
}

TEST_CASE("pinned is what all have settled behind something that somebody has not") {
    HandRing r;
    const auto p = r.publish_many(5, 2);
    auto& g = r.make_group(0, GroupMode::shared, p[0]);
    g.hint.store(r.tail());
    for (const std::size_t i : {1U, 3U}) r.lease(0, p[i], EntryState::settled, 0, 1);
    r.lease(0, p[0], EntryState::handed, 1, 1, 1);
    CHECK(surveyed(r).pinned_slots == 4);
    r.make_group(1, GroupMode::exclusive, r.tail());
    CHECK(surveyed(r).pinned_slots == 4);
    r.groups[1].cursor.store(p[2]);
    CHECK(surveyed(r).pinned_slots == 2);
}

TEST_CASE("who blocks: a group without members, a borrow, a queue without groups") {
    HandRing r;
    r.publish();
    r.publish();
    auto s = surveyed(r);
    auto blockers = who_blocks(r.ring, s, r.ring.handles(), {});
    REQUIRE(blockers.size() == 1);
    CHECK(blockers[0].kind == BlockKind::no_group);
    r.make_group(0, GroupMode::shared, 1);
    s = surveyed(r);
    blockers = who_blocks(r.ring, s, r.ring.handles(), {});
    REQUIRE(blockers.size() == 1);
    CHECK(blockers[0].kind == BlockKind::no_members);
    CHECK(blockers[0].group == 0);
    r.make_handle(3, 2, HandleKind::consumer, 0);
    r.handles[3].borrow.store(0);
    blockers = who_blocks(r.ring, s, r.ring.handles(), {});
    REQUIRE(blockers.size() == 2);
    CHECK(blockers[0].kind == BlockKind::borrow);
    CHECK(blockers[0].participant == 2);
    CHECK(blockers[0].holds_floor);
    CHECK(blockers[1].kind == BlockKind::unconsumed);
    CHECK_FALSE(blockers[1].holds_floor);
}

TEST_CASE("accepted times survive the wrap of their 32 bits") {
    Superblock s{};
    s.timestamps = Timestamps::coarse;
    s.time_base_ns = 5'000'000'000;
    const std::uint64_t unit = 4'000'000;
    CHECK(accepted_wall_ns(s, 0, s.time_base_ns) == s.time_base_ns);
    CHECK(accepted_wall_ns(s, 100, s.time_base_ns + 1000 * unit) == s.time_base_ns + 100 * unit);
    const std::uint64_t wrap = std::uint64_t{1} << 32;
    CHECK(accepted_wall_ns(s, 10, s.time_base_ns + (wrap + 20) * unit) == s.time_base_ns + (wrap + 10) * unit);
    CHECK(accepted_wall_ns(s, 0xfffffff0, s.time_base_ns + (wrap + 20) * unit) ==
          s.time_base_ns + std::uint64_t{0xfffffff0} * unit);
    CHECK(accepted_wall_ns(s, 5, 0) == s.time_base_ns + 5 * unit);  // the clock was set back
    s.timestamps = Timestamps::off;
    CHECK(accepted_wall_ns(s, 100, s.time_base_ns) == 0);
}

TEST_CASE("names, participants and handles are copied, and bounded by the file's counts") {
    HandRing r;
    r.make_handle(5, 3, HandleKind::producer);
    for (std::size_t i = 0; i < name_bytes; ++i) r.handles[5].name[i].store('n');  // no zero at the end
    CHECK(r.ring.handle(5)->name.size() == name_bytes);
    CHECK(r.ring.handle(5)->participant == 3);
    CHECK_FALSE(r.ring.handle(8));
    CHECK_FALSE(r.ring.participant(8));
    CHECK_FALSE(r.ring.group(4));
    r.view.hot->handles_high.store(~std::uint64_t{0});
    r.view.hot->participants_high.store(~std::uint64_t{0});
    CHECK(r.ring.handles().size() == 1);
    CHECK(r.ring.participants().empty());
}

TEST_CASE("a note is found where it is put, and bounded") {
    HandRing r;
    const auto layout = lease_layout_of(HandRing::slots);
    auto* notes = reinterpret_cast<Note*>(r.table_bytes(0).data() + layout.notes);
    auto& n = notes[(base::mix64(9) + 3) % layout.note_count];
    n.position.store(9 << 1 | 1);
    n.attempt_count = 11;
    n.code_size = 1'000'000;
    n.code.fill('c');
    for (std::uint32_t i = 0; i < attempts_kept; ++i) n.attempts[i].number = i;
    const auto info = r.table(0).note(9);
    REQUIRE(info);
    CHECK(info->code.size() == 64);
    REQUIRE(info->attempts.size() == attempts_kept);
    CHECK(info->attempts.front().number == 3);
    CHECK(info->attempts.back().number == 2);
    CHECK_FALSE(r.table(0).note(10));
}
