// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A message of an exclusive group that fails, or is dropped without an outcome: who is blamed, what comes again, and in
// what order.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "unit/queue_exclusive.hpp"

using namespace rondo;
using namespace rondo::test;

// ---- failures ------------------------------------------------------------------------------------------------

TEST_CASE("nack, reject and release are for the first unsettled message only") {
    Fixture f;
    auto c = f.consumer();
    f.publish_numbers(4);
    auto held = take(c, 4);
    for (std::size_t i = 1; i < 4; ++i) {
        CHECK(code_of(held[i].nack()) == Errc::not_first);
        CHECK(code_of(held[i].nack({}, 0ns)) == Errc::not_first);
        CHECK(code_of(held[i].reject({.code = "c"})) == Errc::not_first);
        CHECK(code_of(held[i].release()) == Errc::not_first);
        CHECK(text(held[i].payload()) == std::to_string(i));  // nothing changed
    }
    CHECK(held[1].ack());
    CHECK(code_of(held[3].reject({.code = "c"})) == Errc::not_first);
    CHECK(held[2].reject({.code = "c"}));
    CHECK(code_of(held[3].ack()) == Errc::stale_lease);
    CHECK(f.dead().size() == 1);
    CHECK(f.stats().nacked == 0);
    CHECK(f.stats().rejected == 1);
}

TEST_CASE("after a nack the later messages in hand are stale, and the group waits at the one that failed") {
    auto o = Fixture::options();
    o.backoff_initial = 1h;
    o.backoff_max = 1h;
    Fixture f(o);
    auto c = f.consumer();
    f.publish_numbers(4);
    auto held = take(c, 3);
    CHECK(held[0].nack({.code = "later"}));
    for (std::size_t i = 1; i < 3; ++i) {
        CHECK(code_of(held[i].ack()) == Errc::stale_lease);
        CHECK(code_of(held[i].release()) == Errc::stale_lease);
    }
    CHECK(empty(c));
    CHECK(c.receive(1ms).error().code == Errc::timeout);
    const auto s = f.stats();
    CHECK(s.lag == 4);
    CHECK(s.scheduled == 1);
    CHECK(s.in_flight == 0);
    CHECK(s.ready == 3);
    CHECK(f.queue.explain({Errc::timeout, 0, ""}).find("waits for its next attempt") != std::string::npos);
}

TEST_CASE("after a failure messages come one at a time until all are past that were in hand") {
    Fixture f;
    auto c = f.consumer();
    f.publish_numbers(5);
    auto held = take(c, 3);
    CHECK(held[0].nack({}, 0ns));
    held.clear();
    const std::uint32_t attempts[] = {2, 2, 2};
    for (int i = 0; i < 3; ++i) {
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == attempts[i]);
        if (i < 2) CHECK(empty(c));  // the next one after this one's outcome
        CHECK(m.ack());
    }
    auto rest = take(c, 2);
    CHECK(text(rest[0].payload()) == "3");
    CHECK(rest[1].delivery_count() == 1);
    CHECK(rest[1].ack());
}

TEST_CASE("a nacked message backs off in place and comes again first") {
    auto o = Fixture::options();
    o.backoff_initial = 10ms;
    o.jitter = Jitter::none;
    o.max_deliveries = 3;
    Fixture f(o);
    auto c = f.consumer();
    f.publish_numbers(2);
    for (std::uint32_t n = 1; n <= 3; ++n) {
        Message m = next(c);
        CHECK(text(m.payload()) == "0");
        CHECK(m.delivery_count() == n);
        const auto before = std::chrono::steady_clock::now();
        CHECK(m.nack({.code = "no"}));
        if (n == 3) break;
        Message again = next(c);
        CHECK(std::chrono::steady_clock::now() - before >= 10ms * (1 << (n - 1)) - 5ms);  // a coarse clock
        CHECK(again.release());
    }
    CHECK(text(next(c).payload()) == "1");
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::max_deliveries);
    CHECK(dead[0].delivery_count == 3);
    CHECK(dead[0].release_count == 2);
    CHECK(dead[0].attempts.size() == 3);
}

TEST_CASE("a nack with a delay of its own, zero and the longest") {
    auto o = Fixture::options();
    o.backoff_initial = 1h;
    o.backoff_max = 1h;
    o.max_deliveries = -1;
    Fixture f(o);
    auto c = f.consumer();
    f.publish();
    Message m = next(c);
    CHECK(code_of(m.nack({}, -1ns)) == Errc::invalid_argument);
    CHECK(m.nack({}, 0ns));
    m = c.try_receive().value();
    CHECK(m.delivery_count() == 2);
    CHECK(m.nack({}, 5ms));
    m = next(c);
    CHECK(m.nack({}, forever));
    CHECK(empty(c));
    CHECK(f.stats().scheduled == 1);
}

TEST_CASE("a released message was not tried, the very first of a ring like any other") {
    auto o = Fixture::options();
    o.max_deliveries = 1;
    Fixture f(o);
    auto c = f.consumer();
    f.publish_numbers(2);
    for (int i = 0; i < 2; ++i) {
        for (int turn = 0; turn < 3; ++turn) {
            Message m = c.try_receive().value();
            CHECK(text(m.payload()) == std::to_string(i));
            CHECK(m.delivery_count() == 1);
            CHECK(m.release());
            CHECK(code_of(m.ack()) == Errc::stale_lease);
        }
        CHECK(c.try_receive().value().ack());
    }
    CHECK(f.dead().empty());
    CHECK(f.stats().released == 6);
    CHECK(f.stats().lag == 0);
}

TEST_CASE("release of the first makes the later ones stale, and charges none of them twice") {
    Fixture f;
    auto c = f.consumer();
    f.publish_numbers(3);
    auto held = take(c, 3);
    CHECK(held[0].release());
    CHECK(code_of(held[1].ack()) == Errc::stale_lease);
    held.clear();
    const std::uint32_t attempts[] = {1, 2, 2};  // "0" was not tried; "1" and "2" had been handed over
    for (int i = 0; i < 3; ++i) {
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == attempts[i]);
        CHECK(m.ack());
    }
}

TEST_CASE("dead letters of an exclusive group come in order, each after its last attempt") {
    auto o = Fixture::options();
    o.max_deliveries = 2;
    Fixture f(o);
    auto c = f.consumer();
    f.publish_numbers(6);
    for (int i = 0; i < 6; ++i) {
        if (i % 2 == 0) {
            CHECK(next(c).reject({.code = "even"}));
        } else {
            CHECK(next(c).nack({.code = "odd"}, 0ns));
            CHECK(next(c).nack({.code = "odd"}, 0ns));
        }
        CHECK(f.dead().size() == static_cast<std::size_t>(i) + 1);
    }
    const auto dead = f.dead();
    for (std::size_t i = 0; i < 6; ++i) {
        CHECK(text(dead[i].payload) == std::to_string(i));
        CHECK(dead[i].code == (i % 2 == 0 ? "even" : "odd"));
        CHECK(dead[i].delivery_count == (i % 2 == 0 ? 1 : 2));
        CHECK(dead[i].reason == (i % 2 == 0 ? DeadReason::rejected : DeadReason::max_deliveries));
    }
    CHECK(empty(c));
    CHECK(f.stats().lag == 0);
}

// ---- messages dropped without an outcome ---------------------------------------------------------------------

TEST_CASE("a dropped message is not swallowed by a later ack") {
    Fixture f;
    auto c = f.consumer();
    f.publish_numbers(4);
    std::optional<Message> first = next(c);
    { Message dropped = next(c); }
    // What was in hand behind it would swallow it, and is stale; nothing more comes until the first has an outcome.
    CHECK(empty(c));
    CHECK(first->ack());
    CHECK(f.stats().nacked == 1);
    for (int i = 1; i < 4; ++i) {
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == (i == 1 ? 2 : 1));
        CHECK(m.ack());
    }
}

TEST_CASE("messages behind a dropped one are stale at once") {
    Fixture f;
    auto c = f.consumer();
    f.publish_numbers(4);
    auto held = take(c, 4);
    { Message dropped = std::move(held[1]); }
    CHECK(code_of(held[2].ack()) == Errc::stale_lease);
    CHECK(code_of(held[3].nack()) == Errc::stale_lease);
    CHECK(code_of(held[2].extend(1s)) == Errc::stale_lease);
    CHECK(held[0].ack());
    held.clear();
    for (int i = 1; i < 4; ++i) {
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == 2);
        CHECK(m.ack());
    }
    CHECK(f.stats().lag == 0);
}

TEST_CASE("a handler that throws at every tenth message loses none: each is acked or dead") {
    for (const bool one_by_one : {true, false}) {
        CAPTURE(one_by_one);
        auto o = Fixture::options();
        o.max_deliveries = 2;
        Fixture f(o);
        auto c = f.consumer();
        constexpr int total = 100;
        f.publish_numbers(total);
        std::vector<int> acked(total, 0);
        const auto handle = [&](Message m) {
            const int i = std::stoi(text(m.payload()));
            if (i % 10 == 3) throw std::runtime_error("the handler failed");
            if (m.ack()) ++acked[static_cast<std::size_t>(i)];
        };
        while (f.stats().lag != 0) {
            std::vector<Message> held;
            for (int i = 0; i < (one_by_one ? 1 : 7); ++i) {
                auto m = c.try_receive();
                if (!m) break;
                held.push_back(std::move(*m));
            }
            if (held.empty()) held.push_back(next(c));
            for (auto& m : held) {
                try {
                    handle(std::move(m));
                } catch (const std::runtime_error&) {
                }
            }
        }
        const auto dead = f.dead();
        CHECK(dead.size() == 10);
        for (const auto& d : dead) {
            CHECK(std::stoi(text(d.payload)) % 10 == 3);
            CHECK(d.code == "handler_dropped");
            CHECK(d.delivery_count == 2);
        }
        for (int i = 0; i < total; ++i) CHECK(acked[static_cast<std::size_t>(i)] == (i % 10 == 3 ? 0 : 1));
    }
}

TEST_CASE("the last attempt of a message dropped out of turn ends as soon as it is first") {
    auto o = Fixture::options();
    o.max_deliveries = 1;
    o.max_in_flight = 2;
    Fixture f(o);
    auto c = f.consumer();
    f.publish_numbers(2);
    Message first = next(c);
    { Message dropped = next(c); }
    CHECK(f.dead().empty());
    CHECK(first.ack());
    const auto dead = f.dead();  // without another receive
    REQUIRE(dead.size() == 1);
    CHECK(text(dead[0].payload) == "1");
    CHECK(dead[0].code == "handler_dropped");
    CHECK(f.stats().lag == 0);
}

TEST_CASE("with one hand-over each nothing is in hand behind a message, so that nothing dies for its failure") {
    auto o = Fixture::options();
    o.max_deliveries = 1;
    Fixture f(o);
    auto c = f.consumer();
    f.publish_numbers(3);
    Message first = next(c);
    CHECK(empty(c));
    CHECK(first.release());
    for (const char* expected : {"0", "1", "2"}) {
        Message m = next(c);
        CHECK(text(m.payload()) == expected);
        CHECK(m.ack());
    }
    CHECK(f.dead().empty());
}

TEST_CASE("messages dropped together, in either order, all come again") {
    for (const bool backwards : {true, false}) {
        CAPTURE(backwards);
        Fixture f;
        auto c = f.consumer();
        f.publish_numbers(5);
        auto held = take(c, 5);
        if (backwards) {
            while (!held.empty()) held.pop_back();
        } else {
            while (!held.empty()) held.erase(held.begin());
        }
        for (int i = 0; i < 5; ++i) {
            Message m = next(c);
            CHECK(text(m.payload()) == std::to_string(i));
            CHECK(m.delivery_count() == 2);
            CHECK(m.ack());
        }
        CHECK(f.stats().lag == 0);
    }
}
