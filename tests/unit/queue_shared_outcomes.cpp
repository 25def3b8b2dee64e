// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What the outcomes of a shared group do: backoff and delay, rejection, release, how often a message is tried, and what
// stays settled.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "unit/queue_shared.hpp"

using namespace rondo;
using namespace rondo::test;

// ---- failures ------------------------------------------------------------------------------------------------

TEST_CASE("nack waits for the group's backoff, growing with each attempt") {
    auto o = Fixture::patient();
    o.backoff_initial = 10ms;
    o.backoff_multiplier = 2.0;
    o.jitter = Jitter::none;
    o.max_deliveries = 4;
    Fixture f(o);
    auto c = f.consumer();
    f.publish();
    std::vector<std::chrono::steady_clock::time_point> at;
    for (std::uint32_t n = 1; n <= 4; ++n) {
        Message m = next(c);
        at.push_back(std::chrono::steady_clock::now());
        CHECK(m.delivery_count() == n);
        CHECK(m.nack({.code = "again"}));
    }
    CHECK(at[1] - at[0] >= 10ms);
    CHECK(at[2] - at[1] >= 20ms);
    CHECK(at[3] - at[2] >= 40ms);
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    REQUIRE(dead[0].attempts.size() == 4);
    for (std::size_t i = 0; i < 3; ++i) CHECK(dead[0].attempts[i].delay_ns == 10'000'000ULL << i);
}

TEST_CASE("a delay given with nack replaces the backoff; zero is at once, negative is a mistake") {
    auto o = Fixture::patient();
    o.backoff_initial = 1h;
    o.backoff_max = 1h;
    o.max_deliveries = -1;
    Fixture f(o);
    auto c = f.consumer();
    f.publish();
    Message m = next(c);
    CHECK(code_of(m.nack({}, -1ns)) == Errc::invalid_argument);
    CHECK(code_of(m.nack({}, Duration::min())) == Errc::invalid_argument);
    CHECK(text(m.payload()) == "x");
    CHECK(m.nack({}, 0ns));
    m = c.try_receive().value();
    CHECK(m.delivery_count() == 2);
    const auto before = std::chrono::steady_clock::now();
    CHECK(m.nack({}, 15ms));
    m = next(c);
    CHECK(std::chrono::steady_clock::now() - before >= 15ms);
    CHECK(m.delivery_count() == 3);
    CHECK(m.nack());
    CHECK(empty(c));
    CHECK(f.stats().scheduled == 1);
}

TEST_CASE("the longest delays are long, not wrapped") {
    constexpr Duration field = Duration((std::int64_t{1} << 44) * 100'000);  // a deadline's field of 44 bits of 100 us
    for (const Duration delay : {forever, forever - 1ns, field, field + 1ms, 2 * field, Duration(24h)}) {
        CAPTURE(delay.count());
        Fixture f(Fixture::patient());
        auto c = f.consumer();
        f.publish();
        CHECK(next(c).nack({}, delay));
        CHECK(empty(c));
        CHECK(f.stats().scheduled == 1);
        CHECK(c.receive(1ms).error().code == Errc::timeout);
    }
}

TEST_CASE("a short delay does not wait behind a long one") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    f.publish("long");
    f.publish("short");
    Message first = next(c), second = next(c);
    CHECK(first.nack({}, 1h));
    CHECK(second.nack({}, 5ms));
    Message m = next(c);
    CHECK(text(m.payload()) == "short");
    CHECK(f.stats().scheduled == 1);
}

TEST_CASE("a message that always fails does not hold up the others: all of them are done before its next try") {
    auto o = Fixture::patient();
    o.backoff_initial = 20ms;
    o.jitter = Jitter::none;
    o.max_deliveries = 3;
    Fixture f(o);
    auto c = f.consumer();
    f.publish("poison");
    for (int i = 0; i < 99; ++i) f.publish("good");
    Message m = next(c);
    CHECK(text(m.payload()) == "poison");
    CHECK(m.nack({.code = "poison"}, 1h));
    int good = 0;
    while (auto g = c.try_receive()) {
        CHECK(text(g->payload()) == "good");
        CHECK(g->ack());
        ++good;
    }
    CHECK(good == 99);
    CHECK(f.stats().scheduled == 1);
    CHECK(f.stats().lag == 1);
}

TEST_CASE("reject is final: no further attempt, one dead letter") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    f.publish("bad");
    CHECK(next(c).reject({.code = "bad_order"}));
    CHECK(empty(c));
    CHECK(f.stats().lag == 0);
    CHECK(f.stats().rejected == 1);
    CHECK(f.stats().dead_lettered == 1);
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::rejected);
    CHECK(dead[0].delivery_count == 1);
    CHECK(dead[0].code == "bad_order");
}

TEST_CASE("a released message comes again at once and was not tried") {
    auto o = Fixture::patient();
    o.backoff_initial = 1h;
    o.backoff_max = 1h;
    o.max_deliveries = 1;
    Fixture f(o);
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    for (int i = 0; i < 20; ++i) {
        Message m = (i % 2 == 0 ? a : b).try_receive().value();
        CHECK(m.delivery_count() == 1);
        CHECK(m.release());
        CHECK(code_of(m.ack()) == Errc::stale_lease);
    }
    CHECK(a.try_receive().value().reject({.code = "c"}));
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].release_count == 20);
    CHECK(dead[0].delivery_count == 1);
    CHECK(f.stats().released == 20);
}

TEST_CASE("a message dropped without an outcome is nacked by name") {
    auto o = Fixture::patient();
    o.max_deliveries = 2;
    Fixture f(o);
    auto c = f.consumer("careless");
    f.publish();
    { Message m = next(c); }
    CHECK(f.stats().nacked == 1);
    {
        Message m = next(c);
        CHECK(m.delivery_count() == 2);
    }
    CHECK(empty(c));
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].code == "handler_dropped");
    CHECK(dead[0].reason == DeadReason::max_deliveries);
    CHECK(dead[0].consumer == "careless");
    CHECK(f.stats().acked == 0);
}

TEST_CASE("max_deliveries bounds the hand-overs exactly: 1, 3, or not at all") {
    for (const std::int32_t limit : {1, 3, -1}) {
        CAPTURE(limit);
        auto o = Fixture::patient();
        o.max_deliveries = limit;
        Fixture f(o);
        auto c = f.consumer();
        f.publish();
        const std::uint32_t tries = limit < 0 ? 50 : static_cast<std::uint32_t>(limit);
        for (std::uint32_t n = 1; n <= tries; ++n) {
            Message m = c.try_receive().value();
            CHECK(m.delivery_count() == n);
            CHECK(f.dead().empty());
            CHECK(m.nack({.code = "no"}));
        }
        // At the last failure, not at a later receive.
        CHECK(f.dead().size() == (limit < 0 ? 0 : 1));
        CHECK(f.stats().lag == (limit < 0 ? 1 : 0));
        CHECK(empty(c) == (limit > 0));
    }
}

TEST_CASE("however an attempt fails, it counts once: every mix of three ways ends after three hand-overs") {
    enum Way { nack, dropped, lapsed };
    auto o = Fixture::brief();
    o.max_deliveries = 3;
    Fixture f(o);
    auto c = f.consumer();
    for (int mix = 0; mix < 27; ++mix) f.publish(std::to_string(mix));
    std::vector<std::uint32_t> tries(27, 0);
    std::vector<Message> held;
    for (int i = 0; i < 3 * 27; ++i) {
        Message m = next(c);
        const int mix = std::stoi(text(m.payload()));
        CHECK(m.delivery_count() == ++tries[static_cast<std::size_t>(mix)]);
        const int ways[] = {mix % 3, mix / 3 % 3, mix / 9};
        switch (static_cast<Way>(ways[m.delivery_count() - 1])) {
            case nack:
                CHECK(m.nack({.code = "no"}, 1ms));
                break;
            case dropped:
                break;
            case lapsed:
                held.push_back(std::move(m));
                break;
        }
    }
    eventually([&] { return empty(c) && f.stats().lag == 0; });
    const auto dead = f.dead();
    CHECK(dead.size() == 27);
    for (const auto& d : dead) {
        CHECK(d.delivery_count == 3);
        REQUIRE(d.attempts.size() == 3);
        for (std::uint32_t n = 0; n < 3; ++n) CHECK(d.attempts[n].number == n + 1);
    }
}

TEST_CASE("at 1023 attempts, where the count stands still, a late ack is still late") {
    auto o = Fixture::brief();
    o.max_deliveries = -1;
    Fixture f(o);
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    for (int i = 0; i < 1023; ++i) REQUIRE(next(a).nack({}, 0ns));
    Message late = next(a);
    CHECK(late.delivery_count() == 1023);
    Message current = next(b);
    CHECK(current.delivery_count() == 1023);
    REQUIRE(current.extend(1h));
    CHECK(code_of(late.ack()) == Errc::stale_lease);
    CHECK(f.stats().in_flight == 1);
    CHECK(current.ack());
    CHECK(f.stats().acked == 1);
}

TEST_CASE("what comes back comes lowest first") {
    Fixture f(Fixture::patient());
    std::optional<Consumer> a = f.consumer();
    auto b = f.consumer();
    for (int i = 0; i < 5; ++i) f.publish(std::to_string(i));
    {
        std::vector<Message> held;
        for (int i = 0; i < 5; ++i) held.push_back(next(*a));
        while (!held.empty()) held.pop_back();  // the last one first
        a.reset();
    }
    for (int i = 0; i < 5; ++i) {
        Message m = next(b);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == 2);
        CHECK(m.ack());
    }
}

// ---- what is settled -----------------------------------------------------------------------------------------

TEST_CASE("members that come and go bring nothing back that was settled") {
    Fixture f(Fixture::patient());
    std::vector<int> seen(400, 0);
    int published = 0;
    for (int round = 0; round < 100; ++round) {
        auto a = f.consumer();
        auto b = (round % 2 == 0 ? f.queue : f.other).consumer("group").value();
        for (int i = 0; i < 4; ++i) f.publish(std::to_string(published++));
        for (int i = 0; i < 4; ++i) {
            Message m = (i % 2 == 0 ? a : b).try_receive().value();
            ++seen[static_cast<std::size_t>(std::stoi(text(m.payload())))];
            CHECK(m.ack());
        }
    }
    for (const int n : seen) CHECK(n == 1);
    CHECK(f.stats().delivered == 400);
    CHECK(f.stats().acked == 400);
    CHECK(f.stats().members == 0);
}

TEST_CASE("two groups settle the same message each for itself") {
    Fixture f(Fixture::patient());
    auto a = f.consumer();
    auto b = f.queue.consumer("second", {.start = Start::earliest()}).value();
    f.publish("m");
    Message of_a = next(a), of_b = next(b);
    CHECK(of_a.reject({.code = "only here"}));
    CHECK(text(of_b.payload()) == "m");
    CHECK(of_b.ack());
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].group == "group");
    for (const auto& g : f.queue.stats().groups) CHECK(g.lag == 0);
}
