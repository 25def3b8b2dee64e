// SPDX-License-Identifier: MIT
// Objects that outlive each other, are moved, or are asked twice: any order of destruction is legal, an outcome is
// given once, and nothing is left behind.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

using namespace rondo;
using namespace rondo::test;
using test::TmpDir;

namespace {

struct Fixture {
    TmpDir dir;
    Queue queue;  // stays open: looks on

    Fixture() : queue(Queue::create(dir.str() + "/q", {.capacity_bytes = small}).value()) {}
    Queue open() const { return Queue::open(dir.str() + "/q", {.prefault = false}).value(); }
    static GroupOptions options(GroupMode mode) {
        GroupOptions o{.mode = mode, .start = Start::earliest()};
        o.backoff_initial = 0ns;
        o.max_deliveries = -1;
        return o;
    }
    GroupStats stats(std::size_t group = 0) const { return queue.stats().groups.at(group); }
};

/// Every verb, and what a message says that has none left to give.
void check_spent(Message& m, Errc expected) {
    CHECK(code_of(m.ack()) == expected);
    CHECK(code_of(m.nack()) == expected);
    CHECK(code_of(m.nack({}, 0ns)) == expected);
    CHECK(code_of(m.reject({.code = "c"})) == expected);
    CHECK(code_of(m.release()) == expected);
    CHECK(code_of(m.extend(1s)) == expected);
    CHECK(m.payload().empty());
    CHECK(m.key().empty());
    CHECK(m.header_count() == 0);
    CHECK_FALSE(m.type());
    CHECK_FALSE(m.message_id());
    CHECK_FALSE(m.header("h"));
    CHECK(m.header(0).name.empty());
}

static_assert(!std::is_copy_constructible_v<Message> && !std::is_copy_constructible_v<Batch> &&
              !std::is_copy_constructible_v<Claim> && !std::is_copy_constructible_v<Consumer> &&
              !std::is_copy_constructible_v<Producer> && !std::is_copy_constructible_v<Queue>);
static_assert(std::is_nothrow_move_constructible_v<Message> && std::is_nothrow_move_constructible_v<Queue>);

}  // namespace

TEST_CASE("an outcome is given once, whichever it was") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        const std::function<Result<void>(Message&)> verbs[] = {
            [](Message& m) { return m.ack(); }, [](Message& m) { return m.nack({}, 1h); },
            [](Message& m) { return m.reject({.code = "c"}); }, [](Message& m) { return m.release(); }};
        for (const auto& verb : verbs) {
            Fixture f;
            auto consumer = f.queue.consumer("g", Fixture::options(mode)).value();
            const std::array<Header, 1> headers = {Header{"h", "v"}};
            PublishOptions o;
            o.key = "k";
            o.type = 1;
            o.headers = headers;
            REQUIRE(f.queue.producer().value().publish(bytes("x"), o));
            Message m = consumer.try_receive().value();
            CHECK(verb(m));
            check_spent(m, Errc::stale_lease);
            const auto s = f.stats();
            CHECK(s.acked + s.nacked + s.rejected + s.released == 1);
            CHECK(s.stale == 5);  // extend is no outcome
        }
    }
}

TEST_CASE("a settled message has no power over the one that came after it") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        auto consumer = f.queue.consumer("g", Fixture::options(mode)).value();
        auto producer = f.queue.producer().value();
        for (const char* p : {"old", "new"}) REQUIRE(producer.publish(bytes(p)));
        Message old = consumer.try_receive().value();
        CHECK(old.ack());
        Message current = consumer.try_receive().value();
        check_spent(old, Errc::stale_lease);
        { const Message gone = std::move(old); }
        CHECK(text(current.payload()) == "new");
        CHECK(f.stats().in_flight == 1);
        CHECK(f.stats().acked == 1);
        CHECK(f.stats().nacked == 0);
        CHECK(current.ack());
    }
}

TEST_CASE("a message that was moved from has nothing to say, the one moved to has it all") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        auto consumer = f.queue.consumer("g", Fixture::options(mode)).value();
        auto producer = f.queue.producer().value();
        for (const char* p : {"a", "b"}) REQUIRE(producer.publish(bytes(p)));
        Message m = consumer.try_receive().value();
        Message other(std::move(m));
        check_spent(m, Errc::invalid_argument);  // NOLINT: the state after a move is part of the contract
        CHECK_FALSE(m.accepted_at_ns());         // NOLINT
        CHECK(text(other.payload()) == "a");
        m = std::move(other);
        CHECK(text(m.payload()) == "a");
        auto& self = m;
        m = std::move(self);
        CHECK(text(m.payload()) == "a");
        CHECK(m.ack());
        m = consumer.try_receive().value();
        CHECK(text(m.payload()) == "b");
        CHECK(f.stats().nacked == 0);
        CHECK(m.ack());
    }
}

TEST_CASE("a message that another one is moved onto is dropped: nacked") {
    Fixture f;
    auto consumer = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
    auto producer = f.queue.producer().value();
    for (const char* p : {"a", "b"}) REQUIRE(producer.publish(bytes(p)));
    Message a = consumer.try_receive().value();
    Message b = consumer.try_receive().value();
    a = std::move(b);
    CHECK(f.stats().nacked == 1);
    CHECK(a.ack());
    CHECK(text(consumer.receive(long_wait).value().payload()) == "a");
}

TEST_CASE("a shared group's message can be settled after its consumer and its queue are gone") {
    for (const bool from_another_thread : {false, true}) {
        Fixture f;
        std::optional<Queue> queue = f.open();
        std::optional<Consumer> consumer = queue->consumer("g", Fixture::options(GroupMode::shared)).value();
        REQUIRE(queue->producer().value().publish(bytes("x")));
        REQUIRE(queue->producer().value().publish(bytes("y")));
        std::optional<Message> m = consumer->try_receive().value();
        std::optional<Message> n = consumer->try_receive().value();
        consumer.reset();
        queue.reset();
        CHECK(f.queue.stats().participants == 2);  // the messages keep it
        CHECK(text(m->payload()) == "x");
        CHECK(m->extend(1h));
        if (from_another_thread) {
            std::thread([&] { CHECK(m->ack()); }).join();
        } else {
            CHECK(m->ack());
        }
        CHECK(n->nack({}, 1h));
        CHECK(f.stats().acked == 1);
        CHECK(f.stats().scheduled == 1);
        m.reset();
        n.reset();
        CHECK(f.queue.stats().participants == 1);
        CHECK(f.queue.stats().consumers == 0);
    }
}

TEST_CASE("an exclusive group's message cannot: another member may have it already") {
    Fixture f;
    std::optional<Message> m;
    {
        auto queue = f.open();
        auto consumer = queue.consumer("g", Fixture::options(GroupMode::exclusive)).value();
        REQUIRE(queue.producer().value().publish(bytes("x")));
        m = consumer.try_receive().value();
    }
    CHECK(text(m->payload()) == "x");
    CHECK(code_of(m->ack()) == Errc::stale_lease);
    auto next = f.queue.consumer("g").value();
    CHECK(next.try_receive().value().ack());
}

TEST_CASE("after close an outcome either counts and says so, or does not and says that") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        auto queue = f.open();
        auto consumer = queue.consumer("g", Fixture::options(mode)).value();
        auto producer = queue.producer().value();
        for (int i = 0; i < 2; ++i) REQUIRE(producer.publish(bytes("x")));
        Message m = consumer.try_receive().value();
        Message n = consumer.try_receive().value();
        queue.close();
        CHECK(text(m.payload()) == "x");
        const auto acked = m.ack();
        CHECK((acked || acked.error().code == Errc::closed));
        CHECK(f.stats().acked == (acked ? 1 : 0));
        CHECK(f.stats().lag == (acked ? 1 : 2));
        const auto released = n.release();
        CHECK((released || released.error().code == Errc::closed));
    }
}

TEST_CASE("queue, producer, claim, consumer, batch and message go in any order, and leave nothing behind") {
    enum Part { queue, producer, claim, consumer, batch, message };
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        REQUIRE(f.queue.create_group("g", Fixture::options(mode)));
        std::array<Part, 6> order = {queue, producer, claim, consumer, batch, message};
        int round = 0;
        do {
            if (mode == GroupMode::exclusive && ++round % 5 != 0) continue;  // a sample is enough
            std::string shown;
            for (const Part p : order) shown += std::to_string(p);
            CAPTURE(shown);
            auto q = std::make_unique<Queue>(f.open());
            auto p = std::make_unique<Producer>(q->producer().value());
            for (int i = 0; i < 3; ++i) REQUIRE(p->publish(bytes("x")));
            auto cl = std::make_unique<Claim>(p->claim(8).value());
            auto c = std::make_unique<Consumer>(q->consumer("g").value());
            auto m = std::make_unique<Message>(c->try_receive().value());
            auto b = std::make_unique<Batch>(c->receive_batch(2, 0ns).value());
            for (const Part part : order) {
                switch (part) {
                    case queue:
                        q.reset();
                        break;
                    case producer:
                        p.reset();
                        break;
                    case claim:
                        cl.reset();
                        break;
                    case consumer:
                        c.reset();
                        break;
                    case batch:
                        b.reset();
                        break;
                    case message:
                        m.reset();
                        break;
                }
            }
            const auto s = f.queue.stats();
            REQUIRE(s.participants == 1);
            REQUIRE(s.producers == 0);
            REQUIRE(s.consumers == 0);
            REQUIRE(s.groups.at(0).in_flight == 0);
            REQUIRE(s.groups.at(0).lag == 3);
            REQUIRE_FALSE(s.groups.at(0).active_owner);
            auto sweeper = f.queue.consumer("g").value();
            for (int i = 0; i < 3; ++i) REQUIRE(sweeper.receive(long_wait).value().ack());
            REQUIRE(f.stats().lag == 0);
        } while (std::next_permutation(order.begin(), order.end()));
        CHECK(f.queue.dead_letters().value().list().value().empty());
    }
}

TEST_CASE("objects that were moved from say so, and go without harm") {
    Fixture f;
    auto queue = f.open();
    auto consumer = queue.consumer("g", Fixture::options(GroupMode::shared)).value();
    auto letters = queue.dead_letters().value();
    Queue q2(std::move(queue));
    Consumer c2(std::move(consumer));
    DeadLetters l2(std::move(letters));
    // NOLINTBEGIN: the state after a move is part of the contract
    CHECK(queue.producer().error().code == Errc::invalid_argument);
    CHECK(queue.consumer("g").error().code == Errc::invalid_argument);
    CHECK(queue.consumer("g", Fixture::options(GroupMode::shared)).error().code == Errc::invalid_argument);
    CHECK(queue.create_group("h", Fixture::options(GroupMode::shared)).error().code == Errc::invalid_argument);
    CHECK(queue.delete_group("g").error().code == Errc::invalid_argument);
    CHECK(queue.dead_letters().error().code == Errc::invalid_argument);
    CHECK(queue.capacity() == 0);
    CHECK(queue.max_payload_bytes() == 0);
    CHECK(queue.stats().capacity_slots == 0);
    CHECK(queue.explain({Errc::busy, 0, "why"}) == "why");
    queue.close();
    CHECK(consumer.receive(1ms).error().code == Errc::invalid_argument);
    CHECK(consumer.try_receive().error().code == Errc::invalid_argument);
    CHECK(consumer.receive_batch(1, 0ns).error().code == Errc::invalid_argument);
    CHECK(consumer.wait_fd().error().code == Errc::invalid_argument);
    CHECK(consumer.last_gap().error().code == Errc::invalid_argument);
    CHECK_FALSE(consumer.active());
    CHECK(letters.list().error().code == Errc::invalid_argument);
    CHECK(letters.show(0).error().code == Errc::invalid_argument);
    CHECK(letters.redrive({}, false).error().code == Errc::invalid_argument);
    CHECK(letters.discard({}, "r", false).error().code == Errc::invalid_argument);
    // NOLINTEND
    CHECK(q2.producer().value().publish(bytes("x")));
    CHECK(c2.try_receive().value().ack());
    CHECK(l2.list());
    queue = std::move(q2);
    CHECK(queue.producer());
}

TEST_CASE("a queue that is replaced by another one is let go") {
    Fixture f;
    TmpDir dir;
    auto queue = f.open();
    CHECK(f.queue.stats().participants == 2);
    queue = Queue::create(dir.str() + "/other", {.capacity_bytes = small}).value();
    CHECK(f.queue.stats().participants == 1);
}

TEST_CASE("the last message of a queue may be dropped by another thread") {
    Fixture f;
    std::optional<Message> m;
    {
        auto queue = f.open();
        auto consumer = queue.consumer("g", Fixture::options(GroupMode::shared)).value();
        REQUIRE(consumer.wait_fd());
        REQUIRE(queue.producer().value().publish(bytes("x")));
        m = consumer.try_receive().value();
    }
    std::thread([last = std::move(m)]() mutable { last.reset(); }).join();
    CHECK(f.queue.stats().participants == 1);
    CHECK(f.stats().nacked == 1);
    CHECK(f.stats().lag == 1);
}
