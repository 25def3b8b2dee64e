// ctest: TIMEOUT 60 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A program that forks while it has a queue open: the child's handles are dead and say so, the parent notices nothing,
// and a child that lives on does not keep its dead parent alive in the eyes of others.
#include <doctest/doctest.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag ready, forked, leave;
    Count child_pid;
};

template <class T>
bool is_detached(const Result<T>& r) {
    return !r && r.error().code == Errc::detached;
}

/// Ends a process that is not a child of this one when the scope is left.
struct Orphan {
    const Count& pid;
    ~Orphan() {
        if (const auto p = static_cast<pid_t>(pid.load()); p > 1) kill(p, SIGKILL);
    }
};

}  // namespace

TEST_CASE("all handles of a forked child are detached, its destructors do nothing, and the parent goes on") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    std::optional<Queue> queue(must(Queue::create(path, small_queue())));
    auto shared = group_of(GroupMode::shared);
    must(queue->create_group("s", shared));
    must(queue->create_group("x", group_of(GroupMode::exclusive)));
    std::optional<Producer> producer(must(queue->producer()));
    for (std::uint64_t i = 0; i < 5; ++i) must(publish_item(*producer, {1, i}));
    std::optional<Consumer> consumer(must(queue->consumer("s")));
    std::optional<Consumer> owner(must(queue->consumer("x")));
    std::optional<Message> message(must(consumer->receive(repair_watchdog)));
    std::optional<Message> owned(must(owner->receive(repair_watchdog)));
    std::optional<Batch> batch(must(consumer->receive_batch(2, repair_watchdog)));
    std::optional<Producer> second(must(queue->producer()));
    std::optional<Claim> claim(must(second->claim(100)));
    std::optional<DeadLetters> dead(must(queue->dead_letters()));
    REQUIRE(consumer->wait_fd().has_value());  // a thread in the parent
    const auto before = queue->stats();

    Child child([&] {
        int fault = 1;
        const auto expect = [&](bool good) {
            if (!good) _exit(fault);
            ++fault;
        };
        expect(is_detached(publish_item(*producer, {1, 9})));  // 1
        expect(is_detached(producer->try_publish({})));        // 2
        expect(is_detached(producer->claim(10)));              // 3
        const std::array<Outgoing, 1> out{};
        expect(is_detached(producer->publish_batch(out)));                           // 4
        expect(is_detached(claim->commit()));                                        // 5
        expect(is_detached(consumer->receive(1s)));                                  // 6
        expect(is_detached(consumer->try_receive()));                                // 7
        expect(is_detached(consumer->receive_batch(3, 1s)));                         // 8
        expect(batch->next() == nullptr);                                            // 9
        expect(is_detached(message->ack()));                                         // 10
        expect(is_detached(message->nack()));                                        // 11
        expect(is_detached(message->reject({})));                                    // 12
        expect(is_detached(message->release()));                                     // 13
        expect(is_detached(message->extend(1s)));                                    // 14
        expect(is_detached(owned->ack()));                                           // 15
        expect(is_detached(owner->receive(0s)));                                     // 16
        expect(is_detached(owner->ack_through(*owned)));                             // 17
        expect(!owner->active());                                                    // 18
        expect(is_detached(consumer->wait_fd()));                                    // 19
        expect(is_detached(queue->producer()));                                      // 20
        expect(is_detached(queue->consumer("s")));                                   // 21
        expect(is_detached(queue->create_group("n", group_of(GroupMode::shared))));  // 22
        expect(is_detached(queue->delete_group("s", Force::yes)));                   // 23
        expect(is_detached(queue->dead_letters()));                                  // 24
        expect(is_detached(dead->list()));                                           // 25
        expect(is_detached(dead->redrive({}, true)));                                // 26
        expect(queue->stats().capacity_slots == 0);                                  // 27
        expect(!queue->explain({Errc::timeout, 0, ""}).empty());                     // 28
        expect(consumer->last_gap().error().code == Errc::detached ||
               consumer->last_gap().error().code == Errc::not_found);  // 29
        queue->close();
        // Moves and all destructors, in an awkward order.
        Message moved = std::move(*message);
        batch.reset();
        queue.reset();
        claim.reset();
        consumer.reset();
        message.reset();
        producer.reset();
        second.reset();
        owned.reset();
        owner.reset();
        dead.reset();
        return 0;
    });
    const auto status = child.wait();
    CHECK_MESSAGE(status.exited_with(0), status.text());

    // The parent's are as they were.
    const auto after = queue->stats();
    CHECK(after.participants == before.participants);
    CHECK(after.consumers == before.consumers);
    CHECK(after.producers == before.producers);
    write_item(claim->payload(), {1, 5});
    CHECK(word_of(claim->commit()) == "ok");
    CHECK(word_of(message->ack()) == "ok");
    CHECK(owner->active());
    CHECK(word_of(owned->ack()) == "ok");
    std::uint64_t handed = 0;
    while (Message* m = batch->next()) {
        CHECK(m->delivery_count() == 1);
        CHECK(word_of(m->ack()) == "ok");
        ++handed;
    }
    CHECK(handed == 2);
    must(publish_item(*producer, {1, 6}));
    for (int i = 0; i < 4; ++i) CHECK(word_of(must(consumer->receive(repair_watchdog)).ack()) == "ok");
    CHECK(group_stats(*queue, "s").lag == 0);
    CHECK(group_stats(*queue, "s").redelivered == 0);
    const int fd = must(consumer->wait_fd());
    (void)consumer->try_receive();
    must(publish_item(*producer, {1, 7}));
    pollfd p{fd, POLLIN, 0};
    CHECK(poll(&p, 1, 10'000) == 1);  // its thread is alive
}

TEST_CASE("a child of the fork can open the queue anew and is a participant of its own") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto consumer = must(queue.consumer("g", group_of(GroupMode::shared)));
    const SharedBlock<Book> book;
    Child child([&] {
        auto own = Queue::open(path);
        if (!own) return 1;
        auto producer = own->producer();
        if (!producer || !publish_item(*producer, {2, 1})) return 2;
        book->ready.store(1);
        eventually([&] { return book->leave.load() == 1; });
        auto again = own->consumer("g");
        return again && is_detached(queue.producer()) ? 0 : 3;
    });
    auto m = must(consumer.receive(repair_watchdog));
    CHECK(item_of(m).producer == 2);
    must(m.ack());
    eventually([&] { return book->ready.load() == 1; });
    CHECK(queue.stats().participants == 2);
    book->leave.store(1);
    CHECK(child.wait().exited_with(0));
}

TEST_CASE("a surviving child does not keep its killed parent alive") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto options = group_of(GroupMode::shared);
    options.lease_timeout = 1h;
    options.max_lease_total = 2h;
    must(queue.create_group("g", options));
    auto exclusive = must(queue.consumer("x", group_of(GroupMode::exclusive)));  // a second group, for the order
    auto producer = must(queue.producer());
    for (std::uint64_t i = 0; i < 3; ++i) must(publish_item(producer, {1, i}));
    const SharedBlock<Book> book;
    const Orphan orphan{book->child_pid};
    Child parent([&] {
        auto own = must(Queue::open(path));
        auto consumer = must(own.consumer("g"));
        std::vector<Message> hand;
        hand.reserve(3);
        for (int i = 0; i < 3; ++i) hand.push_back(must(consumer.receive(repair_watchdog)));
        auto p = must(own.producer());
        auto claim = must(p.claim(50));
        if (fork() == 0) {
            book->child_pid.store(static_cast<std::uint64_t>(getpid()));
            book->forked.store(1);
            return wait_for_the_end();
        }
        return wait_for_the_end();
    });
    eventually([&] { return book->forked.load() == 1; });
    must(publish_item(producer, {1, 3}));
    parent.kill();
    CHECK(parent.wait().killed_by(SIGKILL));
    auto consumer = must(queue.consumer("g"));
    for (std::uint64_t i = 0; i < 4; ++i) {
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(m.delivery_count() == (item_of(m).sequence < 3 ? 2 : 1));
        must(m.ack());
    }
    CHECK(queue.stats().voids == 1);
    CHECK(queue.stats().participants == 1);
    CHECK(kill(static_cast<pid_t>(book->child_pid.load()), 0) == 0);  // it lived all the time
}

TEST_CASE("children forked by another thread while the queue was opened do not keep their killed parent alive") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto sizes = small_queue();
    sizes.capacity_bytes = 8 << 20;  // so that opening takes long enough for some forks
    auto queue = must(Queue::create(path, sizes));
    auto options = group_of(GroupMode::shared);
    options.lease_timeout = 1h;
    options.max_lease_total = 2h;
    must(queue.create_group("g", options));
    auto producer = must(queue.producer());
    auto consumer = must(queue.consumer("g"));
    for (int round = 0; round < 5; ++round) {
        CAPTURE(round);
        must(publish_item(producer, {1, 0}));
        // All children end when the test closes its end, and not before.
        std::array<int, 2> life{};
        REQUIRE(pipe(life.data()) == 0);
        const SharedBlock<Book> book;
        Child parent([&] {
            close(life[1]);
            std::atomic<bool> opened{false};
            std::thread forker([&] {
                while (!opened.load()) {
                    if (fork() == 0) {
                        char end = 0;
                        while (read(life[0], &end, 1) != 0) {
                        }
                        _exit(0);
                    }
                    book->forked.fetch_add(1);
                }
            });
            eventually([&] { return book->forked.load() != 0; });
            auto own = must(Queue::open(path));
            opened.store(true);
            forker.join();
            auto taker = must(own.consumer("g"));
            auto message = must(taker.receive(repair_watchdog));
            book->ready.store(1);
            return wait_for_the_end();
        });
        eventually([&] { return book->ready.load() == 1 || !parent.alive(); });
        CHECK(book->forked.load() > 1);
        parent.kill();
        CHECK(parent.wait().killed_by(SIGKILL));
        auto m = consumer.receive(repair_watchdog);
        close(life[0]);
        close(life[1]);
        REQUIRE(m);
        CHECK(m->delivery_count() == 2);
        CHECK(queue.stats().participants == 1);
        must(m->ack());
    }
}

TEST_CASE("a queue can be destroyed while a forked child of a former participant lives") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    must(Queue::create(path, small_queue()));
    const SharedBlock<Book> book;
    const Orphan orphan{book->child_pid};
    Child parent([&] {
        auto own = must(Queue::open(path));
        auto producer = must(own.producer());
        if (fork() == 0) {
            book->child_pid.store(static_cast<std::uint64_t>(getpid()));
            book->forked.store(1);
            return wait_for_the_end();
        }
        eventually([&] { return book->forked.load() == 1; });
        return 0;
    });
    CHECK(parent.wait().exited_with(0));
    CHECK(word_of(Queue::destroy(path)) == "ok");
    CHECK(files_of(dir.path()).empty());
}
