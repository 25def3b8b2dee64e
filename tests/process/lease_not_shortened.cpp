// ctest: TIMEOUT 60
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Leases among many competitors: whoever comes second at a message must not touch the time of whoever came first.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <vector>

#include "process/actors.hpp"
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
