// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// The test support tests itself: a test that trusts a broken helper proves nothing.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "support/child.hpp"
#include "support/eventually.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

namespace fs = std::filesystem;
using namespace rondo::test;

TEST_CASE("a temporary directory goes with its scope, contents and all") {
    fs::path path;
    {
        const TmpDir directory;
        path = directory.path();
        std::ofstream(directory / "file") << "text";
        fs::create_directory(directory / "sub");
        CHECK(fs::exists(path / "file"));
    }
    CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a temporary directory goes when an exception passes") {
    fs::path path;
    try {
        const TmpDir directory;
        path = directory.path();
        throw std::runtime_error("on purpose");
    } catch (const std::runtime_error&) {
    }
    CHECK_FALSE(path.empty());
    CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a child that leaves the scope of a temporary directory keeps it for its parent") {
    TmpDir directory;
    Child child([&] {
        directory.~TmpDir();
        return 0;
    });
    CHECK(child.wait().exited_with(0));
    CHECK(fs::exists(directory.path()));
}

TEST_CASE("a child ends with what its body returns") {
    Child child([] { return 7; });
    CHECK(child.wait().exited_with(7));
    CHECK_FALSE(child.alive());
    CHECK(child.wait().text() == "exited with 7");
}

TEST_CASE("an exception in a child is a failure of its own code") {
    Child child([]() -> int { throw std::runtime_error("on purpose"); });
    CHECK(child.wait().exited_with(125));
}

TEST_CASE("a child that crashes is seen as killed by its signal") {
    Child child([]() -> int { std::abort(); });
    CHECK(child.wait().killed_by(SIGABRT));
}

TEST_CASE("the book is shared, and a killed child stops writing in it") {
    struct Book {
        std::atomic<int> count;
    };
    const SharedBlock<Book> book;
    Child child([&]() -> int {
        while (true) book->count.fetch_add(1, std::memory_order_relaxed);
    });
    eventually([&] { return book->count.load(std::memory_order_relaxed) > 0; });
    CHECK(child.alive());

    child.stop();
    const int stopped_at = book->count.load(std::memory_order_relaxed);
    CHECK(book->count.load(std::memory_order_relaxed) == stopped_at);
    child.cont();
    eventually([&] { return book->count.load(std::memory_order_relaxed) != stopped_at; });

    child.kill();
    CHECK(child.wait().killed_by(SIGKILL));
}

TEST_CASE("the destructor of a child ends it") {
    pid_t pid = 0;
    {
        const Child child([]() -> int {
            while (true) pause();
        });
        pid = child.pid();
    }
    CHECK(::kill(pid, 0) == -1);
}

TEST_CASE("a condition that never comes true is an error") {
    CHECK_THROWS_AS(eventually([] { return false; }, std::chrono::milliseconds(5)), std::runtime_error);
}

TEST_CASE("one seed gives one sequence, two streams give two") {
    CHECK(rng(1)() == rng(1)());
    CHECK(rng(1)() != rng(2)());
    Rng numbers = rng();
    for (int i = 0; i < 1000; ++i) {
        const auto value = numbers.between(10, 12);
        CHECK(value >= 10);
        CHECK(value <= 12);
    }
}
