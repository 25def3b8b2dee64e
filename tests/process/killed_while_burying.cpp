// ctest: TIMEOUT 120
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A process dies with a claim open, messages in hand, messages prefetched and a group owned. The one that cleans up
// after it is killed as well, in the middle of it. The next one finds two dead and still does everything once.
#include <doctest/doctest.h>

#include <cstdio>
#include <memory>
#include <optional>
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
    Flag ready;
};

constexpr std::uint64_t per_round = 6;  // messages: 0 handed over, 1 with its last attempt, 2 to 5 prefetched

/// Takes everything there is to take, and waits for its end.
int hold_everything(const std::string& path, Book& book) {
    auto queue = must(Queue::open(path, {.prefault = false}));
    auto shared = must(queue.consumer("s", {.name = "dead"}));
    auto last = must(queue.consumer("last", {.name = "dead"}));
    auto owner = must(queue.consumer("x", {.name = "dead"}));
    auto handed = must(shared.receive(repair_watchdog));
    auto once = must(last.receive(repair_watchdog));
    auto batch = must(shared.receive_batch(4, repair_watchdog));
    auto owned = must(owner.receive(repair_watchdog));
    auto producer = must(queue.producer());
    auto claim = must(producer.claim(1000));
    book.ready.store(1);
    return wait_for_the_end();
}

/// What each group sees of the round's messages.
struct Seen {
    std::vector<std::uint32_t> attempts = std::vector<std::uint32_t>(per_round, 0);
    std::vector<std::uint32_t> copies = std::vector<std::uint32_t>(per_round, 0);
};

Seen drain(Queue& queue, const char* group, std::uint64_t round, std::uint64_t expected) {
    Seen seen;
    auto consumer = must(queue.consumer(group));
    std::uint64_t n = 0;
    const auto since = Clock::now();
    while (n < expected || group_stats(queue, group).lag != 0) {
        if (Clock::now() - since > repair_watchdog)
            throw std::runtime_error(std::string(group) + ": " + std::to_string(n) + " of " + std::to_string(expected));
        auto m = consumer.receive(20ms);
        if (!m) continue;
        const Item item = item_of(*m);
        if (item.producer != round || item.sequence >= per_round) throw std::runtime_error("an old message came again");
        ++seen.copies[item.sequence];
        seen.attempts[item.sequence] = m->delivery_count();
        must(m->ack());
        ++n;
    }
    return seen;
}

}  // namespace

TEST_CASE("whoever is killed while it buries a dead participant leaves the rest of the work to the next") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(), {.prefault = false}));
    for (const char* name : {"s", "last", "x"}) {
        auto g = group_of(std::string_view(name) == "x" ? GroupMode::exclusive : GroupMode::shared);
        g.backoff_initial = 0ms;
        g.backoff_max = 0ms;
        g.max_in_flight = 16;
        g.lease_timeout = 1h;
        g.max_lease_total = 2h;
        if (std::string_view(name) == "last") g.max_deliveries = 1;
        must(queue.create_group(name, g));
    }
    const SharedBlock<Book> book;
    std::uint64_t rounds = 0, voids = 0, cut_short = 0;
    const auto round = [&](std::uint64_t delay_us) {
        ++rounds;
        INFO("the undertaker killed after ", delay_us, " us");
        {
            auto producer = must(queue.producer());
            for (std::uint64_t i = 0; i < per_round; ++i) must(publish_item(producer, {rounds, i}));
        }
        // In every other round a lower place is free in the end: the undertaker takes that one, and buries from there.
        std::optional<Queue> lower;
        if (rounds % 2 == 0) lower.emplace(must(Queue::open(path, {.prefault = false})));
        book->ready.store(0);
        Child dead([&] { return hold_everything(path, *book); });
        eventually([&] { return book->ready.load() == 1 || !dead.alive(); });
        REQUIRE(book->ready.load() == 1);
        dead.kill();
        REQUIRE(dead.wait().killed_by(SIGKILL));
        lower.reset();
        Child undertaker([&] {
            book->ready.store(2);
            auto own = Queue::open(path, {.prefault = false});  // buries the dead one, in any case
            book->ready.store(3);
            return own ? wait_for_the_end() : 1;
        });
        while (book->ready.load() < 2) std::this_thread::yield();
        const auto until = Clock::now() + std::chrono::microseconds(delay_us);
        while (Clock::now() < until && book->ready.load() == 2) {
        }
        const bool buried = book->ready.load() == 3;
        undertaker.kill();
        REQUIRE(undertaker.wait().killed_by(SIGKILL));
        cut_short += buried ? 0U : 1U;
        auto next = must(Queue::open(path, {.prefault = false}));
        const Seen s = drain(next, "s", rounds, per_round);
        const Seen x = drain(next, "x", rounds, per_round);
        const Seen last = drain(next, "last", rounds, per_round - 1);
        for (std::uint64_t i = 0; i < per_round; ++i) {
            INFO("message ", i);
            CHECK(s.copies[i] == 1);
            CHECK(s.attempts[i] == (i == 0 ? 2 : 1));  // however many undertakers it took
            CHECK(x.copies[i] == 1);
            CHECK(x.attempts[i] == (i == 0 ? 2 : 1));
            CHECK(last.copies[i] == (i == 0 ? 0 : 1));
        }
        auto letters = must(queue.dead_letters());
        std::uint64_t open = 0;
        for (const auto& d : must(letters.list())) {
            if (d.state != DeadState::open) continue;
            ++open;
            CHECK(d.reason == DeadReason::owner_died_limit);
            CHECK(d.consumer == "dead");
            CHECK(read_item(d.payload)->sequence == 0);
        }
        CHECK(open == 1);
        must(letters.discard({}, "looked at", true));
        const auto stats = queue.stats();
        CHECK(stats.participants == 2);
        CHECK(stats.consumers == 0);
        CHECK(stats.producers == 0);
        CHECK(stats.corrupt == 0);
        CHECK(stats.voids <= voids + 2);  // the dead one's claim, and the undertaker's among the dead letters
        voids = stats.voids;
        for (const auto& g : stats.groups) CHECK(g.in_flight == 0);
    };
    auto r = rng();
    for (std::uint64_t i = count_of(400, 10'000); i > 0; --i) round(r.below(300));
    std::printf("%llu funerals, %llu of them cut short\n", static_cast<unsigned long long>(rounds),
                static_cast<unsigned long long>(cut_short));
    CHECK(cut_short > rounds / 50);  // few on a busy machine: the undertaker is done before it is killed
}
