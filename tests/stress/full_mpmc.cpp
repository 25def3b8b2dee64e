// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: TIMEOUT 300 SANITIZE none
//
// Four producer and four consumer processes, every message checked: 10^7 with RONDO_FULL=1, otherwise 10^5.
#include "stress/full_traffic.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::uint32_t processes = 4;

void run(std::uint64_t capacity, GroupMode mode, std::uint64_t count) {
    CAPTURE(capacity);
    CAPTURE(static_cast<int>(mode));
    const std::uint64_t each = count / processes;
    const TmpDir dir;
    const std::string path = dir / "q";
    auto queue = Queue::create(path, {.capacity_bytes = capacity});
    REQUIRE(queue);
    REQUIRE(queue->create_group("work", {.mode = mode, .start = Start::earliest()}));
    Books books(processes, each);
    SharedBlock<StartLine> line;
    std::vector<std::unique_ptr<Child>> all;
    for (std::uint32_t i = 0; i < processes; ++i) {
        all.push_back(std::make_unique<Child>([&, i] {
            auto own = Queue::open(path);
            if (!own) return report("open");
            auto p = own->producer();
            if (!p) return report("producer");
            line->wait();
            std::string error;
            (void)publish_all(std::move(*p), i, each, {}, error);
            return report(error);
        }));
        all.push_back(std::make_unique<Child>([&, i] {
            auto own = Queue::open(path);
            if (!own) return report("open");
            auto c = own->consumer("work");
            if (!c) return report("consumer");
            line->wait();
            std::string error;
            (void)consume_all(
                std::move(*c), i, mode == GroupMode::exclusive, {}, books, [&] { return books.over(); }, error);
            return report(error);
        }));
    }
    eventually([&] { return line->ready.load() == 2 * processes; });
    const auto begin = std::chrono::steady_clock::now();
    line->go.store(true, std::memory_order_release);
    for (auto& child : all) CHECK(child->wait().exited_with(0));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    CHECK(books.arrived_count() == books.expected());
    CHECK(books.corrupt() == 0);
    CHECK(books.disordered() == 0);
    CHECK(books.lost() == 0);
    CHECK(books.repeated() == 0);
    const auto s = queue->stats();
    CHECK(s.groups.at(0).lag == 0);
    CHECK(s.corrupt == 0);
    print_rate(mode == GroupMode::shared ? "4 producers, 4 members of a shared group"
                                         : "4 producers, 4 members of an exclusive group",
               capacity, books.expected(), took.count());
}

}  // namespace

TEST_CASE("a shared group in the smallest ring") { run(smallest_capacity, GroupMode::shared, full_count(10'000'000)); }
TEST_CASE("a shared group in a ring of 64 Ki slots") {
    run(larger_capacity, GroupMode::shared, full_count(10'000'000));
}
TEST_CASE("an exclusive group in the smallest ring") {
    run(smallest_capacity, GroupMode::exclusive, full_count(10'000'000));
}
TEST_CASE("an exclusive group in a ring of 64 Ki slots") {
    run(larger_capacity, GroupMode::exclusive, full_count(10'000'000));
}
