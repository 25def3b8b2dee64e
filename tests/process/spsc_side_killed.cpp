// ctest: TIMEOUT 120
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// One producer, one consumer; either side is killed in the middle of its work and started again, many times. Traffic
// resumes each time, what was committed comes, in order, and a batch comes whole or not at all.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Count next;       // sequence numbers given out
    Count committed;  // publish has returned for all below
    Count delivered;  // highest sequence received + 1
    Count acked;      // ack has returned for all below
    Count holes;      // sequences that never came, though published
    Count damaged, disorder, after_ack, torn;
    Flag producer_error, consumer_error;
    Flag stop;
};

/// Sequence numbers of one batch: its first is a multiple of `batch_unit`.
constexpr std::uint64_t batch_unit = 16;

int produce(Book& book, const std::string& path) {
    auto queue = Queue::open(path);
    if (!queue) return book.producer_error.store(static_cast<std::uint32_t>(queue.error().code) + 1), 1;
    auto producer = queue->producer();
    if (!producer) return book.producer_error.store(static_cast<std::uint32_t>(producer.error().code) + 1), 1;
    std::array<std::array<std::byte, 300>, batch_unit> buffers{};
    // What a predecessor had begun is in doubt: go on with new numbers.
    std::uint64_t s = (book.next.load() + batch_unit - 1) / batch_unit * batch_unit;
    auto r = rng(s);
    const PublishOptions patient{.timeout = repair_watchdog};
    while (book.stop.load() == 0) {
        const std::uint64_t n = r.between(1, batch_unit);
        book.next.store(s + n);
        std::array<Outgoing, batch_unit> out{};
        for (std::uint64_t i = 0; i < n; ++i) {
            const auto to = std::span(buffers[i]).first(r.between(item_bytes, buffers[i].size()));
            write_item(to, {n, s + i});  // the producer's number says how many come together
            out[i] = {to, patient};
        }
        const auto sent =
            n == 1 ? producer->publish(out[0].payload, patient) : producer->publish_batch(std::span(out).first(n));
        if (!sent) return book.producer_error.store(static_cast<std::uint32_t>(sent.error().code) + 1), 1;
        book.committed.store(s + n);
        s += batch_unit;
    }
    return 0;
}

int consume(Book& book, const std::string& path) {
    auto queue = Queue::open(path);
    if (!queue) return book.consumer_error.store(static_cast<std::uint32_t>(queue.error().code) + 1), 1;
    auto consumer = queue->consumer("g");
    if (!consumer) return book.consumer_error.store(static_cast<std::uint32_t>(consumer.error().code) + 1), 1;
    std::uint64_t expected = ~std::uint64_t{0};  // within a batch: the next of it
    while (book.stop.load() < 2) {
        auto m = consumer->receive(20ms);
        if (!m && m.error().code == Errc::timeout) continue;
        if (!m) return book.consumer_error.store(static_cast<std::uint32_t>(m.error().code) + 1), 1;
        const auto item = read_item(m->payload());
        if (!item) {
            book.damaged.fetch_add(1);
            continue;
        }
        const std::uint64_t s = item->sequence;
        if (s < book.acked.load()) book.after_ack.fetch_add(1);
        const std::uint64_t seen = book.delivered.load();
        // The one in hand may come again after a kill; nothing else steps back.
        if (s + 1 < seen) book.disorder.fetch_add(1);
        if (expected != ~std::uint64_t{0} && s != expected) book.torn.fetch_add(1);
        if (s + 1 > seen && s % batch_unit != 0 && s != seen) book.torn.fetch_add(1);
        // Everything committed before this one has come by now, unless it is lost.
        if (s > seen && seen != 0) {
            const std::uint64_t last_batch = (seen - 1) / batch_unit;
            const std::uint64_t this_batch = s / batch_unit;
            // Numbers of batches in between were begun by producers that were killed; see the committed ones below.
            if (this_batch > last_batch + 1) book.holes.fetch_add(this_batch - last_batch - 1);
        }
        raise_to(book.delivered, s + 1);
        expected = s % batch_unit + 1 < item->producer ? s + 1 : ~std::uint64_t{0};
        if (m->ack()) raise_to(book.acked, s + 1);
    }
    return 0;
}

}  // namespace

TEST_CASE("a pair of one producer and one consumer survives the death of either side, over and over") {
    const std::uint64_t kills = count_of(100, 1000);
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(Producers::one)));
    auto options = group_of(GroupMode::exclusive);
    options.max_deliveries = -1;
    options.backoff_initial = 0ms;
    options.backoff_max = 0ms;
    must(queue.create_group("g", options));
    const SharedBlock<Book> book;
    std::unique_ptr<Child> producer, consumer;
    const auto start = [&](bool which) {
        if (which) {
            producer = std::make_unique<Child>([&] { return produce(*book, path); });
        } else {
            consumer = std::make_unique<Child>([&] { return consume(*book, path); });
        }
    };
    start(true);
    start(false);
    auto r = rng();
    std::uint64_t producer_kills = 0;
    std::chrono::nanoseconds longest{0};
    for (std::uint64_t i = 0; i < kills; ++i) {
        const bool which = r.one_in(2);
        const std::uint64_t wanted = book->delivered.load() + r.between(1, 2000) * batch_unit;
        eventually([&] { return book->delivered.load() >= wanted; });
        REQUIRE(producer->alive());
        REQUIRE(consumer->alive());
        auto& victim = which ? producer : consumer;
        victim->kill();
        REQUIRE(victim->wait().killed_by(SIGKILL));
        if (which) ++producer_kills;
        const std::uint64_t before = book->delivered.load();
        const std::uint64_t mark = which ? book->next.load() : before;  // something of the new producer's
        const auto since = Clock::now();
        start(which);
        eventually([&] { return book->delivered.load() > mark + batch_unit; });
        const auto took = Clock::now() - since;
        longest = std::max<std::chrono::nanoseconds>(longest, took);
        INFO("after kill ", i, " of the ", std::string(which ? "producer" : "consumer"));
        CHECK(took < repair_watchdog);
        CHECK(book->producer_error.load() == 0);
        CHECK(book->consumer_error.load() == 0);
    }
    book->stop.store(1);
    CHECK(producer->wait().exited_with(0));
    eventually([&] { return queue.stats().used_slots == 0; });
    book->stop.store(2);
    CHECK(consumer->wait().exited_with(0));
    CHECK(book->damaged.load() == 0);
    CHECK(book->disorder.load() == 0);
    CHECK(book->after_ack.load() == 0);
    CHECK(book->torn.load() == 0);
    CHECK(book->delivered.load() >= book->committed.load());
    CHECK(book->holes.load() <= producer_kills);  // numbers of publishes that were cut, never of committed ones
    const auto stats = queue.stats();
    CHECK(stats.used_slots == 0);
    CHECK(stats.corrupt == 0);
    CHECK(stats.participants == 1);
    std::printf("%llu kills, %llu publishes, longest silence %.1f ms\n", static_cast<unsigned long long>(kills),
                static_cast<unsigned long long>(book->next.load() / batch_unit),
                static_cast<double>(longest.count()) / 1e6);
}

TEST_CASE("the role of the one producer passes on at the first try, however soon after the death") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto sizes = small_queue(Producers::one);
    sizes.dead_capacity_bytes = 8 << 20;  // much to look through at each funeral
    auto queue = must(Queue::create(path, sizes));
    must(queue.create_group("g", group_of(GroupMode::shared)));
    struct Roles {
        Flag ready, stop;
        Count refused;
    };
    const SharedBlock<Roles> book;
    // Two that keep house as hard as they can: one of them may just be burying the dead producer.
    std::array<std::unique_ptr<Child>, 2> housekeepers;
    for (auto& one : housekeepers) {
        one = std::make_unique<Child>([&] {
            auto own = must(Queue::open(path));
            auto consumer = must(own.consumer("g"));
            while (book->stop.load() == 0) {
                (void)Queue::open(path, {.prefault = false});
                if (auto m = consumer.receive(1ms)) (void)m->ack();
            }
            return 0;
        });
    }
    const std::uint64_t rounds = count_of(300, 3000);
    for (std::uint64_t i = 0; i < rounds; ++i) {
        book->ready.store(0);
        Child victim([&] {
            auto own = must(Queue::open(path, {.prefault = false}));
            std::optional<Producer> producer;
            eventually([&] {
                auto made = own.producer();
                if (made) producer.emplace(std::move(*made));
                if (!made) book->refused.fetch_add(1);
                return made.has_value();
            });
            must(publish_item(*producer, {1, i}));
            book->ready.store(1);
            return wait_for_the_end();
        });
        eventually([&] { return book->ready.load() == 1; });
        victim.kill();
        REQUIRE(victim.wait().killed_by(SIGKILL));
        const auto next = queue.producer();
        if (!next) {
            CHECK(next.error().code == Errc::role_taken);
            book->refused.fetch_add(1);
        }
    }
    book->stop.store(1);
    for (auto& one : housekeepers) CHECK(one->wait().exited_with(0));
    CHECK(book->refused.load() == 0);
}
