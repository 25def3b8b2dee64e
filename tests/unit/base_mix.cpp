// SPDX-License-Identifier: MIT
#include "base/mix.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <set>

#include "base/backoff_rng.hpp"
#include "support/seed.hpp"

using rondo::base::BackoffRng;
using rondo::base::mix64;
using rondo::base::unmix64;

TEST_CASE("mix64 can be undone, so no two positions share a stamp") {
    auto rng = rondo::test::rng();
    for (int i = 0; i < 100000; ++i) {
        const std::uint64_t x = rng();
        REQUIRE(unmix64(mix64(x)) == x);
        REQUIRE(mix64(unmix64(x)) == x);
    }
    for (const std::uint64_t x : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX, std::uint64_t{1} << 63}) {
        CHECK(unmix64(mix64(x)) == x);
    }
}

TEST_CASE("mix64 is the published finaliser of splitmix64") {
    // The generator's first outputs for seed 0 are the finaliser of multiples of its increment.
    static_assert(mix64(0x9e3779b97f4a7c15U) == 0xe220a8397b1dcdafU);
    static_assert(mix64(0x3c6ef372fe94f82aU) == 0x6e789e6aa1b965f4U);
    static_assert(mix64(0) == 0);
}

TEST_CASE("neighbouring positions have stamps that differ in about half of their bits") {
    int differing = 0;
    for (std::uint64_t p = 0; p < 10000; ++p) differing += std::popcount(mix64(p) ^ mix64(p + 1));
    CHECK(differing > 10000 * 31);
    CHECK(differing < 10000 * 33);
}

TEST_CASE("a backoff generator repeats its numbers for the same seed and differs for another") {
    BackoffRng first(7);
    BackoffRng again(7);
    BackoffRng other(8);
    bool differs = false;
    for (int i = 0; i < 100; ++i) {
        const auto number = first.next();
        REQUIRE(number == again.next());
        differs = differs || number != other.next();
    }
    CHECK(differs);
}

TEST_CASE("backoff numbers stay within their bounds and reach both") {
    BackoffRng rng(rondo::test::seed());
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(rng.between(10, 13));
    CHECK(seen == std::set<std::uint64_t>{10, 11, 12, 13});
    CHECK(rng.between(5, 5) == 5);
    CHECK(rng.between(6, 5) == 6);
    for (int i = 0; i < 100; ++i) REQUIRE(rng.between(UINT64_MAX - 1, UINT64_MAX) >= UINT64_MAX - 1);
    (void)rng.between(0, UINT64_MAX);
}
