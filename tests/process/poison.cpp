// ctest: TIMEOUT 120
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Messages that fail every time: how often they are handed over, what their neighbours suffer, how the attempts are
// spaced, and what the dead letter says.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
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

constexpr std::uint64_t messages_max = 256;

struct Book {
    std::array<Count, messages_max> handed, acked, last_count;  // by sequence
    Flag done, go;
};

struct Scene {
    explicit Scene(std::uint64_t messages, const std::function<void(GroupOptions&)>& change,
                   GroupMode mode = GroupMode::shared) {
        queue.emplace(must(Queue::create(path, small_queue())));
        auto g = group_of(mode);
        g.jitter = Jitter::none;
        change(g);
        must(queue->create_group("g", g));
        auto producer = must(queue->producer());
        for (std::uint64_t i = 0; i < messages; ++i) must(publish_item(producer, {1, i}, 100, {.key = "k"}));
    }
    std::vector<DeadLetter> dead() {
        auto letters = must(queue->dead_letters());
        return must(letters.list());
    }
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
    SharedBlock<Book> book;
};

void no_wait(GroupOptions& g) {
    g.backoff_initial = 0ms;
    g.backoff_max = 0ms;
}

/// Notes the hand-over before anything can happen to the process.
std::uint64_t note(Book& book, const Message& m) {
    const Item item = item_of(m);
    book.handed[item.sequence].fetch_add(1);
    book.last_count[item.sequence].store(m.delivery_count());
    return item.sequence;
}

/// One life of a consumer whose handler dies at the message `poison`, and which prefetches a batch.
int one_life(const std::string& path, Book& book, std::uint64_t poison, std::uint64_t messages) {
    auto queue = must(Queue::open(path));
    auto consumer = must(queue.consumer("g", {.name = "handler"}));
    for (;;) {
        auto batch = consumer.receive_batch(100, 300ms);
        if (!batch) break;
        while (Message* m = batch->next()) {
            const std::uint64_t s = note(book, *m);
            if (s == poison) {
                signal(SIGABRT, SIG_DFL);
                std::abort();
            }
            must(m->ack());
            book.acked[s].fetch_add(1);
        }
    }
    std::uint64_t acked = 0;
    for (std::uint64_t i = 0; i < messages; ++i) acked += book.acked[i].load();
    if (acked + 1 == messages) book.done.store(1);
    return 0;
}

void abort_each_time(std::uint64_t poison, std::int32_t limit, GroupMode mode) {
    constexpr std::uint64_t messages = 100;
    Scene s(
        messages,
        [&](GroupOptions& g) {
            no_wait(g);
            g.max_deliveries = limit;
        },
        mode);
    std::int32_t lives = 0;
    for (; s.book->done.load() == 0; ++lives) {
        REQUIRE(lives < 5 * limit + 20);
        Child handler([&] { return one_life(s.path, *s.book, poison, messages); });
        const auto status = handler.wait();
        CHECK_MESSAGE((status.killed_by(SIGABRT) || status.exited_with(0)), status.text());
    }
    CHECK(s.book->handed[poison].load() == static_cast<std::uint64_t>(limit));
    CHECK(s.book->last_count[poison].load() == static_cast<std::uint64_t>(limit));
    for (std::uint64_t i = 0; i < messages; ++i) {
        if (i == poison) continue;
        INFO("neighbour ", i);
        CHECK(s.book->acked[i].load() == 1);
        CHECK(s.book->handed[i].load() == 1);
        CHECK(s.book->last_count[i].load() == 1);
    }
    const auto dead = s.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::owner_died_limit);
    CHECK(dead[0].delivery_count == static_cast<std::uint32_t>(limit));
    CHECK(dead[0].max_deliveries == static_cast<std::uint32_t>(limit));
    CHECK(dead[0].attempts.size() == static_cast<std::size_t>(std::min(limit, 8)));
    for (std::size_t i = 0; i < dead[0].attempts.size(); ++i)
        CHECK(dead[0].attempts[i].outcome == format::Outcome::owner_died);
    // Each attempt began after the one before had ended, or the coarse clock's step earlier.
    constexpr std::uint64_t step = 10'000'000;
    CHECK(dead[0].first_delivered_ns <= dead[0].attempts[0].started_ns);
    if (limit <= 8) CHECK(dead[0].first_delivered_ns == dead[0].attempts[0].started_ns);
    CHECK(dead[0].attempts[0].started_ns != 0);
    for (std::size_t i = 0; i < dead[0].attempts.size(); ++i) {
        CHECK(dead[0].attempts[i].started_ns <= dead[0].attempts[i].ended_ns);
        if (i != 0) CHECK(dead[0].attempts[i].started_ns + step >= dead[0].attempts[i - 1].ended_ns);
    }
    CHECK(read_item(dead[0].payload)->sequence == poison);
    CHECK(dead[0].key == "k");
    const auto g = group_stats(*s.queue, "g");
    CHECK(g.lag == 0);
    CHECK(g.in_flight == 0);
    CHECK(g.dead_lettered == 1);
}

}  // namespace

TEST_CASE("a handler that aborts at the first of a hundred prefetched messages kills that message only") {
    abort_each_time(0, 5, GroupMode::shared);
}

TEST_CASE("a handler that aborts in the middle of a batch kills that message only") {
    abort_each_time(50, 5, GroupMode::shared);
}

TEST_CASE("a message that may be tried once is handed over once, though its handler dies") {
    abort_each_time(7, 1, GroupMode::shared);
}

TEST_CASE("a poison message of an exclusive group is handed over as often as allowed, then the group goes on") {
    abort_each_time(10, 3, GroupMode::exclusive);
}

TEST_CASE("more attempts than a note keeps are all counted") { abort_each_time(3, 12, GroupMode::shared); }

TEST_CASE("a rejection costs one attempt and tells its reason") {
    Scene s(10, no_wait);
    Child handler([&] {
        auto queue = must(Queue::open(s.path));
        auto consumer = must(queue.consumer("g", {.name = "strict"}));
        for (std::uint64_t i = 0; i < 10; ++i) {
            auto m = must(consumer.receive(repair_watchdog));
            const std::uint64_t n = note(*s.book, m);
            if (n % 2 == 0) {
                must(m.ack());
            } else {
                must(m.reject({.code = "bad_format", .type = "ParseError", .stage = "decode", .message = "no brace"}));
            }
        }
        return consumer.receive(100ms).error().code == Errc::timeout ? 0 : 1;
    });
    const auto pid = handler.pid();
    CHECK(handler.wait().exited_with(0));
    const auto dead = s.dead();
    CHECK(dead.size() == 5);
    for (const auto& d : dead) {
        CHECK(d.reason == DeadReason::rejected);
        CHECK(d.code == "bad_format");
        CHECK(d.error_type == "ParseError");
        CHECK(d.stage == "decode");
        CHECK(d.message == "no brace");
        CHECK(d.consumer == "strict");
        CHECK(d.consumer_pid == static_cast<std::uint32_t>(pid));
        CHECK(d.delivery_count == 1);
        CHECK(read_item(d.payload)->sequence % 2 == 1);
    }
    for (std::uint64_t i = 0; i < 10; ++i) CHECK(s.book->handed[i].load() == 1);
    CHECK(group_stats(*s.queue, "g").lag == 0);
}

TEST_CASE("attempts after a nack are at least the backoff apart, and it doubles") {
    Scene s(1, [](GroupOptions& g) {
        g.backoff_initial = 100ms;
        g.backoff_multiplier = 2;
        g.backoff_max = 10s;
    });
    auto consumer = must(s.queue->consumer("g"));
    std::vector<Clock::time_point> at;
    for (int i = 0; i < 5; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        at.push_back(Clock::now());
        CHECK(m.delivery_count() == static_cast<std::uint32_t>(i + 1));
        must(m.nack({.code = "down"}));
    }
    for (std::size_t i = 0; i < 4; ++i) {
        const auto gap = at[i + 1] - at[i];
        INFO("gap ", i, ": ", std::chrono::duration_cast<std::chrono::milliseconds>(gap).count(), " ms");
        CHECK(gap >= 100ms * (1 << i));
        CHECK(gap < 10 * (100ms * (1 << i) + 100ms));
    }
    const auto dead = s.dead();
    REQUIRE(dead.size() == 1);  // at the last nack, not at a later receive
    CHECK(dead[0].reason == DeadReason::max_deliveries);
    CHECK(dead[0].attempts.size() == 5);
    for (std::size_t i = 0; i + 1 < dead[0].attempts.size(); ++i)
        CHECK(dead[0].attempts[i].delay_ns == 100'000'000ULL << i);
}

TEST_CASE("attempts of an exclusive group are spaced as well, in place, and the order is kept") {
    Scene s(
        3,
        [](GroupOptions& g) {
            g.backoff_initial = 100ms;
            g.backoff_multiplier = 2;
            g.backoff_max = 10s;
            g.max_deliveries = 3;
        },
        GroupMode::exclusive);
    auto consumer = must(s.queue->consumer("g"));
    std::vector<Clock::time_point> at;
    for (int i = 0; i < 3; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        at.push_back(Clock::now());
        CHECK(item_of(m).sequence == 0);
        must(m.nack({.code = "down"}));
    }
    CHECK(at[1] - at[0] >= 100ms);
    CHECK(at[2] - at[1] >= 200ms);
    CHECK(s.dead().size() == 1);
    for (std::uint64_t i = 1; i < 3; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == i);
        must(m.ack());
    }
}

TEST_CASE("one that always fails does not hold up the others") {
    constexpr std::uint64_t messages = 100;
    Scene s(messages, [](GroupOptions& g) {
        g.backoff_initial = 200ms;
        g.max_deliveries = 2;
    });
    auto consumer = must(s.queue->consumer("g"));
    std::vector<std::uint64_t> order;
    while (order.size() < messages + 1) {
        auto m = must(consumer.receive(repair_watchdog));
        order.push_back(item_of(m).sequence);
        if (order.back() == 0) {
            must(m.nack());
        } else {
            must(m.ack());
        }
    }
    for (std::uint64_t i = 0; i < messages; ++i) CHECK(order[i] == i);
    CHECK(order.back() == 0);  // its second try comes after all of them
    CHECK(s.dead().size() == 1);
}

TEST_CASE("a long delay of one message does not delay the short one of another") {
    Scene s(2, no_wait);
    auto consumer = must(s.queue->consumer("g"));
    must(must(consumer.receive(repair_watchdog)).nack({}, 60s));
    const auto since = Clock::now();
    must(must(consumer.receive(repair_watchdog)).nack({}, 100ms));
    auto m = must(consumer.receive(repair_watchdog));
    const auto took = Clock::now() - since;
    CHECK(item_of(m).sequence == 1);
    CHECK(took >= 100ms);
    CHECK(took < 10 * 150ms);
    must(m.ack());
}

TEST_CASE("a handler that never says anything loses the message to the dead letters, and the reason is its lease") {
    Scene s(1, [](GroupOptions& g) {
        no_wait(g);
        g.lease_timeout = 100ms;
        g.max_deliveries = 3;
    });
    std::vector<std::unique_ptr<Child>> hung;
    for (std::uint64_t i = 0; i < 3; ++i) {
        hung.push_back(std::make_unique<Child>([&] {
            auto queue = must(Queue::open(s.path));
            auto consumer = must(queue.consumer("g", {.name = "hung"}));
            auto m = must(consumer.receive(repair_watchdog));
            (void)note(*s.book, m);
            return wait_for_the_end();
        }));
        eventually([&] { return s.book->handed[0].load() == i + 1; });
        CHECK(s.book->last_count[0].load() == i + 1);
    }
    auto watcher = must(s.queue->consumer("g"));
    eventually([&] {
        CHECK_FALSE(watcher.receive(20ms).has_value());
        return group_stats(*s.queue, "g").lag == 0;
    });
    const auto dead = s.dead();
    REQUIRE(dead.size() == 1);
    CHECK(dead[0].reason == DeadReason::lease_expired_limit);
    CHECK(dead[0].delivery_count == 3);
    CHECK(dead[0].consumer == "hung");
    CHECK(dead[0].attempts.size() == 3);
    for (const auto& a : dead[0].attempts) CHECK(a.outcome == format::Outcome::lease_expired);
    CHECK(group_stats(*s.queue, "g").lapsed == 3);
}

TEST_CASE("work that is longer than the lease is delivered once if it extends, and counted if it does not") {
    Scene s(1, [](GroupOptions& g) {
        no_wait(g);
        g.lease_timeout = 200ms;
        g.max_deliveries = 2;
    });
    auto worker = must(s.queue->consumer("g", {.name = "worker"}));
    auto rival = must(s.queue->consumer("g", {.name = "rival"}));
    auto m = must(worker.receive(repair_watchdog));
    const auto end = Clock::now() + 1s;
    while (Clock::now() < end) {
        CHECK(word_of(m.extend(200ms)) == "ok");
        CHECK(rival.receive(20ms).error().code == Errc::timeout);
    }
    CHECK(word_of(m.ack()) == "ok");
    CHECK(group_stats(*s.queue, "g").redelivered == 0);

    auto producer = must(s.queue->producer());
    must(publish_item(producer, {1, 1}));
    auto first = must(worker.receive(repair_watchdog));
    auto second = must(rival.receive(repair_watchdog));  // after the lease
    CHECK(second.delivery_count() == 2);
    CHECK(word_of(first.ack()) == "stale_lease");
    CHECK(word_of(second.ack()) == "ok");
}

TEST_CASE("messages that wait in a batch are not charged for the slowness of those before them") {
    constexpr std::uint64_t messages = 40;
    Scene s(messages, [](GroupOptions& g) {
        no_wait(g);
        g.lease_timeout = 300ms;
        g.max_deliveries = 1;  // every charge would be the end of a message
    });
    Child rival([&] {  // it ends what lapses
        auto queue = must(Queue::open(s.path));
        eventually([&] { return s.book->go.load() == 1; });
        auto consumer = must(queue.consumer("g"));
        while (s.book->done.load() == 0) {
            auto m = consumer.receive(20ms);
            if (!m) continue;
            const std::uint64_t n = note(*s.book, *m);
            if (m->ack()) s.book->acked[n].fetch_add(1);
        }
        return 0;
    });
    auto consumer = must(s.queue->consumer("g"));
    std::uint64_t mine = 0;
    {
        auto batch = must(consumer.receive_batch(messages, repair_watchdog));
        CHECK(batch.size() == messages);
        s.book->go.store(1);
        while (Message* m = batch.next()) {
            const std::uint64_t n = note(*s.book, *m);
            const auto until = Clock::now() + 30ms;  // the work; all of it is longer than the lease
            eventually([&] { return Clock::now() >= until; });
            if (m->ack()) s.book->acked[n].fetch_add(1);
            ++mine;
        }
    }
    eventually([&] { return group_stats(*s.queue, "g").lag == 0; });
    s.book->done.store(1);
    CHECK(rival.wait().exited_with(0));
    CHECK(mine >= 5);
    for (std::uint64_t i = 0; i < messages; ++i) {
        INFO("message ", i);
        CHECK(s.book->acked[i].load() == 1);
        CHECK(s.book->handed[i].load() == 1);
        CHECK(s.book->last_count[i].load() == 1);
    }
    CHECK(s.dead().empty());
}

namespace {

enum Deed : std::uint64_t { nack_default, nack_delay, lapse, crash, deeds };

/// What attempt `attempt` (from 1) at message `sequence` does.
Deed deed_of(std::uint64_t sequence, std::uint32_t attempt) {
    std::uint64_t digits = sequence;
    for (std::uint32_t i = 1; i < attempt; ++i) digits /= deeds;
    return static_cast<Deed>(digits % deeds);
}

constexpr std::uint64_t scripts = deeds * deeds * deeds;  // three attempts each

int follow_scripts(const std::string& path, Book& book) {
    auto queue = must(Queue::open(path));
    auto consumer = must(queue.consumer("g", {.name = "actor"}));
    while (book.done.load() == 0) {
        auto m = consumer.receive(20ms);
        if (!m) continue;
        const std::uint64_t s = note(book, *m);
        switch (deed_of(s, m->delivery_count())) {
            case nack_default:
                must(m->nack({.code = "nack"}));
                break;
            case nack_delay:
                must(m->nack({.code = "nack"}, 5ms));
                break;
            case lapse: {
                // One message at a time: this one stays in hand, and the looks for others end its lease.
                const auto end = Clock::now() + 300ms;
                for (int looks = 0; looks < 6 || Clock::now() < end; ++looks)
                    if (consumer.receive(20ms)) return 3;
                if (word_of(m->ack()) != "stale_lease") return 4;
                break;
            }
            default:
                raise(SIGKILL);
        }
    }
    return 0;
}

}  // namespace

TEST_CASE("failures of all kinds, in any order, count once each: three deliveries, then a dead letter") {
    Scene s(scripts, [](GroupOptions& g) {
        g.backoff_initial = 1ms;
        g.backoff_max = 2ms;
        g.lease_timeout = 100ms;
        g.max_deliveries = 3;
        g.max_in_flight = 1;
    });
    std::array<std::unique_ptr<Child>, 4> actors;
    const auto replace_the_dead = [&] {
        for (auto& one : actors) {
            if (one && one->alive()) continue;
            if (one) {
                const auto status = one->wait();
                CHECK_MESSAGE(status.killed_by(SIGKILL), status.text());
            }
            one = std::make_unique<Child>([&] { return follow_scripts(s.path, *s.book); });
        }
    };
    eventually(
        [&] {
            if (group_stats(*s.queue, "g").lag == 0) return true;
            replace_the_dead();
            return false;
        },
        90s);
    s.book->done.store(1);
    for (auto& one : actors) {
        if (!one) continue;
        const auto status = one->wait();
        CHECK_MESSAGE((status.exited_with(0) || status.killed_by(SIGKILL)), status.text());
    }
    std::map<std::uint64_t, DeadLetter> dead;
    for (auto& d : s.dead()) CHECK(dead.emplace(read_item(d.payload)->sequence, d).second);
    CHECK(dead.size() == scripts);
    for (std::uint64_t i = 0; i < scripts; ++i) {
        INFO("script ", deed_of(i, 1), " ", deed_of(i, 2), " ", deed_of(i, 3));
        CHECK(s.book->handed[i].load() == 3);
        REQUIRE(dead.count(i) == 1);
        const auto& d = dead.at(i);
        CHECK(d.delivery_count == 3);
        REQUIRE(d.attempts.size() == 3);
        for (std::uint32_t a = 1; a <= 3; ++a) {
            const auto& attempt = d.attempts[a - 1];
            CHECK(attempt.number == a);
            const Deed deed = deed_of(i, a);
            const auto expected = deed == lapse   ? format::Outcome::lease_expired
                                  : deed == crash ? format::Outcome::owner_died
                                                  : format::Outcome::nacked;
            CHECK(attempt.outcome == expected);
        }
        const Deed last = deed_of(i, 3);
        CHECK(d.reason == (last == lapse   ? DeadReason::lease_expired_limit
                           : last == crash ? DeadReason::owner_died_limit
                                           : DeadReason::max_deliveries));
    }
}
