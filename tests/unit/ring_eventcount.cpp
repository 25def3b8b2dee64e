// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// Sleeping and waking by a word in memory.
#include "flow/eventcount.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "os/barrier.hpp"
#include "os/futex.hpp"
#include "support/child.hpp"
#include "support/eventually.hpp"
#include "support/shared_block.hpp"

using namespace rondo;
using flow::EventCount;
using rondo::test::Child;
using rondo::test::eventually;
using rondo::test::SharedBlock;
using Clock = std::chrono::steady_clock;

namespace {

struct Words {
    format::Half word{0}, fence_needed{0};
    std::atomic<std::uint64_t> value{0}, seen{0};
};

EventCount event_of(Words& w) { return {w.word, w.fence_needed}; }

}  // namespace

TEST_CASE("a notify without a sleeper changes nothing") {
    for (const std::uint32_t fence : {0U, 1U}) {
        Words w;
        w.word = 12;
        w.fence_needed = fence;
        event_of(w).notify();
        CHECK(w.word == 12);
    }
}

TEST_CASE("a notify moves the sequence and clears the bit, once") {
    Words w;
    auto event = event_of(w);
    const std::uint32_t key = event.prepare();
    CHECK(key == 1);
    CHECK(w.word == 1);
    CHECK(event.prepare() == 1);  // a second sleeper shares the bit
    event.notify();
    CHECK(w.word == 2);
    event.notify();
    CHECK(w.word == 2);
    CHECK(event.prepare() == 3);
}

TEST_CASE("notify_always moves the sequence though nobody sleeps, and keeps the bit of who does") {
    Words w;
    auto event = event_of(w);
    event.notify_always();
    CHECK(w.word == 2);
    (void)event.prepare();
    event.notify_always();
    CHECK(w.word == 5);
}

TEST_CASE("the sequence wraps without touching the bit") {
    Words w;
    w.word = ~1U;
    auto event = event_of(w);
    CHECK(event.prepare() == ~0U);
    event.notify();
    CHECK(w.word == 0);
    w.word = ~1U;
    event.notify_always();
    CHECK(w.word == 0);
}

TEST_CASE("a change between prepare and sleep ends the sleep at once") {
    Words w;
    auto event = event_of(w);
    const std::uint32_t key = event.prepare();
    event.notify();
    // Without the key's comparison in the kernel each of these would take a tick.
    const auto before = Clock::now();
    for (int i = 0; i < 100; ++i) event.sleep(key, std::chrono::hours(1));
    CHECK(Clock::now() - before < 100 * flow::tick);
}

TEST_CASE("no sleep is longer than a tick, and a shorter limit is kept") {
    Words w;
    auto event = event_of(w);
    const auto before = Clock::now();
    event.sleep(event.prepare(), std::chrono::hours(1));
    CHECK(Clock::now() - before >= flow::tick - std::chrono::milliseconds(1));
    event.sleep(event.prepare(), std::chrono::nanoseconds(0));
    event.sleep(event.prepare(), std::chrono::nanoseconds(-5));
    CHECK(w.word == 1);  // nobody notified: the bit stays, the next notify pays one spare call
}

TEST_CASE("a sleeper is woken by each change, with and without registered publishers") {
    (void)os::register_publisher();
    for (const std::uint32_t fence : {0U, 1U}) {
        Words w;
        w.fence_needed = fence;
        std::thread sleeper([&] {
            auto event = event_of(w);
            std::uint64_t at = 0;
            while (at < 2000) {
                const std::uint32_t key = event.prepare();
                if (w.value.load(std::memory_order_acquire) != at) {
                    at = w.value.load(std::memory_order_acquire);
                    w.seen.store(at, std::memory_order_release);
                    continue;
                }
                event.sleep(key, flow::tick);
            }
        });
        auto event = event_of(w);
        for (std::uint64_t i = 1; i <= 2000; ++i) {
            w.value.store(i, std::memory_order_release);
            event.notify();
            if (i % 3 == 0) eventually([&] { return w.seen.load(std::memory_order_acquire) == i; });
        }
        sleeper.join();
        CHECK(w.seen == 2000);
    }
}

TEST_CASE("several sleepers in other processes are all woken by one notify") {
    // They sleep without the tick, so that only the wake-up ends it.
    SharedBlock<Words> w;
    const auto sleep = [&] {
        const std::uint32_t key = event_of(*w).prepare();
        w->seen.fetch_add(1);
        return os::futex_wait(w->word, key, std::chrono::minutes(1)) == os::FutexWait::timed_out ? 1 : 0;
    };
    Child one(sleep), two(sleep), three(sleep);
    eventually([&] { return w->seen.load() == 3; });
    event_of(*w).notify();
    eventually([&] { return !one.alive() && !two.alive() && !three.alive(); });
    CHECK(one.wait().exited_with(0));
    CHECK(two.wait().exited_with(0));
    CHECK(three.wait().exited_with(0));
}

TEST_CASE("a notifier killed between clearing the bit and the wake-up costs a tick") {
    Words w;
    auto event = event_of(w);
    std::atomic<bool> asleep{false};
    std::thread sleeper([&] {
        const std::uint32_t key = event_of(w).prepare();
        asleep = true;
        event_of(w).sleep(key, std::chrono::hours(1));
    });
    eventually([&] { return asleep.load(); });
    w.word = 2;  // the CAS of notify(), without the wake
    sleeper.join();
    CHECK(event.prepare() == 3);
}
