// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The packed words: what goes in comes out, at every border of every field.
#include "format/words.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

#include "base/mix.hpp"
#include "support/seed.hpp"

using namespace rondo;
using namespace rondo::format;

TEST_CASE("every slot count up to 2^22 rounds up to a codable one that is at most 0.2 % larger") {
    std::uint64_t worst_k = 1, worst_more = 0;
    for (std::uint64_t k = 1; k <= 1 << 22; ++k) {
        const std::uint64_t up = round_up_slots(k);
        const std::uint32_t code = encode_slots(up);
        if (up < k || code >= 1 << 14 || decode_slots(code) != up || round_up_slots(up) != up) {
            FAIL("k = ", k, ", rounded to ", up, ", code ", code);
        }
        if ((up - k) * worst_k > worst_more * k) {
            worst_k = k;
            worst_more = up - k;
        }
    }
    CAPTURE(worst_k);
    CHECK(worst_more * 1000 <= worst_k * 2);
}

TEST_CASE("padding of any length up to 2^22 slots takes at most three pieces") {
    for (std::uint64_t k = 1; k <= 1 << 22; ++k) {
        std::uint64_t left = k;
        int pieces = 0;
        for (; left != 0 && pieces <= 3; ++pieces) {
            const std::uint64_t piece = round_down_slots(left);
            if (piece == 0 || piece > left || decode_slots(encode_slots(piece)) != piece) {
                FAIL("k = ", k, ", piece ", piece, " of ", left);
            }
            left -= piece;
        }
        if (left != 0 || pieces > 3) FAIL("k = ", k, " takes more than three pieces");
    }
}

TEST_CASE("the largest slot count is 1023 * 2^15") {
    CHECK(round_up_slots(max_claim_slots) == max_claim_slots);
    CHECK(decode_slots(encode_slots(max_claim_slots)) == max_claim_slots);
    CHECK(round_down_slots(max_claim_slots + 1) == max_claim_slots);
    CHECK(round_down_slots(~std::uint64_t{0}) == max_claim_slots);
    // The step below it.
    CHECK(round_down_slots(max_claim_slots - 1) == std::uint64_t{1022} << 15);
    // A payload of 16 MiB fits into an eighth of 256 MiB.
    const std::uint64_t record = round_up_slots((std::uint64_t{16} << 20) / 64 + 1);
    CHECK(record <= (std::uint64_t{256} << 20) / 64 / 8);
}

TEST_CASE("a decoded slot code is never above the largest count, whatever the 14 bits are") {
    for (std::uint32_t code = 0; code < 1 << 14; ++code) {
        if (decode_slots(code) > max_claim_slots) FAIL("code ", code);
    }
    CHECK(decode_slots(0) == 0);
}

TEST_CASE("a claim word gives back its parts") {
    for (const std::uint64_t lap1 : {std::uint64_t{0}, std::uint64_t{1}, max_lap1 / 2, max_lap1}) {
        for (const std::uint32_t owner : {0U, 1U, 512U, 1023U}) {
            for (const std::uint64_t slots :
                 {std::uint64_t{1}, std::uint64_t{1023}, std::uint64_t{1024}, max_claim_slots}) {
                const ClaimWord w = unpack_claim(pack_claim(lap1, owner, slots));
                CHECK(w.lap1 == lap1);
                CHECK(w.owner == owner);
                CHECK(w.slots == slots);
            }
        }
    }
}

TEST_CASE("a lease word and a due word give back their parts") {
    auto rng = test::Rng(1);
    for (int i = 0; i < 10000; ++i) {
        const LeaseWord in{rng.between(0, max_lap1), static_cast<EntryState>(rng.below(8)),
                           static_cast<std::uint32_t>(rng.below(1024)), static_cast<std::uint32_t>(rng.below(1024))};
        const LeaseWord out = unpack_lease(pack_lease(in));
        REQUIRE(out.lap1 == in.lap1);
        REQUIRE(out.state == in.state);
        REQUIRE(out.owner == in.owner);
        REQUIRE(out.attempts == in.attempts);

        const DueWord due{rng.between(0, max_due), in.owner, in.attempts};
        const DueWord back = unpack_due(pack_due(due));
        REQUIRE(back.value == due.value);
        REQUIRE(back.owner == due.owner);
        REQUIRE(back.attempts == due.attempts);
    }
    const DueWord far = unpack_due(pack_due({max_due, 1023, max_attempts}));
    CHECK(far.value == max_due);
}

TEST_CASE("a record head gives back its parts") {
    for (const std::uint32_t payload : {0U, 1U, ~0U}) {
        for (const std::uint64_t slots : {std::uint64_t{1}, std::uint64_t{1022} << 15, max_claim_slots}) {
            for (const RecordType type : {RecordType::message, RecordType::pad, RecordType::void_claim}) {
                for (const std::uint8_t flags :
                     {std::uint8_t{0}, flag_extensions, flag_batch_more, std::uint8_t{255}}) {
                    const RecordHead h = unpack_head(pack_head({payload, slots, type, flags}));
                    CHECK(h.payload_bytes == payload);
                    CHECK(h.slots == slots);
                    CHECK(h.type == type);
                    CHECK(h.flags == flags);
                }
            }
        }
    }
}

TEST_CASE("a limit, a retry word and an owner word give back their parts") {
    const Seq last = (Seq{1} << position_bits) - 1;
    for (const Seq position : {Seq{0}, Seq{4096}, last}) {
        CHECK(limit_position(pack_limit(position, join_generations - 1)) == position);
        CHECK(limit_generation(pack_limit(position, join_generations - 1)) == join_generations - 1);
        CHECK(retry_position(pack_retry(position, max_attempts)) == position);
        CHECK(retry_attempts(pack_retry(position, max_attempts)) == max_attempts);
        CHECK(retry_set(pack_retry(position, 0)));  // also of position 0 without attempts
    }
    CHECK_FALSE(retry_set(0));
    CHECK(owner_participant(pack_owner(1023, 2048)) == 1023);
    CHECK(owner_low(pack_owner(1023, 2048)) == 2048);
}

TEST_CASE("positions end before any field overflows, in the smallest and the largest ring") {
    for (std::uint64_t slots = 64; slots <= max_slots; slots *= 2) {
        const Seq end = end_of_positions(slots);
        CAPTURE(slots);
        CHECK(end % slots == 0);
        CHECK(lap1_of(end - 1, slots) < max_lap1);
        // What a limit may become: one ring length behind the end.
        CHECK(end + slots < Seq{1} << position_bits);
        CHECK(lap1_of(end + slots - 1, slots) <= max_lap1);
    }
    CHECK(lap1_of(0, 64) == 1);
    CHECK(lap1_of(63, 64) == 1);
    CHECK(lap1_of(64, 64) == 2);
}

TEST_CASE("the stamp of a position is that of no other position, and says which one it is") {
    auto rng = test::Rng(2);
    for (int i = 0; i < 10000; ++i) {
        const Seq position = rng();
        const std::uint64_t salt = rng();
        REQUIRE((base::unmix64(stamp_of(position, salt)) ^ salt) == position);
        REQUIRE(stamp_of(position, salt) != stamp_of(position + 4096, salt));
    }
}
