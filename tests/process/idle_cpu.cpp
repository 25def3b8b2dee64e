// ctest: TIMEOUT 60 SERIAL
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Who waits does not work: processor time of every kind of waiting. The promise is 1 percent each; ten times that
// fails the test.
#include <doctest/doctest.h>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
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
    Flag done;
    Count cpu_ns, wall_ns, switches;
};

std::uint64_t cpu_of(const rusage& r) {
    const auto ns = [](const timeval& t) {
        return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_usec) * 1000;
    };
    return ns(r.ru_utime) + ns(r.ru_stime);
}

/// Waits that run side by side, each in a child of its own. The destructor looks at what they cost.
class Measures {
public:
    Measures() = default;
    Measures(const Measures&) = delete;
    Measures& operator=(const Measures&) = delete;
    ~Measures() { finish(); }

    /// `prepare` returns a wait that lasts as long as it is told.
    template <class Prepare>
    void add(const std::string& what, Prepare prepare) {
        auto one = std::make_unique<One>();
        one->what = what;
        Book& book = *one->book;
        one->child = std::make_unique<Child>([&book, prepare] {
            auto wait = prepare();
            wait(200ms);  // the first one may have something to do
            rusage before{}, after{};
            getrusage(RUSAGE_SELF, &before);
            const std::uint64_t since = now_ns();
            wait(std::chrono::nanoseconds(period()));
            getrusage(RUSAGE_SELF, &after);
            book.wall_ns.store(now_ns() - since);
            book.cpu_ns.store(cpu_of(after) - cpu_of(before));
            book.switches.store(static_cast<std::uint64_t>(after.ru_nvcsw - before.ru_nvcsw));
            book.done.store(1);
            return 0;
        });
        all_.push_back(std::move(one));
    }

    void finish() {
        for (const auto& one : all_) {
            INFO(one->what);
            CHECK(one->child->wait().exited_with(0));
            const Book& book = *one->book;
            CHECK(book.done.load() == 1);
            if (book.done.load() != 1) continue;
            const double wall = static_cast<double>(book.wall_ns.load());
            const double percent = 100.0 * static_cast<double>(book.cpu_ns.load()) / wall;
            const double wakeups = static_cast<double>(book.switches.load()) / (wall / 1e9);
            std::printf("%-58s %6.2f %% of a processor, %5.1f wake-ups a second\n", one->what.c_str(), percent,
                        wakeups);
            std::fflush(stdout);
            CHECK(wall >= 0.99 * static_cast<double>(std::chrono::nanoseconds(period()).count()));
            CHECK(percent < 10);
            CHECK(wakeups < 200);
        }
        all_.clear();
    }

private:
    static std::chrono::seconds period() { return std::chrono::seconds(count_of(2, 60)); }
    struct One {
        std::string what;
        SharedBlock<Book> book;
        std::unique_ptr<Child> child;
    };
    std::vector<std::unique_ptr<One>> all_;
};

struct Scene {
    explicit Scene(const std::function<void(GroupOptions&)>& change = {}) {
        queue.emplace(must(Queue::create(path, small_queue())));
        auto s = group_of(GroupMode::shared);
        s.backoff_initial = 1h;
        s.backoff_max = 2h;
        if (change) change(s);
        must(queue->create_group("s", s));
        auto x = group_of(GroupMode::exclusive);
        x.backoff_initial = 1h;
        x.backoff_max = 2h;
        must(queue->create_group("x", x));
    }
    void publish(std::uint64_t n) {
        auto producer = must(queue->producer());
        for (std::uint64_t i = 0; i < n; ++i) must(publish_item(producer, {1, i}));
    }
    void fill() {
        auto producer = must(queue->producer());
        while (publish_item(producer, {1, 0}, 200, {.timeout = 0ms})) {
        }
    }
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
};

using Wait = std::function<void(Duration)>;

/// Waits in receive().
Wait receiving(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Consumer>& consumer) {
    return [queue, consumer](Duration d) {
        if (consumer->receive(d).has_value()) throw std::runtime_error("a message came");
    };
}

/// Waits in an event loop, as a program with other descriptors would.
Wait polling(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Consumer>& consumer) {
    const int fd = must(consumer->wait_fd());
    return [queue, consumer, fd](Duration d) {
        const auto end = Clock::now() + d;
        for (auto now = Clock::now(); now < end; now = Clock::now()) {
            if (consumer->try_receive().has_value()) throw std::runtime_error("a message came");
            pollfd p{fd, POLLIN, 0};
            poll(&p, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(end - now).count()));
        }
    };
}

struct Member {
    Member(const std::string& path, const std::string& group)
        : queue(std::make_shared<Queue>(must(Queue::open(path)))),
          consumer(std::make_shared<Consumer>(must(queue->consumer(group)))) {}
    std::shared_ptr<Queue> queue;
    std::shared_ptr<Consumer> consumer;
};

}  // namespace

TEST_CASE("an idle consumer sleeps") {
    Scene s;
    Measures measures;
    measures.add("receive, shared group, nothing there", [&] {
        const Member m(s.path, "s");
        return receiving(m.queue, m.consumer);
    });
    measures.add("receive, exclusive group, nothing there", [&] {
        const Member m(s.path, "x");
        return receiving(m.queue, m.consumer);
    });
    measures.add("event loop, shared group, nothing there", [&] {
        const Member m(s.path, "s");
        return polling(m.queue, m.consumer);
    });
    measures.add("event loop, exclusive group, nothing there", [&] {
        const Member m(s.path, "x");
        return polling(m.queue, m.consumer);
    });
}

TEST_CASE("a standby sleeps while the active consumer works") {
    Scene s;
    s.publish(5);
    auto active = must(s.queue->consumer("x"));
    auto held = must(active.receive(repair_watchdog));
    Measures measures;
    measures.add("receive, standby of an owner that holds a message", [&] {
        const Member m(s.path, "x");
        return receiving(m.queue, m.consumer);
    });
    measures.add("event loop, standby of an owner that holds a message", [&] {
        const Member m(s.path, "x");
        return polling(m.queue, m.consumer);
    });
}

TEST_CASE("a consumer sleeps while all messages back off") {
    Scene s;
    s.publish(3);
    {
        auto consumer = must(s.queue->consumer("s"));
        for (int i = 0; i < 3; ++i) must(must(consumer.receive(repair_watchdog)).nack());
        auto owner = must(s.queue->consumer("x"));
        must(must(owner.receive(repair_watchdog)).nack());
    }
    Measures measures;
    measures.add("receive, shared group, all back off", [&] {
        const Member m(s.path, "s");
        return receiving(m.queue, m.consumer);
    });
    measures.add("receive, exclusive group, the first one backs off", [&] {
        const Member m(s.path, "x");
        return receiving(m.queue, m.consumer);
    });
    measures.add("event loop, shared group, all back off", [&] {
        const Member m(s.path, "s");
        return polling(m.queue, m.consumer);
    });
    measures.add("event loop, exclusive group, the first one backs off", [&] {
        const Member m(s.path, "x");
        return polling(m.queue, m.consumer);
    });
}

TEST_CASE("a consumer sleeps while another one holds all messages") {
    Scene s;
    s.publish(5);
    auto holder = must(s.queue->consumer("s"));
    std::vector<Message> hand;
    hand.reserve(5);
    for (int i = 0; i < 5; ++i) hand.push_back(must(holder.receive(repair_watchdog)));
    Measures measures;
    measures.add("receive, all leased by another", [&] {
        const Member m(s.path, "s");
        return receiving(m.queue, m.consumer);
    });
    measures.add("event loop, all leased by another", [&] {
        const Member m(s.path, "s");
        return polling(m.queue, m.consumer);
    });
}

TEST_CASE("a consumer at a limit of messages in flight sleeps") {
    Scene s([](GroupOptions& g) {
        g.max_in_flight = 2;
        g.max_in_flight_group = 3;
    });
    s.publish(20);
    const auto full = [&](bool loop) {
        return [&, loop] {
            const Member m(s.path, "s");
            auto hand = std::make_shared<std::vector<Message>>();
            while (auto got = m.consumer->receive(0ms)) hand->push_back(std::move(*got));
            auto wait = loop ? polling(m.queue, m.consumer) : receiving(m.queue, m.consumer);
            return [wait, hand](Duration d) { wait(d); };
        };
    };
    Measures measures;
    measures.add("receive, its own limit reached", full(false));
    measures.finish();
    measures.add("event loop, its own limit reached", full(true));
    measures.finish();
    auto holder = must(s.queue->consumer("s"));
    auto other = must(s.queue->consumer("s"));
    std::vector<Message> hand;
    eventually([&] {
        if (auto m = holder.receive(10ms)) hand.push_back(std::move(*m));
        if (auto m = other.receive(10ms)) hand.push_back(std::move(*m));
        return hand.size() == 3;
    });
    measures.add("receive, the group's limit reached", [&] {
        const Member m(s.path, "s");
        return receiving(m.queue, m.consumer);
    });
    measures.add("event loop, the group's limit reached", [&] {
        const Member m(s.path, "s");
        return polling(m.queue, m.consumer);
    });
    measures.finish();  // while the others still hold their messages
}

TEST_CASE("a producer sleeps while the queue is full") {
    Scene s;
    s.fill();
    Measures measures;
    measures.add("publish, no room", [&] {
        auto queue = std::make_shared<Queue>(must(Queue::open(s.path)));
        auto producer = std::make_shared<Producer>(must(queue->producer()));
        return [queue, producer](Duration d) {
            const auto sent = publish_item(*producer, {1, 1}, 200, {.timeout = d});
            if (sent || sent.error().code != Errc::timeout) throw std::runtime_error("not a timeout");
        };
    });
}

TEST_CASE("everybody sleeps behind an open claim") {
    Scene s;
    auto producer = must(s.queue->producer());
    auto claim = must(producer.claim(100));
    s.publish(5);
    Measures measures;
    measures.add("receive, behind an open claim", [&] {
        const Member m(s.path, "s");
        return receiving(m.queue, m.consumer);
    });
    measures.add("event loop, behind an open claim", [&] {
        const Member m(s.path, "s");
        return polling(m.queue, m.consumer);
    });
}
