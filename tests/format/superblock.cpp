// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// No ring and no lease table is used that is not exactly what its creator wrote.
#include <doctest/doctest.h>

#include <functional>
#include <string_view>
#include <vector>

#include "format/validate.hpp"
#include "samples.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::ByteVector;

namespace {

constexpr std::uint64_t huge_file = std::uint64_t{1} << 50;

Result<Superblock> validate(const Superblock& s, std::uint64_t* seen = nullptr) {
    return validate_superblock(test::page_of(s), huge_file, seen);
}

std::string_view what(const Error& error) { return error.what; }

struct Damage {
    const char* name;
    std::function<void(Superblock&)> apply;
    Errc code;
    const char* text;  // a part of `what`
};

// Everything that can be wrong with a superblock whose checksum is right.
std::vector<Damage> damages() {
    using S = Superblock;
    constexpr Errc corrupt = Errc::corrupt;
    constexpr Errc mismatch = Errc::version_mismatch;
    return {
        {"magic", [](S& s) { s.magic[0] = 'r'; }, corrupt, "not a rondo ring"},
        {"byte order, damaged", [](S& s) { s.byte_order = 0x01020305; }, corrupt, "byte order mark"},
        {"byte order, other", [](S& s) { s.byte_order = 0x04030201; }, mismatch, "another byte order"},
        {"version 0", [](S& s) { s.version = 0; }, mismatch, "another format version"},
        {"version 2", [](S& s) { s.version = 2; }, mismatch, "another format version"},
        {"feature", [](S& s) { s.features_required = 1; }, mismatch, "feature"},
        {"high feature", [](S& s) { s.features_required = std::uint64_t{1} << 63; }, mismatch, "feature"},
        {"kind 0", [](S& s) { s.kind = RingKind{0}; }, corrupt, "kind"},
        {"kind 4", [](S& s) { s.kind = RingKind{4}; }, corrupt, "kind"},
        {"lane", [](S& s) { s.lane = 64; }, corrupt, "lane"},
        {"producers 0", [](S& s) { s.producers = Producers{0}; }, corrupt, "producers"},
        {"producers 3", [](S& s) { s.producers = Producers{3}; }, corrupt, "producers"},
        {"checksum", [](S& s) { s.checksum = Checksum{2}; }, corrupt, "unknown record checksum"},
        {"timestamps", [](S& s) { s.timestamps = Timestamps{3}; }, corrupt, "timestamps"},
        {"durability", [](S& s) { s.durability = Durability{2}; }, corrupt, "durability"},
        {"durable", [](S& s) { s.durability = Durability::durable; }, Errc::not_supported, "durable"},
        {"slots 0", [](S& s) { s.slot_count = 0; }, corrupt, "power of two"},
        {"slots odd", [](S& s) { s.slot_count = (1 << 14) + 1; }, corrupt, "power of two"},
        {"slots few", [](S& s) { s.slot_count = 2048; }, corrupt, "slot count out of range"},
        {"slots many", [](S& s) { s.slot_count = max_slots * 2; }, corrupt, "slot count out of range"},
        {"slots 2^63", [](S& s) { s.slot_count = std::uint64_t{1} << 63; }, corrupt, "slot count out of range"},
        {"slots other", [](S& s) { s.slot_count *= 2; }, corrupt, "offset"},
        {"slot size", [](S& s) { s.slot_bytes = 128; }, corrupt, "64 bytes"},
        {"participants 0", [](S& s) { s.participant_count = 0; }, corrupt, "participant"},
        {"participants many", [](S& s) { s.participant_count = 1025; }, corrupt, "participant"},
        {"handles", [](S& s) { s.handle_count = 2047; }, corrupt, "handle"},
        {"groups 0", [](S& s) { s.group_count = 0; }, corrupt, "group"},
        {"groups 65", [](S& s) { s.group_count = 65; }, corrupt, "group"},
        {"groups other", [](S& s) { s.group_count = 17; }, corrupt, "offset"},
        {"record small", [](S& s) { s.max_record_bytes = 255; }, corrupt, "largest record"},
        {"record large", [](S& s) { s.max_record_bytes = (1 << 14) * 8 + 1; }, corrupt, "largest record"},
        {"file size", [](S& s) { s.file_bytes += 4096; }, corrupt, "file size"},
        {"hot", [](S& s) { s.hot_offset += 8; }, corrupt, "hot words"},
        {"queue", [](S& s) { s.queue_offset = 0; }, corrupt, "queue block"},
        {"participants at", [](S& s) { s.participants_offset = ~std::uint64_t{0}; }, corrupt, "participants"},
        {"handles at", [](S& s) { s.handles_offset -= 4096; }, corrupt, "handles"},
        {"groups at", [](S& s) { s.groups_offset += 4096; }, corrupt, "groups"},
        {"claims at", [](S& s) { s.claims_offset += 1; }, corrupt, "claim words"},
        {"slots at", [](S& s) { s.slots_offset += 64; }, corrupt, "slots"},
        {"retry slots 0", [](S& s) { s.retry_slot_count = 0; }, corrupt, "retry.ring"},
        {"retry slots", [](S& s) { s.retry_slot_count = 4097; }, corrupt, "retry.ring"},
        {"dead slots 0", [](S& s) { s.dead_slot_count = 0; }, corrupt, "dead.ring"},
        {"dead slots", [](S& s) { s.dead_slot_count = max_slots * 2; }, corrupt, "dead.ring"},
        {"mode 0", [](S& s) { s.mode = 0; }, corrupt, "mode"},
        {"mode 0666", [](S& s) { s.mode = 0666; }, corrupt, "mode"},
        {"image uuid", [](S& s) { s.image_uuid[15] = 1; }, corrupt, "image uuid"},
        {"image words", [](S& s) { s.image_reserved[7] = 1; }, corrupt, "image words"},
        {"reserved", [](S& s) { s.reserved0 = 1; }, corrupt, "reserved word"},
    };
}

}  // namespace

TEST_CASE("the superblocks of all three kinds of ring are accepted as they are") {
    for (const RingKind kind : {RingKind::main, RingKind::retry, RingKind::dead}) {
        const Superblock s = test::sample_superblock(kind);
        std::uint64_t seen = 99;
        const auto got = validate_superblock(test::page_of(s), s.file_bytes, &seen);
        REQUIRE(got.has_value());
        CHECK(std::memcmp(&*got, &s, sizeof s) == 0);
        CHECK(seen == version);
    }
}

TEST_CASE("a longer file, a shorter page and no interest in the version are all right") {
    const Superblock s = test::sample_superblock();
    const ByteVector page = test::page_of(s);
    CHECK(validate_superblock(page, s.file_bytes + 1).has_value());
    CHECK(validate_superblock(std::span(page).first(sizeof s), s.file_bytes).has_value());
    ByteVector whole = page;
    whole.resize(page.size() + 100, std::byte{1});  // what follows the first page is not looked at
    CHECK(validate_superblock(whole, s.file_bytes).has_value());
}

TEST_CASE("each byte of a superblock is guarded: flipped in any bit, it is refused") {
    const Superblock s = test::sample_superblock();
    for (std::size_t i = 0; i < page_bytes; ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            ByteVector page = test::page_of(s);
            page[i] ^= static_cast<std::byte>(1U << bit);
            const auto got = validate_superblock(page, s.file_bytes);
            if (got) FAIL("byte ", i, ", bit ", bit);
            const bool early = i >= 8 && i < 24;  // version, byte order, required features
            if (got.error().code != Errc::corrupt && !(early && got.error().code == Errc::version_mismatch)) {
                FAIL("byte ", i, ", bit ", bit, ": ", got.error().what);
            }
        }
    }
}

TEST_CASE("each field out of its range is refused for its own reason, also under a right checksum") {
    for (const Damage& damage : damages()) {
        CAPTURE(damage.name);
        Superblock s = test::sample_superblock();
        damage.apply(s);
        seal_superblock(s);
        const auto got = validate(s);
        REQUIRE_FALSE(got.has_value());
        CHECK(got.error().code == damage.code);
        INFO("what: ", got.error().what);
        CHECK(what(got.error()).find(damage.text) != std::string_view::npos);
    }
}

TEST_CASE("every field at the ends of its range is accepted") {
    using S = Superblock;
    const std::vector<std::function<void(S&)>> changes = {
        [](S& s) { s.lane = 63; },
        [](S& s) { s.producers = Producers::one; },
        [](S& s) { s.checksum = Checksum::none; },
        [](S& s) { s.timestamps = Timestamps::off; },
        [](S& s) { s.timestamps = Timestamps::exact; },
        [](S& s) { s.features_optional = ~std::uint64_t{0}; },
        [](S& s) { s.slot_count = min_slots; },
        [](S& s) { s.slot_count = max_slots; },
        [](S& s) { s.group_count = 1; },
        [](S& s) { s.group_count = 64; },
        [](S& s) { s.max_record_bytes = 256; },
        [](S& s) { s.max_record_bytes = std::uint64_t{1} << 17; },
        [](S& s) { s.retry_slot_count = s.dead_slot_count = max_slots; },
        [](S& s) { s.mode = 0640; },
        [](S& s) { s.mode = 0660; },
        [](S& s) { s.gid = 0; },
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
        CAPTURE(i);
        Superblock s = test::sample_superblock();
        changes[i](s);
        test::lay_out(s);
        seal_superblock(s);
        const auto got = validate(s);
        INFO("what: ", got ? "" : got.error().what);
        CHECK(got.has_value());
    }
}

TEST_CASE("retry and dead rings have no participants of their own, and may have no groups") {
    for (const RingKind kind : {RingKind::retry, RingKind::dead}) {
        Superblock s = test::sample_superblock(kind);
        s.group_count = 0;
        s.retry_slot_count = s.dead_slot_count = 0;
        test::lay_out(s);
        seal_superblock(s);
        CHECK(validate(s).has_value());
        s.participant_count = max_participants;
        seal_superblock(s);
        CHECK_FALSE(validate(s).has_value());
        s.participant_count = 0;
        s.handle_count = max_handles;
        seal_superblock(s);
        CHECK_FALSE(validate(s).has_value());
    }
}

TEST_CASE("the version that was found is shown, whatever else is wrong with the ring") {
    const auto seen_in = [](const Superblock& s) {
        std::uint64_t seen = 99;
        CHECK_FALSE(validate(s, &seen).has_value());
        return seen;
    };
    Superblock s = test::sample_superblock();
    s.version = 7;
    CHECK(seen_in(s) == 7);  // the checksum does not fit any more: another version may compute it in another way
    s = test::sample_superblock();
    s.magic[7] = 0;
    CHECK(seen_in(s) == 0);
    s = test::sample_superblock();
    s.salt ^= 1;
    CHECK(seen_in(s) == version);
    // A machine of the other byte order wrote 1 and 0x01020304 its own way.
    s = test::sample_superblock();
    s.byte_order = 0x04030201;
    s.version = 0x01000000;
    CHECK(seen_in(s) == 1);
}

TEST_CASE("a file that is shorter than its superblock says is refused") {
    const Superblock s = test::sample_superblock();
    const ByteVector page = test::page_of(s);
    const auto got = validate_superblock(page, s.file_bytes - 1);
    REQUIRE_FALSE(got.has_value());
    CHECK(what(got.error()).find("shorter") != std::string_view::npos);
    CHECK_FALSE(validate_superblock(page, 0).has_value());
    for (std::size_t n = 0; n < sizeof s; ++n) {
        const ByteVector part(page.begin(), page.begin() + static_cast<std::ptrdiff_t>(n));
        const auto cut = validate_superblock(part, n);
        if (cut || cut.error().code != Errc::corrupt) FAIL("cut at ", n);
    }
}

TEST_CASE("the salt changes the checksum") {
    Superblock a = test::sample_superblock();
    const std::uint32_t before = a.superblock_checksum;
    a.salt += 1;
    seal_superblock(a);
    CHECK(a.superblock_checksum != before);
    CHECK(a.superblock_checksum == superblock_checksum_of(a));
}

TEST_CASE("a lease header is accepted as it is and belongs to its ring and group") {
    const LeaseHeader h = test::sample_lease_header();
    std::uint64_t seen = 99;
    const auto got = validate_lease_header(test::page_of(h), h.file_bytes, &seen);
    REQUIRE(got.has_value());
    CHECK(seen == version);
    const Superblock ring = test::sample_superblock();
    CHECK(check_lease_owner(*got, ring, 3, 2).has_value());
    CHECK_FALSE(check_lease_owner(*got, ring, 4, 2).has_value());
    CHECK_FALSE(check_lease_owner(*got, ring, 3, 1).has_value());
    Superblock other = ring;
    other.queue_uuid[0] ^= 1;
    CHECK_FALSE(check_lease_owner(*got, other, 3, 2).has_value());
    other = ring;
    other.ring_uuid[0] ^= 1;
    CHECK_FALSE(check_lease_owner(*got, other, 3, 2).has_value());
    other = ring;
    other.slot_count *= 2;
    CHECK_FALSE(check_lease_owner(*got, other, 3, 2).has_value());
}

TEST_CASE("each byte of a lease table's first page is guarded, by itself or by the ring") {
    const LeaseHeader h = test::sample_lease_header();
    const Superblock ring = test::sample_superblock();
    for (std::size_t i = 0; i < page_bytes; ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            ByteVector page = test::page_of(h);
            page[i] ^= static_cast<std::byte>(1U << bit);
            const auto got = validate_lease_header(page, h.file_bytes);
            if (got && check_lease_owner(*got, ring, h.group, h.life)) FAIL("byte ", i, ", bit ", bit);
        }
    }
}

TEST_CASE("each field of a lease header out of its range is refused for its own reason") {
    using H = LeaseHeader;
    struct Case {
        std::function<void(H&)> apply;
        Errc code;
        const char* text;
    };
    const std::vector<Case> cases = {
        {[](H& h) { h.magic[5] = 'X'; }, Errc::corrupt, "not a rondo lease table"},
        {[](H& h) { h.version = 2; }, Errc::version_mismatch, "version"},
        {[](H& h) { h.group = 64; }, Errc::corrupt, "group"},
        {[](H& h) { h.slot_count = 0; }, Errc::corrupt, "slot count"},
        {[](H& h) { h.slot_count = max_slots * 2; }, Errc::corrupt, "slot count"},
        {[](H& h) { h.slot_count += 1; }, Errc::corrupt, "slot count"},
        {[](H& h) { h.slot_count *= 2; }, Errc::corrupt, "follow"},
        {[](H& h) { h.note_count = ~0U; }, Errc::corrupt, "note count"},
        {[](H& h) { h.file_bytes += 1; }, Errc::corrupt, "file size"},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(i);
        LeaseHeader h = test::sample_lease_header();
        cases[i].apply(h);
        const auto got = validate_lease_header(test::page_of(h), huge_file);
        REQUIRE_FALSE(got.has_value());
        CHECK(got.error().code == cases[i].code);
        CHECK(what(got.error()).find(cases[i].text) != std::string_view::npos);
    }
    const LeaseHeader h = test::sample_lease_header();
    CHECK_FALSE(validate_lease_header(test::page_of(h), h.file_bytes - 1).has_value());
    ByteVector part = test::page_of(h);
    part.resize(sizeof h);
    CHECK(validate_lease_header(part, h.file_bytes).has_value());
    part.resize(sizeof h - 1);
    CHECK_FALSE(validate_lease_header(part, h.file_bytes).has_value());
}
