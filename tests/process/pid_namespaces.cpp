// ctest: TIMEOUT 60
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Process numbers mean nothing: participants in different PID namespaces, all of them number 1 at home, and numbers
// that come back for another process. Skipped where namespaces are not allowed.
#include <doctest/doctest.h>

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr int not_allowed = 77;

struct Book {
    Flag holds, go_on, done;
    Count inner_pid;  // at home
    Count host_pid;   // as the test sees it
};

/// Runs `body` as process 1 of a new PID namespace. Returns its status; not_allowed where that cannot be.
/// `host_pid` becomes its number here.
int in_new_namespace(Count& host_pid, const std::function<int()>& body) {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return not_allowed;
    const pid_t inner = fork();
    if (inner < 0) return not_allowed;
    if (inner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int code = 125;
        try {
            code = body();
        } catch (const std::exception& e) {
            std::fprintf(stderr, "inner process: %s\n", e.what());
        }
        _exit(code);
    }
    host_pid.store(static_cast<std::uint64_t>(inner));
    int status = 0;
    while (waitpid(inner, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct Scene {
    Scene() {
        queue.emplace(must(Queue::create(path, small_queue())));
        auto g = group_of(GroupMode::shared);
        g.lease_timeout = 1h;
        g.max_lease_total = 2h;
        g.backoff_initial = 0ms;
        g.backoff_max = 0ms;
        must(queue->create_group("g", g));
        auto producer = must(queue->producer());
        for (std::uint64_t i = 0; i < 3; ++i) must(publish_item(producer, {1, i}));
    }
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
    SharedBlock<Book> book;
};

int hold_three(const std::string& path, Book& book) {
    auto queue = must(Queue::open(path));
    auto consumer = must(queue.consumer("g"));
    std::vector<Message> hand;
    hand.reserve(3);
    for (int i = 0; i < 3; ++i) hand.push_back(must(consumer.receive(repair_watchdog)));
    book.inner_pid.store(static_cast<std::uint64_t>(getpid()));
    book.holds.store(1);
    return wait_for_the_end();
}

bool started(Child& child, const Flag& flag) {
    eventually([&] { return flag.load() != 0 || !child.alive(); });
    if (flag.load() != 0) return true;
    if (child.wait().exited_with(not_allowed)) {
        skip("PID namespaces are not allowed here");
    } else {
        FAIL_CHECK("the child " << child.wait().text());
    }
    return false;
}

void take_three_again(Queue& queue) {
    auto consumer = must(queue.consumer("g"));
    for (std::uint64_t i = 0; i < 3; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(m.delivery_count() == 2);
        must(m.ack());
    }
    CHECK(group_stats(queue, "g").owner_died == 3);
    CHECK(group_stats(queue, "g").lag == 0);
}

}  // namespace

TEST_CASE("the death of a consumer in another PID namespace is seen, and its messages come back") {
    Scene s;
    Child outer([&] { return in_new_namespace(s.book->host_pid, [&] { return hold_three(s.path, *s.book); }); });
    if (!started(outer, s.book->holds)) return;
    CHECK(s.book->inner_pid.load() == 1);
    auto consumer = must(s.queue->consumer("g"));
    CHECK(consumer.receive(200ms).error().code == Errc::timeout);
    const auto inner = static_cast<pid_t>(s.book->host_pid.load());
    REQUIRE(inner > 1);
    REQUIRE(kill(inner, SIGKILL) == 0);
    CHECK(outer.wait().exited_with(128 + SIGKILL));
    take_three_again(*s.queue);
}

TEST_CASE("a live owner with the number of a dead one in another PID namespace is left alone") {
    // Both consumers are process 1 at home. One dies; the other one's messages stay its own.
    Scene s;
    Child first([&] { return in_new_namespace(s.book->host_pid, [&] { return hold_three(s.path, *s.book); }); });
    if (!started(first, s.book->holds)) return;
    {
        auto producer = must(s.queue->producer());
        for (std::uint64_t i = 3; i < 6; ++i) must(publish_item(producer, {1, i}));
    }
    const SharedBlock<Book> other;
    Child second([&] { return in_new_namespace(other->host_pid, [&] { return hold_three(s.path, *other); }); });
    if (!started(second, other->holds)) return;
    auto consumer = must(s.queue->consumer("g"));
    CHECK(consumer.receive(200ms).error().code == Errc::timeout);
    CHECK(group_stats(*s.queue, "g").in_flight == 6);
    CHECK(other->inner_pid.load() == s.book->inner_pid.load());
    REQUIRE(kill(static_cast<pid_t>(other->host_pid.load()), SIGKILL) == 0);
    CHECK(second.wait().exited_with(128 + SIGKILL));
    for (int i = 0; i < 3; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence >= 3);
        must(m.ack());
    }
    CHECK(consumer.receive(200ms).error().code == Errc::timeout);
    CHECK(group_stats(*s.queue, "g").in_flight == 3);
}

TEST_CASE("two processes, each number 1 at home, one of them stopped in mid-commit: it is never declared dead") {
    Scene s;
    {
        auto consumer = must(s.queue->consumer("g"));
        for (int i = 0; i < 3; ++i) must(must(consumer.receive(repair_watchdog)).ack());
    }
    Child outer([&] {
        return in_new_namespace(s.book->host_pid, [&] {
            auto queue = must(Queue::open(s.path));
            auto producer = must(queue.producer());
            auto claim = must(producer.claim(100));
            write_item(claim.payload(), {7, 0});
            s.book->inner_pid.store(static_cast<std::uint64_t>(getpid()));
            s.book->holds.store(1);
            eventually([&] { return s.book->go_on.load() == 1; }, std::chrono::minutes(2));
            return claim.commit() ? 0 : 1;
        });
    });
    if (!started(outer, s.book->holds)) return;
    const auto inner = static_cast<pid_t>(s.book->host_pid.load());
    REQUIRE(inner > 1);
    REQUIRE(kill(inner, SIGSTOP) == 0);
    s.book->go_on.store(1);
    Count other_pid{0};  // nobody asks for it
    Child other([&] {
        return in_new_namespace(other_pid, [&] {
            auto queue = must(Queue::open(s.path));
            auto consumer = must(queue.consumer("g"));
            auto producer = must(queue.producer());
            for (std::uint64_t i = 0; i < 10; ++i) must(publish_item(producer, {1, i}));
            const auto end = Clock::now() + std::chrono::seconds(count_of(2, 60));
            while (Clock::now() < end)
                if (consumer.receive(100ms)) return 1;
            if (queue.stats().voids != 0) return 2;
            s.book->done.store(1);
            auto first = must(consumer.receive(repair_watchdog));
            if (item_of(first).producer != 7) return 3;
            must(first.ack());
            for (std::uint64_t i = 0; i < 10; ++i) {
                auto m = must(consumer.receive(repair_watchdog));
                if (item_of(m).sequence != i) return 4;
                must(m.ack());
            }
            return 0;
        });
    });
    if (!started(other, s.book->done)) return;
    REQUIRE(kill(inner, SIGCONT) == 0);
    CHECK(outer.wait().exited_with(0));
    CHECK(other.wait().exited_with(0));
    CHECK(s.queue->stats().voids == 0);
}

TEST_CASE("a dead owner whose number belongs to another process now is dead all the same") {
    Scene s;
    Child outer([&] {
        return in_new_namespace(s.book->host_pid, [&] {
            // Process 1 of the namespace: starts the owner, kills it, and starts others until one has its number.
            if (unshare(CLONE_NEWNS) != 0 || mount("proc", "/proc", "proc", 0, nullptr) != 0) return not_allowed;
            const pid_t owner = fork();
            if (owner == 0) _exit(hold_three(s.path, *s.book));
            eventually([&] { return s.book->holds.load() == 1; });
            kill(owner, SIGKILL);
            int status = 0;
            if (waitpid(owner, &status, 0) != owner) return 3;
            std::ofstream last("/proc/sys/kernel/ns_last_pid");
            last << owner - 1 << std::flush;
            if (!last) return not_allowed;
            const pid_t stranger = fork();
            if (stranger == 0) {
                for (;;) pause();
            }
            if (stranger != owner) return 4;
            auto queue = must(Queue::open(s.path));
            auto consumer = must(queue.consumer("g"));
            for (int i = 0; i < 3; ++i) {
                auto m = must(consumer.receive(repair_watchdog));
                if (m.delivery_count() != 2) return 5;
                must(m.ack());
            }
            return kill(stranger, 0) == 0 ? 0 : 6;  // it still lives
        });
    });
    const auto status = outer.wait();
    if (status.exited_with(not_allowed)) {
        skip("process numbers cannot be set here");
        return;
    }
    CHECK_MESSAGE(status.exited_with(0), status.text());
    CHECK(group_stats(*s.queue, "g").lag == 0);
}
