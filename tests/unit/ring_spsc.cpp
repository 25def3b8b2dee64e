// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// The ring of one producer: what its successor makes of every state that a killed one can leave.
#include "ring/spsc_ring.hpp"

#include <doctest/doctest.h>

#include "unit/ring_memory.hpp"

using namespace rondo;
using namespace rondo::test;
using ring::Claimed;
using ring::ClaimStatus;
using ring::Peek;
using ring::RecordType;
using ring::RecordView;
using ring::SpscRing;

namespace {

constexpr std::uint64_t slots = 64;

/// A ring in its sixth lap whose producer was killed; `p` is the tail it left.
struct Wreck {
    RingMemory m;
    Seq p;
    explicit Wreck(Seq start = 5 * slots + 7) : m(slots, start), p(start) {}

    void stamped(Seq at, std::uint64_t k, std::uint64_t id, std::uint8_t flags = 0) const {
        write_message(m.view, at, k, message_bytes(id, k * 64 - 40), flags);
        ring::put_stamp(m.view, at);
    }
    /// The successor publishes one small message; a reader from `p` sees `before` records and then that one.
    void check_successor(std::size_t before, Seq expected_tail) {
        SpscRing<> ring(m.view);
        ring.take_over();
        CHECK(m.tail() == expected_tail);
        CHECK(read_from(m.view, p).size() == before);
        Claimed c;
        REQUIRE(publish(ring, message_bytes(99, 8), &c));
        CHECK(c.position == expected_tail);
        const auto found = read_from(m.view, p);
        REQUIRE(found.size() == before + 1);
        CHECK(found.back().payload == message_bytes(99, 8));
        CHECK(m.tail() == expected_tail + 1);
        // Nothing behind it looks like a record, whatever comes to stand at its boundary.
        for (Seq q = m.tail(); q < m.limit(); ++q) CHECK_FALSE(m.stamped(q));
    }
};

}  // namespace

TEST_CASE("killed before it wrote: the successor goes on at the tail") { Wreck().check_successor(0, 5 * slots + 7); }

TEST_CASE("killed in the middle of a record: the successor overwrites it") {
    for (const bool header : {false, true}) {
        Wreck w;
        ring::write_body(w.m.view, w.p, {}, message_bytes(1, 200));
        if (header) write_message(w.m.view, w.p, 4, message_bytes(1, 200));
        w.check_successor(0, w.p);
    }
}

TEST_CASE("killed between the stamp and the tail: the message stays") {
    Wreck w;
    w.stamped(w.p, 3, 1);
    w.check_successor(1, w.p + 3);
    CHECK(read_from(w.m.view, w.p).at(0).payload == message_bytes(1, 3 * 64 - 40));
}

TEST_CASE("killed between the stamps of a batch: nothing of it is left, inner stamps neither") {
    for (std::uint64_t stamped = 1; stamped <= 3; ++stamped) {
        CAPTURE(stamped);
        Wreck w;
        for (std::uint64_t i = 4; i-- > 0;) {
            write_message(w.m.view, w.p + i, 1, message_bytes(i, 16), i == 3 ? 0 : format::flag_batch_more);
            if (i >= 4 - stamped) ring::put_stamp(w.m.view, w.p + i);
        }
        // The successor's first record ends where a dead inner record begins: it must not come back.
        w.check_successor(0, w.p);
    }
}

TEST_CASE("killed after the last stamp of a batch, before the tail: the whole batch stays") {
    Wreck w;
    for (std::uint64_t i = 4; i-- > 0;) w.stamped(w.p + 2 * i, 2, i, i == 3 ? 0 : format::flag_batch_more);
    w.check_successor(4, w.p + 8);
}

TEST_CASE("killed after the padding before the ring's end: the padding stays, or the tail stays before it") {
    for (const bool stamp : {false, true}) {
        Wreck w(6 * slots - 3);
        ring::write_header(w.m.view, w.p, {0, 3, RecordType::pad, 0}, {}, 0);
        if (stamp) ring::put_stamp(w.m.view, w.p);
        w.check_successor(stamp ? 1 : 0, stamp ? w.p + 3 : w.p);
    }
}

TEST_CASE("killed after the padding and in the middle of the batch behind it") {
    Wreck w(6 * slots - 2);
    ring::write_void(w.m.view, w.p, 2, RecordType::pad);
    w.m.view.tail().store(w.p + 2);
    for (std::uint64_t i = 4; i-- > 1;) w.stamped(w.p + 2 + i, 1, i, format::flag_batch_more);
    w.check_successor(1, w.p + 2);
}

TEST_CASE("a successor that is killed while it clears is followed by another") {
    Wreck w;
    for (const std::uint64_t i : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}}) w.stamped(w.p + i, 1, i);
    w.m.view.stamp(w.p + 1).store(0);  // as far as the first successor came
    w.check_successor(0, w.p);
}

TEST_CASE("a take-over of a full ring changes nothing") {
    RingMemory m(slots, 5 * slots);
    SpscRing<> first(m.view);
    first.take_over();
    std::uint64_t sent = 0;
    while (publish(first, message_bytes(sent, 90))) ++sent;
    CHECK(sent == slots / 2);
    const auto lines = m.lines.copy();
    SpscRing<> second(m.view);
    second.take_over();
    CHECK(m.tail() == 6 * slots);
    CHECK(m.lines.copy() == lines);
    Claimed c;
    CHECK(second.claim(1, c) == ClaimStatus::full);
    CHECK(read_from(m.view, 5 * slots).size() == sent);
}

TEST_CASE("a take-over leaves what readers still hold alone") {
    Wreck w;
    // Kept records before the tail, one of them settled but inside the window: their stamps must survive.
    RingMemory m(slots, 5 * slots);
    SpscRing<> first(m.view);
    first.take_over();
    for (std::uint64_t i = 0; i < 20; ++i) REQUIRE(publish(first, message_bytes(i, 20)));
    m.start_group(0, 5 * slots + 3);
    m.advance();
    const auto before = read_from(m.view, 5 * slots + 3);
    SpscRing<> second(m.view);
    second.take_over();
    const auto after = read_from(m.view, 5 * slots + 3);
    CHECK(before.size() == 17);
    CHECK(after.size() == before.size());
}

TEST_CASE("after any half-written batch no reader ever sees a ghost") {
    for (const Seq start : start_positions(slots)) {
        CAPTURE(start);
        auto random = rng(start + 2);
        for (int round = 0; round < 200; ++round) {
            RingMemory m(slots, start + random.below(slots));
            const Seq p = m.tail();
            const Seq lap_end = (p / slots + 1) * slots;
            // A batch of up to 8 slots that was stamped from the back until the kill.
            std::vector<std::pair<Seq, std::uint64_t>> records;
            Seq at = p;
            while (at < p + 8 && at < lap_end) {
                const std::uint64_t k = 1 + random.below(std::min<std::uint64_t>(3, std::min(p + 8, lap_end) - at));
                records.emplace_back(at, k);
                at += k;
            }
            const std::size_t stamps = random.below(records.size() + 1);
            for (std::size_t i = records.size(); i-- > 0;) {
                write_message(m.view, records[i].first, records[i].second, message_bytes(i, 9));
                if (records.size() - i <= stamps) ring::put_stamp(m.view, records[i].first);
            }
            const bool whole = stamps == records.size();
            SpscRing<> ring(m.view);
            ring.take_over();
            CHECK(m.tail() == (whole ? at : p));
            std::uint64_t published = 0;
            while (published < 12) {
                const std::size_t size = random.below(300);
                if (!publish(ring, message_bytes(1000 + published, size))) break;
                ++published;
                std::uint64_t messages = 0;
                Seq end = p;
                for (const auto& f : read_from(m.view, p)) {
                    end = f.position + f.record.head.slots;
                    messages += f.record.head.type == RecordType::message ? 1 : 0;
                }
                REQUIRE(end == m.tail());
                REQUIRE(messages == published + (whole ? records.size() : 0));
            }
        }
    }
}
