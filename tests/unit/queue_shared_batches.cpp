// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Batches of a shared group: what is charged, what is given back, and leases that lapse before their message is handed
// over.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unit/queue_shared.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("a batch charges what it hands over, and gives back the rest untouched") {
    for (const int end : {0, 1, 2}) {
        CAPTURE(end);
        Fixture f(Fixture::patient());
        std::optional<Consumer> a = f.consumer();
        auto b = f.consumer();
        for (int i = 0; i < 5; ++i) f.publish(std::to_string(i));
        std::optional<Batch> batch = a->receive_batch(4, 0ns).value();
        CHECK(batch->size() == 4);
        CHECK(f.stats().in_flight == 4);
        Message* first = batch->next();
        REQUIRE(first != nullptr);
        CHECK(text(first->payload()) == "0");
        CHECK(first->delivery_count() == 1);
        CHECK(first->ack());
        Message kept = std::move(*batch->next());
        CHECK(text(kept.payload()) == "1");
        if (end == 0) batch.reset();
        if (end == 1) a.reset();
        if (end == 2) batch = b.receive_batch(1, 0ns).value();  // "4", and the rest of the old one is back
        if (end == 2) {
            CHECK(text(batch->next()->payload()) == "4");
            batch.reset();  // dropped: nacked
        }
        for (const char* expected : {"2", "3"}) {
            Message m = next(b);
            CHECK(text(m.payload()) == expected);
            CHECK(m.delivery_count() == 1);
            CHECK(m.ack());
        }
        Message last = next(b);
        CHECK(text(last.payload()) == "4");
        CHECK(last.delivery_count() == (end == 2 ? 2 : 1));
        CHECK(last.ack());
        if (batch && end == 1) CHECK(batch->next() == nullptr);
        CHECK(kept.ack());
        CHECK(f.stats().lag == 0);
        CHECK(f.stats().acked == 5);
    }
}

TEST_CASE("a message of a batch that is neither settled nor moved out is nacked by the next one") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    f.publish("a");
    f.publish("b");
    {
        auto batch = c.receive_batch(2, 0ns).value();
        CHECK(text(batch.next()->payload()) == "a");
        Message* second = batch.next();
        CHECK(text(second->payload()) == "b");
        CHECK(second->ack());
        CHECK(batch.next() == nullptr);
        CHECK(batch.next() == nullptr);
    }
    Message m = next(c);
    CHECK(text(m.payload()) == "a");
    CHECK(m.delivery_count() == 2);
    CHECK(f.stats().nacked == 1);
}

TEST_CASE("leases of a batch that lapse before they were handed over charge nobody") {
    Fixture f;
    auto a = f.consumer(), b = f.consumer();
    for (int i = 0; i < 3; ++i) f.publish(std::to_string(i));
    auto batch = a.receive_batch(3, 0ns).value();
    std::vector<Message> taken;
    for (int i = 0; i < 3; ++i) {
        taken.push_back(next(b));
        REQUIRE(taken.back().extend(1h));
        CHECK(text(taken.back().payload()) == std::to_string(i));
        CHECK(taken.back().delivery_count() == 1);
    }
    const std::string before = f.books();
    CHECK(batch.next() == nullptr);  // all became stale
    CHECK((f.books() == before));
    for (auto& m : taken) CHECK(m.ack());
    CHECK(f.stats().lapsed == 0);
    CHECK(f.stats().redelivered == 0);
}

TEST_CASE("the lease of a batch's message begins anew when it is handed over") {
    Fixture f;
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    f.publish();
    auto batch = a.receive_batch(2, 0ns).value();
    Message first = std::move(*batch.next());
    REQUIRE(first.extend(1h));
    const auto handed = std::chrono::steady_clock::now();
    Message* second = batch.next();
    REQUIRE(second != nullptr);
    Message again = next(b);
    CHECK(again.seq() == second->seq());
    CHECK(std::chrono::steady_clock::now() - handed >= 10ms);
    CHECK(again.delivery_count() == 2);
}

TEST_CASE("a batch takes no more than there is, than was asked for, and than may be in flight") {
    auto o = Fixture::patient();
    o.max_in_flight = 5;
    Fixture f(o);
    auto c = f.consumer();
    for (int i = 0; i < 3; ++i) f.publish();
    CHECK(c.receive_batch(10, 0ns).value().size() == 3);
    CHECK(c.receive_batch(2, 0ns).value().size() == 2);
    for (int i = 0; i < 10; ++i) f.publish();
    CHECK(c.receive_batch(SIZE_MAX, 0ns).value().size() == 5);
    CHECK(c.receive_batch(1, 0ns).value().size() == 1);
}

TEST_CASE("a batch moves") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    for (int i = 0; i < 4; ++i) f.publish(std::to_string(i));
    auto batch = c.receive_batch(2, 0ns).value();
    CHECK(text(batch.next()->payload()) == "0");
    CHECK(batch.next()->ack());
    Batch moved(std::move(batch));
    CHECK(batch.next() == nullptr);  // NOLINT: the state after a move is part of the contract
    CHECK(moved.next() == nullptr);
    auto second = c.receive_batch(1, 0ns).value();
    moved = std::move(second);
    CHECK(second.next() == nullptr);  // NOLINT
    CHECK(moved.next() != nullptr);
}

TEST_CASE("messages of a span are acked together; the stale among them are told") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    std::vector<Message> held;
    for (int i = 0; i < 3; ++i) f.publish();
    for (int i = 0; i < 3; ++i) held.push_back(c.try_receive().value());
    CHECK(held[1].ack());
    CHECK(code_of(c.ack(held)) == Errc::stale_lease);
    CHECK(f.stats().lag == 0);
    CHECK(f.stats().acked == 3);
    CHECK(c.ack(std::span<Message>{}));
}
