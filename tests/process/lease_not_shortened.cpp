// ctest: TIMEOUT 90
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Leases among many competitors: whoever comes second at a message must not touch the time of whoever came first.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <vector>

#include "process/actors.hpp"
#include "process/tracer.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr unsigned members = 4;
constexpr std::uint64_t messages = 4000;

const QueueOptions roomy = [] {
    auto o = small_queue();
    o.capacity_bytes = 1 << 20;  // half of its slots may be in flight
    return o;
}();

struct Book {
    Flag go;
    Count taken, again, stale, acked;
};

}  // namespace

TEST_CASE("a lease of half a minute does not lapse after two seconds because others wanted the message too") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, roomy));
    must(queue.create_group("g", group_of(GroupMode::shared)));
    const SharedBlock<Book> book;
    std::array<std::unique_ptr<Child>, members> all;
    for (auto& one : all) {
        one = std::make_unique<Child>([&] {
            auto own = must(Queue::open(path));
            auto consumer = must(own.consumer("g"));
            std::vector<Message> held;
            held.reserve(messages);
            eventually([&] { return book->go.load() != 0; });
            // Takes what it can, then keeps looking: that is when lapsed leases are found.
            const auto end = Clock::now() + 2500ms;
            while (Clock::now() < end) {
                auto m = consumer.receive(held.size() < messages / members ? 0ms : 20ms);
                if (!m) continue;
                if (m->delivery_count() != 1) book->again.fetch_add(1);
                held.push_back(std::move(*m));
                book->taken.fetch_add(1);
            }
            for (auto& m : held) (m.ack() ? book->acked : book->stale).fetch_add(1);
            return 0;
        });
    }
    eventually([&] { return queue.stats().consumers == members; });
    {
        auto producer = must(queue.producer());
        book->go.store(1);
        for (std::uint64_t i = 0; i < messages; ++i) must(publish_item(producer, {1, i}));
    }
    for (auto& one : all) CHECK(one->wait().exited_with(0));
    CHECK(book->again.load() == 0);
    CHECK(book->stale.load() == 0);
    CHECK(book->acked.load() == messages);
    CHECK(group_stats(queue, "g").lapsed == 0);
}

namespace {

constexpr std::uint64_t step = 48;

/// One message and one group for each place at which the rival is paused: offset, offset + step, ... instructions.
void pause_rivals(std::uint64_t offset) {
    constexpr std::uint64_t groups = 64;
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto sizes = small_queue();
    sizes.max_groups = groups;
    auto queue = must(Queue::create(path, sizes, {.prefault = false}));
    auto producer = must(queue.producer());
    const SharedBlock<Book> book;
    struct Winner {
        Consumer consumer;
        Message message;
    };
    std::vector<Winner> winners;
    winners.reserve(groups);
    std::uint64_t theirs = 0;
    bool more = true;
    for (std::uint64_t i = 0; more && i < groups; ++i) {
        auto options = group_of(GroupMode::shared, Start::latest());
        options.lease_timeout = 10min;  // longer than the test
        options.max_in_flight = 4;
        std::string name("g");
        name += std::to_string(i);
        auto consumer = must(queue.consumer(name, options));
        must(publish_item(producer, {1, i}));
        Traced rival([&] {
            auto own = must(Queue::open(path, {.prefault = false}));
            auto c = must(own.consumer(name));
            mark();
            auto m = c.receive(0ms);
            mark();
            if (m && (m->delivery_count() != 1 || !m->ack())) return 1;
            return 0;
        });
        more = rival.instructions(offset + step * i);
        if (auto m = consumer.receive(0ms)) {
            CHECK(m->delivery_count() == 1);
            winners.push_back({std::move(consumer), std::move(*m)});
        } else {
            ++theirs;
        }
        if (more) rival.finish();  // what it had looked at before may be the winner's now
        const auto status = rival.end();
        REQUIRE_MESSAGE(status.exited_with(0), status.text());
    }
    CHECK_FALSE(more);  // all of the receive was covered
    CHECK(winners.size() > 5);
    CHECK(theirs > 5);
    // The leases have minutes; the looks for more are when lapsed ones are found.
    const auto end = Clock::now() + 1500ms;
    while (Clock::now() < end) {
        for (auto& w : winners) {
            auto m = w.consumer.receive(0ms);
            if (!m) continue;
            CHECK(m->delivery_count() == 1);  // a later round's message
            must(m->ack());
        }
        std::this_thread::yield();
    }
    std::uint64_t stale = 0;
    for (auto& w : winners) stale += w.message.ack() ? 0U : 1U;
    CHECK(stale == 0);
    for (const auto& g : queue.stats().groups) CHECK(g.lapsed == 0);
}

}  // namespace

TEST_CASE("a competitor that comes second, paused at any instruction of its receive, leaves the winner's lease alone") {
    for (std::uint64_t offset = 0; offset < step; offset += count_of(step, 1)) pause_rivals(offset);
}
