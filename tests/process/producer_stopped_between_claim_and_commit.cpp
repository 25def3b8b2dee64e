// ctest: TIMEOUT 120 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A producer that is stopped with an open claim lives: nobody takes its place, nobody passes it over, and when it goes
// on, its commit counts.
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
    Flag claimed, commit;
};

int claim_and_commit_when_told(const std::string& path, Book& book) {
    auto queue = must(Queue::open(path));
    auto producer = must(queue.producer());
    auto claim = must(producer.claim(100));
    const auto to = claim.payload();
    write_item(to.first(50), {7, 0});
    book.claimed.store(1);
    eventually([&] { return book.commit.load() == 1; }, std::chrono::minutes(1));
    write_item(to, {7, 0});
    return claim.commit() ? 0 : 1;
}

void stop_between(GroupMode mode, Producers producers) {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(producers)));
    auto consumer = must(queue.consumer("g", group_of(mode)));
    const SharedBlock<Book> book;
    Child stopped([&] { return claim_and_commit_when_told(path, *book); });
    eventually([&] { return book->claimed.load() == 1; });
    stopped.stop();
    book->commit.store(1);

    std::optional<Producer> producer;
    std::uint64_t sent = 0;
    if (producers == Producers::many) {
        producer.emplace(must(queue.producer()));
        for (; sent < 10; ++sent) must(publish_item(*producer, {1, sent}));
    } else {
        CHECK(queue.producer().error().code == Errc::role_taken);
    }
    // Many ticks of everybody's housekeeping pass.
    const auto end = Clock::now() + std::chrono::seconds(count_of(2, 60));
    std::string who;
    while (Clock::now() < end) {
        const auto got = consumer.receive(100ms);
        REQUIRE_FALSE(got.has_value());
        CHECK(got.error().code == Errc::timeout);
        who = queue.explain(got.error());
    }
    if (producers == Producers::many) {
        INFO(who);
        CHECK(who.find(std::to_string(stopped.pid())) != std::string::npos);
        CHECK(who.find("stopped") != std::string::npos);
        CHECK(who.find("claim") != std::string::npos);
    }
    CHECK(queue.stats().voids == 0);
    CHECK(group_stats(queue, "g").lag == sent);

    stopped.cont();
    CHECK(stopped.wait().exited_with(0));  // its commit succeeded
    auto first = must(consumer.receive(repair_watchdog));
    CHECK(item_of(first).producer == 7);
    CHECK(first.payload().size() == 100);
    must(first.ack());
    for (std::uint64_t i = 0; i < sent; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == i);
        must(m.ack());
    }
    CHECK(consumer.receive(60ms).error().code == Errc::timeout);
    CHECK(queue.stats().voids == 0);
}

}  // namespace

TEST_CASE("a producer stopped between claim and commit is waited for and named, then delivered: shared group") {
    stop_between(GroupMode::shared, Producers::many);
}

TEST_CASE("a producer stopped between claim and commit is waited for and named, then delivered: exclusive group") {
    stop_between(GroupMode::exclusive, Producers::many);
}

TEST_CASE("a single producer stopped between claim and commit keeps its role") {
    stop_between(GroupMode::shared, Producers::one);
}

TEST_CASE("a producer stopped with an open claim holds up the ring's end, and nothing is written over its claim") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto consumer = must(queue.consumer("g", group_of(GroupMode::shared)));
    auto producer = must(queue.producer());
    const SharedBlock<Book> book;
    Child stopped([&] { return claim_and_commit_when_told(path, *book); });
    eventually([&] { return book->claimed.load() == 1; });
    stopped.stop();
    book->commit.store(1);
    std::uint64_t sent = 0;
    for (std::uint64_t tries = 0; tries < std::uint64_t{20} * 4096; ++tries) {  // many times what the ring holds
        if (publish_item(producer, {1, sent}, 24, {.timeout = 0ms})) ++sent;
    }
    CHECK(sent < 4096);
    CHECK(queue.stats().voids == 0);
    stopped.cont();
    CHECK(stopped.wait().exited_with(0));
    auto first = must(consumer.receive(repair_watchdog));
    CHECK(item_of(first).producer == 7);
    must(first.ack());
    for (std::uint64_t i = 0; i < sent; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == i);
        must(m.ack());
    }
}
