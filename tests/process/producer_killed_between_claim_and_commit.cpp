// ctest: TIMEOUT 90 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A producer dies with an open claim: the place it had claimed is void, and what lies behind it comes.
#include <doctest/doctest.h>

#include <optional>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag claimed, go_on;
};

constexpr std::uint64_t victim_number = 7;

/// Claims, fills, and waits for its end.
int claim_and_wait(const std::string& path, Book& book, std::size_t bytes) {
    auto queue = must(Queue::open(path));
    auto producer = must(queue.producer());
    auto claim = must(producer.claim(bytes));
    write_item(claim.payload(), {victim_number, 0});
    book.claimed.store(1);
    return wait_for_the_end();
}

/// Ten messages of producer `number` come, in order, and nothing else.
void check_ten(Consumer& consumer, std::uint64_t number) {
    for (std::uint64_t i = 0; i < 10; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        const Item item = item_of(m);
        CHECK(item.producer == number);
        CHECK(item.sequence == i);
        CHECK(m.delivery_count() == 1);
        must(m.ack());
    }
    CHECK(consumer.receive(100ms).error().code == Errc::timeout);
}

void publish_ten(Producer& producer, std::uint64_t number) {
    for (std::uint64_t i = 0; i < 10; ++i) must(publish_item(producer, {number, i}));
}

void kill_between(GroupMode mode, std::size_t bytes) {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto consumer = must(queue.consumer("g", group_of(mode)));
    const SharedBlock<Book> book;
    Child victim([&] { return claim_and_wait(path, *book, bytes); });
    eventually([&] { return book->claimed.load() == 1; });
    auto producer = must(queue.producer());
    publish_ten(producer, 1);
    CHECK(consumer.receive(100ms).error().code == Errc::timeout);  // alive: everybody waits at its claim
    CHECK(queue.stats().voids == 0);
    victim.kill();
    CHECK(victim.wait().killed_by(SIGKILL));
    check_ten(consumer, 1);
    const auto stats = queue.stats();
    CHECK(stats.voids == 1);
    CHECK(stats.corrupt == 0);
    CHECK(group_stats(queue, "g").lag == 0);
    eventually([&] {
        (void)consumer.receive(10ms);
        return queue.stats().used_slots == 0;
    });
    CHECK(queue.stats().participants == 1);
}

}  // namespace

TEST_CASE("a producer killed between claim and commit leaves a void, and the messages behind it come: shared group") {
    kill_between(GroupMode::shared, 100);
}

TEST_CASE(
    "a producer killed between claim and commit leaves a void, and the messages behind it come: exclusive group") {
    kill_between(GroupMode::exclusive, 100);
}

TEST_CASE("a claim of many slots whose producer is killed is one void") { kill_between(GroupMode::shared, 4000); }

TEST_CASE("a single producer killed between claim and commit leaves nothing, and its successor goes on") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(Producers::one)));
    auto consumer = must(queue.consumer("g", group_of(GroupMode::shared)));
    const SharedBlock<Book> book;
    Child victim([&] { return claim_and_wait(path, *book, 100); });
    eventually([&] { return book->claimed.load() == 1; });
    CHECK(consumer.receive(60ms).error().code == Errc::timeout);
    {
        const auto second = queue.producer();
        REQUIRE_FALSE(second.has_value());
        CHECK(second.error().code == Errc::role_taken);
        const auto who = queue.explain(second.error());
        INFO(who);
        CHECK(who.find(std::to_string(victim.pid())) != std::string::npos);  // refused, with the holder's identity
    }
    victim.kill();
    CHECK(victim.wait().killed_by(SIGKILL));
    auto producer = must(queue.producer());  // at the first try
    publish_ten(producer, 1);
    check_ten(consumer, 1);
    CHECK(queue.stats().corrupt == 0);
    CHECK(group_stats(queue, "g").lag == 0);
}

TEST_CASE("all producers killed between claim and commit at once are as many voids") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto consumer = must(queue.consumer("g", group_of(GroupMode::shared)));
    auto producer = must(queue.producer());
    constexpr std::size_t victims = 5;
    const SharedBlock<std::array<Book, victims>> books;
    std::vector<std::unique_ptr<Child>> all;
    for (std::size_t i = 0; i < victims; ++i) {
        all.push_back(std::make_unique<Child>([&, i] { return claim_and_wait(path, (*books)[i], 300); }));
        eventually([&] { return (*books)[i].claimed.load() == 1; });
        must(publish_item(producer, {2, 2 * i}));
        must(publish_item(producer, {2, 2 * i + 1}));
    }
    for (auto& one : all) one->kill();
    for (auto& one : all) CHECK(one->wait().killed_by(SIGKILL));
    check_ten(consumer, 2);
    CHECK(queue.stats().voids == victims);
}

TEST_CASE("a producer killed with a full claimed ring gives all of it back") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto consumer = must(queue.consumer("g", group_of(GroupMode::shared)));
    const SharedBlock<Book> book;
    Child victim([&] { return claim_and_wait(path, *book, 100); });
    eventually([&] { return book->claimed.load() == 1; });
    auto producer = must(queue.producer());
    std::uint64_t sent = 0;
    while (publish_item(producer, {1, sent}, item_bytes, {.timeout = 0ms})) ++sent;
    CHECK(sent > 1000);
    const auto full = publish_item(producer, {1, sent}, item_bytes, {.timeout = 60ms});
    REQUIRE_FALSE(full.has_value());
    CHECK(full.error().code == Errc::timeout);
    const auto who = queue.explain(full.error());
    INFO(who);
    CHECK(who.find(std::to_string(victim.pid())) != std::string::npos);  // names the one it waits for
    victim.kill();
    CHECK(victim.wait().killed_by(SIGKILL));
    for (std::uint64_t i = 0; i < sent; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == i);
        must(m.ack());
    }
    must(publish_item(producer, {1, sent}));
}
