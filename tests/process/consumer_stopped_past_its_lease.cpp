// ctest: TIMEOUT 90 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A consumer stands still for longer than its leases. Others do its work; when it goes on, each of its outcomes is
// told once that it came too late, changes nothing, and the consumer works on without a restart.
#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr auto lease = 300ms;
constexpr std::uint64_t held = 5;

struct Book {
    Flag holds, go_on;
    std::array<Flag, held> outcome;  // Errc + 1, or 100 for success
    Flag done, after;
};

std::uint32_t as_number(const Result<void>& r) { return r ? 100 : static_cast<std::uint32_t>(r.error().code) + 1; }

constexpr std::uint32_t stale = static_cast<std::uint32_t>(Errc::stale_lease) + 1;

int stand_still(const std::string& path, Book& book) {
    auto queue = must(Queue::open(path));
    auto consumer = must(queue.consumer("g", {.name = "sleeper"}));
    std::vector<Message> hand;
    for (std::uint64_t i = 0; i < held; ++i) hand.push_back(must(consumer.receive(repair_watchdog)));
    const std::byte first = hand[0].payload()[0];
    book.holds.store(1);
    eventually([&] { return book.go_on.load() == 1; }, std::chrono::minutes(1));
    if (hand[0].payload()[0] != first) return 3;  // the bytes stay while the message is held
    book.outcome[0].store(as_number(hand[0].ack()));
    book.outcome[1].store(as_number(hand[1].nack({.code = "late"}, 0ms)));
    book.outcome[2].store(as_number(hand[2].reject({.code = "late"})));
    book.outcome[3].store(as_number(hand[3].extend(1s)));
    book.outcome[4].store(as_number(hand[4].release()));
    hand.clear();
    book.done.store(1);
    // The same consumer goes on.
    auto m = must(consumer.receive(repair_watchdog));
    if (item_of(m).sequence != 99 || m.delivery_count() != 1) return 4;
    if (!m.ack()) return 5;
    book.after.store(1);
    return 0;
}

}  // namespace

TEST_CASE("a consumer stopped for three leases loses its messages to others, is told so once each, and works on") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto options = group_of(GroupMode::shared);
    options.lease_timeout = lease;
    options.backoff_initial = 0ms;
    options.backoff_max = 0ms;
    must(queue.create_group("g", options));
    auto producer = must(queue.producer());
    for (std::uint64_t i = 0; i < held; ++i) must(publish_item(producer, {1, i}));
    const SharedBlock<Book> book;
    Child sleeper([&] { return stand_still(path, *book); });
    eventually([&] { return book->holds.load() == 1; });
    sleeper.stop();
    const auto stopped_at = Clock::now();

    std::optional<Consumer> consumer(must(queue.consumer("g")));
    std::vector<Message> hand;
    for (std::uint64_t i = 0; i < held; ++i) {
        hand.push_back(must(consumer->receive(repair_watchdog)));
        CHECK(Clock::now() - stopped_at >= lease - 100ms);  // not before its time
        CHECK(hand.back().delivery_count() == 2);
    }
    // Half of the work is done before the sleeper wakes, half of it after.
    must(hand[0].ack());
    must(hand[1].ack());
    eventually([&] { return Clock::now() - stopped_at >= 3 * lease; });
    for (std::uint64_t i = 2; i < held; ++i) must(hand[i].extend(1min));
    book->go_on.store(1);
    sleeper.cont();
    eventually([&] { return book->done.load() == 1; });
    for (std::uint64_t i = 0; i < held; ++i) {
        INFO("outcome ", i);
        CHECK(book->outcome[i].load() == stale);
    }
    for (std::uint64_t i = 2; i < held; ++i) {
        INFO("message ", i);
        CHECK(word_of(hand[i].ack()) == "ok");  // untouched by what came too late
    }
    CHECK(consumer->receive(60ms).error().code == Errc::timeout);
    hand.clear();
    consumer.reset();
    must(publish_item(producer, {1, 99}));
    CHECK(sleeper.wait().exited_with(0));
    CHECK(book->after.load() == 1);
    const auto g = group_stats(queue, "g");
    CHECK(g.lag == 0);
    CHECK(g.in_flight == 0);
    CHECK(g.dead_lettered == 0);
    CHECK(g.acked == held + 1);
    CHECK(g.lapsed == held);
    CHECK(g.owner_died == 0);
    eventually([&] {
        must(publish_item(producer, {1, 100}));
        auto last = must(queue.consumer("g"));
        must(must(last.receive(repair_watchdog)).ack());
        return queue.stats().used_slots <= 2;  // what it had borrowed is free again
    });
}

TEST_CASE("a lease that lapsed but was not taken by anybody still counts") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto options = group_of(GroupMode::shared);
    options.lease_timeout = 20ms;
    must(queue.create_group("g", options));
    auto producer = must(queue.producer());
    must(publish_item(producer, {1, 0}));
    const SharedBlock<Book> book;
    Child sleeper([&] {
        auto own = must(Queue::open(path));
        auto consumer = must(own.consumer("g"));
        auto m = must(consumer.receive(repair_watchdog));
        book->holds.store(1);
        eventually([&] { return book->go_on.load() == 1; });
        return m.ack() ? 0 : 1;
    });
    eventually([&] { return book->holds.load() == 1; });
    sleeper.stop();
    const auto since = Clock::now();
    eventually([&] { return Clock::now() - since > 100ms; });
    book->go_on.store(1);
    sleeper.cont();
    CHECK(sleeper.wait().exited_with(0));
    CHECK(group_stats(queue, "g").acked == 1);
}

TEST_CASE("bytes of a lapsed message stay as they are while its first holder stands still") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto options = group_of(GroupMode::shared);
    options.lease_timeout = 50ms;
    options.backoff_initial = 0ms;
    options.backoff_max = 0ms;
    must(queue.create_group("g", options));
    auto producer = must(queue.producer());
    must(publish_item(producer, {1, 0}, 2000));
    const SharedBlock<Book> book;
    Child sleeper([&] {
        auto own = must(Queue::open(path));
        auto consumer = must(own.consumer("g"));
        auto m = must(consumer.receive(repair_watchdog));
        book->holds.store(1);
        eventually([&] { return book->go_on.load() == 1; });
        const auto item = read_item(m.payload());
        if (!item || item->sequence != 0 || m.payload().size() != 2000) return 1;
        return m.ack().error().code == Errc::stale_lease ? 0 : 2;
    });
    eventually([&] { return book->holds.load() == 1; });
    sleeper.stop();
    auto consumer = must(queue.consumer("g"));
    must(must(consumer.receive(repair_watchdog)).ack());
    // The ring would go round ten times if it could.
    std::uint64_t refused = 0;
    for (std::uint64_t i = 1; i < std::uint64_t{10} * 4096; ++i) {
        if (!publish_item(producer, {1, i}, item_bytes, {.timeout = 0ms})) {
            ++refused;
            continue;
        }
        must(must(consumer.receive(repair_watchdog)).ack());
    }
    CHECK(refused > 0);
    const auto full = publish_item(producer, {1, 1}, item_bytes, {.timeout = 60ms});
    REQUIRE_FALSE(full.has_value());
    const auto who = queue.explain(full.error());
    INFO(who);
    CHECK(who.find(std::to_string(sleeper.pid())) != std::string::npos);
    book->go_on.store(1);
    sleeper.cont();
    CHECK(sleeper.wait().exited_with(0));
    must(publish_item(producer, {1, 1}, item_bytes, {.timeout = repair_watchdog}));
}
