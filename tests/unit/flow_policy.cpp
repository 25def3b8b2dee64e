// SPDX-License-Identifier: MIT
// What a group's options come to after a failure: the wait before the next attempt, and when there is none.
#include "flow/policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "format/validate.hpp"
#include "rondo/rondo.hpp"
#include "support/seed.hpp"

using namespace rondo;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t ms = 1'000'000;

flow::GroupPolicy policy(std::uint64_t initial, double multiplier, std::uint64_t max, format::Jitter jitter) {
    flow::GroupPolicy p;
    p.backoff_initial_ns = initial;
    p.backoff_multiplier = multiplier;
    p.backoff_max_ns = max;
    p.jitter = jitter;
    return p;
}

}  // namespace

TEST_CASE("without jitter each wait is the last one times the multiplier, up to the largest") {
    base::BackoffRng rng(1);
    const auto p = policy(100 * ms, 2.0, 1000 * ms, format::Jitter::none);
    const std::uint64_t expected[] = {100, 200, 400, 800, 1000, 1000};
    for (std::uint32_t n = 1; n <= 6; ++n) CHECK(p.backoff_after(n, rng) == expected[n - 1] * ms);
    CHECK(p.backoff_after(1023, rng) == 1000 * ms);
    const auto flat = policy(7 * ms, 1.0, 1000 * ms, format::Jitter::none);
    for (const std::uint32_t n : {1U, 2U, 1023U}) CHECK(flat.backoff_after(n, rng) == 7 * ms);
    const auto steep = policy(1, 10.0, ~std::uint64_t{0} / 4, format::Jitter::none);
    for (std::uint32_t n = 2; n < 100; ++n) CHECK(steep.backoff_after(n, rng) >= steep.backoff_after(n - 1, rng));
}

TEST_CASE("no backoff is no wait, however often and with whatever jitter") {
    base::BackoffRng rng(1);
    for (const auto jitter : {format::Jitter::none, format::Jitter::equal, format::Jitter::full}) {
        const auto p = policy(0, 10.0, 60'000 * ms, jitter);
        for (const std::uint32_t n : {1U, 2U, 10U, 1023U}) CHECK(p.backoff_after(n, rng) == 0);
    }
}

TEST_CASE("equal jitter lies in the upper half of the wait, full jitter in all of it, and both spread") {
    base::BackoffRng rng(test::seed());
    for (const auto jitter : {format::Jitter::equal, format::Jitter::full}) {
        const auto p = policy(100 * ms, 2.0, 60'000 * ms, jitter);
        for (const std::uint32_t n : {1U, 3U}) {
            const std::uint64_t full = 100 * ms << (n - 1);
            const std::uint64_t low = jitter == format::Jitter::equal ? full / 2 : 0;
            std::vector<std::uint64_t> tenths(10, 0);
            for (int i = 0; i < 2000; ++i) {
                const std::uint64_t wait = p.backoff_after(n, rng);
                REQUIRE(wait >= low);
                REQUIRE(wait <= full);
                ++tenths[std::min<std::uint64_t>((wait - low) * 10 / (full - low), 9)];
            }
            // 200 each on average; the bound is ten standard deviations away.
            for (const auto count : tenths) CHECK(count > 70);
        }
    }
}

TEST_CASE("attempts are spent at the limit, and never without one") {
    flow::GroupPolicy p;
    for (const std::uint32_t limit : {1U, 3U, 1000U}) {
        p.max_deliveries = limit;
        CHECK_FALSE(p.spent(0));
        CHECK_FALSE(p.spent(limit - 1));
        CHECK(p.spent(limit));
        CHECK(p.spent(limit + 1));
    }
    p.max_deliveries = 0;
    for (const std::uint32_t n : {0U, 1U, 1023U}) CHECK_FALSE(p.spent(n));
}

TEST_CASE("a policy reads from the block what was asked for, to the nanosecond") {
    const auto resolved = format::resolve({.mode = GroupMode::shared,
                                           .start = Start::earliest(),
                                           .lease_timeout = 20ms + 1ns,
                                           .max_lease_total = 1h + 1ns,
                                           .max_deliveries = -1,
                                           .backoff_initial = 3ns,
                                           .backoff_multiplier = 2.5,
                                           .backoff_max = 5ns,
                                           .jitter = Jitter::full,
                                           .retry_max_age = 2h,
                                           .max_in_flight = 7,
                                           .max_in_flight_group = 9,
                                           .max_dead_pending = 11},
                                          4096);
    const auto block = std::make_unique<format::Group>();
    block->mode.store(static_cast<std::uint32_t>(resolved.mode));
    block->jitter.store(static_cast<std::uint32_t>(resolved.jitter));
    block->lease_timeout_ns.store(resolved.lease_timeout_ns);
    block->max_lease_total_ns.store(resolved.max_lease_total_ns);
    block->max_deliveries.store(resolved.max_deliveries);
    block->backoff_initial_ns.store(resolved.backoff_initial_ns);
    block->backoff_multiplier_milli.store(resolved.backoff_multiplier_milli);
    block->backoff_max_ns.store(resolved.backoff_max_ns);
    block->retry_max_age_ns.store(resolved.retry_max_age_ns);
    block->max_in_flight_consumer.store(resolved.max_in_flight_consumer);
    block->max_in_flight_group.store(resolved.max_in_flight_group);
    block->max_dead_pending.store(resolved.max_dead_pending);
    const auto p = flow::GroupPolicy::read(*block);
    CHECK(p.mode == format::GroupMode::shared);
    CHECK(p.lease_ns == 20 * ms + 1);
    CHECK(p.lease_total_ns == 3'600'000 * ms + 1);
    CHECK(p.max_deliveries == 0);
    CHECK(p.backoff_initial_ns == 3);
    CHECK(p.backoff_multiplier == 2.5);
    CHECK(p.backoff_max_ns == 5);
    CHECK(p.jitter == format::Jitter::full);
    CHECK(p.retry_max_age_ns == 7'200'000 * ms);
    CHECK(p.in_flight_consumer == 7);
    CHECK(p.in_flight_group == 9);
    CHECK(p.dead_pending_max == 11);
}
