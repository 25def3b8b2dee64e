// ctest: TIMEOUT 120
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A process that comes, takes something and is killed, over and over: no place in the tables, no lease and no file
// stays with the dead. RONDO_FULL=1: ten thousand of them, otherwise one thousand.
#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <memory>

#include "process/actors.hpp"
#include "rondo/format.hpp"
#include "support/child.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag ready;
};

struct Marks {
    std::uint64_t participants, handles;
};

/// How far the tables were ever used, read from the file.
Marks marks_of(const std::string& path) {
    std::ifstream file(path + "/lane-00.ring", std::ios::binary);
    format::Superblock super{};
    REQUIRE(file.read(reinterpret_cast<char*>(&super), sizeof super));
    const auto word = [&](std::size_t offset) {
        std::uint64_t value = 0;
        file.seekg(static_cast<std::streamoff>(super.hot_offset + offset));
        REQUIRE(file.read(reinterpret_cast<char*>(&value), sizeof value));
        return value;
    };
    return {word(offsetof(format::HotWords, participants_high)), word(offsetof(format::HotWords, handles_high))};
}

enum class Role { consumer, producer };

/// Settles the three messages and publishes three others: what the dead left behind them can go.
void turn_over(const std::string& path) {
    auto queue = must(Queue::open(path, {.prefault = false}));
    auto consumer = must(queue.consumer("g"));
    for (int i = 0; i < 3; ++i) must(must(consumer.receive(repair_watchdog)).ack());
    auto producer = must(queue.producer());
    for (std::uint64_t i = 0; i < 3; ++i) must(publish_item(producer, {1, i}));
}

void die_often(Role role, bool with_survivor) {
    const std::uint64_t times = count_of(500, 5000);
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
    std::optional<Consumer> survivor;
    queue.emplace(must(Queue::create(path, small_queue())));
    auto options = group_of(GroupMode::shared);
    options.max_deliveries = -1;
    options.backoff_initial = 0ms;
    options.backoff_max = 0ms;
    must(queue->create_group("g", options));
    {
        auto producer = must(queue->producer());
        for (std::uint64_t i = 0; i < 3; ++i) must(publish_item(producer, {1, i}));
    }
    if (with_survivor) {
        survivor.emplace(must(queue->consumer("g")));
    } else {
        queue.reset();
    }
    const auto files = files_of(path);
    const auto bytes = bytes_of(path);
    const SharedBlock<Book> book;
    for (std::uint64_t i = 0; i < times; ++i) {
        book->ready.store(0);
        Child victim([&] {
            auto own = must(Queue::open(path, {.prefault = false}));
            std::vector<Message> hand;
            if (role == Role::consumer) {
                auto consumer = must(own.consumer("g"));
                while (hand.size() < 3) hand.push_back(must(consumer.receive(repair_watchdog)));
                book->ready.store(1);
                return wait_for_the_end();
            }
            auto producer = must(own.producer());
            auto claim = must(producer.claim(100));
            book->ready.store(1);
            return wait_for_the_end();
        });
        eventually([&] { return book->ready.load() == 1; });
        victim.kill();
        REQUIRE(victim.wait().killed_by(SIGKILL));
        if (role == Role::producer && i % 400 == 399) turn_over(path);  // before their claims fill the ring
        if (survivor && i % 64 == 63) {  // it keeps house, and gives back what it finds
            (void)survivor->receive_batch(1, 60ms);
        }
    }
    if (!queue) queue.emplace(must(Queue::open(path)));
    auto consumer = must(queue->consumer("g"));
    for (std::uint64_t i = 0; i < 3; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        (void)item_of(m);
        must(m.ack());
    }
    auto producer = must(queue->producer());
    must(publish_item(producer, {1, 3}));
    auto m = must(consumer.receive(repair_watchdog));
    CHECK(item_of(m).sequence == 3);
    must(m.ack());
    const auto stats = queue->stats();
    CHECK(stats.participants == 1);
    CHECK(stats.consumers == (with_survivor ? 2 : 1));
    CHECK(stats.producers == 1);
    CHECK(group_stats(*queue, "g").in_flight == 0);
    if (role == Role::producer) CHECK(stats.voids == times);
    const auto marks = marks_of(path);
    CHECK(marks.participants <= 8);  // never more than a few were alive at once
    CHECK(marks.handles <= 16);
    CHECK(joined(files_of(path)) == joined(files));
    CHECK(bytes_of(path) == bytes);
}

}  // namespace

TEST_CASE("a thousand killed consumers leave nothing behind: nobody else was there") {
    die_often(Role::consumer, false);
}

TEST_CASE("a thousand killed consumers leave nothing behind: another one stayed") { die_often(Role::consumer, true); }

TEST_CASE("a thousand killed producers leave nothing behind: nobody else was there") {
    die_often(Role::producer, false);
}

TEST_CASE("a thousand killed producers leave nothing behind: another consumer stayed") {
    die_often(Role::producer, true);
}

TEST_CASE("a thousand deaths at the very start of a process leave nothing behind") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    must(queue.create_group("g", group_of(GroupMode::shared)));
    const auto files = files_of(path);
    auto r = rng();
    // Killed while they open: at whatever moment the signal finds them.
    for (std::uint64_t i = 0; i < count_of(500, 5000); ++i) {
        Child victim([&] {
            for (;;) {
                auto own = Queue::open(path, {.prefault = false});
                if (own) (void)own->consumer("g");
            }
            return 0;
        });
        // The random moment of the death is the thing under test: three of four at once, the others a little later.
        if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(r.below(1000)));
        victim.kill();
        REQUIRE(victim.wait().killed_by(SIGKILL));
    }
    auto next = must(Queue::open(path));
    auto consumer = must(next.consumer("g"));
    eventually([&] {
        (void)consumer.receive(10ms);
        return queue.stats().participants == 2 && queue.stats().consumers == 1;
    });
    CHECK(marks_of(path).participants <= 8);
    CHECK(joined(files_of(path)) == joined(files));
}
