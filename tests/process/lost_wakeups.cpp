// ctest: TIMEOUT 120 SERIAL
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Blocking waits between processes: a wake-up that is lost would cost the sleeper's tick, a round of ping-pong would
// take milliseconds instead of microseconds. RONDO_FULL=1: ten times the rounds.
#include <doctest/doctest.h>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Count rounds, longest_ns, over_tick;
    Flag ready;
};

bool pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

/// Two processes send a message to and fro, each waiting for the other's.
void ping_pong(std::uint64_t rounds, Duration spin, bool one_cpu, bool naps, GroupMode mode) {
    const TmpDir dir;
    const std::string there = dir.str() + "/there", back = dir.str() + "/back";
    const OpenOptions open{.spin = spin};
    for (const auto& path : {there, back})
        must(must(Queue::create(path, small_queue())).create_group("g", group_of(mode)));
    const SharedBlock<Book> book;
    const auto player = [&](bool first) {
        if (one_cpu && !pin(0)) return 77;
        auto out_queue = must(Queue::open(first ? there : back, open));
        auto in_queue = must(Queue::open(first ? back : there, open));
        auto producer = must(out_queue.producer());
        auto consumer = must(in_queue.consumer("g"));
        book->ready.fetch_add(1);
        eventually([&] { return book->ready.load() == 2; });
        auto r = rng(first ? 1 : 2);
        for (std::uint64_t i = 0; i < rounds; ++i) {
            if (first) must(publish_item(producer, {1, i}));
            const std::uint64_t since = now_ns();
            auto m = must(consumer.receive(forever));
            const std::uint64_t took = now_ns() - since;
            if (item_of(m).sequence != i) return 1;
            must(m.ack());
            if (first) {
                raise_to(book->longest_ns, took);
                if (took > 40'000'000) book->over_tick.fetch_add(1);
                book->rounds.fetch_add(1);
            }
            // The random moment at which the other one's wait is met, spinning or asleep, is the thing under test.
            if (naps && r.one_in(16)) std::this_thread::sleep_for(std::chrono::microseconds(r.below(60)));
            if (!first) must(publish_item(producer, {2, i}));
        }
        return 0;
    };
    const auto since = Clock::now();
    Child a([&] { return player(true); });
    Child b([&] { return player(false); });
    const auto status = a.wait();
    CHECK_MESSAGE(status.exited_with(0), status.text());
    CHECK(b.wait().exited_with(0));
    const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
    std::printf("%llu rounds, %.1f us each, longest %.1f ms, %llu of a tick or more\n",
                static_cast<unsigned long long>(rounds), seconds * 1e6 / static_cast<double>(rounds),
                static_cast<double>(book->longest_ns.load()) / 1e6,
                static_cast<unsigned long long>(book->over_tick.load()));
    std::fflush(stdout);
    CHECK(book->rounds.load() == rounds);
    CHECK(book->longest_ns.load() < 10'000'000'000);
    // The scheduler of a busy machine may hold a process up now and then; a fault in waking does it all the time.
    CHECK(book->over_tick.load() <= 2 + rounds / 1000);
}

}  // namespace

TEST_CASE("ping-pong of two sleepers: no wake-up is lost") {
    ping_pong(count_of(50'000, 1'000'000), Duration::zero(), false, false, GroupMode::shared);
}

TEST_CASE("ping-pong of two sleepers of an exclusive group with naps: no wake-up is lost") {
    ping_pong(count_of(20'000, 500'000), Duration::zero(), false, true, GroupMode::exclusive);
}

TEST_CASE("ping-pong of two that spin first: no wake-up is lost") {
    ping_pong(count_of(50'000, 1'000'000), 20us, false, true, GroupMode::shared);
}

TEST_CASE("ping-pong on one processor: no wake-up is lost") {
    ping_pong(count_of(20'000, 500'000), 20us, true, false, GroupMode::shared);
}

TEST_CASE("of sixteen waiters exactly one gets each message, and none waits for its tick") {
    constexpr unsigned waiters = 16;
    const std::uint64_t messages = count_of(1'000, 20'000);
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    must(queue.create_group("g", group_of(GroupMode::shared)));
    struct Waiters {
        std::array<Count, 20'001> got;
        Count received;
        Flag stop;
    };
    const SharedBlock<Waiters> book;
    std::array<std::unique_ptr<Child>, waiters> all;
    for (auto& one : all) {
        one = std::make_unique<Child>([&] {
            auto own = must(Queue::open(path));
            auto consumer = must(own.consumer("g"));
            while (book->stop.load() == 0) {
                auto m = consumer.receive(1s);
                if (!m) continue;
                if (m->delivery_count() != 1) return 1;
                book->got[item_of(*m).sequence].fetch_add(1);
                must(m->ack());
                book->received.fetch_add(1);
            }
            return 0;
        });
    }
    eventually([&] { return queue.stats().consumers == waiters; });
    auto producer = must(queue.producer());
    std::uint64_t over_tick = 0, longest = 0;
    for (std::uint64_t i = 0; i < messages; ++i) {
        const std::uint64_t since = now_ns();
        must(publish_item(producer, {1, i}));
        // Polled closely: the look itself must not be what takes time.
        while (book->received.load() != i + 1) {
            REQUIRE(now_ns() - since < 10'000'000'000);
            std::this_thread::yield();
        }
        const std::uint64_t took = now_ns() - since;
        longest = std::max(longest, took);
        if (took > 40'000'000) ++over_tick;
    }
    book->stop.store(1);
    for (auto& one : all) CHECK(one->wait().exited_with(0));
    for (std::uint64_t i = 0; i < messages; ++i) CHECK(book->got[i].load() == 1);
    std::printf("%llu messages to sixteen waiters, longest %.1f ms, %llu of a tick or more\n",
                static_cast<unsigned long long>(messages), static_cast<double>(longest) / 1e6,
                static_cast<unsigned long long>(over_tick));
    CHECK(over_tick <= 2 + messages / 100);
}

TEST_CASE("a producer that waits for room is woken by each ack that makes some") {
    const std::uint64_t rounds = count_of(5'000, 100'000);
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(), {.spin = Duration::zero()}));
    auto consumer = must(queue.consumer("g", group_of(GroupMode::shared)));
    const SharedBlock<Book> book;
    Child sender([&] {
        auto own = must(Queue::open(path, {.spin = Duration::zero()}));
        auto producer = must(own.producer());
        std::uint64_t n = 0;
        while (publish_item(producer, {1, n}, 2000, {.timeout = 0ms})) ++n;
        book->ready.store(1);
        for (std::uint64_t i = 0; i < rounds; ++i) must(publish_item(producer, {1, n + i}, 2000, {.timeout = forever}));
        return 0;
    });
    eventually([&] { return book->ready.load() == 1; });
    // Takes one at a time, as slowly as the producer refills.
    const auto since = Clock::now();
    std::uint64_t taken = 0;
    while (taken < rounds) {
        auto m = must(consumer.receive(10s));
        CHECK(item_of(m).sequence == taken);
        must(m.ack());
        ++taken;
    }
    CHECK(sender.wait().exited_with(0));
    const double each =
        std::chrono::duration<double, std::micro>(Clock::now() - since).count() / static_cast<double>(rounds);
    std::printf("%llu times room, %.1f us each\n", static_cast<unsigned long long>(rounds), each);
    CHECK(each < 5'000);  // a lost wake-up each time would be 50 ms
}
