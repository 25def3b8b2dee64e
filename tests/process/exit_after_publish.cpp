// ctest: TIMEOUT 60 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A producer that ends the moment its last publish has returned: everything it published is there, whoever comes later.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

enum class Ending { quick_exit, kill, abort, exec };

void end_by(Ending ending) {
    switch (ending) {
        case Ending::quick_exit:
            _exit(0);
        case Ending::kill:
            raise(SIGKILL);
            break;
        case Ending::abort:
            signal(SIGABRT, SIG_DFL);
            abort();
        case Ending::exec:
            execl("/bin/true", "true", static_cast<char*>(nullptr));
            break;
    }
    _exit(99);
}

void publish_and_end(Producers kind) {
    constexpr std::uint64_t messages = 1000;
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    must(Queue::create(path, small_queue(kind)));
    for (std::uint64_t run = 0; run < count_of(100, 1000); ++run) {
        const auto ending = static_cast<Ending>(run % 4);
        Child producer([&] {
            auto queue = must(Queue::open(path, {.prefault = false}));
            auto p = must(queue.producer());
            for (std::uint64_t i = 0; i < messages; ++i) must(publish_item(p, {run, i}, 24 + i % 100));
            end_by(ending);
            return 99;
        });
        const auto status = producer.wait();
        REQUIRE_FALSE(status.exited_with(99));
        REQUIRE_FALSE(status.exited_with(125));
        // The consumer comes only now.
        auto queue = must(Queue::open(path, {.prefault = false}));
        auto consumer = must(queue.consumer("late", group_of(GroupMode::exclusive)));
        for (std::uint64_t i = 0; i < messages; ++i) {
            auto m = must(consumer.receive(repair_watchdog));
            const Item item = item_of(m);
            REQUIRE(item.producer == run);
            REQUIRE(item.sequence == i);
            must(m.ack());
        }
        REQUIRE(consumer.receive(0ms).error().code == Errc::empty);
    }
}

}  // namespace

TEST_CASE("all messages of a producer that ends right after its last publish are there") {
    publish_and_end(Producers::many);
}

TEST_CASE("all messages of a single producer that ends right after its last publish are there") {
    publish_and_end(Producers::one);
}
