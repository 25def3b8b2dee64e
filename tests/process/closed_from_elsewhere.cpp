// ctest: TIMEOUT 60 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A queue ends under its users: everyone who waits returns `closed`, nobody hangs, the memory stays valid.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::size_t each = 4;

struct Book {
    Flag ready, closed;
    std::array<Flag, 4 * each> error;  // Errc + 1
    std::array<Count, 4 * each> returned_ns;
};

constexpr std::uint32_t number_of(Errc e) { return static_cast<std::uint32_t>(e) + 1; }

}  // namespace

TEST_CASE("blocked producers and waiting consumers of other processes return closed when the queue is destroyed") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    must(queue.create_group("full", group_of(GroupMode::shared)));
    auto producer = must(queue.producer());
    while (publish_item(producer, {1, 0}, 200, {.timeout = 0ms})) {
    }
    // Behind the tail: consumers of these have nothing to receive.
    must(queue.create_group("s", group_of(GroupMode::shared, Start::latest())));
    must(queue.create_group("x", group_of(GroupMode::exclusive, Start::latest())));
    const SharedBlock<Book> book;
    std::vector<std::unique_ptr<Child>> all;
    for (std::size_t i = 0; i < 4 * each; ++i) {
        all.push_back(std::make_unique<Child>([&, i] {
            auto own = must(Queue::open(path));
            Errc code{};
            const std::size_t kind = i % 4;
            if (kind == 0) {
                auto p = must(own.producer());
                book->ready.fetch_add(1);
                code = publish_item(p, {1, 0}, 200, {.timeout = forever}).error().code;
            } else if (kind == 1) {
                auto p = must(own.producer());
                book->ready.fetch_add(1);
                const auto claim = p.claim(100, {.timeout = 1h});
                code = claim ? Errc::empty : claim.error().code;
            } else {
                auto c = must(own.consumer(kind == 2 ? "s" : "x"));  // of "x" three are standbys
                book->ready.fetch_add(1);
                code = kind == 2 && i % 8 == 2 ? c.receive_batch(10, forever).error().code
                                               : c.receive(forever).error().code;
            }
            book->returned_ns[i].store(now_ns());
            book->error[i].store(number_of(code));
            // What is closed stays closed, and the memory is there.
            const auto again = own.producer();
            return !again && again.error().code == Errc::closed && own.stats().closed ? 0 : 1;
        }));
    }
    eventually([&] { return book->ready.load() == 4 * each; });
    auto held = must(queue.consumer("full"));
    auto message = must(held.receive(repair_watchdog));
    const Item item = item_of(message);
    CHECK(Queue::destroy(path, Force::no).error().code == Errc::busy);
    CHECK(joined(files_of(dir.path())) == "q");
    const std::uint64_t since = now_ns();
    Child destroyer([&] { return Queue::destroy(path, Force::yes) ? 0 : 1; });
    CHECK(destroyer.wait().exited_with(0));
    for (std::size_t i = 0; i < 4 * each; ++i) {
        const auto status = all[i]->wait();
        INFO("waiter ", i);
        CHECK_MESSAGE(status.exited_with(0), status.text());
        CHECK(book->error[i].load() == number_of(Errc::closed));
        CHECK(book->returned_ns[i].load() - since < 10 * 100'000'000ULL + 1'000'000'000ULL);
    }
    CHECK(files_of(dir.path()).empty());
    CHECK(item_of(message).sequence == item.sequence);  // still mapped
    CHECK(held.receive(1s).error().code == Errc::closed);
    CHECK(publish_item(producer, {1, 1}).error().code == Errc::closed);
    CHECK(queue.stats().file_gone);
    // The name is free for another queue at once.
    auto next = must(Queue::create(path, small_queue()));
    CHECK(next.stats().used_slots == 0);
}

TEST_CASE("an open claim of a destroyed queue is not committed") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    auto producer = must(queue.producer());
    auto claim = must(producer.claim(100));
    Child destroyer([&] { return Queue::destroy(path, Force::yes) ? 0 : 1; });
    CHECK(destroyer.wait().exited_with(0));
    write_item(claim.payload(), {1, 1});
    CHECK(claim.commit().error().code == Errc::closed);
}

TEST_CASE("close ends the waits of its own process's threads and of nobody else") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue()));
    must(queue.create_group("s", group_of(GroupMode::shared)));
    const SharedBlock<Book> book;
    Child other([&] {
        auto own = must(Queue::open(path));
        auto c = must(own.consumer("s"));
        book->ready.fetch_add(1);
        auto m = c.receive(forever);
        if (!m) return 1;
        must(m->ack());
        return 0;
    });
    Child closer([&] {
        auto own = must(Queue::open(path));
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < each; ++i) {
            threads.emplace_back([&, i] {
                auto c = must(own.consumer("s"));
                book->ready.fetch_add(1);
                book->error[i].store(number_of(c.receive(forever).error().code));
            });
        }
        eventually([&] { return book->ready.load() == each + 1; });
        own.close();
        for (auto& t : threads) t.join();
        for (std::size_t i = 0; i < each; ++i)
            if (book->error[i].load() != number_of(Errc::closed)) return 2;
        return own.consumer("s").error().code == Errc::closed ? 0 : 3;
    });
    CHECK(closer.wait().exited_with(0));
    CHECK(other.alive());
    auto producer = must(queue.producer());
    must(publish_item(producer, {1, 1}));
    CHECK(other.wait().exited_with(0));
}

TEST_CASE("a queue whose last user was killed is destroyed without force") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    for (std::uint64_t i = 0; i < count_of(50, 500); ++i) {
        const SharedBlock<Book> book;
        Child user([&] {
            auto own = must(Queue::create(path, small_queue(), {.prefault = false}));
            auto c = must(own.consumer("s", group_of(GroupMode::shared)));
            book->ready.store(1);
            return wait_for_the_end();
        });
        eventually([&] { return book->ready.load() == 1; });
        user.kill();
        REQUIRE(user.wait().killed_by(SIGKILL));
        CHECK(word_of(Queue::destroy(path)) == "ok");
        CHECK(files_of(dir.path()).empty());
    }
}
