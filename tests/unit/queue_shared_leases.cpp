// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Leases of a shared group: one per message, never ended before its time, extended by its holder, and what becomes of a
// message and of a late outcome when one lapses.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "os/clock.hpp"
#include "support/eventually.hpp"
#include "support/seed.hpp"
#include "unit/queue_shared.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Verb {
    const char* name;
    std::function<Result<void>(Message&)> call;
};
const std::vector<Verb>& verbs() {
    static const std::vector<Verb> all = {
        {"ack", [](Message& m) { return m.ack(); }},
        {"nack", [](Message& m) { return m.nack({.code = "late"}); }},
        {"nack at once", [](Message& m) { return m.nack({.code = "late"}, 0ns); }},
        {"reject", [](Message& m) { return m.reject({.code = "late"}); }},
        {"release", [](Message& m) { return m.release(); }},
        {"extend", [](Message& m) { return m.extend(1h); }},
    };
    return all;
}

}  // namespace

// ---- leases --------------------------------------------------------------------------------------------------

TEST_CASE("each message goes to one consumer only, whoever they are") {
    Fixture f(Fixture::patient());
    auto a = f.consumer(), b = f.consumer();
    auto c = f.other.consumer("group").value();
    for (int i = 0; i < 30; ++i) f.publish(std::to_string(i));
    std::vector<Message> held;
    Consumer* all[] = {&a, &b, &c};
    for (int i = 0; i < 30; ++i) {
        held.push_back(all[i % 3]->try_receive().value());
        CHECK(text(held.back().payload()) == std::to_string(i));
        CHECK(held.back().delivery_count() == 1);
    }
    for (auto* x : all) CHECK(empty(*x));
    CHECK(f.stats().in_flight == 30);
    for (auto& m : held) CHECK(m.ack());
    CHECK(f.stats().lag == 0);
    CHECK(f.stats().acked == 30);
}

TEST_CASE("messages may be settled in any order: the floor stands at the first that is not") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    std::vector<Message> held;
    for (int i = 0; i < 50; ++i) f.publish();
    for (int i = 0; i < 50; ++i) held.push_back(c.try_receive().value());
    auto rng = test::rng();
    std::vector<bool> done(50, false);
    for (std::size_t left = 50; left > 0; --left) {
        std::size_t i = rng.below(50);
        while (done[i]) i = (i + 1) % 50;
        CHECK(held[i].ack());
        done[i] = true;
        std::size_t first = 0;
        while (first < 50 && done[first]) ++first;
        const auto s = f.stats();
        CHECK(s.floor == (first < 50 ? held[first].seq() : f.queue.stats().tail));
        CHECK(s.lag == left - 1);
        CHECK(s.in_flight == left - 1);
    }
}

TEST_CASE("a lapsed lease lets another consumer try again, and counts the attempt") {
    Fixture f;
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    Message first = next(a);
    CHECK(first.delivery_count() == 1);
    Message second = next(b);
    CHECK(second.seq() == first.seq());
    CHECK(second.delivery_count() == 2);
    CHECK(second.lease_id() != first.lease_id());
    CHECK(text(first.payload()) == "x");  // the bytes stay while they are held
    CHECK(second.ack());
    CHECK(f.stats().lapsed == 1);
    CHECK(f.stats().redelivered == 1);
    CHECK(f.stats().lag == 0);
}

TEST_CASE("a lapsed lease that nobody took still counts: the work is not wasted") {
    for (const auto& verb : verbs()) {
        CAPTURE(verb.name);
        Fixture f;
        auto a = f.consumer();
        f.publish();
        Message m = next(a);
        const auto lapsed = std::chrono::steady_clock::now() + 15ms;
        eventually([&] { return std::chrono::steady_clock::now() > lapsed; });
        CHECK(verb.call(m));
        CHECK(f.stats().lapsed == 0);
    }
}

TEST_CASE("an outcome that comes after the message went to another changes nothing at all") {
    for (const bool same_participant : {true, false}) {
        for (const auto& verb : verbs()) {
            for (const bool before_the_other : {true, false}) {
                CAPTURE(same_participant);
                CAPTURE(verb.name);
                CAPTURE(before_the_other);
                Fixture f;
                auto a = f.consumer("a");
                auto b = same_participant ? f.consumer("b") : f.other.consumer("group", ConsumerOptions{"b"}).value();
                f.publish();
                Message late = next(a);
                Message current = next(b);
                REQUIRE(current.delivery_count() == 2);
                REQUIRE(current.extend(1h));
                if (!before_the_other) CHECK(current.ack());
                const std::string before = f.books();
                CHECK(code_of(verb.call(late)) == Errc::stale_lease);
                CHECK(code_of(verb.call(late)) == Errc::stale_lease);
                CHECK((f.books() == before));
                if (before_the_other) CHECK(current.ack());
                CHECK(empty(a));
                CHECK(empty(b));
                const auto s = f.stats();
                CHECK(s.acked == 1);
                CHECK(s.nacked == 0);
                CHECK(s.rejected == 0);
                CHECK(s.released == 0);
                CHECK(s.stale == 2);
                CHECK(s.lag == 0);
                CHECK(f.dead().empty());
            }
        }
    }
}

TEST_CASE("a late drop is no failure of the message") {
    Fixture f;
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    std::optional<Message> late = next(a);
    Message current = next(b);
    REQUIRE(current.extend(1h));
    const std::string before = f.books();
    late.reset();
    CHECK((f.books() == before));
    CHECK(current.ack());
    CHECK(f.stats().nacked == 0);
    CHECK(f.stats().acked == 1);
}

TEST_CASE("an outcome that comes while the message waits for its next attempt changes nothing") {
    for (const auto& verb : verbs()) {
        CAPTURE(verb.name);
        auto o = Fixture::brief();
        o.backoff_initial = 1h;
        o.backoff_max = 1h;
        Fixture f(o);
        auto a = f.consumer(), b = f.consumer();
        f.publish();
        Message late = next(a);
        eventually([&] { return empty(b) && f.stats().scheduled == 1; });
        const std::string before = f.books();
        CHECK(code_of(verb.call(late)) == Errc::stale_lease);
        CHECK((f.books() == before));
        CHECK(f.stats().scheduled == 1);
    }
}

TEST_CASE("the lease never ends before its time, and is as long as it was set") {
    for (const Duration lease : {Duration(10ms), Duration(20ms), Duration(60ms), Duration(1020ms)}) {
        CAPTURE(lease.count());
        auto o = Fixture::brief();
        o.lease_timeout = lease;
        Fixture f(o);
        auto a = f.consumer(), b = f.consumer();
        f.publish();
        const auto before = std::chrono::steady_clock::now();
        Message m = next(a);
        Message again = next(b);
        CHECK(std::chrono::steady_clock::now() - before >= lease);
    }
    auto o = Fixture::brief();
    o.lease_timeout = 1h;
    Fixture f(o);
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    Message m = next(a);
    CHECK(b.receive(60ms).error().code == Errc::timeout);
    CHECK(m.ack());
}

TEST_CASE("a message whose every lease lapses dies after exactly max_deliveries, for that reason") {
    auto o = Fixture::brief();
    o.max_deliveries = 3;
    Fixture f(o);
    auto a = f.consumer("sleepy");
    f.publish("slow");
    std::vector<Message> held;
    for (std::uint32_t n = 1; n <= 3; ++n) {
        held.push_back(next(a));
        CHECK(held.back().delivery_count() == n);
    }
    eventually([&] { return empty(a) && f.stats().lag == 0; });
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::lease_expired_limit);
    CHECK(dead[0].delivery_count == 3);
    CHECK(dead[0].consumer == "sleepy");
    REQUIRE(dead[0].attempts.size() == 3);
    for (const auto& attempt : dead[0].attempts) CHECK(attempt.outcome == format::Outcome::lease_expired);
    CHECK(f.stats().lapsed == 3);
    CHECK(f.stats().dead_lettered == 1);
}

TEST_CASE("of ten leases one lapses: the other nine are not touched") {
    Fixture f(Fixture::patient());
    auto a = f.consumer(), b = f.consumer();
    for (int i = 0; i < 10; ++i) f.publish();
    std::vector<Message> held;
    for (int i = 0; i < 10; ++i) held.push_back(next(a));
    REQUIRE(held[0].extend(1ms));
    Message again = next(b);
    CHECK(again.seq() == held[0].seq());
    CHECK(empty(b));
    for (std::size_t i = 1; i < 10; ++i) CHECK(held[i].ack());
    CHECK(again.ack());
    CHECK(code_of(held[0].ack()) == Errc::stale_lease);
    CHECK(f.stats().acked == 10);
}

TEST_CASE("a lease id names one hand-over, for ever") {
    Fixture f(Fixture::patient());
    std::vector<std::uint64_t> ids;
    for (int i = 0; i < 30; ++i) f.publish();
    for (int i = 0; i < 10; ++i) {
        auto c = f.consumer();  // may get the place of the one before
        ids.push_back(next(c).lease_id());
        auto d = f.other.consumer("group").value();
        ids.push_back(next(d).lease_id());
        auto reopened = Queue::open(f.dir.str() + "/q").value();
        auto e = reopened.consumer("group").value();
        Message m = next(e);
        ids.push_back(m.lease_id());
        CHECK(m.release());
    }
    std::sort(ids.begin(), ids.end());
    CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

// ---- extend --------------------------------------------------------------------------------------------------

TEST_CASE("extend keeps a lease as long as its holder wants") {
    Fixture f;
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    Message m = next(a);
    for (int i = 0; i < 3; ++i) {
        CHECK(m.extend(1h));
        CHECK(b.receive(15ms).error().code == Errc::timeout);
    }
    CHECK(m.ack());
    CHECK(f.stats().lapsed == 0);
    CHECK(f.stats().delivered == 1);
}

TEST_CASE("extend sets the deadline anew: it may also shorten it") {
    auto o = Fixture::patient();
    o.lease_timeout = 1h;
    Fixture f(o);
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    Message m = next(a);
    CHECK(m.extend(1ms));
    CHECK(next(b).delivery_count() == 2);
}

TEST_CASE("nothing and less than nothing extend no lease") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    f.publish();
    Message m = next(c);
    const std::string before = f.books();
    CHECK(code_of(m.extend(0ns)) == Errc::invalid_argument);
    CHECK(code_of(m.extend(-1s)) == Errc::invalid_argument);
    CHECK(code_of(m.extend(Duration::min())) == Errc::invalid_argument);
    CHECK((f.books() == before));
    CHECK(m.ack());
}

TEST_CASE("a lease cannot be extended beyond max_lease_total") {
    auto o = Fixture::brief();
    o.max_lease_total = 30ms;
    Fixture f(o);
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    const std::uint64_t before = os::mono_coarse_ns();  // the clock of the hand-over
    Message m = next(a);
    for (const Duration by : {Duration(1h), forever, Duration(INT64_MAX / 2)}) CHECK(m.extend(by));
    Message again = next(b);
    CHECK(os::mono_ns() - before >= 30'000'000);
    CHECK(again.delivery_count() == 2);
    CHECK(code_of(m.extend(1h)) == Errc::stale_lease);
}

TEST_CASE("a settled message has no lease to extend") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    f.publish();
    f.publish();
    Message m = next(c);
    CHECK(m.ack());
    CHECK(code_of(m.extend(1s)) == Errc::stale_lease);
    m = next(c);
    CHECK(m.nack());
    CHECK(code_of(m.extend(1s)) == Errc::stale_lease);
}
