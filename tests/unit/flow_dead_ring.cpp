// SPDX-License-Identifier: MIT
// The dead-letter ring as a mover sees it: what an entry holds, how a copy that is there already is found, and what a
// full ring leaves behind: nothing.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flow/dead_letters.hpp"
#include "unit/ring_group.hpp"

using namespace rondo;
using test::GroupBed;

namespace {

flow::Death death_of(const GroupBed& bed, Seq p) {
    flow::Death d;
    d.position = p;
    REQUIRE(ring::peek(bed.m.view, p, d.record) == ring::Peek::record);
    d.group = 0;
    d.life = GroupBed::life;
    d.group_name = "group";
    d.reason = DeadReason::rejected;
    d.texts.code = "code";
    d.delivery_count = 2;
    d.max_deliveries = 5;
    d.handler = {"consumer", "program", 42};
    d.now_ns = 1'000'000'000;
    return d;
}

}  // namespace

TEST_CASE("an entry holds the record's bytes and what the mover knew") {
    for (const Seq start : test::start_positions(64)) {
        CAPTURE(start);
        GroupBed bed(start);
        auto dead = bed.dead_ring();
        const Seq p = bed.put(7, 100);
        const auto content = test::message_bytes(7, 100);
        auto note = std::make_unique<format::Note>();
        flow::begin_note(*note, p);
        for (std::uint32_t n = 1; n <= 2; ++n) {
            flow::Failure f;
            f.outcome = format::Outcome::nacked;
            f.reason.code = n == 1 ? "first" : "second";
            f.started_ns = 100 * n;
            f.ended_ns = 100 * n + 50;
            f.handler = {"consumer", "program", 42};
            flow::note_attempt(*note, n, f, n);
        }
        auto d = death_of(bed, p);
        d.note = note.get();
        const Seq before = dead.tail();
        REQUIRE(dead.append(bed.m.view, bed.super, d) == flow::DeadRing::Append::done);
        const auto all = bed.dead_letters();
        REQUIRE(all.size() == 1);
        CHECK(all[0].payload == content);
        CHECK(all[0].original_seq == p);
        CHECK(all[0].ring_uuid == bed.super.ring_uuid);
        CHECK(all[0].group == "group");
        CHECK(all[0].reason == DeadReason::rejected);
        CHECK(all[0].code == "code");
        CHECK(all[0].delivery_count == 2);
        CHECK(all[0].max_deliveries == 5);
        CHECK(all[0].consumer == "consumer");
        CHECK(all[0].program == "program");
        CHECK(all[0].consumer_pid == 42);
        CHECK(all[0].dead_ns == 1'000'000'000);
        CHECK(all[0].first_delivered_ns == 100);
        CHECK(all[0].last_delivered_ns == 200);
        REQUIRE(all[0].attempts.size() == 2);
        CHECK(std::string_view(all[0].attempts[0].error_code.data()) == "first");
        CHECK(all[0].attempts[1].delay_ns == 2);
        CHECK(dead.contains(flow::identity_of(bed.super, d), before));
    }
}

TEST_CASE("a copy is found by its whole identity, from the noted tail on") {
    GroupBed bed(0);
    auto dead = bed.dead_ring();
    const Seq p = bed.put(1), q = bed.put(2);
    const auto d = death_of(bed, p);
    const auto other = death_of(bed, q);
    REQUIRE(dead.append(bed.m.view, bed.super, other) == flow::DeadRing::Append::done);
    const Seq noted = dead.tail();
    CHECK_FALSE(dead.contains(flow::identity_of(bed.super, d), 0));
    REQUIRE(dead.append(bed.m.view, bed.super, d) == flow::DeadRing::Append::done);
    REQUIRE(dead.append(bed.m.view, bed.super, other) == flow::DeadRing::Append::done);
    const auto identity = flow::identity_of(bed.super, d);
    CHECK(dead.contains(identity, 0));
    CHECK(dead.contains(identity, noted));
    CHECK_FALSE(dead.contains(identity, dead.tail()));
    for (int field = 0; field < 5; ++field) {
        auto wrong = identity;
        if (field == 0) wrong.origin.ring_uuid[0] ^= 1;
        if (field == 1) wrong.origin.epoch += 1;
        if (field == 2) wrong.origin.seq += 1000;
        if (field == 3) wrong.group += 1;
        if (field == 4) wrong.group_life += 1;
        CHECK_FALSE(dead.contains(wrong, 0));
    }
}

TEST_CASE("an attempt that was charged but never noted is left out, not filled with another message's") {
    GroupBed bed(0);
    auto dead = bed.dead_ring();
    const Seq p = bed.put(1);
    auto note = std::make_unique<format::Note>();
    flow::begin_note(*note, 99);
    flow::Failure f;
    f.outcome = format::Outcome::nacked;
    f.reason.code = "someone else's";
    for (std::uint32_t n = 1; n <= 8; ++n) flow::note_attempt(*note, n, f, 0);
    flow::begin_note(*note, p);
    f.reason.code = "own";
    flow::note_attempt(*note, 3, f, 0);  // two attempts were charged without a note
    auto d = death_of(bed, p);
    d.note = note.get();
    REQUIRE(dead.append(bed.m.view, bed.super, d) == flow::DeadRing::Append::done);
    const auto all = bed.dead_letters();
    REQUIRE(all.size() == 1);
    REQUIRE(all[0].attempts.size() == 1);
    CHECK(all[0].attempts[0].number == 3);
    CHECK(std::string_view(all[0].attempts[0].error_code.data()) == "own");
}

TEST_CASE("of many attempts the last eight are kept, in order") {
    GroupBed bed(0);
    auto dead = bed.dead_ring();
    for (const std::uint32_t count : {8U, 9U, 16U, 1000U}) {
        CAPTURE(count);
        const Seq p = bed.put(count, 8);
        auto note = std::make_unique<format::Note>();
        flow::begin_note(*note, p);
        for (std::uint32_t n = 1; n <= count; ++n) {
            flow::Failure f;
            f.outcome = format::Outcome::nacked;
            f.started_ns = n;
            flow::note_attempt(*note, n, f, 0);
        }
        auto d = death_of(bed, p);
        d.note = note.get();
        REQUIRE(dead.append(bed.m.view, bed.super, d) == flow::DeadRing::Append::done);
        const auto all = bed.dead_letters();
        REQUIRE(all.back().attempts.size() == 8);
        for (std::uint32_t i = 0; i < 8; ++i) CHECK(all.back().attempts[i].number == count - 7 + i);
        CHECK(all.back().first_delivered_ns == 1);
        CHECK(all.back().last_delivered_ns == count);
    }
}

TEST_CASE("a full ring says so and stays as it is, and takes the entry once there is room") {
    GroupBed bed(0);
    auto dead = bed.dead_ring();
    const Seq p = bed.put(1);
    bed.fill_dead();
    const Seq tail = dead.tail();
    const auto lines = bed.dead.lines.copy();
    for (int i = 0; i < 3; ++i)
        CHECK(dead.append(bed.m.view, bed.super, death_of(bed, p)) == flow::DeadRing::Append::full);
    CHECK(dead.tail() == tail);
    CHECK((bed.dead.lines.copy() == lines));
    bed.dead.groups[0].cursor.store(tail);  // settled, but nobody has advanced the limit yet
    CHECK(dead.append(bed.m.view, bed.super, death_of(bed, p)) == flow::DeadRing::Append::done);
    CHECK(dead.contains(flow::identity_of(bed.super, death_of(bed, p)), tail));
}

TEST_CASE("entries go round the ring: each is whole wherever it lies") {
    GroupBed bed(0);
    auto dead = bed.dead_ring();
    for (int i = 0; i < 700; ++i) {
        CAPTURE(i);
        const auto id = static_cast<std::uint64_t>(i);
        const Seq p = bed.put(id, id * 7 % 400);
        const Seq before = dead.tail();
        REQUIRE(dead.append(bed.m.view, bed.super, death_of(bed, p)) == flow::DeadRing::Append::done);
        const auto written = test::read_from(bed.dead.view, before);
        REQUIRE(!written.empty());
        const auto letter = format::decode_dead_entry(written.back().payload);
        REQUIRE(letter);
        CHECK(letter->payload == test::message_bytes(id, id * 7 % 400));
        CHECK(letter->original_seq == p);
        bed.empty_dead();
        bed.m.groups[0].cursor.store(bed.m.tail());
    }
    CHECK(dead.tail() > bed.dead.view.slots);
}

TEST_CASE("a message whose lengths are damaged dies with everything its slots hold, marked as damaged") {
    GroupBed bed(0);
    auto dead = bed.dead_ring();
    const Seq p = bed.put_only(0, GroupBed::life);
    const std::uint32_t nonsense = 0x7fffffff;
    std::memcpy(bed.m.view.body(p), &nonsense, sizeof nonsense);  // the length of its extension block
    auto d = death_of(bed, p);
    d.reason = DeadReason::corrupt;
    REQUIRE(dead.append(bed.m.view, bed.super, d) == flow::DeadRing::Append::done);
    const auto all = bed.dead_letters();
    REQUIRE(all.size() == 1);
    CHECK(all[0].payload_damaged);
    CHECK(all[0].payload.size() == d.record.head.slots * format::slot_bytes - format::header_bytes);
}
