// SPDX-License-Identifier: MIT
// Exclusive groups and time: nothing lapses, but a message that has been failing or given back for retry_max_age is
// dead; one that was never in a handler's hands is not.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "flow/exclusive_group.hpp"
#include "unit/ring_group.hpp"

using namespace rondo;
using flow::ExclusiveGroup;
using test::GroupBed;

namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t max_age = 100 * second;
constexpr std::uint64_t wall = 1'700'000'000 * second;

struct Bed : GroupBed {
    Bed() : GroupBed(0), policy(test::policy_of(format::GroupMode::exclusive)) {
        policy.retry_max_age_ns = max_age;
        policy.max_deliveries = 0;
        policy.backoff_initial_ns = 0;
    }
    ExclusiveGroup member() {
        return {m.view, m.groups[0], 0, life, "group", format::pack_owner(1, 1), policy, dead_ring(), super, 16};
    }
    flow::GroupPolicy policy;
};

flow::Failure failure(format::Outcome outcome, std::uint64_t started_ns) {
    flow::Failure f;
    f.outcome = outcome;
    f.reason.code = "code";
    f.started_ns = started_ns;
    f.ended_ns = started_ns;
    f.started_mono_ns = started_ns == 0 ? 0 : second + started_ns - wall;
    return f;
}

ExclusiveGroup::Clock at(std::uint64_t age) { return {second + age, wall + age}; }

}  // namespace

TEST_CASE("a message that fails for retry_max_age is dead at the failure that reaches it, for that reason") {
    Bed bed;
    auto g = bed.member();
    bed.put(1);
    const Seq second_message = bed.put(2);
    ExclusiveGroup::Handed h;
    for (const std::uint64_t age : {std::uint64_t{0}, max_age / 2, max_age - 1, max_age}) {
        CAPTURE(age);
        REQUIRE(g.next(at(age), {}, h) == ExclusiveGroup::Next::handed);
        CHECK(h.position == 0);
        CHECK(g.fail(h.position, h.session, failure(format::Outcome::nacked, wall + age), at(age)) ==
              ExclusiveGroup::Settled::ok);
    }
    const auto dead = bed.dead_letters();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::retry_timeout);
    CHECK(dead[0].delivery_count == 4);
    REQUIRE(g.next(at(max_age), {}, h) == ExclusiveGroup::Next::handed);
    CHECK(h.position == second_message);
    CHECK(h.attempts == 1);
}

TEST_CASE("a message that is only ever released is dead after retry_max_age, so that it cannot loop for ever") {
    Bed bed;
    auto g = bed.member();
    bed.put(1);
    ExclusiveGroup::Handed h;
    for (const std::uint64_t age : {std::uint64_t{0}, max_age / 2, max_age}) {
        REQUIRE(g.next(at(age), {}, h) == ExclusiveGroup::Next::handed);
        CHECK(h.attempts == 1);
        CHECK(g.release(h.position, h.session, failure(format::Outcome::released, wall + age), at(age)) ==
              ExclusiveGroup::Settled::ok);
    }
    const auto dead = bed.dead_letters();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::retry_timeout);
    CHECK(dead[0].release_count == 3);
}

TEST_CASE("a message given back before anybody saw it has no age") {
    for (const bool dropped : {true, false}) {
        CAPTURE(dropped);
        Bed bed;
        auto g = bed.member();
        bed.put(1);
        ExclusiveGroup::Handed h;
        REQUIRE(g.next(at(0), {}, h) == ExclusiveGroup::Next::handed);
        const auto f = failure(format::Outcome::released, 0);  // no hand-over, no time of one
        if (dropped) {
            CHECK(g.drop(h.position, h.session, f, at(0)));
        } else {
            CHECK(g.release(h.position, h.session, f, at(0)) == ExclusiveGroup::Settled::ok);
        }
        CHECK(bed.dead_letters().empty());
        REQUIRE(g.next(at(2 * max_age), {}, h) == ExclusiveGroup::Next::handed);
        CHECK(h.position == 0);
        CHECK(h.attempts == 1);
        // Its time begins with its first handler.
        CHECK(g.fail(h.position, h.session, failure(format::Outcome::nacked, wall + 2 * max_age), at(2 * max_age)) ==
              ExclusiveGroup::Settled::ok);
        CHECK(bed.dead_letters().empty());
    }
}

TEST_CASE("a wall clock that steps, either way, makes nobody old") {
    for (const bool back : {true, false}) {
        CAPTURE(back);
        Bed bed;
        auto g = bed.member();
        bed.put(1);
        ExclusiveGroup::Handed h;
        REQUIRE(g.next(at(0), {}, h) == ExclusiveGroup::Next::handed);
        CHECK(g.fail(h.position, h.session, failure(format::Outcome::nacked, wall), at(0)) ==
              ExclusiveGroup::Settled::ok);
        REQUIRE(g.next(at(1), {}, h) == ExclusiveGroup::Next::handed);
        const ExclusiveGroup::Clock stepped{second + 2, back ? wall - 1000 * second : wall + 1000 * second};
        auto f = failure(format::Outcome::nacked, stepped.wall_ns);
        f.started_mono_ns = second + 1;
        CHECK(g.fail(h.position, h.session, f, stepped) == ExclusiveGroup::Settled::ok);
        CHECK(bed.dead_letters().empty());
    }
}

TEST_CASE("the last allowed attempt dies of the limit, not of age, and a rejected one of neither") {
    for (const bool rejected : {true, false}) {
        Bed bed;
        bed.policy.max_deliveries = 1;
        auto g = bed.member();
        bed.put(1);
        ExclusiveGroup::Handed h;
        REQUIRE(g.next(at(0), {}, h) == ExclusiveGroup::Next::handed);
        const auto outcome = rejected ? format::Outcome::rejected : format::Outcome::nacked;
        CHECK(g.fail(h.position, h.session, failure(outcome, wall), at(2 * max_age)) == ExclusiveGroup::Settled::ok);
        const auto dead = bed.dead_letters();
        REQUIRE(dead.size() == 1);
        CHECK(dead[0].reason == (rejected ? DeadReason::rejected : DeadReason::max_deliveries));
    }
}

TEST_CASE("a message released for retry_max_age dies of age, also at its last allowed delivery") {
    Bed bed;
    bed.policy.max_deliveries = 1;
    auto g = bed.member();
    bed.put(1);
    ExclusiveGroup::Handed h;
    for (const std::uint64_t age : {std::uint64_t{0}, max_age}) {
        REQUIRE(g.next(at(age), {}, h) == ExclusiveGroup::Next::handed);
        CHECK(g.release(h.position, h.session, failure(format::Outcome::released, wall + age), at(age)) ==
              ExclusiveGroup::Settled::ok);
    }
    const auto dead = bed.dead_letters();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::retry_timeout);
}
