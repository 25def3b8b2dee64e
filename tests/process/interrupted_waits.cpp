// ctest: TIMEOUT 60 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A timer signal every millisecond, without SA_RESTART, during every call that may wait: none ends early, none fails,
// and the deadlines stay where they are.
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/time.h>

#include <optional>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

std::atomic<std::uint64_t> ticks{0};

void on_tick(int) { ticks.fetch_add(1); }

/// While it lives, a signal comes every millisecond.
class Interrupts {
public:
    Interrupts() {
        struct sigaction action = {};
        action.sa_handler = on_tick;  // no SA_RESTART
        sigaction(SIGUSR1, &action, &former_);
        sigevent event{};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGUSR1;
        if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) throw std::runtime_error("timer_create");
        itimerspec each{};
        each.it_interval.tv_nsec = each.it_value.tv_nsec = 1'000'000;
        timer_settime(timer_, 0, &each, nullptr);
    }
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    ~Interrupts() {
        timer_delete(timer_);
        sigaction(SIGUSR1, &former_, nullptr);
    }

private:
    timer_t timer_{};
    struct sigaction former_ = {};
};

template <class Call>
void check_waits(const char* what, std::chrono::milliseconds timeout, Call&& call) {
    const std::uint64_t before = ticks.load();
    const auto since = Clock::now();
    const Errc code = call(timeout);
    const auto took = Clock::now() - since;
    INFO(std::string(what), " took ", std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), " ms");
    CHECK(code == Errc::timeout);
    CHECK(took >= timeout);
    CHECK(took < timeout + 10 * 10ms + 1s);  // ten times the bound, and room for a busy machine
    CHECK(ticks.load() > before + 10);
}

}  // namespace

TEST_CASE("waits that are interrupted all the time end at their deadlines, with a timeout") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto consumer = must(queue.consumer("s", group_of(GroupMode::shared)));
    auto owner = must(queue.consumer("x", group_of(GroupMode::exclusive)));
    auto standby = must(queue.consumer("x"));
    CHECK(owner.receive(0ms).error().code == Errc::empty);
    auto producer = must(queue.producer());
    const Interrupts interrupts;
    check_waits("receive", 300ms, [&](auto t) { return consumer.receive(t).error().code; });
    check_waits("receive of an owner", 300ms, [&](auto t) { return owner.receive(t).error().code; });
    check_waits("receive of a standby", 300ms, [&](auto t) { return standby.receive(t).error().code; });
    check_waits("receive_batch", 300ms, [&](auto t) { return consumer.receive_batch(10, t).error().code; });
    while (publish_item(producer, {1, 0}, 200, {.timeout = 0ms})) {
    }
    check_waits("publish", 300ms, [&](auto t) {
        return publish_item(producer, {1, 0}, 200, {.timeout = t}).error().code;
    });
    check_waits("claim", 300ms, [&](auto t) { return producer.claim(200, {.timeout = t}).error().code; });
    check_waits("publish_batch", 300ms, [&](auto t) {
        std::array<std::byte, 100> bytes{};
        const std::array<Outgoing, 1> out = {Outgoing{bytes, {.timeout = t}}};
        return producer.publish_batch(out).error().code;
    });
}

TEST_CASE("set-up and everything else works under a rain of signals") {
    const TmpDir dir;
    const Interrupts interrupts;
    for (int round = 0; round < 20; ++round) {
        const std::string path = dir.str() + "/q" + std::to_string(round);
        {
            auto options = small_queue();
            options.capacity_bytes = 4 << 20;  // long enough to be interrupted
            auto queue = must(Queue::create(path, options));
            auto consumer = must(queue.consumer("s", group_of(GroupMode::shared)));
            must(queue.create_group("x", group_of(GroupMode::exclusive)));
            auto producer = must(queue.producer());
            for (std::uint64_t i = 0; i < 100; ++i) {
                must(publish_item(producer, {1, i}));
                auto m = must(consumer.receive(1s));
                CHECK(item_of(m).sequence == i);
                if (i % 2 == 0) {
                    must(m.ack());
                } else {
                    must(m.reject({}));
                }
            }
            CHECK(must(must(queue.dead_letters()).list()).size() == 50);
            must(queue.delete_group("x"));
            (void)queue.stats();
        }
        must(Queue::destroy(path));
    }
}

TEST_CASE("messages between interrupted processes all come") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto consumer = must(queue.consumer("s", group_of(GroupMode::shared)));
    constexpr std::uint64_t messages = 20'000;
    Child sender([&] {
        const Interrupts interrupts;
        auto own = must(Queue::open(path));
        auto producer = must(own.producer());
        for (std::uint64_t i = 0; i < messages; ++i) must(publish_item(producer, {1, i}, 100, {.timeout = forever}));
        return 0;
    });
    const Interrupts interrupts;
    for (std::uint64_t i = 0; i < messages; ++i) {
        auto m = must(consumer.receive(forever));
        REQUIRE(item_of(m).sequence == i);
        must(m.ack());
    }
    CHECK(sender.wait().exited_with(0));
}
