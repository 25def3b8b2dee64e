// ctest: TIMEOUT 90
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The caps on messages in flight, with consumers that hang or die while they hold as many as they may.
#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::uint64_t cap = 4;

struct Book {
    Flag holds;
};

/// Takes `cap` messages and keeps them.
int hold(const std::string& path, Book& book) {
    auto queue = must(Queue::open(path));
    auto consumer = must(queue.consumer("g"));
    std::vector<Message> held;
    for (std::uint64_t i = 0; i < cap; ++i) held.push_back(must(consumer.receive(repair_watchdog)));
    book.holds.store(1);
    return wait_for_the_end();
}

struct Scene {
    explicit Scene(const std::function<void(GroupOptions&)>& change) {
        queue.emplace(must(Queue::create(path, small_queue())));
        auto g = group_of(GroupMode::shared);
        g.backoff_initial = 0ms;
        g.backoff_max = 0ms;
        change(g);
        must(queue->create_group("g", g));
        auto producer = must(queue->producer());
        for (std::uint64_t i = 0; i < 2 * cap; ++i) must(publish_item(producer, {1, i}));
    }
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
    SharedBlock<Book> book;
};

/// Receives and acks `n` messages, returns the sum of their delivery counts.
std::uint64_t finish(Consumer& consumer, std::uint64_t n) {
    std::uint64_t deliveries = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        (void)item_of(m);
        deliveries += m.delivery_count();
        must(m.ack());
    }
    return deliveries;
}

void check_empty(const Queue& queue) {
    const auto g = group_stats(queue, "g");
    CHECK(g.in_flight == 0);
    CHECK(g.lag == 0);
    CHECK(g.dead_lettered == 0);
}

}  // namespace

TEST_CASE("a consumer at its own cap does not hold up the others, and what it held comes back when it is killed") {
    Scene s([](GroupOptions& g) { g.max_in_flight = cap; });
    Child hung([&] { return hold(s.path, *s.book); });
    eventually([&] { return s.book->holds.load() == 1; });
    auto consumer = must(s.queue->consumer("g"));
    CHECK(finish(consumer, cap) == cap);
    CHECK(consumer.receive(0ms).error().code == Errc::empty);
    CHECK(group_stats(*s.queue, "g").in_flight == cap);
    hung.kill();
    CHECK(hung.wait().killed_by(SIGKILL));
    CHECK(finish(consumer, cap) == 2 * cap);  // second hand-overs
    check_empty(*s.queue);
}

TEST_CASE("a consumer at its own cap receives nothing more until it has settled something") {
    Scene s([](GroupOptions& g) { g.max_in_flight = cap; });
    auto consumer = must(s.queue->consumer("g"));
    std::vector<Message> held;
    for (std::uint64_t i = 0; i < cap; ++i) held.push_back(must(consumer.receive(repair_watchdog)));
    CHECK(consumer.receive(60ms).error().code == Errc::timeout);
    must(held.back().ack());
    held.pop_back();
    CHECK(consumer.receive(repair_watchdog).has_value());
}

TEST_CASE("a group at its cap goes on once the leases of a hung consumer have lapsed") {
    Scene s([](GroupOptions& g) {
        g.max_in_flight_group = cap;
        g.lease_timeout = 200ms;
    });
    Child hung([&] { return hold(s.path, *s.book); });
    eventually([&] { return s.book->holds.load() == 1; });
    auto consumer = must(s.queue->consumer("g"));
    CHECK(finish(consumer, 2 * cap) == 3 * cap);
    check_empty(*s.queue);
    hung.kill();
    CHECK(hung.wait().killed_by(SIGKILL));
    check_empty(*s.queue);
}

TEST_CASE("a group at its cap goes on at once when the consumer that filled it is killed") {
    Scene s([](GroupOptions& g) {
        g.max_in_flight_group = cap;
        g.lease_timeout = 1h;
        g.max_lease_total = 2h;
    });
    Child hung([&] { return hold(s.path, *s.book); });
    eventually([&] { return s.book->holds.load() == 1; });
    auto consumer = must(s.queue->consumer("g"));
    CHECK(consumer.receive(60ms).error().code == Errc::timeout);
    hung.kill();
    CHECK(hung.wait().killed_by(SIGKILL));
    CHECK(finish(consumer, 2 * cap) == 3 * cap);
    check_empty(*s.queue);
}

TEST_CASE("a group at its cap whose only messages back off goes on when they are due") {
    Scene s([](GroupOptions& g) {
        g.max_in_flight_group = cap;
        g.backoff_initial = 50ms;
        g.backoff_max = 50ms;
        g.jitter = Jitter::none;
    });
    auto consumer = must(s.queue->consumer("g"));
    for (std::uint64_t i = 0; i < 2 * cap; ++i) must(must(consumer.receive(repair_watchdog)).nack());
    CHECK(finish(consumer, 2 * cap) == 4 * cap);
    check_empty(*s.queue);
}
