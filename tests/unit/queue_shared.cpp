// SPDX-License-Identifier: MIT
// Shared groups: one lease per message, four outcomes, and what becomes of each message when its lease lapses, its
// handler fails, or its outcome comes too late.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rondo/rondo.hpp"
#include "support/eventually.hpp"
#include "support/seed.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace std::chrono_literals;
using test::eventually;
using test::TmpDir;

namespace {

constexpr std::uint64_t small = 256 << 10;
constexpr Duration long_wait = 20s;  // bounds a failing test only

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

/// A queue and one shared group. Short lease, no backoff, unless the test says otherwise.
struct Fixture {
    TmpDir dir;
    Queue queue;
    Queue other;  // another participant
    Producer producer;

    explicit Fixture(GroupOptions group = brief())
        : queue(Queue::create(dir.str() + "/q", {.capacity_bytes = small}).value()),
          other(Queue::open(dir.str() + "/q").value()),
          producer(queue.producer().value()) {
        group.mode = GroupMode::shared;
        REQUIRE(queue.create_group("group", group));
    }
    static GroupOptions brief() {
        GroupOptions o{.start = Start::earliest()};
        o.lease_timeout = 10ms;
        o.backoff_initial = 0ns;
        return o;
    }
    static GroupOptions patient() {
        GroupOptions o{.start = Start::earliest()};
        o.backoff_initial = 0ns;
        return o;
    }
    Consumer consumer(std::string_view name = "consumer") { return queue.consumer("group", ConsumerOptions{name}).value(); }
    Seq publish(std::string_view payload = "x") { return producer.publish(bytes(payload)).value().seq; }
    GroupStats stats() const { return queue.stats().groups.at(0); }
    std::vector<DeadLetter> dead() { return queue.dead_letters().value().list().value(); }
    std::string file(const char* name) const {
        std::ifstream in(dir.str() + "/q/" + name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    /// Everything that says who holds what and what has died.
    std::string books() const { return file("lease-0-1.tab") + file("dead.ring") + file("lease-dead.tab"); }
};

bool empty(Consumer& c) {
    const auto m = c.try_receive();
    return !m && m.error().code == Errc::empty;
}

/// The next message, however long its lease or delay still lasts.
Message next(Consumer& c) { return c.receive(long_wait).value(); }

Errc code_of(const Result<void>& r) {
    REQUIRE_FALSE(r);
    return r.error().code;
}

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
    for (const Duration lease : {Duration(10ms), Duration(20ms), Duration(60ms), Duration(120ms)}) {
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

// ---- batches -------------------------------------------------------------------------------------------------

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

// ---- failures ------------------------------------------------------------------------------------------------

TEST_CASE("nack waits for the group's backoff, growing with each attempt") {
    auto o = Fixture::patient();
    o.backoff_initial = 10ms;
    o.backoff_multiplier = 2.0;
    o.jitter = Jitter::none;
    o.max_deliveries = 4;
    Fixture f(o);
    auto c = f.consumer();
    f.publish();
    std::vector<std::chrono::steady_clock::time_point> at;
    for (std::uint32_t n = 1; n <= 4; ++n) {
        Message m = next(c);
        at.push_back(std::chrono::steady_clock::now());
        CHECK(m.delivery_count() == n);
        CHECK(m.nack({.code = "again"}));
    }
    CHECK(at[1] - at[0] >= 10ms);
    CHECK(at[2] - at[1] >= 20ms);
    CHECK(at[3] - at[2] >= 40ms);
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    REQUIRE(dead[0].attempts.size() == 4);
    for (std::size_t i = 0; i < 3; ++i) CHECK(dead[0].attempts[i].delay_ns == 10'000'000ULL << i);
}

TEST_CASE("a delay given with nack replaces the backoff; zero is at once, negative is a mistake") {
    auto o = Fixture::patient();
    o.backoff_initial = 1h;
    o.backoff_max = 1h;
    o.max_deliveries = -1;
    Fixture f(o);
    auto c = f.consumer();
    f.publish();
    Message m = next(c);
    CHECK(code_of(m.nack({}, -1ns)) == Errc::invalid_argument);
    CHECK(code_of(m.nack({}, Duration::min())) == Errc::invalid_argument);
    CHECK(text(m.payload()) == "x");
    CHECK(m.nack({}, 0ns));
    m = c.try_receive().value();
    CHECK(m.delivery_count() == 2);
    const auto before = std::chrono::steady_clock::now();
    CHECK(m.nack({}, 15ms));
    m = next(c);
    CHECK(std::chrono::steady_clock::now() - before >= 15ms);
    CHECK(m.delivery_count() == 3);
    CHECK(m.nack());
    CHECK(empty(c));
    CHECK(f.stats().scheduled == 1);
}

TEST_CASE("the longest delays are long, not wrapped") {
    constexpr Duration field = Duration((std::int64_t{1} << 44) * 100'000);  // a deadline's field of 44 bits of 100 us
    for (const Duration delay : {forever, forever - 1ns, field, field + 1ms, 2 * field, Duration(24h)}) {
        CAPTURE(delay.count());
        Fixture f(Fixture::patient());
        auto c = f.consumer();
        f.publish();
        CHECK(next(c).nack({}, delay));
        CHECK(empty(c));
        CHECK(f.stats().scheduled == 1);
        CHECK(c.receive(1ms).error().code == Errc::timeout);
    }
}

TEST_CASE("a short delay does not wait behind a long one") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    f.publish("long");
    f.publish("short");
    Message first = next(c), second = next(c);
    CHECK(first.nack({}, 1h));
    CHECK(second.nack({}, 5ms));
    Message m = next(c);
    CHECK(text(m.payload()) == "short");
    CHECK(f.stats().scheduled == 1);
}

TEST_CASE("a message that always fails does not hold up the others: all of them are done before its next try") {
    auto o = Fixture::patient();
    o.backoff_initial = 20ms;
    o.jitter = Jitter::none;
    o.max_deliveries = 3;
    Fixture f(o);
    auto c = f.consumer();
    f.publish("poison");
    for (int i = 0; i < 99; ++i) f.publish("good");
    Message m = next(c);
    CHECK(text(m.payload()) == "poison");
    CHECK(m.nack({.code = "poison"}, 1h));
    int good = 0;
    while (auto g = c.try_receive()) {
        CHECK(text(g->payload()) == "good");
        CHECK(g->ack());
        ++good;
    }
    CHECK(good == 99);
    CHECK(f.stats().scheduled == 1);
    CHECK(f.stats().lag == 1);
}

TEST_CASE("reject is final: no further attempt, one dead letter") {
    Fixture f(Fixture::patient());
    auto c = f.consumer();
    f.publish("bad");
    CHECK(next(c).reject({.code = "bad_order"}));
    CHECK(empty(c));
    CHECK(f.stats().lag == 0);
    CHECK(f.stats().rejected == 1);
    CHECK(f.stats().dead_lettered == 1);
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::rejected);
    CHECK(dead[0].delivery_count == 1);
    CHECK(dead[0].code == "bad_order");
}

TEST_CASE("a released message comes again at once and was not tried") {
    auto o = Fixture::patient();
    o.backoff_initial = 1h;
    o.backoff_max = 1h;
    o.max_deliveries = 1;
    Fixture f(o);
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    for (int i = 0; i < 20; ++i) {
        Message m = (i % 2 == 0 ? a : b).try_receive().value();
        CHECK(m.delivery_count() == 1);
        CHECK(m.release());
        CHECK(code_of(m.ack()) == Errc::stale_lease);
    }
    CHECK(a.try_receive().value().reject({.code = "c"}));
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].release_count == 20);
    CHECK(dead[0].delivery_count == 1);
    CHECK(f.stats().released == 20);
}

TEST_CASE("a message dropped without an outcome is nacked by name") {
    auto o = Fixture::patient();
    o.max_deliveries = 2;
    Fixture f(o);
    auto c = f.consumer("careless");
    f.publish();
    { Message m = next(c); }
    CHECK(f.stats().nacked == 1);
    {
        Message m = next(c);
        CHECK(m.delivery_count() == 2);
    }
    CHECK(empty(c));
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].code == "handler_dropped");
    CHECK(dead[0].reason == DeadReason::max_deliveries);
    CHECK(dead[0].consumer == "careless");
    CHECK(f.stats().acked == 0);
}

TEST_CASE("max_deliveries bounds the hand-overs exactly: 1, 3, or not at all") {
    for (const std::int32_t limit : {1, 3, -1}) {
        CAPTURE(limit);
        auto o = Fixture::patient();
        o.max_deliveries = limit;
        Fixture f(o);
        auto c = f.consumer();
        f.publish();
        const std::uint32_t tries = limit < 0 ? 50 : static_cast<std::uint32_t>(limit);
        for (std::uint32_t n = 1; n <= tries; ++n) {
            Message m = c.try_receive().value();
            CHECK(m.delivery_count() == n);
            CHECK(f.dead().empty());
            CHECK(m.nack({.code = "no"}));
        }
        // At the last failure, not at a later receive.
        CHECK(f.dead().size() == (limit < 0 ? 0 : 1));
        CHECK(f.stats().lag == (limit < 0 ? 1 : 0));
        CHECK(empty(c) == (limit > 0));
    }
}

TEST_CASE("however an attempt fails, it counts once: every mix of three ways ends after three hand-overs") {
    enum Way { nack, dropped, lapsed };
    auto o = Fixture::brief();
    o.max_deliveries = 3;
    Fixture f(o);
    auto c = f.consumer();
    for (int mix = 0; mix < 27; ++mix) f.publish(std::to_string(mix));
    std::vector<std::uint32_t> tries(27, 0);
    std::vector<Message> held;
    for (int i = 0; i < 3 * 27; ++i) {
        Message m = next(c);
        const int mix = std::stoi(text(m.payload()));
        CHECK(m.delivery_count() == ++tries[static_cast<std::size_t>(mix)]);
        const int ways[] = {mix % 3, mix / 3 % 3, mix / 9};
        switch (static_cast<Way>(ways[m.delivery_count() - 1])) {
            case nack: CHECK(m.nack({.code = "no"}, 1ms)); break;
            case dropped: break;
            case lapsed: held.push_back(std::move(m)); break;
        }
    }
    eventually([&] { return empty(c) && f.stats().lag == 0; });
    const auto dead = f.dead();
    CHECK(dead.size() == 27);
    for (const auto& d : dead) {
        CHECK(d.delivery_count == 3);
        REQUIRE(d.attempts.size() == 3);
        for (std::uint32_t n = 0; n < 3; ++n) CHECK(d.attempts[n].number == n + 1);
    }
}

TEST_CASE("at 1023 attempts, where the count stands still, a late ack is still late") {
    auto o = Fixture::brief();
    o.max_deliveries = -1;
    Fixture f(o);
    auto a = f.consumer(), b = f.consumer();
    f.publish();
    for (int i = 0; i < 1023; ++i) REQUIRE(next(a).nack({}, 0ns));
    Message late = next(a);
    CHECK(late.delivery_count() == 1023);
    Message current = next(b);
    CHECK(current.delivery_count() == 1023);
    REQUIRE(current.extend(1h));
    CHECK(code_of(late.ack()) == Errc::stale_lease);
    CHECK(f.stats().in_flight == 1);
    CHECK(current.ack());
    CHECK(f.stats().acked == 1);
}

TEST_CASE("what comes back comes lowest first") {
    Fixture f(Fixture::patient());
    std::optional<Consumer> a = f.consumer();
    auto b = f.consumer();
    for (int i = 0; i < 5; ++i) f.publish(std::to_string(i));
    {
        std::vector<Message> held;
        for (int i = 0; i < 5; ++i) held.push_back(next(*a));
        while (!held.empty()) held.pop_back();  // the last one first
        a.reset();
    }
    for (int i = 0; i < 5; ++i) {
        Message m = next(b);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == 2);
        CHECK(m.ack());
    }
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
    const auto before = std::chrono::steady_clock::now();
    Message m = next(a);
    for (const Duration by : {Duration(1h), forever, Duration(INT64_MAX / 2)}) CHECK(m.extend(by));
    Message again = next(b);
    // The clock of the hand-over is coarse: it lags by a tick of the kernel, by more where that is late.
    CHECK(std::chrono::steady_clock::now() - before >= 15ms);
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

// ---- limits --------------------------------------------------------------------------------------------------

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

// ---- membership ----------------------------------------------------------------------------------------------

TEST_CASE("members that come and go bring nothing back that was settled") {
    Fixture f(Fixture::patient());
    std::vector<int> seen(400, 0);
    int published = 0;
    for (int round = 0; round < 100; ++round) {
        auto a = f.consumer();
        auto b = (round % 2 == 0 ? f.queue : f.other).consumer("group").value();
        for (int i = 0; i < 4; ++i) f.publish(std::to_string(published++));
        for (int i = 0; i < 4; ++i) {
            Message m = (i % 2 == 0 ? a : b).try_receive().value();
            ++seen[static_cast<std::size_t>(std::stoi(text(m.payload())))];
            CHECK(m.ack());
        }
    }
    for (const int n : seen) CHECK(n == 1);
    CHECK(f.stats().delivered == 400);
    CHECK(f.stats().acked == 400);
    CHECK(f.stats().members == 0);
}

TEST_CASE("two groups settle the same message each for itself") {
    Fixture f(Fixture::patient());
    auto a = f.consumer();
    auto b = f.queue.consumer("second", {.start = Start::earliest()}).value();
    f.publish("m");
    Message of_a = next(a), of_b = next(b);
    CHECK(of_a.reject({.code = "only here"}));
    CHECK(text(of_b.payload()) == "m");
    CHECK(of_b.ack());
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].group == "group");
    for (const auto& g : f.queue.stats().groups) CHECK(g.lag == 0);
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
