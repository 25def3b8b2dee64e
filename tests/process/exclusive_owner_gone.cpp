// ctest: TIMEOUT 120 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The active consumer of an exclusive group is stopped, killed, or leaves: order and counts for whoever comes next.
#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag ready, go_on, active;
    Count received;
    std::array<Count, 64> sequence, deliveries;
};

constexpr std::uint64_t messages = 20;

struct Scene {
    explicit Scene(const std::function<void(GroupOptions&)>& change = {}) {
        queue.emplace(must(Queue::create(path, small_queue())));
        auto g = group_of(GroupMode::exclusive);
        g.backoff_initial = 0ms;
        g.backoff_max = 0ms;
        if (change) change(g);
        must(queue->create_group("x", g));
        must(queue->create_group("other", group_of(GroupMode::exclusive)));
        auto producer = must(queue->producer());
        for (std::uint64_t i = 0; i < messages; ++i) must(publish_item(producer, {1, i}));
    }
    /// A child that takes `n` messages, acks the first `acks` of them, and then waits.
    std::unique_ptr<Child> owner(std::uint64_t n, std::uint64_t acks) {
        auto child = std::make_unique<Child>([this, n, acks] {
            auto own = must(Queue::open(path));
            auto consumer = must(own.consumer("x", {.name = "owner"}));
            std::vector<Message> hand;
            for (std::uint64_t i = 0; i < n; ++i) hand.push_back(must(consumer.receive(repair_watchdog)));
            for (std::uint64_t i = 0; i < acks; ++i) must(hand[i].ack());
            book->ready.store(1);
            eventually([&] { return book->go_on.load() == 1; }, std::chrono::minutes(1));
            if (book->go_on.load() == 1 && n > acks) must(consumer.ack_through(hand.back()));
            return 0;
        });
        eventually([&] { return book->ready.load() == 1; });
        return child;
    }
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
    SharedBlock<Book> book;
};

}  // namespace

TEST_CASE("a stopped owner blocks its own group and no other, and goes on where it was") {
    Scene s;
    auto owner = s.owner(3, 1);
    owner->stop();
    auto standby = must(s.queue->consumer("x", {.name = "standby"}));
    auto other = must(s.queue->consumer("other"));
    for (std::uint64_t i = 0; i < messages; ++i) {
        auto m = must(other.receive(repair_watchdog));
        CHECK(item_of(m).sequence == i);
        must(m.ack());
    }
    const auto end = Clock::now() + std::chrono::seconds(count_of(1, 20));
    while (Clock::now() < end) CHECK(standby.receive(100ms).error().code == Errc::timeout);
    CHECK_FALSE(standby.active());
    CHECK(group_stats(*s.queue, "x").active_owner);
    s.book->go_on.store(1);
    owner->cont();
    CHECK(owner->wait().exited_with(0));  // its acks counted
    auto m = must(standby.receive(repair_watchdog));
    CHECK(standby.active());
    CHECK(item_of(m).sequence == 3);
    CHECK(m.delivery_count() == 1);
}

TEST_CASE("a killed owner is replaced by the standby, lowest first, in order, each charged once at most") {
    Scene s;
    auto owner = s.owner(8, 3);  // 3 to 7 in hand
    Child standby([&] {
        auto own = must(Queue::open(s.path));
        auto consumer = must(own.consumer("x", {.name = "standby"}));
        s.book->ready.store(2);
        for (std::uint64_t i = 3; i < messages; ++i) {
            auto m = must(consumer.receive(forever));
            s.book->sequence[i].store(item_of(m).sequence);
            s.book->deliveries[i].store(m.delivery_count());
            s.book->received.fetch_add(1);
            must(m.ack());
        }
        return consumer.active() ? 0 : 1;
    });
    eventually([&] { return s.book->ready.load() == 2; });
    CHECK(s.book->received.load() == 0);
    owner->kill();
    CHECK(owner->wait().killed_by(SIGKILL));
    CHECK(standby.wait().exited_with(0));
    for (std::uint64_t i = 3; i < messages; ++i) {
        INFO("message ", i);
        CHECK(s.book->sequence[i].load() == i);
        CHECK(s.book->deliveries[i].load() == (i < 8 ? 2 : 1));
    }
    const auto g = group_stats(*s.queue, "x");
    CHECK(g.lag == 0);
    CHECK(g.in_flight == 0);
    CHECK(g.dead_lettered == 0);
}

TEST_CASE("after an owner's death the messages it had in hand come one at a time") {
    Scene s;
    auto owner = s.owner(5, 0);
    owner->kill();
    CHECK(owner->wait().killed_by(SIGKILL));
    auto consumer = must(s.queue->consumer("x"));
    {
        auto first = must(consumer.receive(repair_watchdog));
        CHECK(item_of(first).sequence == 0);
        CHECK(consumer.receive(60ms).error().code == Errc::timeout);  // until the first has an outcome
        must(first.ack());
    }
    for (std::uint64_t i = 1; i < 5; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == i);
        CHECK(m.delivery_count() == 2);
        must(m.ack());
    }
    std::vector<Message> hand;
    for (std::uint64_t i = 5; i < messages; ++i) {
        hand.push_back(must(consumer.receive(repair_watchdog)));
        CHECK(item_of(hand.back()).sequence == i);
        CHECK(hand.back().delivery_count() == 1);
    }
    must(consumer.ack_through(hand.back()));
}

TEST_CASE("an owner that dies over and over charges the first message only, until that one is a dead letter") {
    constexpr std::int32_t limit = 3;
    Scene s([&](GroupOptions& g) { g.max_deliveries = limit; });
    for (std::int32_t turn = 1; turn <= limit; ++turn) {
        s.book->ready.store(0);
        Child owner([&] {
            auto own = must(Queue::open(s.path));
            auto consumer = must(own.consumer("x", {.name = "victim"}));
            std::vector<Message> hand;
            // As many as it gets: all at the first turn, one at a time afterwards.
            while (hand.size() < 10) {
                auto m = consumer.receive(hand.empty() ? std::chrono::nanoseconds(repair_watchdog) : 60ms);
                if (!m) break;
                hand.push_back(std::move(*m));
            }
            s.book->deliveries[0].store(hand[0].delivery_count());
            s.book->sequence[0].store(item_of(hand[0]).sequence);
            s.book->received.store(hand.size());
            s.book->ready.store(1);
            return wait_for_the_end();
        });
        eventually([&] { return s.book->ready.load() == 1; });
        CHECK(s.book->sequence[0].load() == 0);
        CHECK(s.book->deliveries[0].load() == static_cast<std::uint64_t>(turn));
        CHECK(s.book->received.load() == (turn == 1 ? 10 : 1));
        owner.kill();
        CHECK(owner.wait().killed_by(SIGKILL));
    }
    auto consumer = must(s.queue->consumer("x"));
    for (std::uint64_t i = 1; i < messages; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == i);
        CHECK(m.delivery_count() <= 2);
        must(m.ack());
    }
    auto dead = must(s.queue->dead_letters());
    const auto list = must(dead.list());
    REQUIRE(list.size() == 1);
    CHECK(list[0].reason == DeadReason::owner_died_limit);
    CHECK(list[0].delivery_count == limit);
    CHECK(list[0].consumer == "victim");
    CHECK(read_item(list[0].payload)->sequence == 0);
}

TEST_CASE("an owner that closes hands over to the standby at once, and nothing is handed over twice") {
    Scene s;
    auto owner = s.owner(4, 4);
    Child standby([&] {
        auto own = must(Queue::open(s.path));
        auto consumer = must(own.consumer("x"));
        s.book->ready.store(2);
        auto m = must(consumer.receive(forever));
        s.book->sequence[0].store(item_of(m).sequence);
        s.book->deliveries[0].store(m.delivery_count());
        must(m.ack());
        return 0;
    });
    eventually([&] { return s.book->ready.load() == 2; });
    s.book->go_on.store(1);
    CHECK(owner->wait().exited_with(0));
    CHECK(standby.wait().exited_with(0));
    CHECK(s.book->sequence[0].load() == 4);
    CHECK(s.book->deliveries[0].load() == 1);
}

TEST_CASE("members that come and go a hundred times cause no duplicate of anything acked, and keep the order") {
    Scene s;
    std::uint64_t expected = 0, sent = messages;
    auto r = rng();
    auto producer = must(s.queue->producer());
    for (int turn = 0; turn < 100; ++turn) {
        for (std::uint64_t i = r.below(4); i > 0; --i) must(publish_item(producer, {1, sent++}));
        auto own = must(Queue::open(s.path, {.prefault = false}));
        auto consumer = must(own.consumer("x"));
        for (std::uint64_t i = r.below(6); i > 0 && expected < sent; --i) {
            auto m = must(consumer.receive(repair_watchdog));
            CHECK(item_of(m).sequence == expected++);
            CHECK(m.delivery_count() == 1);
            must(m.ack());
        }
    }
    auto consumer = must(s.queue->consumer("x"));
    while (expected < sent) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == expected++);
        must(m.ack());
    }
    CHECK(group_stats(*s.queue, "x").redelivered == 0);
}
