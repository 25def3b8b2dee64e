// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Which deaths count as the same cause, and what reasons, states and outcomes are called.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

#include "format/dead_entry.hpp"

using namespace rondo;
using namespace rondo::format;

namespace {

std::uint64_t fingerprint(std::string_view message) {
    return fingerprint_of(DeadReason::rejected, "type", "code", "stage", message);
}

}  // namespace

TEST_CASE("numbers, addresses and identifiers do not tell causes apart; words do") {
    CHECK(fingerprint("order 17 failed after 3 tries") == fingerprint("order 4711 failed after 12 tries"));
    CHECK(fingerprint("at 0x7ffd12ab") == fingerprint("at 0xdeadbeef"));
    CHECK(fingerprint("at 0xabc") == fingerprint("at 0xdef"));
    CHECK(fingerprint("commit 9fceb02d0ae5") == fingerprint("commit 1a2b3c"));
    CHECK(fingerprint("job42 died") == fingerprint("job7 died"));
    CHECK(fingerprint("id 123e4567-e89b-12d3-a456-426614174000") ==
          fingerprint("id abcdefab-cdef-abcd-efab-cdefabcdefab"));
    CHECK(fingerprint("took 1.5s") == fingerprint("took 20.25s"));
    CHECK(fingerprint("123e4567-e89b-12d3-a456-426614174000xyz") == fingerprint("1-2-3-4-5xyz"));  // no identifier
    CHECK(fingerprint("123e4567-e89b-12d3-a456-42661417400") == fingerprint("1-2-3-4-5"));
    CHECK(fingerprint("could not find the price of this one order") !=
          fingerprint("could not read the buyer of this new order"));
    CHECK(fingerprint("id abcdefab-cdef-abcd-efab-cdefabcdefab x") == fingerprint("id 1 x"));
    CHECK(fingerprint("") != fingerprint("x"));
    CHECK(fingerprint("no price") != fingerprint("no name"));
    CHECK(fingerprint("added") != fingerprint("faded"));
    CHECK(fingerprint("job died") != fingerprint("job7 died"));
    CHECK(fingerprint("x\xc3\xa9") != fingerprint("x\xc3\xa8"));

    // Hexadecimal ends at f, a word at z; 0x alone is no address.
    for (const char* number : {"1f", "2a", "3F", "4A", "af1", "AF1", "Aab1", "0xf", "0XF", "09"}) {
        CAPTURE(number);
        CHECK(fingerprint(number) == fingerprint("1"));
    }
    for (const char* word : {"1g", "1G", "g1", "zab1", "Zab1", "zz1", "0zab", "0x", "x1", "ab", "0xg", "ab_"}) {
        CAPTURE(word);
        CHECK(fingerprint(word) != fingerprint("1"));
    }
    CHECK(fingerprint("job7") != fingerprint("run7"));
    CHECK(fingerprint("1g") != fingerprint("1h"));
    CHECK(fingerprint("zab1") != fingerprint("z1"));
    CHECK(fingerprint("Zab1") != fingerprint("Z1"));
    CHECK(fingerprint("0x") == fingerprint("1x"));
    CHECK(fingerprint("x12y345") == fingerprint("x1y2"));

    const auto of = [](DeadReason reason, const char* type, const char* code, const char* stage) {
        return fingerprint_of(reason, type, code, stage, "m");
    };
    const auto base = of(DeadReason::rejected, "t", "c", "s");
    CHECK(base != of(DeadReason::max_deliveries, "t", "c", "s"));
    CHECK(base != of(DeadReason::rejected, "u", "c", "s"));
    CHECK(base != of(DeadReason::rejected, "t", "d", "s"));
    CHECK(base != of(DeadReason::rejected, "t", "c", "r"));
    CHECK(of(DeadReason::rejected, "tc", "", "s") != of(DeadReason::rejected, "t", "c", "s"));
    CHECK(of(DeadReason::rejected, "t", "signal_9", "s") != of(DeadReason::rejected, "t", "signal_11", "s"));
    // Longer than an entry keeps: the same as what it keeps, so that it can be computed again from the entry.
    const std::string text(5000, 'y');
    CHECK(fingerprint_of(DeadReason::rejected, text, text, text, text) ==
          fingerprint_of(DeadReason::rejected, text.substr(0, 128), text.substr(0, 64), text.substr(0, 32),
                         text.substr(0, 1024)));
}

TEST_CASE("every reason, state and outcome has its word") {
    const std::pair<DeadReason, const char*> reasons[] = {
        {DeadReason::rejected, "rejected"},
        {DeadReason::max_deliveries, "max_deliveries"},
        {DeadReason::retry_timeout, "retry_timeout"},
        {DeadReason::owner_died_limit, "owner_died_limit"},
        {DeadReason::lease_expired_limit, "lease_expired_limit"},
        {DeadReason::corrupt, "corrupt"},
        {DeadReason::operator_request, "operator"},
    };
    for (const auto& [reason, word] : reasons) {
        CHECK(std::string_view(to_string(reason)) == word);
        CHECK(dead_reason_of(word) == reason);
    }
    CHECK_FALSE(dead_reason_of("").has_value());
    CHECK_FALSE(dead_reason_of("unknown").has_value());
    const std::string_view states[] = {"open", "redriving", "redriven", "discarded"};
    for (std::uint32_t i = 0; i < 4; ++i) CHECK(to_string(static_cast<DeadState>(i + 1)) == states[i]);
    const std::string_view outcomes[] = {"none",     "acked",         "nacked",     "rejected",
                                         "released", "lease_expired", "owner_died", "dead_lettered",
                                         "redriven", "discarded",     "skipped"};
    for (std::uint32_t i = 0; i < 11; ++i) CHECK(to_string(static_cast<Outcome>(i)) == outcomes[i]);
    CHECK(std::string_view(to_string(static_cast<Outcome>(99))) == "unknown");
    CHECK(std::string_view(to_string(static_cast<DeadState>(99))) == "unknown");
    CHECK(std::string_view(to_string(static_cast<DeadReason>(99))) == "unknown");
}
