// ctest: TIMEOUT 90
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Many processes open or create one queue, use it and leave; others are killed in the middle of that, or destroy the
// queue. Whoever opens or creates gets a queue, or is told in a word that the queue is just being destroyed over and
// over, never that it is damaged.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <memory>

#include "process/actors.hpp"
#include "process/tracer.hpp"
#include "support/child.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::size_t codes = 64;

struct Book {
    Flag stop;
    Count opened, sent, closed, destroyed, busy;
    std::array<Count, codes> open_errors, use_errors, destroy_errors;  // by Errc
    std::array<Flag, 16> working;
};

void note(std::array<Count, codes>& where, const Error& e) {
    where[std::min<std::size_t>(static_cast<std::size_t>(e.code), codes - 1)].fetch_add(1);
}

int use(const std::string& path, Book& book) {
    while (book.stop.load() == 0) {
        auto queue = Queue::open_or_create(path, small_queue(), {.prefault = false});
        if (!queue) {
            note(book.open_errors, queue.error());
            continue;
        }
        book.opened.fetch_add(1);
        auto consumer = queue->consumer("g", group_of(GroupMode::shared));
        auto producer = queue->producer();
        if (!consumer || !producer) {
            note(book.use_errors, consumer ? producer.error() : consumer.error());
            continue;
        }
        const auto sent = publish_item(*producer, {1, 1}, 100, {.timeout = 100ms});
        if (sent) {
            book.sent.fetch_add(1);
        } else {
            note(book.use_errors, sent.error());
        }
        if (auto m = consumer->receive(1ms)) (void)m->ack();
    }
    return 0;
}

void print(const char* what, const std::array<Count, codes>& errors) {
    for (std::size_t i = 0; i < codes; ++i) {
        if (errors[i].load() == 0) continue;
        std::printf("  %s %s: %llu\n", what, to_string(static_cast<Errc>(i)),
                    static_cast<unsigned long long>(errors[i].load()));
    }
    std::fflush(stdout);
}

}  // namespace

TEST_CASE("open or create among kills never fails") {
    const auto seconds = std::chrono::seconds(count_of(4, 60));
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    const SharedBlock<Book> book;
    std::array<std::unique_ptr<Child>, 8> users;
    const auto start = [&](std::size_t i) { users[i] = std::make_unique<Child>([&] { return use(path, *book); }); };
    for (std::size_t i = 0; i < users.size(); ++i) start(i);
    auto r = rng();
    std::uint64_t kills = 0;
    for (const auto end = Clock::now() + seconds; Clock::now() < end;) {
        const std::size_t i = r.below(users.size());
        // The random moment of the kill, anywhere in the victim's work, is the thing under test.
        std::this_thread::sleep_for(std::chrono::microseconds(r.below(5000)));
        REQUIRE(users[i]->alive());
        users[i]->kill();
        REQUIRE(users[i]->wait().killed_by(SIGKILL));
        ++kills;
        start(i);
    }
    book->stop.store(1);
    for (auto& one : users) CHECK(one->wait().exited_with(0));
    std::printf("%llu opened, %llu sent, %llu kills\n", static_cast<unsigned long long>(book->opened.load()),
                static_cast<unsigned long long>(book->sent.load()), static_cast<unsigned long long>(kills));
    print("open_or_create", book->open_errors);
    print("use", book->use_errors);
    for (std::size_t i = 0; i < codes; ++i) {
        INFO(std::string(to_string(static_cast<Errc>(i))));
        CHECK(book->open_errors[i].load() == 0);
        if (static_cast<Errc>(i) != Errc::timeout) CHECK(book->use_errors[i].load() == 0);
    }
    CHECK(book->opened.load() > 100);
    must(Queue::destroy(path, Force::no));
    CHECK(files_of(dir.path()).empty());
}

TEST_CASE("open or create while others destroy the queue never finds it damaged") {
    const auto seconds = std::chrono::seconds(count_of(6, 60));
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    const SharedBlock<Book> book;
    std::array<std::unique_ptr<Child>, 6> users;
    for (auto& one : users) one = std::make_unique<Child>([&] { return use(path, *book); });
    std::array<std::unique_ptr<Child>, 2> destroyers;
    const auto destroy = [&](std::size_t i) {
        destroyers[i] = std::make_unique<Child>([&, i] {
            auto r = rng(i);
            while (book->stop.load() == 0) {
                const auto done = Queue::destroy(path, Force::yes);
                if (done) {
                    book->destroyed.fetch_add(1);
                } else {
                    note(book->destroy_errors, done.error());
                }
                // The users go on: so many more open it, then it is destroyed again under all of them.
                const std::uint64_t next = book->opened.load() + r.below(12);
                eventually([&] { return book->opened.load() >= next || book->stop.load() != 0; });
            }
            return 0;
        });
    };
    for (std::size_t i = 0; i < destroyers.size(); ++i) destroy(i);
    // For as long as the race shall last; it is over at once when a destroyer ends by itself.
    eventually(
        [&, end = Clock::now() + seconds] {
            for (auto& one : destroyers) REQUIRE(one->alive());
            return Clock::now() >= end;
        },
        until_the_watchdog);
    book->stop.store(1);
    for (auto& one : users) CHECK(one->wait().exited_with(0));
    for (auto& one : destroyers) CHECK(one->wait().exited_with(0));
    std::printf("%llu opened, %llu sent, %llu destroyed\n", static_cast<unsigned long long>(book->opened.load()),
                static_cast<unsigned long long>(book->sent.load()),
                static_cast<unsigned long long>(book->destroyed.load()));
    print("open_or_create", book->open_errors);
    print("use", book->use_errors);
    print("destroy", book->destroy_errors);
    for (std::size_t i = 0; i < codes; ++i) {
        const auto e = static_cast<Errc>(i);
        INFO(std::string(to_string(e)));
        CHECK(book->open_errors[i].load() == 0);
        // Its users may find it closed under them, nothing else.
        if (e != Errc::closed && e != Errc::timeout && e != Errc::no_such_group) CHECK(book->use_errors[i].load() == 0);
        if (e != Errc::not_found) CHECK(book->destroy_errors[i].load() == 0);
    }
    CHECK(book->opened.load() > 100);
    CHECK(book->destroyed.load() > 10);
}

TEST_CASE("opening a queue that is replaced by another one at any of its system calls never finds it damaged") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    must(Queue::create(path, small_queue(), {.prefault = false}));
    std::uint64_t opened = 0, gone = 0, n = 0;
    for (bool more = true; more; ++n) {
        const SharedBlock<Flag> error;  // Errc + 1
        Traced opener([&] {
            mark();
            auto queue = Queue::open(path, {.prefault = false});
            mark();
            error->store(queue ? 0 : static_cast<std::uint32_t>(queue.error().code) + 1);
            return 0;
        });
        more = opener.system_call_stops(n);
        INFO("replaced at stop ", n);
        must(Queue::destroy(path, Force::yes));
        must(Queue::create(path, small_queue(), {.prefault = false}));
        if (more) opener.finish();
        CHECK(opener.end().exited_with(0));
        if (error->load() == 0) {
            ++opened;
            continue;
        }
        ++gone;
        const auto code = static_cast<Errc>(error->load() - 1);
        CHECK_MESSAGE((code == Errc::not_found || code == Errc::closed), to_string(code));
    }
    std::printf("replaced at each of %llu stops: %llu opened, %llu gone\n", static_cast<unsigned long long>(n - 1),
                static_cast<unsigned long long>(opened), static_cast<unsigned long long>(gone));
    CHECK(opened > 3);
    CHECK(gone > 3);
}
