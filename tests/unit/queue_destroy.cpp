// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Destroying a queue: nobody may use it, and its directory goes as well.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <unistd.h>

#include "support/tmp_dir.hpp"
#include "unit/queue_files.hpp"

using namespace rondo;
using namespace rondo::test;
namespace fs = std::filesystem;

TEST_CASE("destroy removes a queue nobody uses, and its directory") {
    TmpDir dir;
    const auto path = dir / "q";
    {
        auto queue = Queue::create(path, small_queue).value();
        REQUIRE(queue.create_group("g", {.start = Start::earliest()}));
    }
    CHECK(Queue::destroy(path));
    CHECK_FALSE(fs::exists(path));
    CHECK(Queue::destroy(path).error().code == Errc::not_found);
    CHECK(Queue::destroy(path, Force::yes).error().code == Errc::not_found);
    fs::create_directory(path);
    CHECK(Queue::destroy(path).error().code == Errc::not_found);
    CHECK(fs::exists(path));
}

TEST_CASE("destroy is refused while a participant lives, and says who it is") {
    TmpDir dir;
    const auto path = dir / "q";
    auto queue = Queue::create(path, small_queue).value();
    const auto refused = Queue::destroy(path);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::busy);
    CHECK(Queue::explain(path, refused.error()).find(std::string("process ").append(std::to_string(getpid()))) !=
          std::string::npos);
    CHECK(names(path) == all_files);
    CHECK_FALSE(queue.stats().closed);
    CHECK(queue.producer().value().publish(bytes("x")));
    CHECK(Queue::destroy(path, Force::yes));
    CHECK(queue.stats().closed);
    CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a damaged queue is destroyed only by force") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    fs::resize_file(path / "lane-00.ring", 100);
    CHECK(Queue::destroy(path).error().code == Errc::corrupt);
    CHECK(names(path) == all_files);
    CHECK(Queue::destroy(path, Force::yes));
    CHECK_FALSE(fs::exists(path));
}
