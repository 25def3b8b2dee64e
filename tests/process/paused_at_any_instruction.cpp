// ctest: TIMEOUT 180
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// One process is paused after n instructions of a publish or a receive, for many n; the others go on, as far as they
// can, for laps of the ring; then the paused one goes on. It must find that things have changed under it: nothing is
// lost, damaged, or handed out twice. While it is paused the questions about the queue are answered.
#include <doctest/doctest.h>

#include <cstdio>
#include <memory>

#include "process/actors.hpp"
#include "process/tracer.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::uint64_t others = 1;  // producer number of the test
constexpr std::uint64_t paused = 2;  // of the paused process
constexpr std::uint64_t messages_of_two_laps = 8192;

struct Book {
    Flag result;  // 100 + Errc, or 1 for success
    Count sequence, deliveries;
};

template <class Round>
void each_instruction(const std::string& what, Round&& round) {
    std::uint64_t length = 0;
    for (std::uint64_t n = 64; round(n); n *= 2) length = n;
    const std::uint64_t stride = std::max<std::uint64_t>(1, 2 * length / count_of(40, 1500));
    auto r = rng(length);
    std::uint64_t rounds = 0;
    for (std::uint64_t n = r.below(stride); round(n); n += stride) ++rounds;
    std::printf("%s: paused at %llu places\n", what.c_str(), static_cast<unsigned long long>(rounds));
    std::fflush(stdout);
    CHECK(rounds > 10);
}

/// Publishes and receives as much as goes, up to two laps. Returns how often the paused process's message came.
struct Turnover {
    std::uint64_t next = 0, expected = 0, of_the_paused = 0;

    void run(Producer& producer, Consumer& consumer, std::uint64_t until) {
        std::uint64_t idle = 0;
        while (expected < until && idle < 3) {
            bool moved = false;
            if (next < until && publish_item(producer, {others, next}, item_bytes, {.timeout = 0ms})) {
                ++next;
                moved = true;
            }
            moved = take(consumer) || moved;
            idle = moved ? 0 : idle + 1;
        }
    }
    bool take(Consumer& consumer, Duration timeout = 0ms) {
        auto m = consumer.receive(timeout);
        if (!m) return false;
        const Item item = item_of(*m);
        if (item.producer == paused) {
            ++of_the_paused;
        } else if (item.sequence == expected) {
            ++expected;
        } else {
            throw std::runtime_error("message " + std::to_string(item.sequence) + " came where " +
                                     std::to_string(expected) + " was due");
        }
        must(m->ack());
        return true;
    }
};

/// Somebody asks while the other is paused in the middle of something.
void ask(const Queue& queue) {
    const auto since = Clock::now();
    const auto stats = queue.stats();
    CHECK(stats.used_slots + stats.credit_slots == stats.capacity_slots);
    for (const auto& g : stats.groups) CHECK(g.lag <= stats.capacity_slots);
    (void)queue.explain(Error{Errc::timeout, 0, ""});
    CHECK(Clock::now() - since < 1s);  // ten times the bound
}

void pause_publishers(GroupMode mode, bool batch, const std::string& name) {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(), {.prefault = false}));
    auto consumer = must(queue.consumer("g", group_of(mode)));
    auto producer = must(queue.producer());
    const SharedBlock<Book> book;
    Turnover t;
    each_instruction(name, [&](std::uint64_t n) {
        book->result.store(0);
        Traced victim([&] {
            auto own = must(Queue::open(path, {.prefault = false}));
            auto p = must(own.producer());
            std::array<std::array<std::byte, 100>, 3> bytes{};
            std::array<Outgoing, 3> out{};
            for (std::uint64_t i = 0; i < 3; ++i) {
                write_item(bytes[i], {paused, i});
                out[i].payload = bytes[i];
            }
            mark();
            const auto sent = batch ? p.publish_batch(out) : p.publish(bytes[0], {.timeout = repair_watchdog});
            mark();
            book->result.store(sent ? 1 : 100 + static_cast<std::uint32_t>(sent.error().code));
            return 0;
        });
        const bool more = victim.instructions(n);
        const std::uint64_t came_before = t.of_the_paused;
        t.run(producer, consumer, t.next + messages_of_two_laps);
        ask(queue);
        if (more) victim.finish();
        const auto status = victim.end();
        INFO(name, " paused after ", n, " instructions");
        CHECK_MESSAGE(status.exited_with(0), status.text());
        CHECK(book->result.load() == 1);
        // A sentinel flushes what is left.
        const std::uint64_t target = t.next + 1;
        eventually([&] {
            while (t.take(consumer)) {
            }
            if (t.next < target && publish_item(producer, {others, t.next}, item_bytes, {.timeout = 0ms})) ++t.next;
            (void)t.take(consumer, 10ms);
            return t.expected == t.next && t.next >= target;
        });
        while (t.take(consumer)) {
        }
        CHECK(t.of_the_paused - came_before == (batch ? 3 : 1));
        CHECK(queue.stats().voids == 0);
        CHECK(queue.stats().corrupt == 0);
        return more;
    });
}

/// The paused one receives and acks; the others do as well. Leases are short or long.
void pause_consumers(bool short_lease, const std::string& name) {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(), {.prefault = false}));
    auto options = group_of(GroupMode::shared);
    options.lease_timeout = short_lease ? std::chrono::nanoseconds(10ms) : std::chrono::nanoseconds(1h);
    options.max_lease_total = 2h;
    options.max_deliveries = -1;
    options.backoff_initial = 0ms;
    options.backoff_max = 0ms;
    auto consumer = must(queue.consumer("g", options));
    auto producer = must(queue.producer());
    const SharedBlock<Book> book;
    std::uint64_t next = 0;
    each_instruction(name, [&](std::uint64_t n) {
        book->result.store(0);
        book->sequence.store(~std::uint64_t{0});
        const std::uint64_t first = next;
        must(publish_item(producer, {others, next++}));
        Traced victim([&] {
            auto own = must(Queue::open(path, {.prefault = false}));
            auto c = must(own.consumer("g"));
            mark();
            auto m = c.receive(0ms);
            Result<void> acked{};
            std::optional<Item> item;
            if (m) {
                item = read_item(m->payload());
                acked = m->ack();
            }
            mark();
            if (m) {
                book->sequence.store(item ? item->sequence : ~std::uint64_t{1});
                book->deliveries.store(m->delivery_count());
                book->result.store(acked ? 1 : 100 + static_cast<std::uint32_t>(acked.error().code));
            } else {
                book->result.store(100 + static_cast<std::uint32_t>(m.error().code));
            }
            return 0;
        });
        const bool more = victim.instructions(n);
        // The others go on; with a short lease they also wait until it has lapsed.
        std::vector<std::uint32_t> seen(messages_of_two_laps + 8, 0);
        const auto take = [&](Duration timeout) {
            auto m = consumer.receive(timeout);
            if (!m) return false;
            const Item item = item_of(*m);
            if (item.sequence < first || item.sequence - first >= seen.size())
                throw std::runtime_error("a message that was settled long ago came again");
            ++seen[item.sequence - first];
            must(m->ack());
            return true;
        };
        std::uint64_t idle = 0;
        while (next - first < messages_of_two_laps && idle < 3) {
            bool moved = false;
            if (publish_item(producer, {others, next}, item_bytes, {.timeout = 0ms})) {
                ++next;
                moved = true;
            }
            moved = take(0ms) || moved;
            idle = moved ? 0 : idle + 1;
        }
        if (short_lease) {
            const auto since = Clock::now();
            while (Clock::now() - since < 80ms) (void)take(10ms);
        }
        ask(queue);
        if (more) victim.finish();
        const auto status = victim.end();
        INFO(name, " paused after ", n, " instructions, result ", book->result.load(), " sequence ",
             static_cast<std::int64_t>(book->sequence.load()), " of ", first, " to ", next);
        CHECK_MESSAGE(status.exited_with(0), status.text());
        eventually([&] {
            while (take(1ms)) {
            }
            return group_stats(queue, "g").lag == 0;
        });
        // Each message was acked by exactly one of the two; the paused one's successful ack is one of them.
        const std::uint64_t got = book->sequence.load();
        const bool acked = book->result.load() == 1;
        CHECK(got != ~std::uint64_t{1});  // damaged
        std::uint64_t missing = 0, doubles = 0;
        for (std::uint64_t s = first; s < next; ++s) {
            const std::uint64_t copies = seen[s - first] + (acked && s == got ? 1U : 0U);
            missing += copies == 0 ? 1U : 0U;
            doubles += copies > 1 ? 1U : 0U;
        }
        CHECK(missing == 0);
        CHECK(doubles == 0);
        CHECK((acked || book->result.load() == 100 + static_cast<std::uint32_t>(Errc::empty) ||
               (short_lease && book->result.load() == 100 + static_cast<std::uint32_t>(Errc::stale_lease))));
        CHECK(queue.stats().corrupt == 0);
        return more;
    });
}

}  // namespace

TEST_CASE("a publisher paused at any instruction while the ring goes round twice publishes its message once") {
    pause_publishers(GroupMode::shared, false, "publish beside a shared group");
    pause_publishers(GroupMode::exclusive, false, "publish beside an exclusive group");
    pause_publishers(GroupMode::shared, true, "batch");
}

TEST_CASE("a consumer paused at any instruction of a receive and ack takes nothing from the others") {
    pause_consumers(false, "receive and ack");
}

TEST_CASE("a consumer paused at any instruction beyond its lease is told so or has done it in time") {
    pause_consumers(true, "receive and ack with a short lease");
}
