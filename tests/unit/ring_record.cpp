// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// One record at a known position: layout, visibility, and what readers make of garbage.
#include "ring/record_io.hpp"

#include <doctest/doctest.h>

#include "unit/ring_memory.hpp"

using namespace rondo;
using namespace rondo::test;
using ring::Peek;
using ring::RecordHead;
using ring::RecordType;
using ring::RecordView;

namespace {

std::vector<std::byte> joined(std::span<const std::byte> a, std::span<const std::byte> b) {
    std::vector<std::byte> out(a.begin(), a.end());
    out.insert(out.end(), b.begin(), b.end());
    return out;
}

}  // namespace

TEST_CASE("extensions and payload lie one behind the other, however they share the first line") {
    RingMemory m(4096, 4096 * 2);
    for (std::size_t extensions = 0; extensions <= 96; extensions += 16) {
        for (std::size_t payload = 0; payload <= 200; ++payload) {
            const auto e = message_bytes(1, extensions);
            const auto b = message_bytes(2, payload);
            const Seq p = 4096 * 2 + 8;
            const std::size_t room = 8 * format::slot_bytes;
            std::memset(m.view.at(p), 0xee, room);
            ring::write_body(m.view, p, e, b);
            const auto want = joined(e, b);
            REQUIRE(std::equal(want.begin(), want.end(), m.view.body(p)));
            // Neither the header before nor the bytes behind.
            for (std::size_t i = 0; i < format::header_bytes; ++i) REQUIRE(m.view.at(p)[i] == std::byte{0xee});
            for (std::size_t i = format::header_bytes + want.size(); i < room; ++i)
                REQUIRE(m.view.at(p)[i] == std::byte{0xee});
        }
    }
}

TEST_CASE("a stamp of another position, another ring, or an earlier lap is no record") {
    RingMemory m(64, 640);
    write_message(m.view, 640, 1, message_bytes(1, 8));
    RecordView r{};
    for (const std::uint64_t stamp :
         {std::uint64_t{0}, std::uint64_t{640}, m.view.stamp_of(641), m.view.stamp_of(640 - 64), m.view.stamp_of(704),
          format::stamp_of(640, m.view.salt + 1), ~m.view.stamp_of(640)}) {
        m.view.stamp(640).store(stamp);
        CHECK(ring::peek(m.view, 640, r) == Peek::absent);
    }
    ring::put_stamp(m.view, 640);
    CHECK(ring::peek(m.view, 640, r) == Peek::record);
    CHECK(ring::peek(m.view, 704, r) == Peek::absent);
}

TEST_CASE("a slot of zeros is no record at any position") {
    PageArray<std::byte> zeros(64 * format::slot_bytes);
    RingMemory m(64);
    auto v = m.view;
    v.bytes = zeros.data();
    RecordView r{};
    for (Seq p = 0; p < 640; ++p) REQUIRE(ring::peek(v, p, r) == Peek::absent);
}

TEST_CASE("a valid stamp before garbage is corrupt, or a record whose parts lie inside the ring") {
    RingMemory m(64, 640, true);
    auto random = rng(5);
    std::uint64_t corrupt = 0, records = 0;
    for (int round = 0; round < 100000; ++round) {
        const Seq p = 640 + random.below(64);
        auto& h = m.view.header(p);
        std::uint64_t head = random() >> random.below(64);
        if (random.one_in(3))  // plausible but for one part
            head = format::pack_head({static_cast<std::uint32_t>(random.below(700)), 1 + random.below(10),
                                      static_cast<RecordType>(random.below(5)),
                                      static_cast<std::uint8_t>(random.below(4))});
        h.head.store(head);
        ring::put_stamp(m.view, p);
        RecordView r{};
        const auto seen = ring::peek(m.view, p, r);
        REQUIRE(seen != Peek::absent);
        if (seen == Peek::corrupt) {
            ++corrupt;
            continue;
        }
        ++records;
        REQUIRE(r.head.slots >= 1);
        REQUIRE((p & 63) + r.head.slots <= 64);
        const auto body = ring::body_of(m.view, p, r);
        if (body) {
            REQUIRE(body->data() == m.view.body(p));
            REQUIRE(body->data() + body->size() <= m.view.at(p) + r.head.slots * format::slot_bytes);
            REQUIRE(body->size() >= r.head.payload_bytes);
            (void)ring::intact(m.view, p, r, *body);
        }
    }
    CHECK(corrupt > 1000);
    CHECK(records > 1000);
}

TEST_CASE("a checked record notices each flipped bit of header and body") {
    RingMemory m(64, 640, true);
    const Seq p = 640 + 3;
    const auto extensions = [] {
        std::vector<std::byte> block(32);
        format::Extensions e;
        e.key = "a key";
        REQUIRE(format::extension_bytes(e) == block.size());
        format::encode_extensions(e, block);
        return block;
    }();
    write_message(m.view, p, 3, message_bytes(1, 100), 0, extensions);
    ring::put_stamp(m.view, p);
    RecordView r{};
    const auto whole = [&] {
        if (ring::peek(m.view, p, r) != Peek::record) return false;
        const auto body = ring::body_of(m.view, p, r);
        return body && ring::intact(m.view, p, r, *body);
    };
    REQUIRE(whole());
    const std::size_t used = format::header_bytes + 132;
    for (std::size_t i = 0; i < used; ++i) {
        if (i >= offsetof(format::RecordHeader, durable_lag) && i < offsetof(format::RecordHeader, accepted)) continue;
        for (int bit = 0; bit < 8; ++bit) {
            CAPTURE(i);
            CAPTURE(bit);
            m.view.at(p)[i] ^= static_cast<std::byte>(1 << bit);
            CHECK_FALSE(whole());
            m.view.at(p)[i] ^= static_cast<std::byte>(1 << bit);
        }
    }
    REQUIRE(whole());
    // The same bytes at another place of the ring are not that record.
    std::memcpy(m.view.at(p + 8), m.view.at(p), 3 * format::slot_bytes);
    ring::put_stamp(m.view, p + 8);
    CHECK(ring::peek(m.view, p + 8, r) == Peek::record);
    CHECK_FALSE(ring::intact(m.view, p + 8, r, *ring::body_of(m.view, p + 8, r)));
}

TEST_CASE("a batch that is stamped from the last to the first appears whole") {
    RingMemory m(64, 640);
    for (std::uint64_t i = 0; i < 6; ++i)
        write_message(m.view, 640 + i, 1, message_bytes(i, 20), i == 5 ? 0 : format::flag_batch_more);
    for (std::uint64_t i = 6; i-- > 0;) {
        CHECK(read_from(m.view, 640).empty());
        ring::put_stamp(m.view, 640 + i);
    }
    const auto all = read_from(m.view, 640);
    REQUIRE(all.size() == 6);
    for (std::uint64_t i = 0; i < 6; ++i) {
        CHECK(all[i].payload == message_bytes(i, 20));
        CHECK((all[i].record.head.flags & format::flag_batch_more) == (i == 5 ? 0 : format::flag_batch_more));
    }
}

TEST_CASE("padding and voids of any codable size are records without a body") {
    RingMemory m(4096, 4096);
    for (std::uint64_t k = 1; k <= 512; ++k) {
        for (const auto type : {RecordType::pad, RecordType::void_claim}) {
            ring::write_void(m.view, 4096, k, type);
            RecordView r{};
            REQUIRE(ring::peek(m.view, 4096, r) == Peek::record);
            REQUIRE(r.head.type == type);
            REQUIRE(r.head.slots == k);
            const auto body = ring::body_of(m.view, 4096, r);
            REQUIRE(body);
            REQUIRE(body->empty());
        }
    }
}
