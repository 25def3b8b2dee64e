// SPDX-License-Identifier: MIT
// The descriptor of a consumer, for poll and epoll: readable when a message may be there, quiet when there is none,
// and no wake-up is lost.
// ctest: TIMEOUT 120
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>

#include "support/eventually.hpp"
#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

using namespace rondo;
using namespace rondo::test;
using test::eventually;
using test::TmpDir;

namespace {

struct Fixture {
    TmpDir dir;
    Queue queue;
    Producer producer;

    explicit Fixture(Producers producers = Producers::many)
        : queue(Queue::create(dir.str() + "/q", {.capacity_bytes = small, .producers = producers}).value()),
          producer(queue.producer().value()) {}
    static GroupOptions options(GroupMode mode) {
        GroupOptions o{.mode = mode, .start = Start::earliest()};
        o.backoff_initial = 0ns;
        return o;
    }
    void publish(std::string_view payload = "x") { REQUIRE(producer.publish(bytes(payload))); }
};

bool readable(int fd, int timeout_ms = 0) {
    pollfd p{fd, POLLIN, 0};
    return poll(&p, 1, timeout_ms) == 1;
}

/// Waits on the descriptor until a message comes, as a program with an event loop does. A lost wake-up ends in the
/// time limit. Counts how often it woke up.
Message through(Consumer& c, int fd, int* wakes = nullptr) {
    for (;;) {
        pollfd p{fd, POLLIN, 0};
        if (poll(&p, 1, 20'000) != 1) throw std::runtime_error("the descriptor never became readable");
        if (wakes != nullptr) ++*wakes;
        if (auto m = c.try_receive()) return std::move(*m);
    }
}

/// Receives until empty, so that the descriptor is armed.
void drain(Consumer& c) {
    while (auto m = c.try_receive()) (void)m->ack();
}

/// How often a loop of poll and try_receive goes round within `span` while there is nothing to receive.
int rounds_within(Consumer& c, int fd, std::chrono::milliseconds span) {
    int rounds = 0;
    const auto end = std::chrono::steady_clock::now() + span;
    while (std::chrono::steady_clock::now() < end) {
        pollfd p{fd, POLLIN, 0};
        if (poll(&p, 1, 20) != 1) continue;
        ++rounds;
        CHECK(c.try_receive().error().code == Errc::empty);
    }
    return rounds;
}

}  // namespace

TEST_CASE("the descriptor is readable when a message is there, and quiet once the group is drained") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        for (const auto producers : {Producers::one, Producers::many}) {
            CAPTURE(static_cast<int>(mode));
            Fixture f(producers);
            auto c = f.queue.consumer("g", Fixture::options(mode)).value();
            const int fd = c.wait_fd().value();
            CHECK(fd > 2);
            CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
            CHECK(c.wait_fd().value() == fd);
            drain(c);
            for (int i = 0; i < 3; ++i) {
                CHECK_FALSE(readable(fd, 10));
                f.publish(std::to_string(i));
                Message m = through(c, fd);
                CHECK(text(m.payload()) == std::to_string(i));
                CHECK(m.ack());
                drain(c);
            }
        }
    }
}

TEST_CASE("a message that was there before the descriptor makes it readable") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        f.publish();
        auto c = f.queue.consumer("g", Fixture::options(mode)).value();
        CHECK(through(c, c.wait_fd().value()).ack());
    }
}

TEST_CASE("the descriptor stays readable while messages are left") {
    Fixture f;
    auto c = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
    const int fd = c.wait_fd().value();
    drain(c);
    for (int i = 0; i < 10; ++i) f.publish();
    for (int i = 0; i < 10; ++i) {
        CHECK(readable(fd, 20'000));
        CHECK(through(c, fd).ack());
    }
    drain(c);
    CHECK_FALSE(readable(fd));
}

TEST_CASE("ten thousand messages through the descriptor, none waits for a lost wake-up") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f;
        auto c = f.queue.consumer("g", Fixture::options(mode)).value();
        const int fd = c.wait_fd().value();
        constexpr int rounds = 5000;
        std::atomic<int> received = 0;
        std::atomic<bool> failed = false;
        std::thread publisher([&] {
            for (int i = 0; i < rounds && !failed.load(); ++i) {
                (void)f.producer.publish(bytes(std::to_string(i)));
                // One at a time: each round begins with a consumer that sleeps or is about to.
                while (received.load() <= i && !failed.load()) std::this_thread::yield();
            }
        });
        try {
            for (int i = 0; i < rounds; ++i) {
                Message m = through(c, fd);
                if (text(m.payload()) != std::to_string(i) || !m.ack()) throw std::runtime_error("wrong message");
                received.store(i + 1);
            }
        } catch (const std::exception& e) {
            failed.store(true);
            FAIL_CHECK(e.what());
        }
        publisher.join();
        CHECK(received.load() == rounds);
    }
}

TEST_CASE("two consumers with descriptors share the work of a group") {
    Fixture f;
    std::atomic<int> received = 0;
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            auto c = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
            const int fd = c.wait_fd().value();
            while (!stop.load()) {
                if (!readable(fd, 20)) continue;
                while (auto m = c.try_receive()) {
                    if (m->ack()) received.fetch_add(1);
                }
            }
        });
    }
    for (int i = 0; i < 1000; ++i) f.publish();
    eventually([&] { return received.load() == 1000; });
    stop.store(true);
    for (auto& t : threads) t.join();
    CHECK(f.queue.stats().groups.at(0).lag == 0);
}

TEST_CASE("a message that comes back wakes the descriptor: after a nack, a release, a delay") {
    Fixture f;
    auto a = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
    auto b = f.queue.consumer("g").value();
    const int fd = b.wait_fd().value();
    f.publish();
    Message m = a.try_receive().value();
    drain(b);
    CHECK(m.release());
    m = through(b, fd);
    CHECK(m.nack({}, 0ns));
    m = through(b, fd);
    drain(b);
    CHECK(m.nack({}, 20ms));
    auto early = b.try_receive();  // arms the descriptor, or the machine is slow
    m = early ? std::move(*early) : through(b, fd);
    CHECK(m.delivery_count() == 3);
    CHECK(m.ack());
}

TEST_CASE("a retry wakes the descriptor once, when it is due") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f;
        auto c = f.queue.consumer("g", Fixture::options(mode)).value();
        const int fd = c.wait_fd().value();
        f.publish();
        CHECK(through(c, fd).nack({}, 330ms));
        int wakes = 0;
        CHECK(through(c, fd, &wakes).ack());
        // The first is the readiness that the nacked message left, the second the retry's; a third for a slow machine.
        CHECK(wakes <= 3);
    }
}

TEST_CASE("receiving in batches clears the descriptor, and a later message sets it") {
    Fixture f;
    auto c = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
    const int fd = c.wait_fd().value();
    f.publish();
    for (int round = 0; round < 3; ++round) {
        REQUIRE(readable(fd, 20'000));
        int taken = 0;
        for (;;) {
            auto batch = c.receive_batch(8, 0ns);
            if (!batch) break;
            while (Message* m = batch->next()) {
                CHECK(m->ack());
                ++taken;
            }
        }
        CHECK(taken == 1);
        CHECK_FALSE(readable(fd));
        f.publish();
    }
}

TEST_CASE("another consumer's lapsed lease wakes the descriptor") {
    Fixture f;
    auto o = Fixture::options(GroupMode::shared);
    o.lease_timeout = 10ms;
    auto hanging = f.queue.consumer("g", o).value();
    auto c = f.queue.consumer("g").value();
    const int fd = c.wait_fd().value();
    drain(c);
    f.publish();
    Message held = hanging.try_receive().value();
    Message m = through(c, fd);
    CHECK(m.delivery_count() == 2);
    CHECK(m.ack());
}

TEST_CASE("a standby's descriptor fires when its turn comes") {
    Fixture f;
    std::optional<Consumer> active = f.queue.consumer("g", Fixture::options(GroupMode::exclusive)).value();
    auto standby = f.queue.consumer("g").value();
    const int fd = standby.wait_fd().value();
    f.publish();
    CHECK(active->try_receive().value().release());
    drain(standby);
    active.reset();
    CHECK(through(standby, fd).ack());
    CHECK(standby.active());
}

TEST_CASE("what cannot be received now does not keep the descriptor busy") {
    // A loop that polls and receives goes round for the first readiness only, not as fast as it can nor once a tick.
    constexpr auto span = 220ms;
    constexpr int most = 3;
    SUBCASE("standby of an exclusive group") {
        Fixture f;
        auto active = f.queue.consumer("g", Fixture::options(GroupMode::exclusive)).value();
        f.publish();
        Message held = active.try_receive().value();
        auto c = f.queue.consumer("g").value();
        CHECK(rounds_within(c, c.wait_fd().value(), span) < most);
    }
    SUBCASE("an exclusive group that backs off") {
        Fixture f;
        auto c = f.queue.consumer("g", Fixture::options(GroupMode::exclusive)).value();
        f.publish();
        f.publish();
        CHECK(c.try_receive().value().nack({}, 1h));
        CHECK(rounds_within(c, c.wait_fd().value(), span) < most);
    }
    SUBCASE("a shared group that waits for its retries") {
        Fixture f;
        auto c = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
        f.publish();
        CHECK(c.try_receive().value().nack({}, 1h));
        CHECK(rounds_within(c, c.wait_fd().value(), span) < most);
    }
    SUBCASE("a shared group at its limit") {
        Fixture f;
        auto o = Fixture::options(GroupMode::shared);
        o.max_in_flight_group = 1;
        auto other = f.queue.consumer("g", o).value();
        auto c = f.queue.consumer("g").value();
        f.publish();
        f.publish();
        Message held = other.try_receive().value();
        CHECK(rounds_within(c, c.wait_fd().value(), span) < most);
    }
    SUBCASE("a consumer at its limit") {
        Fixture f;
        auto o = Fixture::options(GroupMode::shared);
        o.max_in_flight = 1;
        auto c = f.queue.consumer("g", o).value();
        f.publish();
        f.publish();
        Message held = c.try_receive().value();
        const int fd = c.wait_fd().value();
        CHECK(rounds_within(c, fd, span) < most);
        CHECK(held.ack());
        CHECK(through(c, fd).ack());
    }
    SUBCASE("messages in other hands") {
        Fixture f;
        auto other = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
        auto c = f.queue.consumer("g").value();
        f.publish();
        Message held = other.try_receive().value();
        CHECK(rounds_within(c, c.wait_fd().value(), span) < most);
    }
}

TEST_CASE("closing the queue, destroying it or deleting the group makes the descriptor readable") {
    for (int way = 0; way < 3; ++way) {
        CAPTURE(way);
        Fixture f;
        auto c = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
        const int fd = c.wait_fd().value();
        drain(c);
        CHECK_FALSE(readable(fd));
        if (way == 0) f.queue.close();
        if (way == 1) CHECK(Queue::destroy(f.dir.str() + "/q", Force::yes));
        if (way == 2) CHECK(f.queue.delete_group("g", Force::yes));
        CHECK(readable(fd, 20'000));
        CHECK(c.try_receive().error().code == (way == 2 ? Errc::no_such_group : Errc::closed));
    }
}

TEST_CASE("each consumer has a descriptor of its own, which ends with it") {
    Fixture f;
    auto a = f.queue.consumer("a", Fixture::options(GroupMode::shared)).value();
    std::optional<Consumer> b = f.queue.consumer("b", Fixture::options(GroupMode::shared)).value();
    const int fd_a = a.wait_fd().value(), fd_b = b->wait_fd().value();
    CHECK(fd_a != fd_b);
    drain(a);
    drain(*b);
    f.publish();
    CHECK(through(a, fd_a).ack());
    CHECK(readable(fd_b, 20'000));
    Consumer moved = std::move(*b);
    CHECK(moved.wait_fd().value() == fd_b);
    CHECK(through(moved, fd_b).ack());
    b.reset();
    { const Consumer gone = std::move(moved); }
    CHECK(fcntl(fd_b, F_GETFD) == -1);
    f.publish();
    CHECK(through(a, fd_a).ack());
}

TEST_CASE("a blocking receive and the descriptor go together") {
    Fixture f;
    auto c = f.queue.consumer("g", Fixture::options(GroupMode::shared)).value();
    const int fd = c.wait_fd().value();
    drain(c);
    for (int i = 0; i < 20; ++i) {
        std::thread publisher([&] { (void)f.producer.publish(bytes("x")); });
        CHECK(c.receive(20s).value().ack());
        publisher.join();
        drain(c);
        f.publish();
        CHECK(through(c, fd).ack());
    }
}
