// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Where a new group begins: the earliest message, the end, a position or a time.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "support/eventually.hpp"
#include "unit/queue_groups.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("a new group begins at the earliest kept message, at the end, or at a position") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        for (const auto producers : {Producers::one, Producers::many}) {
            Fixture f({.producers = producers});
            std::vector<Seq> seqs;
            const std::string three_slots(150, '3');
            for (int i = 0; i < 4; ++i) seqs.push_back(f.publish(three_slots));
            const auto begins = [&](Start start) -> std::optional<Seq> {
                auto c = f.queue.consumer("g", {.mode = mode, .start = start}).value();
                std::optional<Seq> first;
                if (auto m = c.try_receive()) {
                    first = m->seq();
                    (void)m->ack();
                }
                (void)f.queue.delete_group("g", Force::yes);
                return first;
            };
            CHECK(begins(Start::earliest()) == seqs[0]);
            CHECK(begins(Start::latest()) == std::nullopt);
            CHECK(begins(Start::seq(0)) == seqs[0]);
            CHECK(begins(Start::seq(seqs[2])) == seqs[2]);
            CHECK(begins(Start::seq(seqs[2] - 1)) == seqs[2]);  // inside a message: the next one
            CHECK(begins(Start::seq(seqs[2] + 1)) == seqs[3]);
            CHECK(begins(Start::seq(seqs[3] + 3)) == std::nullopt);  // the tail itself
        }
    }
}

TEST_CASE("a group at the latest position sees what is published from then on, and nothing before") {
    Fixture f;
    f.publish("before");
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        const std::string name = mode == GroupMode::shared ? "s" : "e";
        auto c = f.queue.consumer(name, {.mode = mode, .start = Start::latest()}).value();
        f.publish("after");
        CHECK(drain(c) == std::vector<std::string>{"after"});
    }
}

TEST_CASE("a start beyond the tail is refused and leaves nothing behind") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        f.publish("x");
        const auto files = f.files();
        for (const Seq at : {Seq{2}, Seq{1} << 40, std::numeric_limits<Seq>::max()}) {
            CAPTURE(at);
            const auto made = f.queue.create_group("g", {.mode = mode, .start = Start::seq(at)});
            REQUIRE_FALSE(made);
            CHECK(made.error().code == Errc::invalid_argument);
        }
        CHECK(f.files() == files);
        CHECK(f.queue.stats().groups.empty());
        CHECK(f.queue.consumer("g").error().code == Errc::no_such_group);
        // The queue still keeps everything.
        CHECK(f.fill() == f.queue.stats().capacity_slots - 1);
        CHECK(f.producer.try_publish(bytes("x")).error().code == Errc::no_credit);
        CHECK(f.queue.create_group("g", earliest(mode)));
    }
}

TEST_CASE("a start below the floor begins at the floor and says once what was missed") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        auto first = f.queue.consumer("first", earliest()).value();
        f.fill();
        (void)drain(first);
        const Seq next = f.publish("next");  // moves the floor
        f.publish("last");
        const Seq floor = f.queue.stats().floor;
        REQUIRE(floor > 0);
        auto c = f.queue.consumer("late", {.mode = mode, .start = Start::seq(0)}).value();
        const auto told = c.try_receive();
        REQUIRE_FALSE(told);
        CHECK(told.error().code == Errc::gap);
        REQUIRE(c.last_gap());
        CHECK(c.last_gap()->first == 0);
        CHECK(c.last_gap()->last == floor - 1);
        CHECK(c.try_receive().value().seq() == next);
    }
}

TEST_CASE("a start in time takes the first message accepted at or after it") {
    for (const auto timestamps : {Timestamps::coarse, Timestamps::exact}) {
        for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
            CAPTURE(static_cast<int>(timestamps));
            Fixture f({.timestamps = timestamps});
            f.publish("early");
            // Further than the grain of 4 ms and a coarse clock.
            const std::uint64_t then = wall_ns() + 30'000'000;
            eventually([&] { return wall_ns() > then + 30'000'000; });
            f.publish("late");
            const auto at = [&](const char* name, std::uint64_t ns) {
                auto c = f.queue.consumer(name, {.mode = mode, .start = Start::time(ns)}).value();
                return drain(c);
            };
            CHECK(at("a", 0) == std::vector<std::string>{"early", "late"});
            CHECK(at("b", then) == std::vector<std::string>{"late"});
            CHECK(at("c", wall_ns() + 3'600'000'000'000) == std::vector<std::string>{});
        }
    }
}

TEST_CASE("a start at the time just read does not miss a message published after it") {
    for (const auto timestamps : {Timestamps::coarse, Timestamps::exact}) {
        CAPTURE(static_cast<int>(timestamps));
        for (int i = 0; i < 10; ++i) {
            Fixture f({.timestamps = timestamps});
            const std::uint64_t now = wall_ns();
            f.publish("after");
            auto c = f.queue.consumer("g", {.start = Start::time(now)}).value();
            REQUIRE(drain(c) == std::vector<std::string>{"after"});
        }
    }
}

TEST_CASE("a group that starts in the future gets what comes, as the tail is where it waits") {
    Fixture f;
    f.publish("old");
    auto c = f.queue.consumer("g", {.start = Start::time(std::numeric_limits<std::uint64_t>::max())}).value();
    f.publish("new");
    CHECK(drain(c) == std::vector<std::string>{"new"});
}

TEST_CASE("without timestamps there is no start in time") {
    Fixture f({.timestamps = Timestamps::off});
    const auto files = f.files();
    const auto made = f.queue.create_group("g", {.start = Start::time(0)});
    REQUIRE_FALSE(made);
    CHECK(made.error().code == Errc::not_supported);
    CHECK(f.files() == files);
    CHECK(f.queue.stats().groups.empty());
}
