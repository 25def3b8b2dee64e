// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Names of producers and consumers, the role of the one producer, how many there may be, and producers that were moved
// from.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "support/tmp_dir.hpp"
#include "unit/queue_publish.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("names of producers and consumers are checked") {
    Line<ManyShared> line;
    const std::string longest(63, 'n'), longer(64, 'n');
    for (const std::string& good : {std::string("a"), std::string("A-z_0.9"), longest}) {
        CHECK(line.queue.producer({.name = good}));
        CHECK(line.queue.consumer("group", ConsumerOptions{.name = good}));
    }
    for (const std::string& bad : {longer, std::string("."), std::string(".."), std::string("a/b"), std::string("a b"),
                                   std::string("\xc3\xa4"), std::string("a\0b", 3), std::string("a\n")}) {
        CAPTURE(bad);
        CHECK(line.queue.producer({.name = bad}).error().code == Errc::invalid_argument);
        CHECK(line.queue.consumer("group", ConsumerOptions{.name = bad}).error().code == Errc::invalid_argument);
    }
    CHECK(line.queue.stats().producers == 1);
    CHECK(line.queue.stats().consumers == 1);
}

TEST_CASE("a queue of one producer refuses a second one until the first is gone") {
    TmpDir dir;
    auto queue = Queue::create(dir.str() + "/q", {.capacity_bytes = small, .producers = Producers::one}).value();
    auto again = Queue::open(dir.str() + "/q").value();
    auto consumer = queue.consumer("group", {.start = Start::earliest()}).value();
    for (int turn = 0; turn < 3; ++turn) {
        auto first = queue.producer({.name = "first"});
        REQUIRE(first);
        for (Queue* q : {&queue, &again}) {
            const auto second = q->producer();
            REQUIRE_FALSE(second);
            CHECK(second.error().code == Errc::role_taken);
            CHECK(q->explain(second.error()).find(std::string("process ").append(std::to_string(getpid()))) !=
                  std::string::npos);
        }
        REQUIRE(first->publish(bytes("x")));
        CHECK(consumer.try_receive().value().ack());
    }
    // A producer that takes over goes on where the last one stopped, also right behind a batch.
    {
        auto first = queue.producer().value();
        const std::array<Outgoing, 3> batch = {Outgoing{bytes("1"), {}}, {bytes("2"), {}}, {bytes("3"), {}}};
        REQUIRE(first.publish_batch(batch));
    }
    REQUIRE(again.producer().value().publish(bytes("4")));
    for (const char* expected : {"1", "2", "3", "4"}) {
        Message m = consumer.try_receive().value();
        CHECK(text(m.payload()) == expected);
        CHECK(m.ack());
    }
}

TEST_CASE("2048 producers and consumers fit, the next one is refused, and one that ends makes room") {
    TmpDir dir;
    auto queue = Queue::create(dir.str() + "/q", {.capacity_bytes = small}).value();
    std::vector<Producer> producers;
    for (int i = 0; i < 2048; ++i) producers.push_back(queue.producer().value());
    const auto more = queue.producer();
    REQUIRE_FALSE(more);
    CHECK(more.error().code == Errc::too_many_participants);
    producers.erase(producers.begin() + 77);
    CHECK(queue.producer());
    CHECK(producers[1000].publish(bytes("x")));
}

TEST_CASE("a producer that was moved from only says so") {
    Line<ManyShared> line;
    Producer here(std::move(line.producer));
    const std::array<Outgoing, 1> batch = {Outgoing{bytes("x"), {}}};
    CHECK(line.producer.publish(bytes("x")).error().code == Errc::invalid_argument);
    CHECK(line.producer.try_publish(bytes("x")).error().code == Errc::invalid_argument);
    CHECK(line.producer.claim(1).error().code == Errc::invalid_argument);
    CHECK(line.producer.publish_batch(batch).error().code == Errc::invalid_argument);
    CHECK(line.producer.max_payload_bytes() == 0);
    CHECK(here.publish(bytes("x")));
    line.producer = std::move(here);
    CHECK(line.producer.publish(bytes("y")));
}
