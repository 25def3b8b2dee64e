// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// An exclusive group changes its owner: where the next one begins, what it is charged, and what the former one may
// still read.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "unit/queue_exclusive.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("a standby takes over when the active member closes, at the first unsettled message") {
    for (const bool same_participant : {true, false}) {
        CAPTURE(same_participant);
        Fixture f;
        std::optional<Consumer> a = f.consumer("a");
        auto b = (same_participant ? f.queue : f.other).consumer("group", ConsumerOptions{"b"}).value();
        f.publish_numbers(6);
        auto held = take(*a, 4);
        CHECK(held[0].ack());
        CHECK(empty(b));
        std::optional<Message> got;
        std::thread waiter([&] { got = next(b); });
        a.reset();
        waiter.join();
        CHECK(b.active());
        REQUIRE(got);
        CHECK(text(got->payload()) == "1");
        CHECK(got->delivery_count() == 2);
        // The former owner's messages are readable, but not its any more.
        CHECK(text(held[1].payload()) == "1");
        CHECK(code_of(held[1].ack()) == Errc::stale_lease);
        CHECK(code_of(held[2].nack()) == Errc::stale_lease);
        held.clear();
        // One at a time below what had been handed over, then freely.
        CHECK(empty(b));
        CHECK(got->ack());
        for (int i = 2; i < 4; ++i) {
            Message m = next(b);
            CHECK(text(m.payload()) == std::to_string(i));
            CHECK(m.delivery_count() == 2);
            if (i == 2) CHECK(empty(b));
            CHECK(m.ack());
        }
        auto rest = take(b, 2);
        CHECK(rest[0].delivery_count() == 1);
        CHECK(rest[1].ack());
        CHECK(f.stats().lag == 0);
    }
}

TEST_CASE("a chain of owners that give up charges the first message once each, its neighbours once in all") {
    auto o = Fixture::options();
    o.max_deliveries = 4;
    Fixture f(o);
    f.publish_numbers(3);
    for (std::uint32_t n = 1; n <= 4; ++n) {
        auto c = f.consumer();
        Message m = next(c);
        CHECK(text(m.payload()) == "0");
        CHECK(m.delivery_count() == n);
        if (n == 1) CHECK(take(c, 2).size() == 2);
        if (n == 4) CHECK(m.nack({.code = "at last"}));
    }
    auto c = f.consumer();
    for (int i = 1; i < 3; ++i) {
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == 2);
        CHECK(m.ack());
    }
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].delivery_count == 4);
    CHECK(dead[0].code == "at last");
}

TEST_CASE("a message that its last owner left spent is dead, not tried once more") {
    auto o = Fixture::options();
    o.max_deliveries = 1;
    Fixture f(o);
    f.publish_numbers(2);
    std::optional<Message> held;
    {
        auto a = f.consumer();
        held = next(a);
    }
    auto b = f.consumer();
    Message m = next(b);
    CHECK(text(m.payload()) == "1");
    CHECK(m.delivery_count() == 1);
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(text(dead[0].payload) == "0");
    CHECK(dead[0].delivery_count == 1);
}

TEST_CASE("the bytes that a closed member's messages show stay until they are dropped") {
    Fixture f;
    f.publish("kept");
    std::optional<Message> held;
    {
        auto a = f.consumer();
        held = next(a);
    }
    auto b = f.consumer();
    CHECK(next(b).ack());
    std::uint64_t n = 0;
    while (f.producer.try_publish(bytes("one slot"))) ++n;
    CHECK(n == f.queue.stats().capacity_slots - 1);  // the held message still needs its slot
    CHECK(text(held->payload()) == "kept");
    held.reset();
    CHECK(f.producer.try_publish(bytes("one slot")));
}

TEST_CASE("whoever becomes active finds the marks of many laps") {
    Fixture f;
    std::string payload(700, 'p');
    for (int i = 0; i < 1200; ++i) {
        f.publish(payload);
        auto c = (i % 2 == 0 ? f.queue : f.other).consumer("group").value();
        Message m = next(c);
        REQUIRE(m.delivery_count() == 1);
        REQUIRE(m.payload().size() == payload.size());
        REQUIRE(m.ack());
    }
    CHECK(f.queue.stats().tail > 3 * f.queue.stats().capacity_slots);
    CHECK(f.stats().acked == 1200);
}
