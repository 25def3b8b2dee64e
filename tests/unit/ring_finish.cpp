// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// What the holder of a dead producer's lock does with its claims: the rows of the crash table for many producers, each
// state written by hand.
#include <doctest/doctest.h>

#include <map>

#include "unit/ring_memory.hpp"

using namespace rondo;
using namespace rondo::test;
using ring::Claimed;
using ring::ClaimStatus;
using ring::finish_claims;
using ring::MpmcRing;
using ring::Peek;
using ring::RecordType;
using ring::RecordView;

namespace {

constexpr std::uint32_t dead = 9;
constexpr std::uint32_t alive = 2;
constexpr std::uint64_t slots = 64;

/// A ring in its sixth lap, and a claim of the dead producer at its tail.
struct Wreck {
    RingMemory m{slots, 5 * slots + 7};
    Seq p = m.tail();
    MpmcRing<> survivor{m.view, alive};

    explicit Wreck(std::uint64_t k) {
        m.view.claim(p).store(format::pack_claim(m.view.lap1(p), dead, k));
        m.view.tail().store(p + k);
    }
    RecordView at(Seq q) const {
        RecordView r{};
        REQUIRE(ring::peek(m.view, q, r) == Peek::record);
        return r;
    }
    void check_void(std::uint64_t k) const {
        const auto r = at(p);
        CHECK(r.head.type == RecordType::void_claim);
        CHECK(r.head.slots == k);
        CHECK(r.head.payload_bytes == 0);
        const auto body = ring::body_of(m.view, p, r);
        REQUIRE(body);
        RingMemory checked(slots);  // a void is checked whatever the ring's records are
        auto v = m.view;
        v.checksums = true;
        CHECK(ring::intact(v, p, r, body->first(0)));
        for (Seq q = p + 1; q < p + k; ++q) CHECK_FALSE(m.stamped(q));
        CHECK(m.claim_at(p).owner == dead);
    }
    void check_goes_on(Seq expected) {
        Claimed c;
        REQUIRE(publish(survivor, message_bytes(1, 20), &c));
        CHECK(c.position == expected);
        const auto found = read_from(m.view, p);
        REQUIRE_FALSE(found.empty());
        CHECK(found.back().payload == message_bytes(1, 20));
    }
};

}  // namespace

TEST_CASE("killed before the claim: nothing is there to finish") {
    RingMemory m(slots, 5 * slots + 7);
    const auto lines = m.lines.copy();
    CHECK(finish_claims(m.view, dead) == 0);
    CHECK(m.lines.copy() == lines);
}

TEST_CASE("killed after the claim, before the tail moved: a void, and the next producer helps the tail") {
    Wreck w(3);
    w.m.view.tail().store(w.p);
    CHECK(finish_claims(w.m.view, dead) == 1);
    w.check_void(3);
    CHECK(w.m.tail() == w.p);
    w.check_goes_on(w.p + 3);
}

TEST_CASE("killed after the tail moved: a void over the claim") {
    for (std::uint64_t k = 1; k <= 8; ++k) {
        Wreck w(k);
        CHECK(finish_claims(w.m.view, dead) == 1);
        w.check_void(k);
        w.check_goes_on(w.p + k);
    }
}

TEST_CASE("killed in the middle of the payload, or before the stamp: a void over the claim") {
    for (const bool header : {false, true}) {
        Wreck w(3);
        const auto bytes = message_bytes(5, 130);
        ring::write_body(w.m.view, w.p, {}, bytes);
        if (header) write_message(w.m.view, w.p, 3, bytes);
        CHECK(finish_claims(w.m.view, dead) == 1);
        w.check_void(3);
        w.check_goes_on(w.p + 3);
    }
}

TEST_CASE("killed after the stamp: the message stays") {
    Wreck w(3);
    const auto bytes = message_bytes(5, 130);
    write_message(w.m.view, w.p, 3, bytes);
    ring::put_stamp(w.m.view, w.p);
    const auto lines = w.m.lines.copy();
    CHECK(finish_claims(w.m.view, dead) == 0);
    CHECK(w.m.lines.copy() == lines);
    CHECK(read_from(w.m.view, w.p).at(0).payload == bytes);
    w.check_goes_on(w.p + 3);
}

TEST_CASE("killed between the stamps of a batch: one void over all of it, no inner stamp survives") {
    for (std::uint64_t stamped = 0; stamped <= 3; ++stamped) {
        CAPTURE(stamped);
        Wreck w(7);
        // Four records of 2, 2, 2 and 1 slots, stamped from the last to the first.
        const Seq at[] = {w.p, w.p + 2, w.p + 4, w.p + 6};
        for (int i = 0; i < 4; ++i)
            write_message(w.m.view, at[i], i == 3 ? 1 : 2, message_bytes(static_cast<std::uint64_t>(i), 30),
                          i == 3 ? 0 : format::flag_batch_more);
        for (std::uint64_t i = 0; i < stamped; ++i) ring::put_stamp(w.m.view, at[3 - i]);
        RecordView r{};
        CHECK(ring::peek(w.m.view, w.p, r) == Peek::absent);
        CHECK(finish_claims(w.m.view, dead) == 1);
        w.check_void(7);
        w.check_goes_on(w.p + 7);
    }
}

TEST_CASE("killed after the first record's stamp: the whole batch stays") {
    Wreck w(4);
    for (const std::uint64_t offset : {std::uint64_t{2}, std::uint64_t{0}}) {
        write_message(w.m.view, w.p + offset, 2, message_bytes(offset, 90));
        ring::put_stamp(w.m.view, w.p + offset);
    }
    CHECK(finish_claims(w.m.view, dead) == 0);
    const auto found = read_from(w.m.view, w.p);
    REQUIRE(found.size() == 2);
    CHECK(found[0].payload == message_bytes(0, 90));
    CHECK(found[1].payload == message_bytes(2, 90));
}

TEST_CASE("killed while padding before the ring's end: the padding becomes a void of the same size") {
    RingMemory m(slots, 5 * slots - 3);
    const Seq p = m.tail();
    m.view.claim(p).store(format::pack_claim(m.view.lap1(p), dead, 3));
    m.view.tail().store(p + 3);
    CHECK(finish_claims(m.view, dead) == 1);
    const auto found = read_from(m.view, p);
    REQUIRE(found.size() == 1);
    CHECK(found[0].record.head.type == RecordType::void_claim);
    CHECK(found[0].record.head.slots == 3);
}

TEST_CASE("a repairer killed in the middle is followed by another that does it again") {
    Wreck w(5);
    // Header of the void written, stamp not; an inner stamp not cleared yet.
    ring::write_header(w.m.view, w.p, {0, 5, RecordType::void_claim, 0}, {}, 0);
    ring::put_stamp(w.m.view, w.p + 2);
    CHECK(finish_claims(w.m.view, dead) == 1);
    w.check_void(5);
    const auto lines = w.m.lines.copy();
    CHECK(finish_claims(w.m.view, dead) == 0);
    CHECK(w.m.lines.copy() == lines);
}

TEST_CASE("a claim that was committed, read and overwritten is not touched") {
    for (const std::uint64_t next : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}}) {
        CAPTURE(next);
        RingMemory m(slots, 5 * slots + 7);
        const Seq p = m.tail();
        m.view.claim(p + next).store(format::pack_claim(m.view.lap1(p + next), dead, 2));
        // A lap later another producer's record begins one or two slots before the dead one's old place, or at it.
        m.view.tail().store(p + slots);
        m.set_limit(p + 2 * slots);
        MpmcRing<> survivor(m.view, alive);
        Claimed c;
        REQUIRE(publish(survivor, message_bytes(3, 300), &c));
        REQUIRE(c.position == p + slots);
        const auto lines = m.lines.copy();
        const auto claims = m.claims.copy();
        CHECK(finish_claims(m.view, dead) == 0);
        CHECK(m.lines.copy() == lines);
        CHECK(m.claims.copy() == claims);
    }
}

TEST_CASE("a claim whose slots were given back but not taken again yet is not touched") {
    Wreck w(3);
    write_message(w.m.view, w.p, 3, message_bytes(1, 100));
    // Consumed: the limit has passed it. The stamp is damaged here, so that only the limit speaks.
    w.m.view.stamp(w.p).store(1);
    w.m.set_limit(w.p + slots + 1);
    const auto lines = w.m.lines.copy();
    CHECK(finish_claims(w.m.view, dead) == 0);
    CHECK(w.m.lines.copy() == lines);
    // One slot less: nobody can have taken it, so it is an open claim.
    w.m.set_limit(w.p + slots);
    CHECK(finish_claims(w.m.view, dead) == 1);
}

TEST_CASE("open claims of the living are never touched") {
    Wreck w(2);
    Claimed mine;
    REQUIRE(w.survivor.claim(4, mine) == ClaimStatus::ok);
    const auto before = w.m.lines.copy();
    CHECK(finish_claims(w.m.view, dead) == 1);
    const auto after = w.m.lines.copy();
    const std::size_t from = (mine.position & w.m.view.mask()) * format::slot_bytes;
    CHECK(std::equal(before.begin() + static_cast<std::ptrdiff_t>(from),
                     before.begin() + static_cast<std::ptrdiff_t>(from + 4 * format::slot_bytes),
                     after.begin() + static_cast<std::ptrdiff_t>(from)));
    CHECK(finish_claims(w.m.view, alive) == 1);  // as if it had died as well
    RecordView r{};
    CHECK(ring::peek(w.m.view, mine.position, r) == Peek::record);
    CHECK(r.head.type == RecordType::void_claim);
}

TEST_CASE("damaged claim words in the dead one's name lead nowhere outside") {
    RingMemory m(slots, 5 * slots + 7);
    auto random = rng(4);
    for (int round = 0; round < 2000; ++round) {
        const auto s = random.below(slots);
        std::uint64_t word = random() >> random.below(64);
        word = (word & ~(std::uint64_t{1023} << 14)) | std::uint64_t{dead} << 14;
        m.claims[s].store(word);
        (void)finish_claims(m.view, dead);  // the address sanitizer watches
    }
}

TEST_CASE("after any history, finishing a dead producer leaves a ring without holes and loses no message") {
    for (const Seq start : start_positions(slots)) {
        CAPTURE(start);
        auto random = rng(start + 1);
        for (int round = 0; round < 20; ++round) {
            RingMemory m(slots, start);
            m.start_group(0, start);
            std::vector<MpmcRing<>> rings;
            for (std::uint32_t i = 1; i <= 4; ++i) rings.emplace_back(m.view, i);
            std::map<Seq, std::vector<std::byte>> committed;
            struct Open {
                Claimed c;
                std::uint32_t owner;
            };
            std::vector<Open> open;
            Seq read = start;
            for (int turn = 0; turn < 200; ++turn) {
                const auto owner = static_cast<std::uint32_t>(random.below(4));
                Claimed c;
                const std::uint64_t k = 1 + random.below(8);
                if (rings[owner].claim(k, c) == ClaimStatus::ok) {
                    if (random.one_in(40)) {
                        open.push_back({c, owner + 1});
                    } else {
                        auto bytes = message_bytes(c.position, k * 64 - 32);
                        write_message(m.view, c.position, k, bytes);
                        ring::put_stamp(m.view, c.position);
                        committed[c.position] = std::move(bytes);
                    }
                }
                for (const auto& f : read_from(m.view, read)) {
                    read = f.position + f.record.head.slots;
                    if (f.record.head.type != RecordType::message) continue;
                    REQUIRE(f.payload == committed.at(f.position));
                    committed.erase(f.position);
                }
                m.groups[0].cursor.store(read);
                m.advance();
            }
            std::uint64_t voids = 0;
            for (std::uint32_t owner = 1; owner <= 4; ++owner) voids += finish_claims(m.view, owner);
            CHECK(voids == open.size());
            for (const auto& f : read_from(m.view, read)) {
                read = f.position + f.record.head.slots;
                if (f.record.head.type != RecordType::message) continue;
                REQUIRE(f.payload == committed.at(f.position));
                committed.erase(f.position);
            }
            CHECK(read == m.tail());
            CHECK(committed.empty());
        }
    }
}
