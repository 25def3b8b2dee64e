// ctest: TIMEOUT 120
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Senders at full speed against the smallest ring, between processes: nothing is lost, repeated or out of order, and
// without a consumer nothing is overwritten.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr unsigned senders_max = 4;
constexpr unsigned groups_max = 8;

struct Book {
    Flag ready, stop;
    std::array<Count, groups_max> received;
    std::array<std::array<std::array<Count, (1 << 22) / 64>, senders_max>, groups_max> bits;
    Count repeated, damaged, disorder;
};

std::string name_of(unsigned group) {
    std::string name("g");
    name += std::to_string(group);
    return name;
}

void burst(unsigned senders, unsigned groups, unsigned members, GroupMode mode, Producers kind,
           std::uint64_t messages) {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(kind)));
    for (unsigned g = 0; g < groups; ++g) must(queue.create_group(name_of(g), group_of(mode)));
    const SharedBlock<Book> book;
    const std::uint64_t total = messages * senders;
    std::vector<std::unique_ptr<Child>> all;
    const auto since = Clock::now();
    for (unsigned g = 0; g < groups; ++g) {
        for (unsigned m = 0; m < members; ++m) {
            all.push_back(std::make_unique<Child>([&, g] {
                auto own = must(Queue::open(path));
                auto consumer = must(own.consumer(name_of(g)));
                book->ready.fetch_add(1);
                std::array<std::uint64_t, senders_max> next{};
                while (book->received[g].load() < total) {
                    auto batch = consumer.receive_batch(32, 20ms);
                    if (!batch) continue;
                    std::uint64_t n = 0;
                    while (Message* message = batch->next()) {
                        const auto item = read_item(message->payload());
                        if (!item || item->producer >= senders || item->sequence >= messages) {
                            book->damaged.fetch_add(1);
                            continue;
                        }
                        // One member sees each sender's numbers rise, in either kind of group.
                        if (item->sequence < next[item->producer]) book->disorder.fetch_add(1);
                        next[item->producer] = item->sequence + 1;
                        const std::uint64_t bit = std::uint64_t{1} << (item->sequence % 64);
                        if ((book->bits[g][item->producer][item->sequence / 64].fetch_or(bit) & bit) != 0)
                            book->repeated.fetch_add(1);
                        must(message->ack());
                        ++n;
                    }
                    book->received[g].fetch_add(n);
                }
                return 0;
            }));
        }
    }
    eventually([&] { return book->ready.load() == groups * members; });
    for (unsigned s = 0; s < senders; ++s) {
        all.push_back(std::make_unique<Child>([&, s] {
            auto own = must(Queue::open(path));
            auto producer = must(own.producer());
            for (std::uint64_t i = 0; i < messages; ++i)
                must(publish_item(producer, {s, i}, item_bytes, {.timeout = forever}));
            return 0;
        }));
    }
    for (auto& one : all) {
        const auto status = one->wait();
        CHECK_MESSAGE(status.exited_with(0), status.text());
    }
    CHECK(book->damaged.load() == 0);
    CHECK(book->repeated.load() == 0);
    CHECK(book->disorder.load() == 0);
    for (unsigned g = 0; g < groups; ++g) {
        CHECK(book->received[g].load() == total);
        CHECK(group_stats(queue, name_of(g)).lag == 0);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
    std::printf("%u senders, %u groups of %u: %.2f million messages a second\n", senders, groups, members,
                static_cast<double>(total) / 1e6 / seconds);
    std::fflush(stdout);
}

}  // namespace

TEST_CASE("one sender and one receiver at full speed lose nothing") {
    burst(1, 1, 1, GroupMode::exclusive, Producers::one, count_of(300'000, 4'000'000));
    burst(1, 1, 1, GroupMode::shared, Producers::many, count_of(300'000, 4'000'000));
}

TEST_CASE("four senders and four receivers at full speed lose nothing") {
    burst(4, 1, 4, GroupMode::shared, Producers::many, count_of(100'000, 4'000'000));
}

TEST_CASE("one sender and eight groups at full speed lose nothing") {
    burst(1, 8, 1, GroupMode::exclusive, Producers::one, count_of(100'000, 4'000'000));
    burst(1, 8, 1, GroupMode::shared, Producers::many, count_of(50'000, 4'000'000));
}

TEST_CASE("with no living consumer a full queue refuses, keeps everything, and the group goes on where it was") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    must(must(Queue::create(path, small_queue())).create_group("g", group_of(GroupMode::shared)));
    const SharedBlock<Book> book;
    Child first([&] {  // the last consumer there is: acks ten, is killed
        auto own = must(Queue::open(path));
        auto consumer = must(own.consumer("g"));
        for (int i = 0; i < 10; ++i) must(must(consumer.receive(repair_watchdog)).ack());
        book->ready.store(1);
        return wait_for_the_end();
    });
    auto queue = must(Queue::open(path));
    auto producer = must(queue.producer());
    std::uint64_t sent = 0;
    for (; sent < 10; ++sent) must(publish_item(producer, {1, sent}));
    eventually([&] { return book->ready.load() == 1; });
    first.kill();
    CHECK(first.wait().killed_by(SIGKILL));
    for (;;) {
        const auto put = publish_item(producer, {1, sent}, item_bytes, {.timeout = 60ms});
        if (!put) {
            CHECK(put.error().code == Errc::timeout);
            break;
        }
        ++sent;
    }
    for (int i = 0; i < 1000; ++i)
        CHECK(publish_item(producer, {1, sent}, item_bytes, {.timeout = 0ms}).error().code == Errc::timeout);
    CHECK(queue.stats().credit_slots < 2);
    auto consumer = must(queue.consumer("g"));
    for (std::uint64_t i = 10; i < sent; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == i);
        must(m.ack());
    }
}

TEST_CASE("without any group the first message is kept until there is one") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    std::uint64_t sent = 0;
    Child sender([&] {
        auto own = must(Queue::create(path, small_queue()));
        auto producer = must(own.producer());
        for (std::uint64_t i = 0; i < 10'000 && publish_item(producer, {1, i}, item_bytes, {.timeout = 0ms}); ++i) {
        }
        return 0;
    });
    CHECK(sender.wait().exited_with(0));
    auto queue = must(Queue::open(path));
    CHECK(queue.stats().credit_slots < 2);
    auto consumer = must(queue.consumer("late", group_of(GroupMode::exclusive)));
    while (auto m = consumer.receive(0ms)) {
        CHECK(item_of(*m).sequence == sent++);
        must(m->ack());
    }
    CHECK(sent >= 4096);
}
