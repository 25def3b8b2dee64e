// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: TIMEOUT 300 SANITIZE none
//
// One producer process, one consumer process, every message checked: 10^8 with RONDO_FULL=1, otherwise 10^6.
#include "stress/full_traffic.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

int consume(const std::string& path, std::uint64_t count, bool shared, StartLine& line) {
    auto queue = Queue::open(path);
    if (!queue) return report("open");
    auto consumer = queue->consumer("work");
    if (!consumer) return report("consumer");
    Books books(1, 1);
    auto reader = books.reader();
    line.wait();
    for (std::uint64_t received = 0; received < count;) {
        if (shared && received % 3 == 0) {  // in between, several at once
            auto batch = consumer->receive_batch(32, std::chrono::seconds(20));
            if (!batch) return report(std::string("receive_batch: ") + batch.error().what);
            while (auto* m = batch->next()) {
                books.arrived_next(reader, m->payload());
                if (auto ok = m->ack(); !ok) return report(std::string("ack: ") + ok.error().what);
                ++received;
            }
            continue;
        }
        auto m = consumer->receive(std::chrono::seconds(20));
        if (!m) return report(std::string("receive: ") + m.error().what);
        books.arrived_next(reader, m->payload());
        if (auto ok = m->ack(); !ok) return report(std::string("ack: ") + ok.error().what);
        ++received;
    }
    if (reader.next[0] != count) return report("the last message has another number");
    if (books.corrupt() != 0) return report(std::to_string(books.corrupt()) + " torn messages");
    if (books.disordered() != 0) return report(std::to_string(books.disordered()) + " messages out of order");
    if (auto more = consumer->try_receive()) return report("a message too many");
    return 0;
}

void run(std::uint64_t capacity, GroupMode mode, std::uint64_t count) {
    CAPTURE(capacity);
    CAPTURE(static_cast<int>(mode));
    const TmpDir dir;
    const std::string path = dir / "q";
    auto queue = Queue::create(path, {.capacity_bytes = capacity, .producers = Producers::one});
    REQUIRE(queue);
    REQUIRE(queue->create_group("work", {.mode = mode, .start = Start::earliest()}));
    SharedBlock<StartLine> line;
    Child consumer([&] { return consume(path, count, mode == GroupMode::shared, *line); });
    Child producer([&] {
        auto own = Queue::open(path);
        if (!own) return report("open");
        auto p = own->producer();
        if (!p) return report("producer");
        line->wait();
        std::string error;
        (void)publish_all(std::move(*p), 0, count, {.largest = 2000, .mixed = false}, error);
        return report(error);
    });
    eventually([&] { return line->ready.load() == 2; });
    const auto begin = std::chrono::steady_clock::now();
    line->go.store(true, std::memory_order_release);
    CHECK(producer.wait().exited_with(0));
    CHECK(consumer.wait().exited_with(0));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    print_rate(mode == GroupMode::shared ? "one producer, shared group" : "one producer, exclusive group", capacity,
               count, took.count());
}

}  // namespace

TEST_CASE("an exclusive group in the smallest ring") {
    run(smallest_capacity, GroupMode::exclusive, full_count(100'000'000));
}
TEST_CASE("an exclusive group in a ring of 64 Ki slots") {
    run(larger_capacity, GroupMode::exclusive, full_count(100'000'000));
}
TEST_CASE("a shared group in the smallest ring") { run(smallest_capacity, GroupMode::shared, full_count(20'000'000)); }
TEST_CASE("a shared group in a ring of 64 Ki slots") {
    run(larger_capacity, GroupMode::shared, full_count(20'000'000));
}
