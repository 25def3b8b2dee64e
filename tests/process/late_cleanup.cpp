// ctest: TIMEOUT 60
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A consumer is killed and started again under the same name at once, while others still bury the old one: the new
// one keeps its place and its leases, the old one's leases, and only those, come back.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag stop;
    std::array<Flag, 2> ready, check, good;
};

}  // namespace

TEST_CASE("the funeral of a killed consumer does not touch its successor of the same name") {
    const std::uint64_t rounds = count_of(150, 1000);
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto sizes = small_queue();
    auto queue = must(Queue::create(path, sizes));
    auto options = group_of(GroupMode::shared);
    options.max_deliveries = -1;
    options.backoff_initial = 0ms;
    options.backoff_max = 0ms;
    options.lease_timeout = 1h;
    options.max_lease_total = 2h;
    must(queue.create_group("g", options));
    auto producer = must(queue.producer());
    for (std::uint64_t i = 0; i < 6; ++i) must(publish_item(producer, {1, i}));
    const SharedBlock<Book> book;
    // Buries as hard as it can: each opening looks for the dead.
    std::array<std::unique_ptr<Child>, 2> undertakers;
    for (auto& one : undertakers) {
        one = std::make_unique<Child>([&] {
            while (book->stop.load() == 0) (void)must(Queue::open(path, {.prefault = false}));
            return 0;
        });
    }
    std::unique_ptr<Child> now, before;
    for (std::uint64_t i = 0; i < rounds; ++i) {
        const unsigned me = i % 2;
        book->ready[me].store(0);
        book->check[me].store(0);
        book->good[me].store(0);
        if (before) {
            before->kill();
            // Not waited for: the successor starts while the old one dies.
        }
        now = std::make_unique<Child>([&, me] {
            auto own = must(Queue::open(path, {.prefault = false}));
            auto consumer = must(own.consumer("g", {.name = "the-same"}));
            std::vector<Message> hand;
            hand.reserve(3);
            for (int k = 0; k < 3; ++k) hand.push_back(must(consumer.receive(repair_watchdog)));
            book->ready[me].store(1);
            eventually([&] { return book->check[me].load() == 1; });
            // All three are still its own, after the old one is buried: extend would say so otherwise.
            for (auto& m : hand) must(m.extend(1h));
            book->good[me].store(1);
            return wait_for_the_end();
        });
        eventually([&] { return book->ready[me].load() == 1; });
        if (before) REQUIRE(before->wait().killed_by(SIGKILL));
        // The old one's three are back (all six are there: three held, three free).
        eventually([&] { return group_stats(queue, "g").in_flight == 3; });
        book->check[me].store(1);
        eventually([&] { return book->good[me].load() == 1 || !now->alive(); });
        REQUIRE(book->good[me].load() == 1);
        before = std::move(now);
    }
    before->kill();
    CHECK(before->wait().killed_by(SIGKILL));
    book->stop.store(1);
    for (auto& one : undertakers) CHECK(one->wait().exited_with(0));
    auto consumer = must(queue.consumer("g"));
    for (int i = 0; i < 6; ++i) must(must(consumer.receive(repair_watchdog)).ack());
    const auto stats = queue.stats();
    CHECK(stats.participants == 1);
    CHECK(stats.consumers == 1);
    CHECK(group_stats(queue, "g").owner_died == 3 * rounds);
}
