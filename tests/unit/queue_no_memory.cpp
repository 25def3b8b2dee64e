// ctest: TIMEOUT 120
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Each allocation of a call fails in turn: the call says so, and neither a place, nor a role, nor a dead participant's
// lock or lease is lost with it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

// How many allocations of this thread still succeed; negative: all.
thread_local long allocations_left = -1;
thread_local bool refused = false;

}  // namespace

void* operator new(std::size_t bytes) {
    if (allocations_left == 0) {
        refused = true;
        throw std::bad_alloc();
    }
    if (allocations_left > 0) --allocations_left;
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    try {
        return operator new(bytes);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

/// Calls `body` with memory for no allocation, then for one, and so on until none is refused; `after` in between.
template <class Body, class After>
int with_ever_more_memory(Body&& body, After&& after) {
    for (int n = 0;; ++n) {
        refused = false;
        allocations_left = n;
        body();
        allocations_left = -1;
        const bool last = !refused;
        CAPTURE(n);
        after(last);
        if (last) return n;
    }
}

struct Book {
    Flag ready;
};

/// Killed with three messages of "s" in hand.
void die_with_leases(const std::string& path) {
    const SharedBlock<Book> book;
    Child consumer([&] {
        auto own = must(Queue::open(path, {.prefault = false}));
        auto taker = must(own.consumer("s"));
        std::vector<Message> hand;
        hand.reserve(3);
        for (int i = 0; i < 3; ++i) hand.push_back(must(taker.receive(repair_watchdog)));
        book->ready.store(1);
        return wait_for_the_end();
    });
    eventually([&] { return book->ready.load() == 1; });
    consumer.kill();
    REQUIRE(consumer.wait().killed_by(SIGKILL));
}

struct Fixture {
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue{must(Queue::create(path, small_queue(Producers::one)))};

    Fixture() {
        auto options = group_of(GroupMode::shared);
        options.max_deliveries = -1;
        options.backoff_initial = 0ms;
        options.backoff_max = 0ms;
        options.lease_timeout = 1h;
        options.max_lease_total = 2h;
        must(queue->create_group("s", options));
        must(queue->create_group("x", group_of(GroupMode::exclusive)));
    }
    std::uint64_t consumers() const { return queue->stats().consumers; }
    std::uint64_t producers() const { return queue->stats().producers; }

    /// `body`, again and again with more memory, while a dead consumer is there to be buried.
    template <class Body>
    void bury_with_ever_more_memory(Body&& body) {
        std::optional<Producer> producer(must(queue->producer()));
        for (std::uint64_t i = 0; i < 3; ++i) must(publish_item(*producer, {1, i}));
        die_with_leases(path);
        const int refusals = with_ever_more_memory(body, [&](bool last) {
            auto next = must(Queue::open(path, {.prefault = false}));
            CHECK(next.stats().participants == 2);
            CHECK(next.stats().consumers == 0);
            auto consumer = must(next.consumer("s"));
            for (int i = 0; i < 3; ++i) must(must(consumer.receive(repair_watchdog)).release());
            if (!last) die_with_leases(path);
        });
        CHECK(refusals > 0);
    }
};

}  // namespace

TEST_CASE("a producer or consumer that could not be made leaves no place and no role behind") {
    Fixture f;
    const auto unused = [&](bool) {
        CHECK(f.consumers() == 0);
        CHECK(f.producers() == 0);
        CHECK(f.queue->producer());  // the role is free
    };
    const auto word = [](const auto& result) { return result ? Errc::empty : result.error().code; };
    Errc said = Errc::empty;
    CHECK(with_ever_more_memory([&] { said = word(f.queue->producer()); },
                                [&](bool last) {
                                    unused(last);
                                    CHECK(said == (last ? Errc::empty : Errc::no_memory));
                                }) > 0);
    for (const char* group : {"s", "x"}) {
        CHECK(with_ever_more_memory([&] { said = word(f.queue->consumer(group)); },
                                    [&](bool last) {
                                        unused(last);
                                        CHECK(said == (last ? Errc::empty : Errc::no_memory));
                                    }) > 0);
    }
}

TEST_CASE("a look around without memory loses nothing of a dead consumer, and leaves it to the next") {
    Fixture f;
    // A second producer is refused only after a look for the dead.
    f.bury_with_ever_more_memory([&] { CHECK_FALSE(f.queue->producer()); });
}

TEST_CASE("an opener without memory loses nothing of the dead consumer whose place it tries") {
    Fixture f;
    f.bury_with_ever_more_memory([&] { (void)Queue::open(f.path, {.prefault = false}); });
}
