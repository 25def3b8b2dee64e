// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: TIMEOUT 120
//
// Producers and consumers of one Queue in threads of one process and one mapping, so that the race detector sees all
// of them: nothing lost, repeated, out of order or torn, while others look at the queue and make and delete groups.
#include <doctest/doctest.h>

#include <thread>

#include "stress/queue_traffic.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;
using namespace std::chrono_literals;

namespace {

struct Plan {
    std::uint64_t capacity;
    Producers producers;
    GroupMode mode;
    std::uint32_t producer_threads;
    std::uint32_t consumer_threads;
    std::uint64_t each;
    bool beside;
    Checksum checksum = Checksum::none;
};

/// Reads statistics and dead letters, makes groups that read along, deletes them with messages in flight.
void disturb(Queue& queue, const std::atomic<bool>& stop, std::vector<std::string>& errors) {
    auto random = rng(5);
    auto letters = queue.dead_letters();
    const auto report = [&](const char* what, const Error& e) {
        errors.push_back(std::string(what) + ": " + to_string(e.code) + ", " + e.what);
    };
    if (!letters) return report("dead_letters", letters.error());
    std::uint64_t round = 0;
    while (!stop.load(std::memory_order_relaxed) && errors.empty()) {
        const auto s = queue.stats();
        if (s.used_slots + s.credit_slots != s.capacity_slots) errors.push_back("used + credit is not the capacity");
        if (s.tail < s.floor || s.limit != s.floor + s.capacity_slots)
            errors.push_back("floor, tail and limit disagree");
        for (const auto& g : s.groups) {
            if (g.lag > s.capacity_slots || g.lag != g.ready + g.scheduled + g.in_flight + g.dead_pending)
                errors.push_back("the lag of a group is not the sum of its parts");
        }
        if (auto list = letters->list(); !list) report("list", list.error());
        if (random.one_in(2)) {
            const std::string name = "beside-" + std::to_string(round++ % 3);
            GroupOptions options{.mode = random.one_in(2) ? GroupMode::exclusive : GroupMode::shared,
                                 .start = random.one_in(2) ? Start::earliest() : Start::latest()};
            auto consumer = queue.consumer(name, options);
            if (!consumer) {
                report("consumer", consumer.error());
                continue;
            }
            std::vector<Message> held;
            const std::uint64_t messages = random.below(50);
            for (std::uint64_t i = 0; i < messages; ++i) {
                auto m = consumer->try_receive();
                if (!m) {
                    if (m.error().code != Errc::empty) report("receive beside", m.error());
                    break;
                }
                // Under its lease or ownership the message is whole, whatever happens around it.
                if (!read_message(m->payload())) errors.push_back("a torn message beside");
                if (random.one_in(3)) {
                    held.push_back(std::move(*m));
                } else if (auto ok = m->ack(); !ok && ok.error().code != Errc::stale_lease) {
                    report("ack beside", ok.error());
                }
            }
            if (random.one_in(2)) {
                if (auto ok = queue.delete_group(name, Force::yes); !ok) report("delete", ok.error());
                held.clear();
            } else {
                held.clear();
                consumer = tl::unexpected(Error{Errc::closed, 0, ""});
                if (auto ok = queue.delete_group(name, Force::yes); !ok) report("delete", ok.error());
            }
        }
    }
}

void run(const Plan& plan) {
    CAPTURE(plan.capacity);
    CAPTURE(static_cast<int>(plan.producers));
    CAPTURE(static_cast<int>(plan.mode));
    const TmpDir dir;
    auto created = Queue::create(
        dir / "q", {.capacity_bytes = plan.capacity, .producers = plan.producers, .checksum = plan.checksum});
    REQUIRE(created);
    Queue queue = std::move(*created);
    REQUIRE(queue.create_group("work", {.mode = plan.mode, .start = Start::earliest()}));
    Books books(plan.producer_threads, plan.each);
    std::vector<std::string> errors(plan.producer_threads + plan.consumer_threads), beside;
    std::atomic<bool> give_up{false}, stop{false};
    const Traffic traffic;
    std::vector<std::thread> all;
    for (std::uint32_t i = 0; i < plan.producer_threads; ++i) {
        auto producer = queue.producer();
        REQUIRE(producer);
        all.emplace_back([&, i, p = std::move(*producer)]() mutable {
            if (!publish_all(std::move(p), i, plan.each, traffic, errors[i])) give_up = true;
        });
    }
    for (std::uint32_t i = 0; i < plan.consumer_threads; ++i) {
        auto consumer = queue.consumer("work");
        REQUIRE(consumer);
        all.emplace_back([&, i, c = std::move(*consumer)]() mutable {
            const auto done = [&] { return books.over() || give_up.load(std::memory_order_relaxed); };
            if (!consume_all(std::move(c), i, plan.mode == GroupMode::exclusive, traffic, books, done,
                             errors[plan.producer_threads + i]))
                give_up = true;
        });
    }
    std::thread other;
    if (plan.beside) other = std::thread([&] { disturb(queue, stop, beside); });
    for (auto& t : all) t.join();
    stop = true;
    if (other.joinable()) other.join();
    for (const auto& e : errors) CHECK(e == "");
    for (const auto& e : beside) CHECK(e == "");
    CHECK(books.arrived_count() == books.expected());
    CHECK(books.corrupt() == 0);
    CHECK(books.disordered() == 0);
    CHECK(books.lost() == 0);
    CHECK(books.repeated() == 0);
    const auto s = queue.stats();
    CHECK(s.corrupt == 0);
    CHECK(s.dead_open == 0);
    REQUIRE_FALSE(s.groups.empty());
    CHECK(s.groups[0].name == "work");  // the first; deleted ones may still be listed behind it
    CHECK(s.groups[0].lag == 0);
    CHECK(s.groups[0].acked >= (plan.mode == GroupMode::shared ? books.expected() : 1));
}

}  // namespace

TEST_CASE("one producer, one consumer") {
    for (const std::uint64_t capacity : {smallest_capacity, larger_capacity}) {
        for (const auto mode : {GroupMode::exclusive, GroupMode::shared})
            run({capacity, Producers::one, mode, 1, 1, scaled(100000), false});
    }
}

TEST_CASE("four producers, four consumers") {
    for (const std::uint64_t capacity : {smallest_capacity, larger_capacity}) {
        for (const auto mode : {GroupMode::exclusive, GroupMode::shared})
            run({capacity, Producers::many, mode, 4, 4, scaled(25000), false});
    }
}

TEST_CASE("four producers, four consumers, with others that look, join and leave") {
    for (const std::uint64_t capacity : {smallest_capacity, larger_capacity}) {
        for (const auto mode : {GroupMode::exclusive, GroupMode::shared})
            run({capacity, Producers::many, mode, 4, 4, scaled(20000), true, Checksum::xxh3});
    }
}

TEST_CASE("one producer and four members, with others that look, join and leave") {
    for (const auto mode : {GroupMode::exclusive, GroupMode::shared})
        run({smallest_capacity, Producers::one, mode, 1, 4, scaled(50000), true});
}
