// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A full dead ring: no message is lost, no other group waits, and everything goes on once there is room.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "support/eventually.hpp"
#include "unit/queue_dead_letters.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

const std::string heavy = limited(4000, 'h');

/// Rejects messages until dead.ring has no room. Returns how many letters it holds.
std::size_t fill_dead_ring(Fixture& f, Consumer& c) {
    std::size_t n = 0;
    while (f.stats("g").dead_pending == 0) {
        f.publish(heavy);
        CHECK(next(c).reject({.code = "full", .detail = heavy}));
        ++n;
    }
    return n - 1;
}

}  // namespace

TEST_CASE("with a full dead ring a shared group keeps the message, serves the others, and drains once there is room") {
    Fixture f;
    auto c = f.consumer("g");
    auto other = f.consumer("other");
    const std::size_t dead = fill_dead_ring(f, c);
    CHECK(dead > 10);
    CHECK(f.list().size() == dead);
    CHECK(f.stats("g").lag == 1);
    CHECK(f.stats("g").dead_lettered == dead);
    for (int i = 0; i < 3; ++i) {
        f.publish(std::to_string(i));
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.ack());
    }
    while (auto m = other.try_receive()) CHECK(m->ack());
    CHECK(f.stats("g").dead_pending == 1);
    CHECK(f.queue.explain({Errc::timeout, 0, ""}).find("finds no room among the dead letters") != std::string::npos);

    DeadFilter oldest;
    oldest.max = 2;
    CHECK(f.letters.discard(oldest, "make room", true).value().count == 2);
    eventually([&] { return empty(c) && f.stats("g").dead_pending == 0; });
    CHECK(f.stats("g").lag == 0);
    const auto all = f.list();
    REQUIRE(!all.empty());
    CHECK((text(all.back().payload) == heavy));
    CHECK(all.back().code == "full");
    CHECK(all.back().reason == DeadReason::rejected);
    CHECK(all.back().delivery_count == 1);
    CHECK(all.back().attempts.size() == 1);
    CHECK(all.back().texts_cut);  // its detail did not wait for the room
    CHECK(f.stats("g").dead_lettered == dead + 1);
    CHECK(f.queue.stats().dead_open == dead - 1);
}

TEST_CASE("with a full dead ring an exclusive group waits at the message, and goes on once there is room") {
    Fixture f;
    auto c = f.consumer("g", Fixture::options(GroupMode::exclusive));
    auto other = f.consumer("other");
    const std::size_t dead = fill_dead_ring(f, c);
    f.publish("behind");
    CHECK(empty(c));
    CHECK(c.receive(1ms).error().code == Errc::timeout);
    CHECK(f.stats("g").dead_pending == 1);
    CHECK(f.stats("g").ready == 1);
    int unrelated = 0;
    while (auto m = other.try_receive()) {
        CHECK(m->ack());
        ++unrelated;
    }
    CHECK(unrelated == static_cast<int>(dead) + 2);
    DeadFilter oldest;
    oldest.max = 2;
    CHECK(f.letters.discard(oldest, "make room", true).value().count == 2);
    Message m = next(c);
    CHECK(text(m.payload()) == "behind");
    CHECK(m.ack());
    CHECK(f.stats("g").lag == 0);
    const auto all = f.list();
    CHECK((text(all.back().payload) == heavy));
    CHECK(all.back().code == "full");
    CHECK(all.back().reason == DeadReason::rejected);
    CHECK(all.back().delivery_count == 1);
}

TEST_CASE("no more than max_dead_pending messages wait for a full dead ring: then the group stops") {
    Fixture f;
    auto o = Fixture::options();
    o.max_dead_pending = 3;
    auto c = f.consumer("g", o);
    const std::size_t dead = fill_dead_ring(f, c);
    for (int i = 0; i < 6; ++i) f.publish(heavy);
    for (int i = 0; i < 2; ++i) CHECK(c.try_receive().value().reject({.code = "more"}));
    CHECK(f.stats("g").dead_pending == 3);
    CHECK(empty(c));
    CHECK(c.receive(60ms).error().code == Errc::timeout);
    CHECK(f.stats("g").ready == 4);
    CHECK(f.letters.discard({}, "make room", true).value().count == dead);
    for (int i = 0; i < 4; ++i) CHECK(next(c).ack());
    CHECK(f.stats("g").dead_pending == 0);
    CHECK(f.list().size() >= 3);
}

TEST_CASE("a full dead ring takes again all that a discard of everything frees, lap after lap") {
    Fixture f;
    auto c = f.consumer("g");
    std::size_t total = 0;
    for (int lap = 0; lap < 5; ++lap) {
        const std::size_t n = fill_dead_ring(f, c);
        CHECK(n > 10);
        total += n;
        CHECK(f.letters.discard({}, "lap", true).value().count >= n);
        eventually([&] { return empty(c) && f.stats("g").lag == 0; });
    }
    CHECK(f.stats("g").dead_lettered == total + 5);
    CHECK(f.stats("g").rejected == total + 5);
}
