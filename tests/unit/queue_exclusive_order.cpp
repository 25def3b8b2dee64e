// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Exclusive groups: one active member, messages in order, cumulative ack, batches, and how many it holds.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "unit/queue_exclusive.hpp"

using namespace rondo;
using namespace rondo::test;

// ---- order and ack -------------------------------------------------------------------------------------------

TEST_CASE("one member gets everything in order, the others wait") {
    Fixture f;
    auto a = f.consumer("a"), b = f.consumer("b");
    auto c = f.other.consumer("group").value();
    f.publish_numbers(5);
    CHECK(next(a).ack());
    CHECK(a.active());
    for (auto* standby : {&b, &c}) {
        CHECK_FALSE(standby->active());
        CHECK(standby->try_receive().error().code == Errc::empty);
        CHECK(standby->receive(1ms).error().code == Errc::timeout);
        CHECK(standby->receive_batch(3, 1ms).error().code == Errc::timeout);
    }
    for (int i = 1; i < 5; ++i) {
        Message m = next(a);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.ack());
    }
    CHECK(f.stats().active_owner);
    CHECK(f.stats().members == 3);
}

TEST_CASE("ack settles the message and everything before it") {
    Fixture f;
    auto c = f.consumer();
    f.publish_numbers(5);
    auto held = take(c, 5);
    CHECK(f.stats().in_flight == 5);
    CHECK(held[2].ack());
    CHECK(f.stats().lag == 2);
    CHECK(f.stats().floor == held[3].seq());
    // What it covered is settled: these have nothing left to say.
    CHECK(code_of(held[0].ack()) == Errc::stale_lease);
    CHECK(code_of(held[1].nack()) == Errc::stale_lease);
    CHECK(held[4].ack());
    CHECK(code_of(held[3].ack()) == Errc::stale_lease);
    CHECK(f.stats().lag == 0);
    CHECK(empty(c));
    CHECK(f.dead().empty());
}

TEST_CASE("ack_through is the group's own ack, and refuses every other message") {
    Fixture f;
    auto c = f.consumer(), standby = f.consumer();
    auto second = f.queue.consumer("second", {.mode = GroupMode::exclusive, .start = Start::earliest()}).value();
    auto shared = f.queue.consumer("shared", {.mode = GroupMode::shared, .start = Start::earliest()}).value();
    f.publish_numbers(3);
    auto held = take(c, 3);
    Message of_second = next(second), of_shared = next(shared);
    CHECK(code_of(c.ack_through(of_second)) == Errc::invalid_argument);
    CHECK(code_of(c.ack_through(of_shared)) == Errc::invalid_argument);
    CHECK(code_of(shared.ack_through(of_shared)) == Errc::invalid_argument);
    CHECK(code_of(shared.ack_through(held[0])) == Errc::invalid_argument);
    CHECK(code_of(standby.ack_through(held[0])) == Errc::invalid_argument);
    CHECK(f.queue.stats().groups.at(0).lag == 3);
    CHECK(c.ack_through(held[1]));
    CHECK(f.queue.stats().groups.at(0).lag == 1);
    CHECK(code_of(c.ack_through(held[0])) == Errc::stale_lease);
    CHECK(c.ack_through(held[2]));
    CHECK(of_second.ack());
    CHECK(of_shared.ack());
    Message moved = std::move(held[0]);
    CHECK(code_of(c.ack_through(held[0])) == Errc::invalid_argument);  // NOLINT: the state after a move
}

TEST_CASE("a lease does not lapse, and extend agrees") {
    auto o = Fixture::options();
    o.lease_timeout = 10ms;
    Fixture f(o);
    auto c = f.consumer(), standby = f.consumer();
    f.publish_numbers(2);
    auto held = take(c, 2);
    for (auto& m : held) CHECK(m.extend(1ms));
    CHECK(code_of(held[0].extend(0ns)) == Errc::invalid_argument);
    CHECK(standby.receive(70ms).error().code == Errc::timeout);
    CHECK(held[1].ack());
    CHECK(code_of(held[0].extend(1s)) == Errc::stale_lease);
    CHECK(code_of(held[1].extend(1s)) == Errc::stale_lease);
    CHECK(f.stats().redelivered == 0);
}

TEST_CASE("another thread may settle; order holds") {
    Fixture f;
    auto c = f.consumer();
    f.publish_numbers(3);
    auto held = take(c, 3);
    std::thread t([m = std::move(held[1])]() mutable { CHECK(m.ack()); });
    t.join();
    CHECK(f.stats().lag == 1);
    CHECK(code_of(held[0].nack()) == Errc::stale_lease);
    CHECK(held[2].ack());
}

TEST_CASE("a member holds at most max_in_flight messages") {
    auto o = Fixture::options();
    o.max_in_flight = 3;
    Fixture f(o);
    auto c = f.consumer();
    f.publish_numbers(6);
    auto held = take(c, 3);
    CHECK(empty(c));
    CHECK(held[1].ack());
    held.erase(held.begin());  // settled already; their room is free once they are gone
    held.erase(held.begin());
    CHECK(take(c, 2).size() == 2);
}

// ---- batches -------------------------------------------------------------------------------------------------

TEST_CASE("a batch of an exclusive group hands over in order, charges what it hands over, and gives back the rest") {
    Fixture f;
    auto c = f.consumer();
    f.publish_numbers(6);
    {
        auto batch = c.receive_batch(3, 0ns).value();
        CHECK(batch.size() <= 3);
        for (int i = 0; i < 2; ++i) {
            Message* m = batch.next();
            REQUIRE(m != nullptr);
            CHECK(text(m->payload()) == std::to_string(i));
            CHECK(m->delivery_count() == 1);
            CHECK(m->ack());
        }
    }
    {
        auto batch = c.receive_batch(2, 0ns).value();
        std::vector<Message> held;
        for (Message* m = batch.next(); m != nullptr; m = batch.next()) held.push_back(std::move(*m));
        REQUIRE(held.size() == 2);
        CHECK(text(held[0].payload()) == "2");
        CHECK(held[1].ack());
    }
    { auto unread = c.receive_batch(5, 0ns).value(); }
    for (int i = 4; i < 6; ++i) {
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == 1);
        CHECK(m.ack());
    }
    CHECK(f.stats().lag == 0);
    CHECK(f.dead().empty());
    CHECK(c.receive_batch(1, 0ns).error().code == Errc::empty);
}

TEST_CASE("a batch that ends unread behind a message in hand loses nothing") {
    for (const bool ack_first : {true, false}) {
        CAPTURE(ack_first);
        Fixture f;
        auto c = f.consumer();
        f.publish_numbers(4);
        std::optional<Message> first = next(c);
        std::optional<Batch> batch = c.receive_batch(5, 0ns).value();
        if (ack_first) {
            CHECK(first->ack());
            batch.reset();
        } else {
            batch.reset();
            CHECK(first->ack());
        }
        for (int i = 1; i < 4; ++i) {
            Message m = next(c);
            CHECK(text(m.payload()) == std::to_string(i));
            CHECK(m.delivery_count() == 1);
            CHECK(m.ack());
        }
        CHECK(f.stats().lag == 0);
        CHECK(f.dead().empty());
    }
}

TEST_CASE("a batch that outlives its consumer hands over nothing more, and the next member takes over") {
    Fixture f;
    std::optional<Consumer> a = f.consumer();
    auto b = f.consumer();
    f.publish_numbers(3);
    std::optional<Batch> batch = a->receive_batch(3, 0ns).value();
    CHECK(batch->next()->ack());
    a.reset();
    CHECK(batch->next() == nullptr);
    CHECK(text(next(b).payload()) == "1");
    batch.reset();
    CHECK(b.active());
}
