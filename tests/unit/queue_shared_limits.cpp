// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// How many messages a consumer and a shared group may hold at once, and how they go on from there.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/eventually.hpp"
#include "unit/queue_shared.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("a consumer holds at most max_in_flight messages") {
    auto o = Fixture::patient();
    o.max_in_flight = 3;
    Fixture f(o);
    auto a = f.consumer(), b = f.consumer();
    for (int i = 0; i < 6; ++i) f.publish(std::to_string(i));
    std::vector<Message> held;
    for (int i = 0; i < 3; ++i) held.push_back(a.try_receive().value());
    CHECK(empty(a));
    CHECK(a.receive(1ms).error().code == Errc::timeout);
    Message of_b = b.try_receive().value();
    CHECK(text(of_b.payload()) == "3");
    for (int i = 0; i < 3; ++i) {
        CHECK(held[static_cast<std::size_t>(i)].ack());
        if (i == 2) break;
        held.push_back(a.try_receive().value());
        CHECK(empty(a));
    }
}

TEST_CASE("a group holds at most max_in_flight_group messages, over all its members") {
    auto o = Fixture::patient();
    o.max_in_flight_group = 4;
    Fixture f(o);
    auto a = f.consumer();
    auto b = f.other.consumer("group").value();
    for (int i = 0; i < 8; ++i) f.publish();
    std::vector<Message> held;
    for (int i = 0; i < 4; ++i) held.push_back((i % 2 == 0 ? a : b).try_receive().value());
    CHECK(empty(a));
    CHECK(empty(b));
    CHECK(f.stats().in_flight == 4);
    CHECK(held[3].ack());  // settled behind the others
    Message fifth = b.try_receive().value();
    CHECK(empty(a));
    CHECK(held[0].nack({}, 1h));  // waits, is in nobody's hands
    CHECK(a.try_receive());
    CHECK(f.stats().in_flight <= 4);
}

TEST_CASE("a group at its limit goes on when the leases of a stuck member lapse") {
    auto o = Fixture::patient();
    o.max_in_flight_group = 4;
    Fixture f(o);
    auto stuck = f.consumer(), other = f.consumer();
    for (int i = 0; i < 8; ++i) f.publish(std::to_string(i));
    std::vector<Message> held;
    for (int i = 0; i < 4; ++i) held.push_back(next(stuck));
    CHECK(empty(other));
    for (auto& m : held) REQUIRE(m.extend(1ms));
    std::vector<bool> seen(8, false);
    for (int i = 0; i < 8; ++i) {
        Message m = next(other);
        const auto at = static_cast<std::size_t>(std::stoi(text(m.payload())));
        CHECK_FALSE(seen[at]);
        seen[at] = true;
        CHECK(m.ack());
    }
    CHECK(f.stats().lag == 0);
    CHECK(f.stats().in_flight == 0);
    CHECK(f.stats().lapsed == 4);
}

TEST_CASE("a consumer at its limit with lapsed messages only goes on once it lets them go") {
    auto o = Fixture::patient();
    o.max_in_flight = 2;
    Fixture f(o);
    auto c = f.consumer();
    f.publish("0");
    f.publish("1");
    std::vector<Message> held;
    for (int i = 0; i < 2; ++i) held.push_back(next(c));
    for (auto& m : held) REQUIRE(m.extend(1ms));
    eventually([&] { return empty(c) && f.stats().lapsed == 2; });
    held.clear();
    for (int i = 0; i < 2; ++i) {
        Message m = next(c);
        CHECK(m.delivery_count() == 2);
        CHECK(m.ack());
    }
}
