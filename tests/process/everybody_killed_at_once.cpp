// ctest: TIMEOUT 120
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Every participant is killed in the middle of its work, at the same moment; then all are started again, in any order,
// with the same files. Nobody sweeps up by hand, every start succeeds at the first try, what was not acked comes again.
#include <doctest/doctest.h>

#include <algorithm>
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

constexpr unsigned producers = 2;
constexpr unsigned consumers = 4;
constexpr unsigned actors = producers + consumers;
constexpr std::uint64_t sequences_max = 1 << 22;

struct Seen {
    std::array<std::array<std::atomic<std::uint8_t>, sequences_max>, producers> bits;  // 1 delivered, 2 acked
    Count after_ack, damaged;
};

struct Book {
    std::array<Count, producers> next;
    std::array<std::array<Flag, sequences_max>, producers> published;
    std::array<Seen, 2> groups;
    std::array<Flag, actors> started, failed;  // failed: Errc + 1 of the start
    Count steps;
    Flag stop;
};

int fail_start(Book& book, unsigned me, const Error& e) {
    book.failed[me].store(static_cast<std::uint32_t>(e.code) + 1);
    book.started[me].store(1);
    return 1;
}

int produce(Book& book, unsigned me, const std::string& path, Producers kind) {
    auto queue = Queue::open_or_create(path, small_queue(kind));
    if (!queue) return fail_start(book, me, queue.error());
    auto producer = queue->producer();
    if (!producer) return fail_start(book, me, producer.error());
    book.started[me].store(1);
    while (book.stop.load() == 0) {
        const std::uint64_t s = book.next[me].fetch_add(1);
        if (s >= sequences_max) return 0;
        if (publish_item(*producer, {me, s}, 24 + s % 200, {.timeout = repair_watchdog}))
            book.published[me][s].store(1);
        book.steps.fetch_add(1);
    }
    return 0;
}

GroupOptions options_of(unsigned which) {
    auto options = group_of(which == 0 ? GroupMode::shared : GroupMode::exclusive);
    options.max_deliveries = -1;
    options.backoff_initial = 0ms;
    options.backoff_max = 0ms;
    return options;
}

constexpr std::array<const char*, 2> group_names = {"s", "x"};

int consume(Book& book, unsigned me, const std::string& path, Producers kind) {
    auto queue = Queue::open_or_create(path, small_queue(kind));
    if (!queue) return fail_start(book, me, queue.error());
    const unsigned which = me % 2;
    auto consumer = queue->consumer(group_names[which], options_of(which));
    if (!consumer) return fail_start(book, me, consumer.error());
    book.started[me].store(1);
    Seen& seen = book.groups[which];
    while (book.stop.load() < 2) {
        auto m = consumer->receive(20ms);
        if (!m) continue;
        const auto item = read_item(m->payload());
        if (!item || item->producer >= producers || item->sequence >= sequences_max) {
            seen.damaged.fetch_add(1);
            continue;
        }
        auto& bits = seen.bits[item->producer][item->sequence];
        if ((bits.fetch_or(1) & 2) != 0) seen.after_ack.fetch_add(1);
        if (m->ack()) bits.fetch_or(2);
        book.steps.fetch_add(1);
    }
    return 0;
}

void restart_all(Producers kind) {
    const std::uint64_t rounds = count_of(100, 1000);
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    const SharedBlock<Book> book;
    auto r = rng(kind == Producers::one ? 1 : 2);
    {  // both groups before the first message: each gets all of them
        auto queue = must(Queue::create(path, small_queue(kind)));
        for (unsigned g = 0; g < 2; ++g) must(queue.create_group(group_names[g], options_of(g)));
    }
    const auto files = files_of(path);
    const unsigned first = kind == Producers::one ? 1 : 0;  // a single producer is actor 1
    for (std::uint64_t round = 0; round <= rounds; ++round) {
        std::vector<unsigned> order;
        for (unsigned i = first; i < actors; ++i) order.push_back(i);
        for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[r.below(i)]);
        std::vector<std::unique_ptr<Child>> all(actors);
        for (const unsigned i : order) {
            book->started[i].store(0);
            all[i] = std::make_unique<Child>(
                [&, i] { return i < producers ? produce(*book, i, path, kind) : consume(*book, i, path, kind); });
        }
        for (const unsigned i : order) {
            eventually([&] { return book->started[i].load() != 0; });
            const auto error = book->failed[i].load();
            REQUIRE_MESSAGE(error == 0,
                            "start " << round << " of actor " << i << ": " << to_string(static_cast<Errc>(error - 1)));
        }
        // Under load: some steps of work, then all of them die.
        const std::uint64_t target = book->steps.load() + r.between(1, 3000);
        eventually([&] { return book->steps.load() >= target; });
        if (round == rounds) {
            book->stop.store(1);
            for (unsigned i = first; i < producers; ++i) CHECK(all[i]->wait().exited_with(0));
            auto queue = must(Queue::open(path));
            eventually([&] { return queue.stats().used_slots == 0; });
            book->stop.store(2);
            for (unsigned i = producers; i < actors; ++i) CHECK(all[i]->wait().exited_with(0));
            const auto stats = queue.stats();
            CHECK(stats.used_slots == 0);
            CHECK(stats.participants == 1);
            CHECK(stats.producers == 0);
            CHECK(stats.consumers == 0);
            CHECK(stats.corrupt == 0);
            break;
        }
        for (const unsigned i : order) all[i]->kill();
        for (const unsigned i : order) REQUIRE(all[i]->wait().killed_by(SIGKILL));
        CHECK(joined(files_of(path)) == joined(files));
    }
    std::uint64_t published = 0;
    for (unsigned p = first; p < producers; ++p) {
        for (std::uint64_t s = 0; s < std::min(book->next[p].load(), sequences_max); ++s) {
            if (book->published[p][s].load() == 0) continue;
            ++published;
            for (const auto& g : book->groups)
                if ((g.bits[p][s].load() & 1) == 0) FAIL_CHECK("message " << s << " of producer " << p << " is lost");
        }
    }
    for (const auto& g : book->groups) {
        CHECK(g.after_ack.load() == 0);
        CHECK(g.damaged.load() == 0);
    }
    MESSAGE(rounds << " times everybody was killed, " << published << " messages");
    CHECK(published > rounds);
}

}  // namespace

TEST_CASE("all participants killed at once start again at the first try and lose nothing") {
    restart_all(Producers::many);
}

TEST_CASE("all participants of a single-producer queue killed at once start again at the first try") {
    restart_all(Producers::one);
}
