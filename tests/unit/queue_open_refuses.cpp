// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What is opened only if it is a whole queue of this version that belongs together: everything else has its own error,
// and stays as it is.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/validate.hpp"
#include "os/lock.hpp"
#include "support/child.hpp"
#include "support/tmp_dir.hpp"
#include "unit/queue_files.hpp"

using namespace rondo;
using namespace rondo::test;
namespace fs = std::filesystem;

namespace {

void patch(const fs::path& file, std::uint64_t offset, std::string_view with) {
    std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
    f.seekp(static_cast<std::streamoff>(offset));
    f.write(with.data(), static_cast<std::streamsize>(with.size()));
    REQUIRE(f.good());
}

}  // namespace

TEST_CASE("open finds no queue where there is none") {
    TmpDir dir;
    const auto code = [](const fs::path& path) { return Queue::open(path).error().code; };
    std::ofstream(dir / "file") << "x";
    fs::create_directory(dir / "void");
    fs::create_directory_symlink(dir / "void", dir / "link");
    CHECK(code(dir / "missing") == Errc::not_found);
    CHECK(code(dir / "void") == Errc::not_found);
    CHECK(code(dir / "file") == Errc::invalid_argument);
    CHECK(code(dir / "link") == Errc::invalid_argument);
    CHECK(code("") == Errc::invalid_argument);
    CHECK(code(dir.str() + "/" + std::string(4096, 'x')) == Errc::invalid_argument);
    const auto e = Queue::open(dir / "missing").error();
    CHECK(Queue::explain(dir / "missing", e).find((dir / "missing").string()) != std::string::npos);
}

TEST_CASE("a queue behind a symbolic link is not followed, its ring files neither") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    fs::create_directory_symlink(path, dir / "link");
    CHECK(Queue::open(dir / "link").error().code == Errc::invalid_argument);
    CHECK(Queue::destroy(dir / "link", Force::yes).error().code == Errc::invalid_argument);
    for (const auto& name : all_files) {
        CAPTURE(name);
        fs::rename(path / name, dir / "aside");
        fs::create_symlink(dir / "aside", path / name);
        CHECK(Queue::open(path).error().code == Errc::invalid_argument);
        fs::remove(path / name);
        fs::create_directory(path / name);
        CHECK(Queue::open(path).error().code == Errc::invalid_argument);
        fs::remove(path / name);
        REQUIRE(mkfifo((path / name).c_str(), 0600) == 0);
        CHECK(Queue::open(path).error().code == Errc::invalid_argument);
        fs::remove(path / name);
        fs::rename(dir / "aside", path / name);
        CHECK(Queue::open(path));
    }
}

TEST_CASE("files that are cut short are refused as damaged") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    for (const auto& name : all_files) {
        const auto size = fs::file_size(path / name);
        fs::copy_file(path / name, dir / "aside");
        for (const std::uint64_t to : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{100}, std::uint64_t{4096},
                                       std::uint64_t{size / 2}, std::uint64_t{size - 1}}) {
            CAPTURE(name);
            CAPTURE(to);
            fs::resize_file(path / name, to);
            const auto q = Queue::open(path);
            REQUIRE_FALSE(q);
            CHECK(q.error().code == Errc::corrupt);
            CHECK(std::string(q.error().what) != "");
            CHECK_FALSE(Queue::open_or_create(path, small_queue));
            CHECK(fs::file_size(path / name) == to);  // nothing was repaired behind anybody's back
        }
        fs::remove(path / name);
        fs::rename(dir / "aside", path / name);  // a copy: another inode, but nobody claims to be alive
        CHECK(Queue::open(path));
    }
}

TEST_CASE("a missing file beside the main ring is an error that changes nothing") {
    TmpDir dir;
    const auto path = dir / "q";
    for (const char* name : {"dead.ring", "retry.ring", "lease-dead.tab"}) {
        CAPTURE(name);
        REQUIRE(Queue::create(path, small_queue));
        fs::remove(path / name);
        const auto left = names(path);
        CHECK_FALSE(Queue::open(path));
        CHECK_FALSE(Queue::open_or_create(path, small_queue));
        CHECK(Queue::create(path, small_queue).error().code == Errc::exists);
        CHECK(names(path) == left);
        CHECK(Queue::destroy(path, Force::yes));
        CHECK_FALSE(fs::exists(path));
    }
}

TEST_CASE("another version, another byte order, an unknown feature: told apart from damage, with both versions") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    const auto main = path / "lane-00.ring";
    fs::copy_file(main, dir / "aside");
    const auto restore = [&] { fs::copy_file(dir / "aside", main, fs::copy_options::overwrite_existing); };
    const auto code = [&] {
        const auto q = Queue::open(path);
        return q ? std::optional<Errc>() : q.error().code;
    };
    patch(main, offsetof(format::Superblock, version), std::string_view("\x07\0\0\0", 4));
    REQUIRE(code() == Errc::version_mismatch);
    const auto why = Queue::explain(path, Queue::open(path).error());
    CHECK(why.find("format 7") != std::string::npos);
    CHECK(why.find("library 1") != std::string::npos);
    restore();
    patch(main, offsetof(format::Superblock, byte_order), std::string_view("\x01\x02\x03\x04", 4));
    CHECK(code() == Errc::version_mismatch);
    restore();
    change_superblock(main, [](auto& s) { s.features_required = 4; });
    CHECK(code() == Errc::version_mismatch);
    restore();
    change_superblock(main, [](auto& s) { s.features_optional = 4; });
    CHECK(code() == std::nullopt);
    restore();
    patch(main, 0, "X");
    CHECK(code() == Errc::corrupt);
    restore();
    patch(main, offsetof(format::Superblock, salt), "damaged!");
    CHECK(code() == Errc::corrupt);
    restore();
    change_superblock(main, [](auto& s) { s.kind = format::RingKind::dead; });
    CHECK(code() == Errc::corrupt);
    restore();
    CHECK(code() == std::nullopt);
}

TEST_CASE("files of two queues do not mix") {
    TmpDir dir;
    const auto a = dir / "a", b = dir / "b";
    for (const auto& path : {a, b}) {
        auto q = Queue::create(path, small_queue).value();
        REQUIRE(q.create_group("g", {.start = Start::earliest()}));
    }
    for (const auto& name : all_files) {
        CAPTURE(name);
        fs::rename(a / name, dir / "aside");
        fs::copy_file(b / name, a / name);
        CHECK(Queue::open(a).error().code == Errc::corrupt);
        fs::remove(a / name);
        fs::rename(dir / "aside", a / name);
    }
    auto q = Queue::open(a);
    REQUIRE(q);
    // A group's lease table is looked at when the group is opened.
    fs::rename(a / "lease-0-1.tab", dir / "aside");
    CHECK_FALSE(q->consumer("g"));
    fs::copy_file(b / "lease-0-1.tab", a / "lease-0-1.tab");
    CHECK(q->consumer("g").error().code == Errc::corrupt);
    CHECK(q->stats().groups.size() == 1);
    fs::remove(a / "lease-0-1.tab");
    fs::rename(dir / "aside", a / "lease-0-1.tab");
    CHECK(q->consumer("g"));
    // Swapped within one queue.
    fs::rename(a / "dead.ring", dir / "aside");
    fs::copy_file(a / "retry.ring", a / "dead.ring");
    CHECK(Queue::open(a).error().code == Errc::corrupt);
}

TEST_CASE("a copy of a queue that was in use is refused; of one at rest it is a queue like any other") {
    TmpDir dir;
    const auto path = dir / "q";
    auto queue = Queue::create(path, small_queue).value();
    REQUIRE(queue.producer().value().publish(bytes("x")));
    fs::copy(path, dir / "live");
    const auto copy = Queue::open(dir / "live");
    REQUIRE_FALSE(copy);
    CHECK(copy.error().code == Errc::busy);
    CHECK(queue.stats().participants == 1);
    { const Queue gone = std::move(queue); }
    fs::copy(path, dir / "rest");
    auto rested = Queue::open(dir / "rest");
    REQUIRE(rested);
    CHECK(rested->consumer("g", {.start = Start::earliest()}).value().try_receive());
    CHECK(Queue::open(path));
}

TEST_CASE("another user cannot open, and is told whose queue it is") {
    if (!root()) return;
    TmpDir dir;
    REQUIRE(chmod(dir.str().c_str(), 0755) == 0);
    const auto path = dir / "q";
    auto queue = Queue::create(path, small_queue).value();
    for (const bool closed_directory : {true, false}) {
        if (!closed_directory) {
            REQUIRE(chmod(path.c_str(), 0755) == 0);
        }
        Child child([&] {
            if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
            const auto q = Queue::open(path);
            if (q) return 2;
            if (q.error().code != Errc::permission) return 3;
            const std::string why = Queue::explain(path, q.error());
            if (why.find(path.string()) == std::string::npos) return 4;
            if (why.find("owner 0") == std::string::npos) return 5;
            if (why.find(closed_directory ? "mode 0700" : "mode 0600") == std::string::npos) return 6;
            return Queue::destroy(path, Force::yes) ? 7 : 0;
        });
        const auto status = child.wait();
        INFO(status.text());
        CHECK(status.exited_with(0));
    }
    CHECK(names(path) == all_files);
    CHECK(queue.producer().value().publish(bytes("x")));
}

TEST_CASE("the 1024th participant is refused") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    const int fd = ::open((path / "lane-00.ring").c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    for (std::uint64_t id = 1; id < 1024; ++id) REQUIRE(os::try_lock(fd, id, os::Lock::exclusive).value());
    const auto q = Queue::open(path);
    REQUIRE_FALSE(q);
    CHECK(q.error().code == Errc::too_many_participants);
    REQUIRE(os::unlock(fd, 512));
    CHECK(Queue::open(path));
    close(fd);
    CHECK(Queue::open(path).value().stats().participants == 1);
}
