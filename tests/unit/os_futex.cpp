// SPDX-License-Identifier: MIT
#include "os/futex.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <new>
#include <thread>

#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/mapping.hpp"
#include "support/child.hpp"
#include "support/eventually.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace std::chrono_literals;
using os::FutexWait;
using rondo::test::Child;

namespace {

using Word = std::atomic<std::uint32_t>;

struct Book {
    Word word{0};
    std::atomic<int> step{0};
};

}  // namespace

TEST_CASE("a wake reaches a sleeper in another process") {
    const test::SharedBlock<Book> book;
    Child child([&] {
        const auto outcome = os::futex_wait(book->word, 0, std::chrono::nanoseconds::max());
        return outcome == FutexWait::woken ? 0 : 1;
    });
    // Only a sleeper is counted, so this also waits until the child sleeps.
    test::eventually([&] { return os::futex_wake(book->word, 1) == 1; });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
}

TEST_CASE("waking one wakes one, waking all wakes the rest") {
    const test::SharedBlock<Book> book;
    const auto sleep = [&] {
        const auto outcome = os::futex_wait(book->word, 0, 20s);
        ++book->step;
        return outcome == FutexWait::woken ? 0 : 1;
    };
    Child first(sleep);
    Child second(sleep);
    Child third(sleep);
    test::eventually([&] { return os::futex_wake(book->word, 1) == 1; });
    test::eventually([&] { return book->step == 1; });
    int woken = 0;
    test::eventually([&] {
        woken += os::futex_wake_all(book->word);
        return woken == 2;
    });
    for (Child* child : {&first, &second, &third}) CHECK(child->wait().exited_with(0));
}

TEST_CASE("a word that has changed already is not slept on") {
    Word word{5};
    CHECK(os::futex_wait(word, 4, 20s) == FutexWait::changed);
    CHECK(os::futex_wait(word, 4, 0s) == FutexWait::changed);
}

TEST_CASE("a sleep ends with its timeout and not before") {
    Word word{0};
    const auto start = os::mono_ns();
    CHECK(os::futex_wait(word, 0, 3ms) == FutexWait::timed_out);
    CHECK(os::mono_ns() - start >= 3'000'000);
    CHECK(os::futex_wait(word, 0, 0ns) == FutexWait::timed_out);
    CHECK(os::futex_wait(word, 0, -5s) == FutexWait::timed_out);
    CHECK(os::futex_wait(word, 0, std::chrono::nanoseconds::min()) == FutexWait::timed_out);
}

TEST_CASE("a signal ends a sleep like a wake") {
    const test::SharedBlock<Book> book;
    Child child([&] {
        struct sigaction action = {};
        action.sa_handler = [](int) {};
        sigaction(SIGUSR1, &action, nullptr);
        book->step = 1;
        const auto outcome = os::futex_wait(book->word, 0, 20s);
        book->step = 2;
        return outcome == FutexWait::woken ? 0 : 1;
    });
    test::eventually([&] { return book->step == 1; });
    test::eventually([&] {
        child.kill(SIGUSR1);  // again and again: the first may come before the sleep
        return book->step == 2;
    });
    CHECK(child.wait().exited_with(0));
}

TEST_CASE("waking a word that nobody sleeps on does nothing") {
    Word word{0};
    CHECK(os::futex_wake(word, 1) == 0);
    CHECK(os::futex_wake_all(word) == 0);
}

TEST_CASE("a sleeper with a read-only mapping is woken through a writable one, and the other way round") {
    const test::TmpDir tmp;
    const auto dir = os::open_dir(tmp.str());
    REQUIRE(dir);
    const auto file = os::create_exclusive(dir->get(), "ring", 0600);
    REQUIRE(file);
    REQUIRE(os::allocate_fully(file->get(), 4096));
    const auto writable = os::map(file->get(), 4096, os::Access::read_write);
    const auto readable = os::map(file->get(), 4096, os::Access::read_only);
    REQUIRE(writable);
    REQUIRE(readable);
    auto& word = *new (writable->data()) Word{0};
    auto& same = *std::launder(reinterpret_cast<Word*>(readable->data()));
    CHECK(os::futex_wait(same, 0, 1ms) == FutexWait::timed_out);
    CHECK(os::futex_wait(same, 1, 1ms) == FutexWait::changed);
    for (const bool reader_sleeps : {true, false}) {
        auto& slept_on = reader_sleeps ? same : word;
        auto& woken_on = reader_sleeps ? word : same;
        std::atomic<bool> woken{false};
        std::thread sleeper([&] { woken = os::futex_wait(slept_on, 0, 20s) == FutexWait::woken; });
        int count = 0;
        test::eventually([&] { return (count = os::futex_wake_all(woken_on)) == 1; });
        sleeper.join();
        CHECK(woken);
    }
}
