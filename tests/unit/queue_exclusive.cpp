// SPDX-License-Identifier: MIT
// Exclusive groups: one active member, order, cumulative ack, and who is blamed when a message fails.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rondo/rondo.hpp"
#include "support/eventually.hpp"
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

struct Fixture {
    TmpDir dir;
    Queue queue;
    Queue other;  // another participant
    Producer producer;

    explicit Fixture(GroupOptions group = options(), QueueOptions q = {})
        : queue(make(dir, q)), other(Queue::open(dir.str() + "/q").value()), producer(queue.producer().value()) {
        group.mode = GroupMode::exclusive;
        REQUIRE(queue.create_group("group", group));
    }
    static Queue make(const TmpDir& dir, QueueOptions q) {
        q.capacity_bytes = small;
        return Queue::create(dir.str() + "/q", q).value();
    }
    static GroupOptions options() {
        GroupOptions o{.start = Start::earliest()};
        o.backoff_initial = 0ns;
        return o;
    }
    Consumer consumer(std::string_view name = "consumer") { return queue.consumer("group", ConsumerOptions{name}).value(); }
    Seq publish(std::string_view payload = "x") { return producer.publish(bytes(payload)).value().seq; }
    void publish_numbers(int n) {
        for (int i = 0; i < n; ++i) publish(std::to_string(i));
    }
    GroupStats stats() const { return queue.stats().groups.at(0); }
    std::vector<DeadLetter> dead() { return queue.dead_letters().value().list().value(); }
};

bool empty(Consumer& c) {
    const auto m = c.try_receive();
    return !m && m.error().code == Errc::empty;
}
Message next(Consumer& c) { return c.receive(long_wait).value(); }
std::vector<Message> take(Consumer& c, int n) {
    std::vector<Message> out;
    for (int i = 0; i < n; ++i) out.push_back(c.try_receive().value());
    return out;
}
Errc code_of(const Result<void>& r) {
    REQUIRE_FALSE(r);
    return r.error().code;
}

}  // namespace

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
    {
        Message dropped = std::move(held[1]);
    }
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

// ---- take-over -----------------------------------------------------------------------------------------------

TEST_CASE("a standby takes over when the active member closes, at the first unsettled message") {
    for (const bool same_participant : {true, false}) {
        CAPTURE(same_participant);
        Fixture f;
        std::optional<Consumer> a = f.consumer("a");
        auto b = (same_participant ? f.queue : f.other).consumer("group", ConsumerOptions{"b"}).value();
        f.publish_numbers(6);
        auto held = take(*a, 4);
        CHECK(held[0].ack());
        CHECK(empty(b));
        std::optional<Message> got;
        std::thread waiter([&] { got = next(b); });
        a.reset();
        waiter.join();
        CHECK(b.active());
        REQUIRE(got);
        CHECK(text(got->payload()) == "1");
        CHECK(got->delivery_count() == 2);
        // The former owner's messages are readable, but not its any more.
        CHECK(text(held[1].payload()) == "1");
        CHECK(code_of(held[1].ack()) == Errc::stale_lease);
        CHECK(code_of(held[2].nack()) == Errc::stale_lease);
        held.clear();
        // One at a time below what had been handed over, then freely.
        CHECK(empty(b));
        CHECK(got->ack());
        for (int i = 2; i < 4; ++i) {
            Message m = next(b);
            CHECK(text(m.payload()) == std::to_string(i));
            CHECK(m.delivery_count() == 2);
            if (i == 2) CHECK(empty(b));
            CHECK(m.ack());
        }
        auto rest = take(b, 2);
        CHECK(rest[0].delivery_count() == 1);
        CHECK(rest[1].ack());
        CHECK(f.stats().lag == 0);
    }
}

TEST_CASE("a chain of owners that give up charges the first message once each, its neighbours once in all") {
    auto o = Fixture::options();
    o.max_deliveries = 4;
    Fixture f(o);
    f.publish_numbers(3);
    for (std::uint32_t n = 1; n <= 4; ++n) {
        auto c = f.consumer();
        Message m = next(c);
        CHECK(text(m.payload()) == "0");
        CHECK(m.delivery_count() == n);
        if (n == 1) CHECK(take(c, 2).size() == 2);
        if (n == 4) CHECK(m.nack({.code = "at last"}));
    }
    auto c = f.consumer();
    for (int i = 1; i < 3; ++i) {
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.delivery_count() == 2);
        CHECK(m.ack());
    }
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].delivery_count == 4);
    CHECK(dead[0].code == "at last");
}

TEST_CASE("a message that its last owner left spent is dead, not tried once more") {
    auto o = Fixture::options();
    o.max_deliveries = 1;
    Fixture f(o);
    f.publish_numbers(2);
    std::optional<Message> held;
    {
        auto a = f.consumer();
        held = next(a);
    }
    auto b = f.consumer();
    Message m = next(b);
    CHECK(text(m.payload()) == "1");
    CHECK(m.delivery_count() == 1);
    const auto dead = f.dead();
    REQUIRE(dead.size() == 1);
    CHECK(text(dead[0].payload) == "0");
    CHECK(dead[0].delivery_count == 1);
}

TEST_CASE("the bytes that a closed member's messages show stay until they are dropped") {
    Fixture f;
    f.publish("kept");
    std::optional<Message> held;
    {
        auto a = f.consumer();
        held = next(a);
    }
    auto b = f.consumer();
    CHECK(next(b).ack());
    std::uint64_t n = 0;
    while (f.producer.try_publish(bytes("one slot"))) ++n;
    CHECK(n == f.queue.stats().capacity_slots - 1);  // the held message still needs its slot
    CHECK(text(held->payload()) == "kept");
    held.reset();
    CHECK(f.producer.try_publish(bytes("one slot")));
}

TEST_CASE("whoever becomes active finds the marks of many laps") {
    Fixture f;
    std::string payload(700, 'p');
    for (int i = 0; i < 1200; ++i) {
        f.publish(payload);
        auto c = (i % 2 == 0 ? f.queue : f.other).consumer("group").value();
        Message m = next(c);
        REQUIRE(m.delivery_count() == 1);
        REQUIRE(m.payload().size() == payload.size());
        REQUIRE(m.ack());
    }
    CHECK(f.queue.stats().tail > 3 * f.queue.stats().capacity_slots);
    CHECK(f.stats().acked == 1200);
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
