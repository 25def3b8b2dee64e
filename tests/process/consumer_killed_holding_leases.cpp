// ctest: TIMEOUT 90 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A consumer of a shared group dies: what it had in hand comes to the others at once and is charged, what it had only
// prefetched comes to them uncharged.
#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag holds;
};

constexpr std::uint64_t messages = 30;

struct Scene {
    explicit Scene(const std::function<void(GroupOptions&)>& change = {}) {
        queue.emplace(must(Queue::create(path, small_queue())));
        auto g = group_of(GroupMode::shared);
        g.lease_timeout = 1h;
        g.max_lease_total = 2h;
        if (change) change(g);
        must(queue->create_group("g", g));
        auto producer = must(queue->producer());
        for (std::uint64_t i = 0; i < messages; ++i) must(publish_item(producer, {1, i}));
    }
    /// Everything that is left, by sequence, with its delivery count.
    std::map<std::uint64_t, std::uint32_t> rest(Consumer& consumer, std::uint64_t n) const {
        std::map<std::uint64_t, std::uint32_t> seen;
        while (seen.size() < n) {
            auto m = must(consumer.receive(repair_watchdog));
            CHECK(seen.emplace(item_of(m).sequence, m.delivery_count()).second);
            must(m.ack());
        }
        CHECK(consumer.receive(60ms).error().code == Errc::timeout);
        return seen;
    }
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
    SharedBlock<Book> book;
};

}  // namespace

TEST_CASE("messages in the hands of a killed consumer come to another one at once, charged once more") {
    Scene s;
    constexpr std::uint64_t held = 5;
    Child victim([&] {
        auto queue = must(Queue::open(s.path));
        auto consumer = must(queue.consumer("g", {.name = "victim"}));
        std::vector<Message> hand;
        for (std::uint64_t i = 0; i < held; ++i) hand.push_back(must(consumer.receive(repair_watchdog)));
        s.book->holds.store(1);
        return wait_for_the_end();
    });
    eventually([&] { return s.book->holds.load() == 1; });
    CHECK(group_stats(*s.queue, "g").in_flight == held);
    victim.kill();
    CHECK(victim.wait().killed_by(SIGKILL));
    auto consumer = must(s.queue->consumer("g"));
    const auto seen = s.rest(consumer, messages);
    for (const auto& [sequence, deliveries] : seen) CHECK(deliveries == (sequence < held ? 2 : 1));
    const auto g = group_stats(*s.queue, "g");
    CHECK(g.owner_died == held);
    CHECK(g.lapsed == 0);
    CHECK(g.in_flight == 0);
    CHECK(s.queue->stats().consumers == 1);
}

TEST_CASE("of a batch whose consumer is killed only the messages that it had handed over are charged") {
    Scene s;
    constexpr std::uint64_t touched = 3;
    Child victim([&] {
        auto queue = must(Queue::open(s.path));
        auto consumer = must(queue.consumer("g"));
        auto batch = must(consumer.receive_batch(20, repair_watchdog));
        if (batch.size() != 20) return 1;
        std::vector<Message> hand;
        for (std::uint64_t i = 0; i < touched; ++i) hand.push_back(std::move(*batch.next()));
        s.book->holds.store(1);
        return wait_for_the_end();
    });
    eventually([&] { return s.book->holds.load() == 1; });
    victim.kill();
    CHECK(victim.wait().killed_by(SIGKILL));
    auto consumer = must(s.queue->consumer("g"));
    for (const auto& [sequence, deliveries] : s.rest(consumer, messages))
        CHECK(deliveries == (sequence < touched ? 2 : 1));
}

TEST_CASE("a waiting consumer gets the messages of a killed one without a new message to wake it") {
    Scene s;
    Child victim([&] {
        auto queue = must(Queue::open(s.path));
        auto consumer = must(queue.consumer("g"));
        std::vector<Message> hand;
        for (std::uint64_t i = 0; i < messages; ++i) hand.push_back(must(consumer.receive(repair_watchdog)));
        s.book->holds.store(1);
        return wait_for_the_end();
    });
    eventually([&] { return s.book->holds.load() == 1; });
    Child waiter([&] {
        auto queue = must(Queue::open(s.path));
        auto consumer = must(queue.consumer("g"));
        s.book->holds.store(2);
        for (std::uint64_t i = 0; i < messages; ++i) must(must(consumer.receive(forever)).ack());
        return 0;
    });
    eventually([&] { return s.book->holds.load() == 2; });
    victim.kill();
    CHECK(waiter.wait().exited_with(0));  // the watchdog bounds it
    CHECK(group_stats(*s.queue, "g").lag == 0);
}

TEST_CASE("a busy consumer that never waits takes over from a killed one as well") {
    Scene s;
    Child victim([&] {
        auto queue = must(Queue::open(s.path));
        auto consumer = must(queue.consumer("g"));
        std::vector<Message> hand;
        for (std::uint64_t i = 0; i < messages; ++i) hand.push_back(must(consumer.receive(repair_watchdog)));
        s.book->holds.store(1);
        return wait_for_the_end();
    });
    eventually([&] { return s.book->holds.load() == 1; });
    auto consumer = must(s.queue->consumer("g"));
    auto producer = must(s.queue->producer());
    victim.kill();
    CHECK(victim.wait().killed_by(SIGKILL));
    // Publishes and receives without a pause: only the busy handles' own housekeeping can find the death.
    std::uint64_t back = 0, fresh = 0;
    const auto end = Clock::now() + repair_watchdog;
    while (back < messages && Clock::now() < end) {
        (void)publish_item(producer, {2, fresh++}, item_bytes, {.timeout = 0ms});  // full while they are missing
        for (;;) {
            auto m = consumer.try_receive();
            if (!m) break;
            if (item_of(*m).producer == 1) ++back;
            must(m->ack());
        }
    }
    CHECK(back == messages);
}

TEST_CASE("a consumer killed with its last attempt in hand makes a dead letter that says so") {
    Scene s([](GroupOptions& g) { g.max_deliveries = 1; });
    Child victim([&] {
        auto queue = must(Queue::open(s.path));
        auto consumer = must(queue.consumer("g", {.name = "victim"}));
        auto m = must(consumer.receive(repair_watchdog));
        s.book->holds.store(1);
        return wait_for_the_end();
    });
    eventually([&] { return s.book->holds.load() == 1; });
    const auto pid = victim.pid();
    victim.kill();
    CHECK(victim.wait().killed_by(SIGKILL));
    auto consumer = must(s.queue->consumer("g"));
    CHECK(s.rest(consumer, messages - 1).count(0) == 0);
    auto dead = must(s.queue->dead_letters());
    const auto list = must(dead.list());
    REQUIRE(list.size() == 1);
    CHECK(list[0].reason == DeadReason::owner_died_limit);
    CHECK(list[0].delivery_count == 1);
    CHECK(list[0].consumer == "victim");
    CHECK(list[0].consumer_pid == static_cast<std::uint32_t>(pid));
    CHECK(list[0].group == "g");
    CHECK(read_item(list[0].payload)->sequence == 0);
}
