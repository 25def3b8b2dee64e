// ctest: TIMEOUT 150
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Four producers and four consumers in two groups; every 50 ms one of the eight is killed and started again. The books
// are kept outside the library: what publish has accepted reaches every group, nothing else does, and nothing comes
// twice but what a killed consumer had in hand.
//
// RONDO_STORM_S: seconds of each storm (default 10).
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
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

constexpr unsigned producers = 4;
constexpr unsigned consumers = 4;
constexpr unsigned actors = producers + consumers;
constexpr std::uint64_t sequences_max = std::uint64_t{1} << 24;
constexpr std::uint64_t batch_max = 8;
constexpr std::array<const char*, 2> group_names = {"work", "ledger"};

/// One bit for each sequence number of each producer.
struct Bits {
    std::array<std::array<Count, sequences_max / 64>, producers> words;

    bool test(const Item& i) const { return (words[i.producer][i.sequence / 64].load() >> (i.sequence % 64) & 1) != 0; }
    /// True if it was set before.
    bool set(const Item& i) {
        const std::uint64_t bit = std::uint64_t{1} << (i.sequence % 64);
        return (words[i.producer][i.sequence / 64].fetch_or(bit) & bit) != 0;
    }
};

struct GroupBook {
    Bits delivered, acked;
    Count settled, repeated, returned, after_ack, invented, refused, damaged, disorder, stale;
    Count progress_ns, longest_gap_ns;
};

struct Actor {
    Flag inside;                     // a library call is under way
    Count doubt_first, doubt_count;  // producers: the batch being published
    Count longest_call_ns;
    Flag error;  // Errc + 1 of the first call that failed
};

struct Book {
    Flag stop_producing, stop;
    std::array<Count, producers> next;
    Bits published, refused;  // refused: aborted by the producer, must never be seen
    std::array<GroupBook, 2> groups;
    std::array<Actor, actors> actor;
    Count aborted;
};

/// Marks a library call, for whoever kills this process, and times it.
class Inside {
public:
    explicit Inside(Actor& a) : actor_(a), since_(now_ns()) { actor_.inside.store(1); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() {
        actor_.inside.store(0);
        raise_to(actor_.longest_call_ns, now_ns() - since_);
    }

private:
    Actor& actor_;
    std::uint64_t since_;
};

int failed(Actor& a, const Error& e) {
    a.error.store(static_cast<std::uint32_t>(e.code) + 1);
    std::fprintf(stderr, "%s: %s\n", to_string(e.code), e.what);
    return 1;
}

int produce(Book& book, unsigned me, const std::string& directory, std::uint64_t life) {
    Actor& a = book.actor[me];
    auto r = rng(life * actors + me);
    std::optional<Queue> queue;
    std::optional<Producer> producer;
    {
        const Inside inside(a);
        auto q = Queue::open(directory);
        if (!q) return failed(a, q.error());
        queue.emplace(std::move(*q));
        auto p = queue->producer();
        if (!p) return failed(a, p.error());
        producer.emplace(std::move(*p));
    }
    std::array<std::array<std::byte, 400>, batch_max> buffers{};
    const PublishOptions patient{.timeout = repair_watchdog};
    while (book.stop_producing.load() == 0) {
        const std::uint64_t kind = r.below(16);
        const std::uint64_t n = kind < 3 ? r.between(2, batch_max) : 1;
        const std::uint64_t first = book.next[me].fetch_add(n);
        if (first + n >= sequences_max) return 0;
        const std::size_t bytes = r.between(item_bytes, buffers[0].size());
        if (kind == 3) {
            const bool give_up = r.one_in(4);
            if (give_up) book.refused.set({me, first});
            const Inside inside(a);
            auto claim = producer->claim(bytes, patient);
            if (!claim) return failed(a, claim.error());
            write_item(claim->payload(), {me, first});
            if (give_up) {
                claim->abort();
                book.aborted.fetch_add(1);
                continue;
            }
            if (auto sent = claim->commit(); !sent) return failed(a, sent.error());
        } else if (n > 1) {
            std::array<Outgoing, batch_max> out{};
            for (std::uint64_t i = 0; i < n; ++i) {
                write_item(std::span(buffers[i]).first(bytes), {me, first + i});
                out[i] = {std::span(buffers[i]).first(bytes), patient};
            }
            a.doubt_first.store(first);
            a.doubt_count.store(n);
            const Inside inside(a);
            if (auto sent = producer->publish_batch(std::span(out).first(n)); !sent) return failed(a, sent.error());
        } else {
            const auto to = std::span(buffers[0]).first(bytes);
            write_item(to, {me, first});
            const Inside inside(a);
            if (auto sent = producer->publish(to, patient); !sent) return failed(a, sent.error());
        }
        for (std::uint64_t i = 0; i < n; ++i) book.published.set({me, first + i});
        a.doubt_count.store(0);
    }
    const Inside inside(a);
    producer.reset();
    queue.reset();
    return 0;
}

/// What one owner of an ordered group has seen: positions and each producer's numbers rise.
struct Order {
    Seq last = 0;
    bool any = false;
    std::array<std::uint64_t, producers> next{};

    bool fits(const Message& m, const Item& i) {
        const bool good = (!any || m.seq() > last) && i.sequence >= next[i.producer];
        any = true;
        last = m.seq();
        next[i.producer] = i.sequence + 1;
        return good;
    }
    void again() { *this = {}; }
};

void handle(Book& book, GroupBook& g, Actor& a, Message& m, Rng& r, Order* order) {
    const auto item = read_item(m.payload());
    if (!item) {
        g.damaged.fetch_add(1);
        return;
    }
    if (item->producer >= producers || item->sequence >= book.next[item->producer].load()) {
        g.invented.fetch_add(1);
        return;
    }
    if (book.refused.test(*item)) g.refused.fetch_add(1);
    if (g.acked.test(*item)) g.after_ack.fetch_add(1);
    if (g.delivered.set(*item)) g.repeated.fetch_add(1);
    if (order != nullptr && !order->fits(m, *item)) g.disorder.fetch_add(1);
    const std::uint64_t now = now_ns();
    const std::uint64_t before = g.progress_ns.exchange(now);
    if (before != 0 && now > before) raise_to(g.longest_gap_ns, now - before);
    const std::uint64_t kind = r.below(2048);
    if (kind < 3) {  // it comes again
        g.returned.fetch_add(1);
        if (order != nullptr) order->again();
        const Inside inside(a);
        const auto given = kind == 0 ? m.nack({.code = "storm"}, 0ms) : m.release();
        if (!given) g.stale.fetch_add(1);
        return;
    }
    Result<void> settled{};
    {
        const Inside inside(a);
        settled = m.ack();
    }
    if (!settled) {
        g.stale.fetch_add(1);
        return;
    }
    g.acked.set(*item);
    g.settled.fetch_add(1);
}

int consume(Book& book, unsigned me, unsigned group, bool ordered, const std::string& directory, std::uint64_t life) {
    Actor& a = book.actor[me];
    GroupBook& g = book.groups[group];
    auto r = rng(life * actors + me);
    Order order;
    std::optional<Queue> queue;
    std::optional<Consumer> consumer;
    {
        const Inside inside(a);
        auto q = Queue::open(directory);
        if (!q) return failed(a, q.error());
        queue.emplace(std::move(*q));
        auto c = queue->consumer(group_names[group]);
        if (!c) return failed(a, c.error());
        consumer.emplace(std::move(*c));
    }
    while (book.stop.load() == 0) {
        if (r.one_in(4)) {
            std::optional<Batch> batch;
            {
                const Inside inside(a);
                auto b = consumer->receive_batch(16, 20ms);
                if (!b && b.error().code == Errc::timeout) continue;
                if (!b) return failed(a, b.error());
                batch.emplace(std::move(*b));
            }
            for (;;) {
                Message* m = nullptr;
                {
                    const Inside inside(a);
                    m = batch->next();
                }
                if (m == nullptr) break;
                handle(book, g, a, *m, r, ordered ? &order : nullptr);
            }
            const Inside inside(a);
            batch.reset();
        } else {
            std::optional<Message> m;
            {
                const Inside inside(a);
                auto got = consumer->receive(20ms);
                if (!got && got.error().code == Errc::timeout) continue;
                if (!got) return failed(a, got.error());
                m.emplace(std::move(*got));
            }
            handle(book, g, a, *m, r, ordered ? &order : nullptr);
        }
    }
    const Inside inside(a);
    consumer.reset();
    queue.reset();
    return 0;
}

struct Doubt {
    unsigned producer;
    std::uint64_t first, count;
};

void storm(bool ordered_ledger) {
    const auto seconds = std::chrono::seconds(number_from("RONDO_STORM_S", 10));
    const TmpDir dir;
    const std::string directory = dir.str() + "/q";
    auto options = small_queue();
    options.capacity_bytes = 1 << 20;
    auto queue = must(Queue::create(directory, options));
    for (unsigned i = 0; i < 2; ++i) {
        auto g = group_of(i == 1 && ordered_ledger ? GroupMode::exclusive : GroupMode::shared);
        g.max_deliveries = -1;  // a message that meets many kills is not a dead letter
        g.backoff_initial = 0ms;
        g.backoff_max = 0ms;
        must(queue.create_group(group_names[i], g));
    }
    const auto files_before = files_of(directory);
    const SharedBlock<Book> book;

    std::array<std::unique_ptr<Child>, actors> running;
    std::uint64_t lives = 0;
    const auto start = [&](unsigned i) {
        const std::uint64_t life = ++lives;
        running[i] = std::make_unique<Child>([&, i, life] {
            return i < producers ? produce(*book, i, directory, life)
                                 : consume(*book, i, (i - producers) % 2, ordered_ledger && (i - producers) % 2 == 1,
                                           directory, life);
        });
    };
    for (unsigned i = 0; i < actors; ++i) start(i);

    auto r = rng(1);
    std::uint64_t kills = 0, kills_inside = 0, consumer_kills = 0;
    std::vector<Doubt> doubts;
    const auto end = Clock::now() + seconds;
    for (auto next = Clock::now() + 50ms; Clock::now() < end; next += 50ms) {
        std::this_thread::sleep_until(next);  // the storm's beat, not a wait for anything
        const auto victim = static_cast<unsigned>(r.below(actors));
        REQUIRE_MESSAGE(running[victim]->alive(), "actor " << victim << " ended by itself");
        running[victim]->kill();
        REQUIRE(running[victim]->wait().killed_by(SIGKILL));
        ++kills;
        Actor& a = book->actor[victim];
        if (a.inside.load() != 0) ++kills_inside;
        if (victim >= producers) ++consumer_kills;
        if (const std::uint64_t n = a.doubt_count.exchange(0); n != 0)
            doubts.push_back({victim, a.doubt_first.load(), n});
        start(victim);
    }

    book->stop_producing.store(1);
    for (unsigned i = 0; i < producers; ++i) {
        const auto status = running[i]->wait();
        CHECK_MESSAGE(status.exited_with(0), "producer " << i << " " << status.text());
    }
    eventually([&] { return queue.stats().used_slots == 0; }, 30s);
    book->stop.store(1);
    for (unsigned i = producers; i < actors; ++i) {
        const auto status = running[i]->wait();
        CHECK_MESSAGE(status.exited_with(0), "consumer " << i << " " << status.text());
    }

    std::uint64_t published = 0;
    for (unsigned p = 0; p < producers; ++p) {
        const std::uint64_t sequences = std::min(book->next[p].load(), sequences_max);
        for (std::uint64_t s = 0; s < sequences; ++s) {
            const Item item{p, s};
            if (!book->published.test(item)) continue;
            ++published;
            for (unsigned g = 0; g < 2; ++g) {
                if (book->groups[g].delivered.test(item)) continue;
                FAIL_CHECK("message " << s << " of producer " << p << " never reached group " << group_names[g]);
            }
        }
    }
    std::uint64_t settled = 0, repeated = 0, returned = 0, longest_call = 0, longest_gap = 0;
    for (unsigned i = 0; i < 2; ++i) {
        const GroupBook& g = book->groups[i];
        INFO("group ", group_names[i]);
        CHECK(g.invented.load() == 0);
        CHECK(g.damaged.load() == 0);
        CHECK(g.refused.load() == 0);    // aborted by its producer, delivered all the same
        CHECK(g.after_ack.load() == 0);  // acked, delivered again all the same
        CHECK(g.disorder.load() == 0);
        CHECK(g.stale.load() == 0);
        settled += g.settled.load();
        repeated += g.repeated.load();
        returned += g.returned.load();
        longest_gap = std::max(longest_gap, g.longest_gap_ns.load());
    }
    CHECK(repeated <= returned + consumer_kills);  // each consumer has one message in hand at a time
    for (const Doubt& d : doubts) {
        for (unsigned g = 0; g < 2; ++g) {
            std::uint64_t seen = 0;
            for (std::uint64_t i = 0; i < d.count; ++i)
                seen += book->groups[g].delivered.test({d.producer, d.first + i}) ? 1U : 0U;
            CHECK_MESSAGE((seen == 0 || seen == d.count), "of a batch of " << d.count << ", " << seen << " came");
        }
    }
    for (unsigned i = 0; i < actors; ++i) {
        CHECK(book->actor[i].error.load() == 0);
        longest_call = std::max(longest_call, book->actor[i].longest_call_ns.load());
    }
    const auto watchdog = std::chrono::nanoseconds(repair_watchdog).count();
    CHECK(longest_call < static_cast<std::uint64_t>(watchdog));
    CHECK(longest_gap < static_cast<std::uint64_t>(watchdog));

    const auto stats = queue.stats();
    CHECK(stats.used_slots == 0);
    CHECK(stats.credit_slots == stats.capacity_slots);
    CHECK(stats.participants == 1);
    CHECK(stats.producers == 0);
    CHECK(stats.consumers == 0);
    CHECK(stats.corrupt == 0);
    CHECK(stats.dead_open == 0);
    CHECK(joined(files_of(directory)) == joined(files_before));

    std::printf(
        "%s: %llu s, %llu published, %llu settled, %llu kills (%llu inside a call), %llu void claims (%llu "
        "aborted), %zu batches cut, %llu given back, %llu repeated, longest call %.0f ms, longest stall of a "
        "group %.0f ms\n",
        ordered_ledger ? "shared and exclusive" : "both shared", static_cast<unsigned long long>(seconds.count()),
        static_cast<unsigned long long>(published), static_cast<unsigned long long>(settled),
        static_cast<unsigned long long>(kills), static_cast<unsigned long long>(kills_inside),
        static_cast<unsigned long long>(stats.voids), static_cast<unsigned long long>(book->aborted.load()),
        doubts.size(), static_cast<unsigned long long>(returned), static_cast<unsigned long long>(repeated),
        static_cast<double>(longest_call) / 1e6, static_cast<double>(longest_gap) / 1e6);
    std::fflush(stdout);
    if (seconds >= 60s) {
        CHECK(settled >= 3'000'000);
        CHECK(kills >= 1000);
        CHECK(kills_inside >= 200);
    }
}

}  // namespace

TEST_CASE("a storm of kills on a shared and an exclusive group loses, invents and repeats nothing") { storm(true); }

TEST_CASE("a storm of kills on two shared groups loses, invents and repeats nothing") { storm(false); }
