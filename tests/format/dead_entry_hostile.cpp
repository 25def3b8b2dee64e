// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A dead entry that is not exactly what was written is refused, and read without leaving its bytes. Entries lie in
// vectors of exactly their size, so that the address sanitizer sees a step outside.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "format/dead_entry.hpp"
#include "samples.hpp"
#include "support/seed.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::ByteVector;
using rondo::test::head_of;

namespace {

// Makes a damaged entry look whole, so that the checks behind the checksum are reached.
void seal(ByteVector& bytes) {
    const std::span<const std::byte> all(bytes);
    const std::uint32_t checksum = base::checksum32(all.first(8), all.subspan(12), 0);
    std::memcpy(bytes.data() + 8, &checksum, sizeof checksum);
}

ByteVector with_head(const std::function<void(DeadEntryHead&)>& change) {
    ByteVector bytes = test::encoded(test::full_dead_entry());
    DeadEntryHead h = head_of(bytes);
    change(h);
    std::memcpy(bytes.data(), &h, sizeof h);
    seal(bytes);
    return bytes;
}

}  // namespace

TEST_CASE("each byte is guarded: flipped in any bit, the entry is refused") {
    const ByteVector good = test::encoded(test::full_dead_entry());
    for (std::size_t i = 0; i < good.size(); ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            ByteVector bytes = good;
            bytes[i] ^= static_cast<std::byte>(1U << bit);
            const auto got = decode_dead_entry(bytes);
            if (got) FAIL("byte ", i, ", bit ", bit);
            const Errc expected = i >= 4 && i < 8 ? Errc::version_mismatch : Errc::corrupt;
            if (got.error().code != expected) FAIL("byte ", i, ": ", got.error().what);
        }
    }
}

TEST_CASE("cut short at any length, or longer than it was, the entry is refused, also under a right checksum") {
    const ByteVector good = test::encoded(test::full_dead_entry());
    for (std::size_t n = 0; n < good.size(); ++n) {
        ByteVector bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n));
        if (decode_dead_entry(bytes)) FAIL("cut at ", n);
        if (n < sizeof(DeadEntryHead)) {
            CHECK_FALSE(dead_entry_identity(bytes).has_value());
            continue;
        }
        seal(bytes);
        if (decode_dead_entry(bytes)) FAIL("sealed, cut at ", n);
    }
    ByteVector longer = good;
    longer.push_back(std::byte{0});
    seal(longer);
    CHECK_FALSE(decode_dead_entry(longer).has_value());
}

TEST_CASE("each field out of its range is refused for its own reason, also under a right checksum") {
    using H = DeadEntryHead;
    struct Case {
        const char* name;
        std::function<void(H&)> change;
        Errc code;
        const char* text;
    };
    constexpr Errc corrupt = Errc::corrupt;
    std::vector<Case> cases = {
        {"magic", [](H& h) { h.magic[3] = 'F'; }, corrupt, "not one"},
        {"version 0", [](H& h) { h.version = 0; }, Errc::version_mismatch, "version"},
        {"version 2", [](H& h) { h.version = 2; }, Errc::version_mismatch, "version"},
        {"flags", [](H& h) { h.flags |= dead_flags_known + 1; }, corrupt, "flag"},
        {"epoch", [](H& h) { h.epoch = 0x10000; }, corrupt, "epoch"},
        {"reason 0", [](H& h) { h.reason = DeadReason{0}; }, corrupt, "reason"},
        {"reason 8", [](H& h) { h.reason = DeadReason{8}; }, corrupt, "reason"},
        {"attempts 9", [](H& h) { h.attempt_count = 9; }, corrupt, "too many attempts"},
        {"attempts -1", [](H& h) { h.attempt_count = ~0U; }, corrupt, "too many attempts"},
        {"attempts fewer", [](H& h) { h.attempt_count -= 1; }, corrupt, "add up"},
        {"extensions", [](H& h) { h.extension_bytes = ~0U; }, corrupt, "add up"},
        {"payload", [](H& h) { h.payload_bytes += 1; }, corrupt, "add up"},
        {"payload 2^63", [](H& h) { h.payload_bytes = std::uint64_t{1} << 63; }, corrupt, "payload larger"},
        {"payload wraps", [](H& h) { h.payload_bytes = 0 - std::uint64_t{64}; }, corrupt, "payload larger"},
        {"payload checksum", [](H& h) { h.payload_checksum ^= 1; }, corrupt, "checksum of the payload"},
        {"reserved0", [](H& h) { h.reserved0 = 1; }, corrupt, "reserved"},
        {"reserved1", [](H& h) { h.reserved1[1] = 1; }, corrupt, "reserved"},
    };
    for (std::size_t i = 0; i < dead_text_count; ++i) {
        cases.push_back({"text",
                         [i](H& h) { h.text_bytes[i] = static_cast<std::uint16_t>(max_dead_text_bytes[i] + 1); },
                         corrupt, "text too long"});
    }
    for (const Case& c : cases) {
        CAPTURE(c.name);
        const auto got = decode_dead_entry(with_head(c.change));
        REQUIRE_FALSE(got.has_value());
        INFO("what: ", got.error().what);
        CHECK(got.error().code == c.code);
        CHECK(std::string_view(got.error().what).find(c.text) != std::string_view::npos);
    }
    // Damage behind the head. Zeros follow the texts and, with 17 bytes of them, the extensions.
    const ByteVector odd(17), payload(16);
    DeadEntry e = test::full_dead_entry();
    e.code = e.code.substr(0, 8);
    e.extensions = odd;
    e.payload = payload;
    const ByteVector padded = test::encoded(e);
    const DeadEntryHead h = head_of(padded);
    std::size_t texts_end = sizeof h + h.attempt_count * sizeof(Attempt);
    for (const std::uint16_t n : h.text_bytes) texts_end += n;
    REQUIRE(texts_end % 16 != 0);
    for (const std::size_t at : {texts_end, padded.size() - payload.size() - 15, padded.size() - payload.size() - 1}) {
        ByteVector damaged = padded;
        damaged[at] = std::byte{1};
        seal(damaged);
        const auto got = decode_dead_entry(damaged);
        REQUIRE_FALSE(got.has_value());
        CHECK(std::string_view(got.error().what).find("padding") != std::string_view::npos);
    }
    ByteVector bytes = test::encoded(test::full_dead_entry());
    const std::uint32_t bad_outcome = 99, reserved = 1;
    std::memcpy(bytes.data() + sizeof(H) + offsetof(Attempt, outcome), &bad_outcome, 4);
    seal(bytes);
    CHECK_FALSE(decode_dead_entry(bytes).has_value());
    bytes = test::encoded(test::full_dead_entry());
    std::memcpy(bytes.data() + sizeof(H) + offsetof(Attempt, reserved0), &reserved, 4);
    seal(bytes);
    CHECK_FALSE(decode_dead_entry(bytes).has_value());
}

TEST_CASE("hostile entries are read without leaving their bytes: random changes under a right checksum, fixed seed") {
    test::Rng rng(20240118);
    const ByteVector good = test::encoded(test::full_dead_entry());
    int accepted = 0;
    for (int round = 0; round < 20000; ++round) {
        ByteVector bytes = good;
        if (rng.one_in(8)) bytes.resize(rng.between(0, good.size() + 40));
        for (std::uint64_t n = rng.between(1, 4); n != 0 && !bytes.empty(); --n) {
            const std::size_t reach = rng.one_in(2) ? std::min(bytes.size(), sizeof(DeadEntryHead)) : bytes.size();
            bytes[rng.below(reach)] = static_cast<std::byte>(rng.below(256));
        }
        if (bytes.size() >= 12) seal(bytes);
        const auto got = decode_dead_entry(bytes);
        if (!got) continue;
        ++accepted;
        REQUIRE(got->payload.size() <= bytes.size());
        REQUIRE(got->headers.size() <= bytes.size());
    }
    CHECK(accepted > 100);  // the loop does reach the parts behind the checks
}
