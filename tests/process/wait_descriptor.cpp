// ctest: TIMEOUT 90 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Consumers in event loops: the descriptor of wait_fd() becomes readable for whatever another process does.
#include <doctest/doctest.h>

#include <sys/epoll.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag go, ready;
    Count received;
    std::array<Count, 20'001> got;
};

class Epoll {
public:
    Epoll() : fd_(epoll_create1(EPOLL_CLOEXEC)) {}
    Epoll(const Epoll&) = delete;
    Epoll& operator=(const Epoll&) = delete;
    ~Epoll() { close(fd_); }
    void add(int fd, std::uint64_t data) {
        epoll_event e{};
        e.events = EPOLLIN;
        e.data.u64 = data;
        if (epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &e) != 0) throw std::runtime_error("epoll_ctl");
    }
    /// Whose descriptor is readable, if any within the time.
    std::optional<std::uint64_t> wait(std::chrono::milliseconds timeout) {
        epoll_event e{};
        const auto end = Clock::now() + timeout;
        for (;;) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
            const int n = epoll_wait(fd_, &e, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
            if (n == 1) return std::uint64_t{e.data.u64};
            if (n == 0) return std::nullopt;
        }
    }

private:
    int fd_;
};

/// Drains the consumer and says whether it is silent now.
void drain(Consumer& c) {
    while (auto m = c.try_receive()) must(m->ack());
}

struct Scene {
    explicit Scene(GroupMode mode = GroupMode::shared, const std::function<void(GroupOptions&)>& change = {}) {
        queue.emplace(must(Queue::create(path, small_queue())));
        auto g = group_of(mode);
        g.backoff_initial = 0ms;
        g.backoff_max = 0ms;
        if (change) change(g);
        consumer.emplace(must(queue->consumer("g", g)));
        epoll.add(must(consumer->wait_fd()), 1);
        drain(*consumer);
    }
    /// Silent until `cause`, readable after it, and then something can be received.
    void check_wakes(const std::string& what, const std::function<void()>& cause) {
        INFO(what);
        drain(*consumer);
        while (epoll.wait(0ms)) drain(*consumer);
        cause();
        const auto since = Clock::now();
        for (;;) {
            const auto fired = epoll.wait(std::chrono::milliseconds(repair_watchdog));
            REQUIRE(fired.has_value());
            auto m = consumer->try_receive();
            if (m) {
                (void)item_of(*m);
                must(m->ack());
                break;
            }
            CHECK(m.error().code == Errc::empty);
            REQUIRE(Clock::now() - since < repair_watchdog);
        }
    }
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
    std::optional<Consumer> consumer;
    Epoll epoll;
    SharedBlock<Book> book;
};

}  // namespace

TEST_CASE("the descriptor fires for another process's message, stays readable, and is silent once all is received") {
    Scene s;
    CHECK_FALSE(s.epoll.wait(100ms).has_value());
    s.check_wakes("publish", [&] {
        Child sender([&] {
            auto own = must(Queue::open(s.path));
            auto producer = must(own.producer());
            must(publish_item(producer, {1, 1}));
            return 0;
        });
        CHECK(sender.wait().exited_with(0));
    });
    // Level-triggered: not drained, it fires again.
    auto producer = must(s.queue->producer());
    (void)s.consumer->try_receive();
    must(publish_item(producer, {1, 2}));
    CHECK(s.epoll.wait(10s).has_value());
    CHECK(s.epoll.wait(0ms).has_value());
    drain(*s.consumer);
    while (s.epoll.wait(0ms)) drain(*s.consumer);
    CHECK_FALSE(s.epoll.wait(100ms).has_value());
}

TEST_CASE("the descriptor fires for what comes back from a killed consumer") {
    Scene s(GroupMode::shared, [](GroupOptions& g) {
        g.lease_timeout = 1h;
        g.max_lease_total = 2h;
    });
    Child holder([&] {
        auto own = must(Queue::open(s.path));
        auto consumer = must(own.consumer("g"));
        auto producer = must(own.producer());
        // Takes it before the test's consumer can: that one does not look yet.
        must(publish_item(producer, {1, 1}));
        auto m = must(consumer.receive(repair_watchdog));
        s.book->ready.store(1);
        return wait_for_the_end();
    });
    eventually([&] { return s.book->ready.load() == 1; });
    s.check_wakes("death", [&] {
        holder.kill();
        CHECK(holder.wait().killed_by(SIGKILL));
    });
}

TEST_CASE("the descriptor fires for a lease that lapses, a backoff that ends, and a release") {
    Scene s(GroupMode::shared, [](GroupOptions& g) {
        g.lease_timeout = 200ms;
        g.backoff_initial = 200ms;
        g.backoff_max = 200ms;
        g.jitter = Jitter::none;
    });
    auto producer = must(s.queue->producer());
    auto other = must(s.queue->consumer("g"));
    std::optional<Message> held;
    const auto take = [&] {
        must(publish_item(producer, {1, 1}));
        held.emplace(must(other.receive(repair_watchdog)));
    };
    take();
    s.check_wakes("lapse", [] {});
    held.reset();
    take();
    s.check_wakes("backoff", [&] { must(held->nack()); });
    take();
    s.check_wakes("release", [&] { must(held->release()); });
}

TEST_CASE("the standby's descriptor fires when the active consumer closes, and when it is killed") {
    for (const bool killed : {false, true}) {
        const TmpDir dir;
        const std::string path = dir.str() + "/q";
        auto queue = must(Queue::create(path, small_queue()));
        must(queue.create_group("x", group_of(GroupMode::exclusive)));
        const SharedBlock<Book> book;
        Child active([&] {
            auto own = must(Queue::open(path));
            auto consumer = must(own.consumer("x"));
            auto producer = must(own.producer());
            for (std::uint64_t i = 0; i < 3; ++i) must(publish_item(producer, {1, i}));
            auto m = must(consumer.receive(repair_watchdog));
            must(m.ack());
            book->ready.store(1);
            if (killed) return wait_for_the_end();
            eventually([&] { return book->go.load() == 1; });
            return 0;
        });
        eventually([&] { return book->ready.load() == 1; });
        auto standby = must(queue.consumer("x"));
        Epoll epoll;
        epoll.add(must(standby.wait_fd()), 1);
        CHECK(standby.try_receive().error().code == Errc::empty);
        if (killed) {
            active.kill();
        } else {
            book->go.store(1);
        }
        (void)active.wait();
        std::uint64_t received = 0;
        const auto since = Clock::now();
        while (received < 2) {
            REQUIRE(Clock::now() - since < repair_watchdog);
            REQUIRE(epoll.wait(std::chrono::milliseconds(repair_watchdog)).has_value());
            while (auto m = standby.try_receive()) {
                CHECK(item_of(*m).sequence == received + 1);
                must(m->ack());
                ++received;
            }
        }
    }
}

TEST_CASE("the descriptor fires when the queue is destroyed or the group deleted, and the call says so") {
    {
        Scene s;
        Child destroyer([&] { return Queue::destroy(s.path, Force::yes) ? 0 : 1; });
        CHECK(destroyer.wait().exited_with(0));
        CHECK(s.epoll.wait(10s).has_value());
        CHECK(s.consumer->try_receive().error().code == Errc::closed);
    }
    {
        Scene s;
        Child deleter([&] {
            auto own = must(Queue::open(s.path));
            return own.delete_group("g", Force::yes) ? 0 : 1;
        });
        CHECK(deleter.wait().exited_with(0));
        CHECK(s.epoll.wait(10s).has_value());
        CHECK(s.consumer->try_receive().error().code == Errc::no_such_group);
    }
}

TEST_CASE("four event loops share the messages of another process, one each, and none is left lying") {
    constexpr std::uint64_t messages = 20'000;
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    must(queue.create_group("g", group_of(GroupMode::shared)));
    const SharedBlock<Book> book;
    std::vector<std::unique_ptr<Child>> loops;
    loops.reserve(4);
    for (int i = 0; i < 4; ++i) {
        loops.push_back(std::make_unique<Child>([&] {
            auto own = must(Queue::open(path));
            // Two consumers in one loop.
            auto a = must(own.consumer("g"));
            auto b = must(own.consumer("g"));
            Epoll epoll;
            epoll.add(must(a.wait_fd()), 0);
            epoll.add(must(b.wait_fd()), 1);
            book->ready.fetch_add(1);
            while (book->go.load() == 0) {
                const auto which = epoll.wait(20ms);
                if (!which) continue;
                auto& c = *which == 0 ? a : b;
                for (int n = 0; n < 5; ++n) {  // not always until empty
                    auto m = c.try_receive();
                    if (!m) break;
                    book->got[item_of(*m).sequence].fetch_add(1);
                    must(m->ack());
                    book->received.fetch_add(1);
                }
            }
            return 0;
        }));
    }
    eventually([&] { return book->ready.load() == 4; });
    auto producer = must(queue.producer());
    for (std::uint64_t i = 0; i < messages; ++i) {
        must(publish_item(producer, {1, i}, 50, {.timeout = forever}));
        // Now and then everybody is asleep when the message comes.
        if (i % 1000 == 999) eventually([&] { return book->received.load() == i + 1; });
    }
    eventually([&] { return book->received.load() == messages; });
    book->go.store(1);
    for (auto& one : loops) CHECK(one->wait().exited_with(0));
    for (std::uint64_t i = 0; i < messages; ++i) REQUIRE(book->got[i].load() == 1);
}
