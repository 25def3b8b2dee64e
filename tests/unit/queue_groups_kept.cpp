// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What a queue keeps: without a group everything, with groups what one of them has not settled.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "unit/queue_groups.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("a queue without a group keeps everything until credit runs out, and overwrites nothing") {
    for (const auto producers : {Producers::one, Producers::many}) {
        CAPTURE(static_cast<int>(producers));
        Fixture f({.producers = producers});
        const Seq first = f.publish("first");
        const std::uint64_t more = f.fill();
        CHECK(more == f.queue.stats().capacity_slots - 1);
        CHECK(f.producer.try_publish(bytes("x")).error().code == Errc::no_credit);
        PublishOptions o;
        o.timeout = 1ms;
        CHECK(f.producer.publish(bytes("x"), o).error().code == Errc::timeout);
        CHECK(f.queue.explain({Errc::no_credit, 0, ""}).find("no group: everything is kept") != std::string::npos);
        auto c = f.queue.consumer("late", earliest()).value();
        Message m = c.try_receive().value();
        CHECK(m.seq() == first);
        CHECK(text(m.payload()) == "first");
        CHECK(m.ack());
        CHECK(drain(c).size() == more);
        CHECK(f.fill() == more + 1);
    }
}

TEST_CASE("a group without members holds the ring like one with members") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        REQUIRE(f.queue.create_group("g", earliest(mode)));
        const std::uint64_t n = f.fill();
        CHECK(f.fill() == 0);
        {
            auto c = f.queue.consumer("g").value();
            CHECK(c.try_receive().value().ack());
        }
        CHECK(f.fill() == 1);
        CHECK(f.fill() == 0);
        auto c = f.queue.consumer("g").value();
        CHECK(drain(c).size() == n);
    }
}

TEST_CASE("once the last group is deleted, everything is kept again from where it stood") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        {
            auto c = f.queue.consumer("g", earliest(mode)).value();
            f.publish("settled");
            CHECK(drain(c).size() == 1);
            f.publish("unsettled");
        }
        REQUIRE(f.queue.delete_group("g"));
        f.publish("later");
        f.fill();
        CHECK(f.producer.try_publish(bytes("x")).error().code == Errc::no_credit);
        auto c = f.queue.consumer("next", earliest(mode)).value();
        auto all = drain(c);
        REQUIRE(all.size() >= 2);
        if (all.front() == "settled") all.erase(all.begin());  // the floor need not have moved yet
        CHECK(all[0] == "unsettled");
        CHECK(all[1] == "later");
    }
}

TEST_CASE("deleting one of two groups leaves the other one in charge of the ring") {
    Fixture f;
    auto c = f.queue.consumer("stays", earliest()).value();
    REQUIRE(f.queue.create_group("goes", earliest()));
    const std::uint64_t n = f.fill();
    CHECK(drain(c).size() == n);
    CHECK(f.fill() == 0);  // the other one has not consumed anything
    REQUIRE(f.queue.delete_group("goes"));
    CHECK(f.fill() == n);
    CHECK(drain(c).size() == n);
}
