// ctest: SANITIZE asan tsan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// One thread receives, two others settle what it hands them, in every way, while it waits for room in its hand. A
// message may be settled by any thread; only one thread at a time has it.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "rondo/rondo.hpp"
#include "support/seed.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t total = 4000;

/// From the receiver to whoever settles. Closed: take() gives nothing once nothing is left.
class Hands {
public:
    void give(Message m) {
        const std::lock_guard guard(mutex_);
        messages_.push_back(std::move(m));
        changed_.notify_one();
    }
    void close() {
        const std::lock_guard guard(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    std::optional<Message> take() {
        std::unique_lock guard(mutex_);
        changed_.wait(guard, [&] { return closed_ || !messages_.empty(); });
        if (messages_.empty()) return std::nullopt;
        std::optional<Message> out(std::move(messages_.front()));
        messages_.pop_front();
        return out;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Message> messages_;
    bool closed_ = false;
};

}  // namespace

TEST_CASE("two threads settle what a third one receives") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        const TmpDir dir;
        auto queue = Queue::create(dir.str() + "/q", {.capacity_bytes = 1 << 20}).value();
        GroupOptions o{.mode = mode, .start = Start::earliest()};
        o.backoff_initial = 0ns;
        o.max_deliveries = -1;
        o.max_in_flight = 3;  // the receiver waits for the others all the time
        auto consumer = queue.consumer("g", o).value();
        auto producer = queue.producer().value();
        for (std::uint64_t i = 0; i < total; ++i) REQUIRE(producer.publish(std::as_bytes(std::span(&i, 1))));
        Hands hands;
        std::atomic<std::uint64_t> acked{0};
        const auto settle = [&](std::uint64_t me) {
            auto r = rng(me);
            while (auto m = hands.take()) {
                const auto way = r.below(8);
                if (way == 0) {
                    (void)m->nack({.code = "again"});
                } else if (way == 1) {
                    (void)m->release();
                } else if (m->ack()) {
                    acked.fetch_add(1);
                }
            }
        };
        std::thread first(settle, 1), second(settle, 2);
        while (queue.stats().groups.at(0).lag != 0) {
            // A wait of some ticks: with a lost wake-up this would take minutes.
            if (auto m = consumer.receive(20ms)) hands.give(std::move(*m));
        }
        hands.close();
        first.join();
        second.join();
        const auto g = queue.stats().groups.at(0);
        CHECK(g.lag == 0);
        CHECK(g.in_flight == 0);
        CHECK(acked.load() <= total);
        if (mode == GroupMode::shared) CHECK(acked.load() == total);
    }
}
