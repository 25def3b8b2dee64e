// ctest: SANITIZE tsan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Producers that run out of credit at the same moment: whoever loses the race to move the limit finds the room that the
// winner made.
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("nobody is refused room while the ring is nearly empty") {
    const TmpDir dir;
    auto queue = Queue::create(dir.str() + "/q", {.capacity_bytes = small}).value();
    REQUIRE(queue.create_group("g", {.mode = GroupMode::shared, .start = Start::earliest()}));
    constexpr int rounds = 200'000;
    std::atomic<std::uint64_t> refused{0}, empty_handed{0};
    std::barrier together(2);
    const auto work = [&] {
        auto producer = queue.producer().value();
        auto consumer = queue.consumer("g").value();
        for (int i = 0; i < rounds; ++i) {
            // At most two messages are unsettled, and they are never far apart, in a ring of 4096 slots.
            if (i % 64 == 0) together.arrive_and_wait();
            if (!producer.try_publish(bytes("x"))) {
                refused.fetch_add(1);
                continue;
            }
            auto m = consumer.receive(long_wait);
            if (!m || !m->ack()) empty_handed.fetch_add(1);
        }
    };
    std::thread other(work);
    work();
    other.join();
    CHECK(refused.load() == 0);
    CHECK(empty_handed.load() == 0);
}
