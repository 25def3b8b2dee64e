// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: TIMEOUT 120
//
// All outcomes at random, in threads: each message is acked once or dead once, never both, never neither.
#include <doctest/doctest.h>

#include <thread>

#include "stress/queue_traffic.hpp"
#include "support/eventually.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;
using namespace std::chrono_literals;

namespace {

std::string text(const char* what, const Error& e) {
    return std::string(what) + ": " + to_string(e.code) + ", " + e.what;
}

/// Acks most messages, fails, rejects, releases or drops the others. A message counts when its ack succeeded.
void work(Consumer consumer, std::uint32_t id, Books& books, const std::atomic<bool>& stop, std::string& error) {
    auto random = rng(3000 + id);
    auto reader = books.reader();
    while (!stop.load(std::memory_order_relaxed) && error.empty()) {
        auto m = consumer.receive(5ms);
        if (!m) {
            if (!nothing_yet(m.error())) error = text("receive", m.error());
            continue;
        }
        const std::vector<std::byte> copy(m->payload().begin(), m->payload().end());
        Result<void> done{};
        switch (random.below(16)) {
            case 0:
                done = m->nack({.code = "again"});
                break;
            case 1:
                done = m->nack({.code = "now"}, 0ns);
                break;
            case 2:
                done = m->release();
                break;
            case 3:
                done = m->reject({.code = "never", .message = "cannot be done"});
                break;
            case 4:
                continue;  // dropped
            default:
                done = m->ack();
                if (done) books.arrived(reader, copy, false);
        }
        if (!done && done.error().code != Errc::stale_lease) error = text("outcome", done.error());
    }
}

/// Takes the dead letters away and counts them.
void bury(Queue& queue, Books& books, Books::Reader& reader, std::string& error) {
    auto letters = queue.dead_letters();
    if (!letters) {
        error = text("dead_letters", letters.error());
        return;
    }
    auto list = letters->list();
    if (!list) {
        error = text("list", list.error());
        return;
    }
    for (const auto& d : *list) {
        if (d.state != DeadState::open) continue;
        DeadFilter filter;
        filter.id = d.id;
        auto gone = letters->discard(filter, "counted", true);
        if (!gone) {
            error = text("discard", gone.error());
        } else if (gone->count == 1) {
            books.arrived(reader, d.payload, false);
        }
    }
}

void run(GroupMode mode, Producers producers, std::uint32_t threads, std::uint64_t each) {
    CAPTURE(static_cast<int>(mode));
    const TmpDir dir;
    auto created = Queue::create(dir / "q", {.capacity_bytes = smallest_capacity, .producers = producers});
    REQUIRE(created);
    Queue queue = std::move(*created);
    REQUIRE(queue.create_group(
        "work",
        {.mode = mode, .start = Start::earliest(), .max_deliveries = 3, .backoff_initial = 100us, .backoff_max = 1ms}));
    const std::uint32_t producer_threads = producers == Producers::one ? 1 : threads;
    Books books(producer_threads, each);
    std::vector<std::string> errors(producer_threads + threads + 1);
    std::atomic<bool> stop{false}, failed{false};
    std::vector<std::thread> senders, workers;
    Traffic traffic;
    traffic.largest = 600;
    for (std::uint32_t i = 0; i < producer_threads; ++i) {
        auto producer = queue.producer();
        REQUIRE(producer);
        senders.emplace_back([&, i, p = std::move(*producer)]() mutable {
            if (!publish_all(std::move(p), i, each, traffic, errors[i])) failed = true;
        });
    }
    for (std::uint32_t i = 0; i < threads; ++i) {
        auto consumer = queue.consumer("work");
        REQUIRE(consumer);
        workers.emplace_back([&, i, c = std::move(*consumer)]() mutable {
            work(std::move(c), i, books, stop, errors[producer_threads + i]);
            if (!errors[producer_threads + i].empty()) failed = true;
        });
    }
    auto reader = books.reader();
    eventually(
        [&] {
            bury(queue, books, reader, errors.back());
            return books.over() || failed.load() || !errors.back().empty();
        },
        until_the_watchdog);
    stop = true;
    for (auto& t : senders) t.join();
    for (auto& t : workers) t.join();
    for (const auto& e : errors) CHECK(e == "");
    bury(queue, books, reader, errors.back());
    CHECK(books.arrived_count() == books.expected());
    CHECK(books.corrupt() == 0);
    CHECK(books.lost() == 0);
    CHECK(books.repeated() == 0);
    const auto s = queue.stats();
    CHECK(s.groups.at(0).lag == 0);
    CHECK(s.dead_open == 0);
}

}  // namespace

TEST_CASE("a shared group with four members") { run(GroupMode::shared, Producers::many, 4, scaled(8000)); }

TEST_CASE("an exclusive group with three members, two of them waiting") {
    run(GroupMode::exclusive, Producers::many, 3, scaled(1000));
}

TEST_CASE("a shared group behind one producer") { run(GroupMode::shared, Producers::one, 4, scaled(20000)); }
