// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// The ring of many producers, and what both rings have in common, over memory of the test's own.
#include "ring/mpmc_ring.hpp"

#include <doctest/doctest.h>

#include <deque>

#include "unit/ring_memory.hpp"

using namespace rondo;
using namespace rondo::test;
using ring::Claimed;
using ring::ClaimStatus;
using ring::MpmcRing;
using ring::Peek;
using ring::RecordType;
using ring::RecordView;
using ring::SpscRing;

namespace {

/// One reader that settles what it has read, so that the producers get credit.
struct Reader {
    RingMemory& m;
    Seq at;

    Reader(RingMemory& memory, Seq start) : m(memory), at(start) { m.start_group(0, start); }
    /// The payloads of the messages that are there.
    std::vector<std::vector<std::byte>> drain() {
        std::vector<std::vector<std::byte>> out;
        for (auto& f : read_from(m.view, at)) {
            at = f.position + f.record.head.slots;
            if (f.record.head.type == RecordType::message) out.push_back(std::move(f.payload));
        }
        m.groups[0].cursor.store(at);
        return out;
    }
};

template <class Ring>
Ring make_ring(const RingMemory& m) {
    if constexpr (std::is_same_v<Ring, MpmcRing<>>) {
        return Ring(m.view, 1);
    } else {
        Ring ring(m.view);
        ring.take_over();
        return ring;
    }
}

/// Publishes messages of changing sizes until `laps` laps are written, reads each back.
template <class Ring>
void go_round(std::uint64_t slots, Seq start, std::uint64_t laps, bool checksums) {
    RingMemory m(slots, start, checksums);
    Reader reader(m, start);
    auto ring = make_ring<Ring>(m);
    auto random = rng(slots + start);
    std::deque<std::vector<std::byte>> sent;
    std::uint64_t id = 0;
    const auto drain = [&] {
        for (auto& got : reader.drain()) {
            REQUIRE_FALSE(sent.empty());
            REQUIRE(got == sent.front());
            sent.pop_front();
        }
        m.advance();
    };
    const std::size_t largest = slots / 8 * format::slot_bytes - format::header_bytes;
    while (m.tail() < start + laps * slots) {
        const std::size_t size = random.one_in(8) ? largest - random.below(64) : random.below(largest / 4 + 1);
        auto bytes = message_bytes(++id, size);
        while (!publish(ring, bytes)) {
            REQUIRE_FALSE(sent.empty());
            drain();
        }
        sent.push_back(std::move(bytes));
        REQUIRE(m.tail() <= m.limit());
    }
    drain();
    CHECK(sent.empty());
    CHECK(reader.at == m.tail());
}

}  // namespace

TEST_CASE_TEMPLATE("what is published is read back in order, byte for byte, whatever the positions", Ring, MpmcRing<>,
                   SpscRing<>) {
    for (const std::uint64_t slots : {std::uint64_t{64}, std::uint64_t{4096}}) {
        for (const Seq start : start_positions(slots)) {
            for (const bool checksums : {false, true}) {
                CAPTURE(slots);
                CAPTURE(start);
                CAPTURE(checksums);
                go_round<Ring>(slots, start, slots == 64 ? 20 : 2, checksums);
            }
        }
    }
}

TEST_CASE_TEMPLATE("every record size up to an eighth of the ring is taken and comes back", Ring, MpmcRing<>,
                   SpscRing<>) {
    for (const std::uint64_t slots : {std::uint64_t{64}, std::uint64_t{4096}}) {
        RingMemory m(slots, slots * 3, true);
        Reader reader(m, slots * 3);
        auto ring = make_ring<Ring>(m);
        for (std::uint64_t k = 1; k <= slots / 8; k = format::round_up_slots(k + 1)) {
            const std::size_t full = k * format::slot_bytes - format::header_bytes;
            const std::size_t least = k == 1 ? 0 : full - format::slot_bytes + 1;
            for (const std::size_t size : {least, full - 1, full}) {
                const auto bytes = message_bytes(k, size);
                Claimed place;
                while (!publish(ring, bytes, &place)) REQUIRE(m.advance());
                REQUIRE(place.slots == k);
                const auto got = reader.drain();
                REQUIRE(got.size() == 1);
                REQUIRE(got[0] == bytes);
            }
        }
    }
}

TEST_CASE_TEMPLATE("a record that does not fit before the ring's end is preceded by padding", Ring, MpmcRing<>,
                   SpscRing<>) {
    for (std::uint64_t left = 1; left <= 9; ++left) {
        CAPTURE(left);
        const Seq start = 5 * 64 - left;
        RingMemory m(64, start);
        Reader reader(m, start);
        auto ring = make_ring<Ring>(m);
        Claimed c;
        REQUIRE(ring.claim(8, c) == ClaimStatus::ok);
        CHECK(c.slots == 8);
        CHECK(c.position == (left >= 8 ? start : 5 * 64));
        RecordView r{};
        if (left >= 8) {
            CHECK(ring::peek(m.view, start, r) == Peek::absent);
            continue;
        }
        REQUIRE(ring::peek(m.view, start, r) == Peek::record);
        CHECK(r.head.type == RecordType::pad);
        CHECK(r.head.slots == left);
        CHECK(r.head.payload_bytes == 0);
        CHECK(ring::peek(m.view, 5 * 64, r) == Peek::absent);
    }
}

TEST_CASE("padding that no claim word can hold is made of several pads, at most three") {
    constexpr std::uint64_t slots = 1 << 16;
    auto random = rng(3);
    for (int round = 0; round < 40; ++round) {
        const std::uint64_t left = round == 0 ? slots / 8 - 1 : 1 + random.below(slots / 8 - 1);
        CAPTURE(left);
        const Seq start = slots - left;
        RingMemory m(slots, start);
        MpmcRing<> ring(m.view, 1);
        Claimed c;
        REQUIRE(ring.claim(slots / 8, c) == ClaimStatus::ok);
        CHECK(c.position == slots);
        const auto pads = read_from(m.view, start);
        CHECK(pads.size() <= 3);
        REQUIRE_FALSE(pads.empty());
        CHECK(pads.back().position + pads.back().record.head.slots == slots);
        for (const auto& pad : pads) {
            CHECK(pad.record.head.type == RecordType::pad);
            CHECK(m.claim_at(pad.position).slots == pad.record.head.slots);
        }
    }
}

TEST_CASE_TEMPLATE("a full ring takes nothing and changes nothing", Ring, MpmcRing<>, SpscRing<>) {
    RingMemory m(64, 64);
    auto ring = make_ring<Ring>(m);
    const auto bytes = message_bytes(1, 64 * 4 - 32);
    int published = 0;
    while (publish(ring, bytes)) ++published;
    CHECK(published == 16);
    const auto lines = m.lines.copy();
    const auto claims = m.claims.copy();
    Claimed c;
    for (int turn = 0; turn < 3; ++turn) CHECK(ring.claim(4, c) == ClaimStatus::full);
    CHECK(m.lines.copy() == lines);
    CHECK(m.claims.copy() == claims);
    CHECK(m.tail() == 128);
    CHECK_FALSE(m.advance());  // no group: everything is kept
    m.start_group(0, 64);
    CHECK_FALSE(m.advance());
    m.groups[0].cursor.store(68);
    CHECK(m.advance());
    CHECK(publish(ring, bytes, &c));
    CHECK(c.position == 128);
    CHECK(ring.claim(1, c) == ClaimStatus::full);
}

TEST_CASE_TEMPLATE("a full ring leaves at most the padding behind", Ring, MpmcRing<>, SpscRing<>) {
    RingMemory m(64, 60);
    m.set_limit(66);
    auto ring = make_ring<Ring>(m);
    Claimed c;
    CHECK(ring.claim(8, c) == ClaimStatus::full);
    CHECK(m.tail() == 64);
    CHECK(read_from(m.view, 60).size() == 1);
    CHECK(ring.claim(8, c) == ClaimStatus::full);
    CHECK(m.tail() == 64);
    CHECK(ring.claim(2, c) == ClaimStatus::ok);
    CHECK(c.position == 64);
}

TEST_CASE_TEMPLATE("at the end of the positions the ring is exhausted, and no claim crosses the end", Ring, MpmcRing<>,
                   SpscRing<>) {
    for (const std::uint64_t slots : {std::uint64_t{64}, std::uint64_t{4096}}) {
        for (const std::uint64_t before : {std::uint64_t{0}, std::uint64_t{10}, slots - 1, slots, 2 * slots + 7}) {
            CAPTURE(slots);
            CAPTURE(before);
            const Seq end = format::end_of_positions(slots);
            const Seq start = end - before;
            RingMemory m(slots, start);
            Reader reader(m, start);
            auto ring = make_ring<Ring>(m);
            std::uint64_t sent = 0, got = 0;
            auto status = ClaimStatus::ok;
            for (std::uint64_t turn = 0; turn < 10 * slots; ++turn) {
                Claimed c;
                status = ring.claim(1 + turn % 8, c);
                if (status == ClaimStatus::exhausted) break;
                if (status == ClaimStatus::full) {
                    got += reader.drain().size();
                    m.advance();
                    continue;
                }
                REQUIRE(status == ClaimStatus::ok);
                REQUIRE(c.position + c.slots <= end);
                write_message(m.view, c.position, c.slots, message_bytes(turn, 32));
                ring::put_stamp(m.view, c.position);
                if constexpr (requires { ring.committed(c); }) ring.committed(c);
                ++sent;
            }
            CHECK(status == ClaimStatus::exhausted);
            CHECK(m.tail() <= end);
            got += reader.drain().size();
            CHECK(got == sent);
            m.advance();
            CHECK(m.limit() >= m.tail());
            CHECK(m.limit() <= m.tail() + slots);  // the limit's field has not overflowed
            Claimed c;
            for (int turn = 0; turn < 3; ++turn) {
                CHECK(ring.claim(8, c) == ClaimStatus::exhausted);
                CHECK(make_ring<Ring>(m).claim(8, c) == ClaimStatus::exhausted);
            }
        }
    }
}

TEST_CASE("the last positions have claim words, stamps and limits of their own") {
    for (std::uint64_t slots = 64; slots <= format::max_slots; slots *= 2) {
        const Seq end = format::end_of_positions(slots);
        CAPTURE(slots);
        CHECK(end % slots == 0);
        const std::uint64_t lap1 = format::lap1_of(end - 1, slots);
        CHECK(lap1 <= format::max_lap1);
        CHECK(format::unpack_claim(format::pack_claim(lap1, 1023, 8)).lap1 == lap1);
        // A floor that has reached the end, and one ring of credit behind it.
        CHECK(format::limit_position(format::pack_limit(end + slots, 4095)) == end + slots);
        CHECK(format::retry_position(format::pack_retry(end, 1023)) == end);
    }
}

TEST_CASE("a claim is a word with owner and size, and moves the tail; nothing is visible before the stamp") {
    RingMemory m(64, 640);
    MpmcRing<> ring(m.view, 77);
    Claimed c;
    REQUIRE(ring.claim(3, c) == ClaimStatus::ok);
    CHECK(c.position == 640);
    CHECK(m.tail() == 643);
    const auto word = m.claim_at(640);
    CHECK(word.lap1 == 11);
    CHECK(word.owner == 77);
    CHECK(word.slots == 3);
    RecordView r{};
    CHECK(ring::peek(m.view, 640, r) == Peek::absent);
    write_message(m.view, 640, 3, message_bytes(1, 100));
    CHECK(ring::peek(m.view, 640, r) == Peek::absent);
    ring::put_stamp(m.view, 640);
    CHECK(ring::peek(m.view, 640, r) == Peek::record);
    CHECK(r.head.payload_bytes == 100);
    CHECK(r.head.slots == 3);
    CHECK(r.accepted == 7);
    CHECK(r.producer == 3);
}

TEST_CASE("a producer helps a tail that stayed behind a claim") {
    RingMemory m(64, 128);
    m.view.claim(128).store(format::pack_claim(m.view.lap1(128), 9, 5));  // claimed; killed before the tail moved
    MpmcRing<> ring(m.view, 1);
    Claimed c;
    REQUIRE(ring.claim(2, c) == ClaimStatus::ok);
    CHECK(c.position == 133);
    CHECK(m.tail() == 135);
    CHECK(m.claim_at(128).owner == 9);
}

TEST_CASE("claims of several producers tile the ring") {
    for (const Seq start : start_positions(64)) {
        RingMemory m(64, start);
        Reader reader(m, start);
        std::vector<MpmcRing<>> rings;
        for (std::uint32_t i = 1; i <= 5; ++i) rings.emplace_back(m.view, i);
        struct Open {
            Claimed c;
            std::vector<std::byte> bytes;
        };
        std::vector<Open> open;
        std::vector<std::pair<Seq, std::uint64_t>> tiles;
        auto random = rng(start);
        std::uint64_t id = 0, read = 0, committed = 0;
        for (int turn = 0; turn < 3000; ++turn) {
            const bool more = open.size() < 5 && !random.one_in(3);
            if (more) {
                const std::uint64_t k = 1 + random.below(8);
                Claimed c;
                if (rings[random.below(5)].claim(k, c) == ClaimStatus::ok) {
                    REQUIRE(c.slots == k);
                    REQUIRE(c.position / 64 == (c.position + k - 1) / 64);
                    open.push_back({c, message_bytes(++id, k * 64 - 40)});
                    tiles.emplace_back(c.position, k);
                }
            } else if (!open.empty()) {
                const std::size_t i = random.below(open.size());
                write_message(m.view, open[i].c.position, open[i].c.slots, open[i].bytes);
                ring::put_stamp(m.view, open[i].c.position);
                open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
                ++committed;
            }
            if (random.one_in(4)) {
                read += reader.drain().size();
                m.advance();
            }
        }
        for (auto& o : open) {
            write_message(m.view, o.c.position, o.c.slots, o.bytes);
            ring::put_stamp(m.view, o.c.position);
            ++committed;
        }
        read += reader.drain().size();
        CHECK(read == committed);
        CHECK(reader.at == m.tail());
        Seq end = start;
        for (const auto& [position, k] : tiles) {
            // Between two claims lies padding only, and only up to the ring's end.
            if (position != end) {
                REQUIRE(position % 64 == 0);
                REQUIRE(position - end < 8);
            }
            end = position + k;
        }
    }
}

TEST_CASE("claim words that make no sense end in corrupt, not in a hang or a wild claim") {
    const auto status_with = [](std::uint64_t word) {
        RingMemory m(64, 128 + 60);
        m.view.claim(188).store(word);
        MpmcRing<> ring(m.view, 1);
        Claimed c;
        const auto status = ring.claim(2, c);
        CHECK(m.tail() <= 256);
        return status;
    };
    const std::uint64_t lap1 = format::lap1_of(188, 64);
    CHECK(status_with(format::pack_claim(lap1, 2, 0)) == ClaimStatus::corrupt);  // no slots
    CHECK(status_with(format::pack_claim(lap1, 2, 5)) == ClaimStatus::corrupt);  // over the ring's end
    CHECK(status_with(format::pack_claim(lap1, 2, 1 << 20)) == ClaimStatus::corrupt);
    CHECK(status_with(format::pack_claim(lap1 + 1, 2, 2)) == ClaimStatus::corrupt);  // of the future
    CHECK(status_with(~std::uint64_t{0}) == ClaimStatus::corrupt);
    CHECK(status_with(format::pack_claim(lap1, 2, 4)) == ClaimStatus::ok);
    CHECK(status_with(0) == ClaimStatus::ok);
}

TEST_CASE("the limit is read again only when it is needed, and never passed") {
    RingMemory m(64, 64);
    m.set_limit(64 + 3);
    MpmcRing<> ring(m.view, 1);
    Claimed c;
    CHECK(ring.claim(2, c) == ClaimStatus::ok);
    CHECK(ring.claim(2, c) == ClaimStatus::full);
    CHECK(ring.claim(1, c) == ClaimStatus::ok);
    CHECK(ring.claim(1, c) == ClaimStatus::full);
    m.set_limit(64 + 10);
    CHECK(ring.claim(7, c) == ClaimStatus::ok);
    CHECK(c.position == 67);
    CHECK(ring.claim(1, c) == ClaimStatus::full);
}
