// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Opening a queue: more than once, whatever its age, and with open_or_create, by several at once.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/tmp_dir.hpp"
#include "unit/queue_files.hpp"

using namespace rondo;
using namespace rondo::test;

// ---- open ----------------------------------------------------------------------------------------------------

TEST_CASE("a queue that is older than its time stamps reach still tells the time") {
    // Stamps of 32 bits in units of 4 ms come round after 198 days.
    const auto wall = [] {
        return static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
                .count());
    };
    constexpr std::uint64_t day = 86'400'000'000'000, minute = 60'000'000'000;
    for (const std::uint64_t days : {0U, 198U, 199U, 400U, 5000U}) {
        CAPTURE(days);
        TmpDir dir;
        const auto path = dir / "q";
        REQUIRE(Queue::create(path, small_queue));
        change_superblock(path / "lane-00.ring", [&](auto& s) { s.time_base_ns -= days * day; });
        auto queue = Queue::open(path).value();
        REQUIRE(queue.producer().value().publish(bytes("x")));
        auto consumer = queue.consumer("g", {.start = Start::time(wall() - minute)}).value();
        Message m = consumer.try_receive().value();
        REQUIRE(m.accepted_at_ns());
        CHECK(*m.accepted_at_ns() + minute > wall());
        CHECK(*m.accepted_at_ns() < wall() + minute);
        CHECK(m.reject({.code = "c"}));
        const auto dead = queue.dead_letters().value().list().value();
        REQUIRE(dead.size() == 1);
        CHECK(dead[0].accepted_ns + minute > wall());
        CHECK(dead[0].accepted_ns < wall() + minute);
    }
}

TEST_CASE("a queue from the future, as seen by a clock that was set back, works and has no age") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    change_superblock(path / "lane-00.ring", [](auto& s) { s.time_base_ns += std::uint64_t{86'400'000'000'000}; });
    auto queue = Queue::open(path).value();
    auto consumer = queue.consumer("g", {.start = Start::earliest(), .backoff_initial = 0ns}).value();
    REQUIRE(queue.producer().value().publish(bytes("x")));
    CHECK(consumer.try_receive().value().nack({}, 0ns));
    Message m = consumer.receive(20s).value();
    CHECK(m.delivery_count() == 2);
    CHECK(m.reject({.code = "c"}));
    CHECK(queue.stats().groups.at(0).lag == 0);
    CHECK(queue.dead_letters().value().list().value().size() == 1);
}

TEST_CASE("a queue opened twice in a process is two participants") {
    TmpDir dir;
    const auto path = dir / "q";
    std::optional<Queue> a = Queue::create(path, small_queue).value();
    auto b = Queue::open(path).value();
    CHECK(a->stats().participants == 2);
    auto consumer = b.consumer("g", {.start = Start::earliest()}).value();
    REQUIRE(a->producer().value().publish(bytes("x")));
    Message m = consumer.try_receive().value();
    a.reset();
    CHECK(b.stats().participants == 1);
    CHECK(m.ack());
    CHECK(b.stats().groups.at(0).acked == 1);
    // The place of the one that left is free again.
    a = Queue::open(path).value();
    CHECK(a->stats().participants == 2);
    a->close();
    CHECK(b.producer().value().publish(bytes("y")));
}

TEST_CASE("what was obtained for the mapping is told") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    CHECK(Queue::open(path).value().stats().prefaulted);
    CHECK_FALSE(Queue::open(path, {.prefault = false}).value().stats().prefaulted);
    CHECK_FALSE(Queue::open(path).value().stats().memory_locked);
    for (const Duration spin : {Duration(0), Duration(-1), Duration(50us)}) {
        auto q = Queue::open(path, {.spin = spin}).value();
        auto c = q.consumer("g", {.start = Start::earliest()}).value();
        CHECK(c.receive(1ms).error().code == Errc::timeout);
    }
}

// ---- open or create ------------------------------------------------------------------------------------------

TEST_CASE("open_or_create creates, then opens") {
    TmpDir dir;
    const auto path = dir / "q";
    auto a = Queue::open_or_create(path, small_queue);
    REQUIRE(a);
    REQUIRE(a->producer().value().publish(bytes("x")));
    auto b = Queue::open_or_create(path, small_queue);
    REQUIRE(b);
    CHECK(b->stats().tail == 1);
    auto other_overflow = small_queue;  // a setting that may change is no difference
    other_overflow.overflow = Overflow::fail;
    CHECK(Queue::open_or_create(path, other_overflow));
}

TEST_CASE("open_or_create of a queue that has other options names the one that differs") {
    TmpDir dir;
    const auto path = dir / "q";
    auto queue = Queue::create(path, small_queue).value();
    struct Case {
        const char* named;
        QueueOptions options;
    };
    std::vector<Case> cases;
    const auto add = [&](const char* named, auto&& change) {
        QueueOptions o = small_queue;
        change(o);
        cases.push_back({named, o});
    };
    add("capacity", [](auto& o) { o.capacity_bytes = 2 * small; });
    add("producers", [](auto& o) { o.producers = Producers::one; });
    add("max_record_bytes", [](auto& o) { o.max_record_bytes = 512; });
    add("dead_capacity_bytes", [](auto& o) { o.dead_capacity_bytes = 2 * small; });
    add("retry_capacity_bytes", [](auto& o) { o.retry_capacity_bytes = 2 * small; });
    add("max_groups", [](auto& o) { o.max_groups = 17; });
    add("checksum", [](auto& o) { o.checksum = Checksum::xxh3; });
    add("timestamps", [](auto& o) { o.timestamps = Timestamps::exact; });
    for (const auto& c : cases) {
        CAPTURE(c.named);
        const auto q = Queue::open_or_create(path, c.options);
        REQUIRE_FALSE(q);
        CHECK(q.error().code == Errc::option_mismatch);
        CHECK(std::string(q.error().what).find(c.named) != std::string::npos);
    }
    CHECK(queue.stats().participants == 1);
}

TEST_CASE("several at once open or create one queue, none sees a race") {
    TmpDir dir;
    for (int round = 0; round < 20; ++round) {
        const auto path = dir / std::to_string(round);
        std::atomic<int> good = 0, at_start = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&] {
                at_start.fetch_add(1);
                while (at_start.load() < 3) std::this_thread::yield();
                auto q = Queue::open_or_create(path, small_queue);
                if (!q) return;
                auto p = q->producer();
                if (p && p->publish(bytes("x"))) good.fetch_add(1);
            });
        }
        for (auto& t : threads) t.join();
        CHECK(good.load() == 3);
        CHECK(Queue::open(path).value().stats().tail == 3);
    }
}
