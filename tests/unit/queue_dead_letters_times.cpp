// ctest: HOOKS
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The times and names in a dead letter's story: right also when nobody told how an attempt ended.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>

#include "os/clock.hpp"
#include "unit/queue_dead_letters.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::uint64_t second = 1'000'000'000;

/// Lets this process's clocks jump ahead, until the end of the test.
struct Later {
    explicit Later(std::uint64_t ns) {
        const auto offset = static_cast<std::int64_t>(ns);
        os::set_clock_offsets(offset, offset);
    }
    Later(const Later&) = delete;
    Later& operator=(const Later&) = delete;
    ~Later() { os::set_clock_offsets(0, 0); }
};

/// Within the coarse clock's step, a hundred times over for a slow machine: a tenth of what the tests below jump.
bool near(std::uint64_t a, std::uint64_t b) { return (a > b ? a - b : b - a) < second; }

}  // namespace

TEST_CASE("an attempt whose lease lapsed long ago began when the message was handed over") {
    Fixture f;
    auto o = Fixture::options();
    o.lease_timeout = 1s;
    o.max_deliveries = 2;
    auto a = f.consumer("g", o, "first");
    auto b = f.consumer("g", o, "second");
    f.publish();
    const auto handed = os::wall_ns();
    Message held = next(b);
    const Later later(10 * second);
    CHECK(next(a).reject({.code = "c"}));
    const auto d = f.list().at(0);
    REQUIRE(d.attempts.size() == 2);
    CHECK(d.attempts[0].outcome == format::Outcome::lease_expired);
    CHECK(near(d.attempts[0].started_ns, handed));
    CHECK(near(d.attempts[0].ended_ns, handed + 10 * second));
    CHECK(near(d.attempts[1].started_ns, handed + 10 * second));
    CHECK(near(d.first_delivered_ns, handed));
    CHECK(d.last_delivered_ns == d.attempts[1].started_ns);
}

TEST_CASE("a queue with exact timestamps never tells of a hand-over before the message was accepted") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f({.timestamps = Timestamps::exact});
        auto c = f.consumer("g", Fixture::options(mode));
        for (int i = 0; i < 200; ++i) {
            const auto before = os::wall_ns();
            f.publish();
            CHECK(next(c).reject({.code = "c"}));
            const auto d = f.list().back();
            REQUIRE(d.accepted_ns >= before);
            REQUIRE(d.first_delivered_ns >= d.accepted_ns);
            REQUIRE(d.attempts.at(0).ended_ns >= d.attempts[0].started_ns);
            REQUIRE(d.dead_ns >= d.attempts[0].ended_ns);
        }
    }
}

TEST_CASE("a redriven message's age goes on from when it was accepted first") {
    Fixture f;
    auto c = f.consumer("g");
    const auto published = os::wall_ns();
    f.publish();
    CHECK(next(c).reject({.code = "c"}));
    CHECK(near(f.list().at(0).first_accepted_ns, published));
    const Later later(10 * second);
    for (int round = 0; round < 2; ++round) {
        CHECK(f.letters.redrive({}, true).value().count == 1);
        CHECK(next(c).reject({.code = "c"}));
        const auto d = f.list().back();
        CHECK(d.state == DeadState::open);
        CHECK(near(d.accepted_ns, published + 10 * second));
        CHECK(near(d.first_accepted_ns, published));
    }
}

TEST_CASE("a producer that left is still named, until others have taken its place") {
    Fixture f;
    auto c = f.consumer("g");
    {
        auto importer = f.queue.producer({.name = "importer"}).value();
        REQUIRE(importer.publish(bytes("x")));
    }
    { const auto other = f.queue.producer({.name = "other"}).value(); }
    CHECK(next(c).reject({.code = "c"}));
    CHECK(f.list().back().producer == "importer");
    {
        auto importer = f.queue.producer({.name = "importer"}).value();
        REQUIRE(importer.publish(bytes("x")));
    }
    for (int i = 0; i < 100; ++i) const auto other = f.queue.producer({.name = "other"}).value();
    CHECK(next(c).reject({.code = "c"}));
    CHECK(f.list().back().producer.empty());  // unknown rather than wrong
}

TEST_CASE("a filter with a reason that does not exist is refused, not empty") {
    Fixture f;
    DeadFilter filter;
    filter.reason = "nonsense";
    CHECK(f.letters.list(filter).error().code == Errc::invalid_argument);
    CHECK(f.letters.redrive(filter, false).error().code == Errc::invalid_argument);
    CHECK(f.letters.discard(filter, "why", false).error().code == Errc::invalid_argument);
    filter.reason = "operator";
    CHECK(f.letters.list(filter).value().empty());
}
