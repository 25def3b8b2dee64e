// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The snapshot functions on files that are cut short, or hold anything: nothing outside is read, every walk ends, every
// number stays within its bounds. The address sanitizer sees a read beyond the end.
#include <doctest/doctest.h>

#include <cstring>

#include "format/snapshot.hpp"
#include "hand_ring.hpp"
#include "support/seed.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::HandRing;

namespace {

/// Everything that can be asked of a ring, on an exact copy of the first bytes of its files.
void ask_everything(std::span<const std::byte> file, std::span<const std::byte> table_file, const Superblock& super) {
    test::PageMemory copy(file);
    test::PageMemory table_copy(table_file);
    const auto ring = ring_bytes(copy.bytes(), super);
    std::vector<LeaseBytes> tables;
    if (const auto t = lease_bytes(table_copy.bytes(), ring)) tables.push_back(*t);
    const Now now{1'000'000'000, 2'000'000'000'000};
    const auto s = survey(ring, tables, now);
    std::uint64_t sum = 0;
    for (const auto& c : s.counts) {
        CHECK(c.lag <= HandRing::slots);
        CHECK(c.lag == c.ready + c.scheduled + c.in_flight + c.dead_pending);
        sum += c.lag;
    }
    CHECK(sum <= s.counts.size() * HandRing::slots);
    CHECK(s.messages + s.pads + s.voids + s.open_claim_count + s.damaged <= HandRing::slots + 1);
    CHECK(s.used_slots + s.credit_slots == (ring.hot() ? HandRing::slots : 0));
    CHECK(s.pinned_slots <= HandRing::slots);
    (void)who_blocks(ring, s, ring.handles(), now);
    (void)ring.participants();
    for (std::uint32_t g = 0; g < 5; ++g) (void)ring.group_note(g);
    std::uint64_t steps = 0;
    walk_records(ring, s.floor, s.tail, [&](const RecordInfo& record) {
        (void)only_group_of(ring, record);
        if (const auto bytes = copy_record(ring, record)) {
            if (record.state == RecordState::message) (void)parts_of(record.head, *bytes);
        }
        if (!tables.empty()) (void)tables.front().note(record.position);
        return ++steps < 10 * HandRing::slots;
    });
    CHECK(steps <= HandRing::slots);
}

/// A ring with some of everything.
void fill(HandRing& r) {
    for (int i = 0; i < 5; ++i) r.publish(1 + static_cast<std::uint64_t>(i));
    r.publish_for(0, 7);
    r.claim(2, 4);
    const Seq v = r.claim(3);
    ring::write_void(r.view, v, 3, RecordType::void_claim);
    for (int i = 0; i < 8; ++i) r.publish(2);
    auto& shared = r.make_group(0, GroupMode::shared, 1);
    shared.hint.store(r.tail() - 4);
    r.make_group(1, GroupMode::exclusive, 3).handed.store(10);
    r.lease(0, 1, EntryState::handed, 2, 1, 5);
    r.lease(0, 3, EntryState::backoff, 2, 1, 5);
    r.make_handle(0, 2, HandleKind::consumer, 0);
    r.make_handle(1, 4, HandleKind::producer);
}

}  // namespace

TEST_CASE("files cut at any length are read as far as they go") {
    HandRing r;
    fill(r);
    const auto file = r.bytes();
    const auto table = r.table_bytes(0);
    auto random = test::rng(1);
    for (std::size_t length = 0; length < file.size(); length += random.between(1, 64)) {
        ask_everything(file.first(length), table.first(std::min(length, table.size())), r.super());
    }
    for (std::size_t length = 0; length < table.size(); length += random.between(1, 1024)) {
        ask_everything(file, table.first(length), r.super());
    }
}

TEST_CASE("flipped bits and random words lead nowhere outside, and every walk ends") {
    HandRing r;
    fill(r);
    const std::vector<std::byte> file(r.bytes().begin(), r.bytes().end());
    const std::vector<std::byte> table(r.table_bytes(0).begin(), r.table_bytes(0).end());
    auto random = test::rng(2);
    const auto spoil = [&](std::vector<std::byte> bytes, std::size_t from) {
        const std::uint64_t flips = random.between(1, 40);
        for (std::uint64_t i = 0; i < flips; ++i) {
            const std::size_t at = from + random.below(bytes.size() - from);
            if (random.one_in(2)) {
                bytes[at] ^= static_cast<std::byte>(1U << random.below(8));
            } else {
                const std::size_t word = at / 8 * 8;
                const std::uint64_t value = random.one_in(3) ? ~std::uint64_t{0} : random() >> random.below(64);
                std::memcpy(bytes.data() + word, &value, 8);
            }
        }
        return bytes;
    };
    for (int round = 0; round < 3000; ++round) {
        CAPTURE(round);
        ask_everything(spoil(file, page_bytes), spoil(table, random.one_in(4) ? 0 : page_bytes), r.super());
    }
}

TEST_CASE("every hot word may hold anything") {
    HandRing r;
    fill(r);
    const std::uint64_t values[] = {
        0, 1, 63, 64, 65, ~std::uint64_t{0}, ~std::uint64_t{0} >> 1, std::uint64_t{1} << 52};
    for (auto* word : {static_cast<Word*>(&r.view.hot->tail), static_cast<Word*>(&r.view.hot->limit),
                       static_cast<Word*>(&r.view.hot->handles_high), static_cast<Word*>(&r.groups[0].cursor),
                       static_cast<Word*>(&r.groups[0].hint), static_cast<Word*>(&r.groups[1].owner)}) {
        const std::uint64_t before = word->load();
        for (const std::uint64_t value : values) {
            word->store(value);
            ask_everything(r.bytes(), r.table_bytes(0), r.super());
        }
        word->store(before);
    }
}

TEST_CASE("impossible geometry is refused") {
    HandRing r;
    CHECK(usable_geometry(r.super()));
    auto s = r.super();
    s.slot_count = 65;
    CHECK_FALSE(usable_geometry(s));
    s.slot_count = max_slots * 2;
    CHECK_FALSE(usable_geometry(s));
    s = r.super();
    s.handle_count = ~0U;
    CHECK_FALSE(usable_geometry(s));
    s = r.super();
    s.group_count = max_groups + 1;
    CHECK_FALSE(usable_geometry(s));
}

TEST_CASE("a table of another queue, ring or size is no table") {
    HandRing r;
    const auto good = r.table_bytes(0);
    CHECK(lease_bytes(good, r.ring));
    for (const std::size_t offset :
         {offsetof(LeaseHeader, magic), offsetof(LeaseHeader, version), offsetof(LeaseHeader, slot_count),
          offsetof(LeaseHeader, queue_uuid), offsetof(LeaseHeader, ring_uuid)}) {
        good[offset] ^= std::byte{4};
        CHECK_FALSE(lease_bytes(good, r.ring));
        good[offset] ^= std::byte{4};
    }
    CHECK_FALSE(lease_bytes(good.first(sizeof(LeaseHeader) - 1), r.ring));
    r.make_group(0, GroupMode::shared);
    const std::vector<LeaseBytes> tables{*lease_bytes(good, r.ring)};
    CHECK(table_of(tables, r.ring, *r.ring.group(0)) == tables.data());
    auto other = r.ring;
    other.super.ring_uuid[0] ^= 1;  // dead.ring has a group of the same number
    CHECK(table_of(tables, other, *r.ring.group(0)) == nullptr);
    CHECK(table_of(std::vector<LeaseBytes>{*lease_bytes(good, r.ring)}, r.ring, GroupInfo{}) == nullptr);
}
