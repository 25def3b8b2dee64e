// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Creating a queue: what is made, and that each bad option and each odd directory has its own error and leaves nothing
// behind.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/child.hpp"
#include "support/tmp_dir.hpp"
#include "unit/queue_files.hpp"

using namespace rondo;
using namespace rondo::test;
namespace fs = std::filesystem;

namespace {

unsigned mode_of(const fs::path& p) {
    struct stat s;
    REQUIRE(stat(p.c_str(), &s) == 0);
    return s.st_mode & 07777U;
}

}  // namespace

TEST_CASE("create makes the directory and the files, for their owner only") {
    TmpDir dir;
    const auto path = dir / "q";
    for (const char* suffix : {"", "/", "//"}) {
        CAPTURE(suffix);
        auto queue = Queue::create(path.string() + suffix, small_queue);
        REQUIRE(queue);
        CHECK(mode_of(path) == 0700);
        CHECK(names(path) == all_files);
        for (const auto& name : all_files) CHECK(mode_of(path / name) == 0600);
        CHECK(Queue::destroy(path.string() + suffix, Force::yes));
        CHECK_FALSE(fs::exists(path));
    }
}

TEST_CASE("mode and group hold for all files alike, those of groups too, whatever the umask") {
    TmpDir dir;
    const auto path = dir / "q";
    const mode_t former = umask(077);
    auto options = small_queue;
    options.mode = 0660;
    options.group = getegid();
    auto queue = Queue::create(path, options);
    if (queue) {
        CHECK(queue->create_group("g", {.start = Start::earliest()}));
    }
    umask(former);
    REQUIRE(queue);
    CHECK(mode_of(path) == 02770);
    for (const auto& name : names(path)) CHECK(mode_of(path / name) == 0660);
    CHECK(names(path).size() == 5);
}

TEST_CASE("each bad option is refused by its own name, and leaves no directory and no file behind") {
    struct Case {
        const char* what;
        QueueOptions options;
        Errc code;
        const char* named;
    };
    std::vector<Case> cases;
    const auto add = [&](const char* what, Errc code, const char* named, auto&& change) {
        QueueOptions o = small_queue;
        change(o);
        cases.push_back({what, o, code, named});
    };
    const auto bad = Errc::invalid_argument, none = Errc::not_supported;
    constexpr std::uint64_t TiB = std::uint64_t{1} << 40;
    add("capacity 0", bad, "capacity", [](auto& o) { o.capacity_bytes = 0; });
    add("capacity 1", bad, "capacity", [](auto& o) { o.capacity_bytes = 1; });
    add("capacity below", bad, "capacity", [](auto& o) { o.capacity_bytes = small - 1; });
    add("capacity above", bad, "capacity", [](auto& o) { o.capacity_bytes = TiB + 1; });
    add("capacity 2^63", bad, "capacity", [](auto& o) { o.capacity_bytes = std::uint64_t{1} << 63; });
    add("capacity -1", bad, "capacity", [](auto& o) { o.capacity_bytes = ~std::uint64_t{0}; });
    add("record 255", bad, "max_record", [](auto& o) { o.max_record_bytes = 255; });
    add("record above an eighth", bad, "max_record", [](auto& o) { o.max_record_bytes = small / 8 + 1; });
    add("record -1", bad, "max_record", [](auto& o) { o.max_record_bytes = ~std::uint64_t{0}; });
    add("retry too small", bad, "retry_capacity",
        [](auto& o) { o.retry_capacity_bytes = 8 * (small / 64 + 16384) - 1; });
    add("retry too large", bad, "retry_capacity", [](auto& o) { o.retry_capacity_bytes = TiB + 1; });
    add("dead too small", bad, "dead_capacity", [](auto& o) { o.dead_capacity_bytes = 4096; });
    add("dead too large", bad, "dead_capacity", [](auto& o) { o.dead_capacity_bytes = ~std::uint64_t{0}; });
    add("groups 0", bad, "max_groups", [](auto& o) { o.max_groups = 0; });
    add("groups 65", bad, "max_groups", [](auto& o) { o.max_groups = 65; });
    add("mode 0666", bad, "mode", [](auto& o) { o.mode = 0666; });
    add("mode 0", bad, "mode", [](auto& o) { o.mode = 0; });
    add("mode 04600", bad, "mode", [](auto& o) { o.mode = 04600; });
    add("no group id", bad, "group", [](auto& o) { o.group = ~0U; });
    add("producers", bad, "producers", [](auto& o) { o.producers = static_cast<Producers>(3); });
    add("checksum", bad, "checksum", [](auto& o) { o.checksum = static_cast<Checksum>(9); });
    add("timestamps", bad, "timestamps", [](auto& o) { o.timestamps = static_cast<Timestamps>(9); });
    add("overflow", bad, "overflow", [](auto& o) { o.overflow = static_cast<Overflow>(0); });
    add("durability", bad, "durability", [](auto& o) { o.durability = static_cast<Durability>(7); });
    add("durable", none, "durable", [](auto& o) { o.durability = Durability::durable; });
    add("drop_newest", none, "drop_newest", [](auto& o) { o.overflow = Overflow::drop_newest; });
    add("drop_oldest", none, "drop_oldest", [](auto& o) { o.overflow = Overflow::drop_oldest; });
    add("more than there is", Errc::no_space, "", [](auto& o) { o.capacity_bytes = TiB; });
    add("a dead ring larger than there is", Errc::no_space, "", [](auto& o) { o.dead_capacity_bytes = TiB; });
    for (const auto& c : cases) {
        CAPTURE(c.what);
        TmpDir dir;
        const auto made = dir / "made", there = dir / "there";
        fs::create_directory(there);
        for (const auto& path : {made, there}) {
            const auto refused = Queue::create(path, c.options);
            REQUIRE_FALSE(refused);
            CHECK(refused.error().code == c.code);
            CHECK(std::string(refused.error().what).find(c.named) != std::string::npos);
            const auto opened = Queue::open_or_create(path, c.options);
            REQUIRE_FALSE(opened);
            CHECK(opened.error().code == c.code);
            if (c.code == Errc::no_space)
                CHECK(Queue::explain(there, refused.error()).find("free") != std::string::npos);
        }
        CHECK_FALSE(fs::exists(made));
        CHECK(names(there).empty());
    }
}

TEST_CASE("options at their ends are accepted") {
    struct Case {
        QueueOptions options;
        std::uint64_t capacity, payload;
    };
    QueueOptions widest{.capacity_bytes = small,
                        .max_record_bytes = small / 8,
                        .retry_capacity_bytes = 8 * (small / 8 + 16384),
                        .dead_capacity_bytes = 8 * (small / 8 + 16384),
                        .max_groups = 64,
                        .mode = 0640};
    const Case cases[] = {{{.capacity_bytes = small}, small, small / 64 - 32},
                          {{.capacity_bytes = small + 1}, 2 * small, small / 32 - 32},
                          {{.capacity_bytes = 300'000}, 2 * small, small / 32 - 32},
                          {{.capacity_bytes = small, .max_record_bytes = 256, .max_groups = 1}, small, 224},
                          {widest, small, small / 8 - 32}};
    for (const auto& c : cases) {
        TmpDir dir;
        auto queue = Queue::create(dir.str() + "/q", c.options);
        REQUIRE(queue);
        CHECK(queue->capacity() == c.capacity);  // the truth, not what was asked for
        CHECK(queue->stats().capacity_slots == c.capacity / 64);
        CHECK(queue->max_payload_bytes() == c.payload);
    }
}

TEST_CASE("create refuses what is no place for a queue") {
    TmpDir dir;
    const auto code = [](const fs::path& path) {
        const auto q = Queue::create(path, small_queue);
        REQUIRE_FALSE(q);
        CHECK(std::string(q.error().what) != "");
        return q.error().code;
    };
    std::ofstream(dir / "file") << "content";
    fs::create_directory(dir / "real");
    fs::create_directory_symlink(dir / "real", dir / "link");
    fs::create_directory_symlink(dir / "nowhere", dir / "dangling");
    CHECK(code(dir / "file") == Errc::invalid_argument);
    CHECK(code(dir / "link") == Errc::invalid_argument);
    CHECK(code(dir / "link/") == Errc::invalid_argument);
    CHECK(code(dir / "dangling") == Errc::invalid_argument);
    CHECK(code(dir / "missing/q") == Errc::not_found);
    CHECK(code(dir / "file/q") == Errc::invalid_argument);
    CHECK(code("") == Errc::invalid_argument);
    CHECK(code(std::string("/dev/shm/a\0b", 12)) == Errc::invalid_argument);
    CHECK(code(dir.str() + "/" + std::string(4096, 'x')) == Errc::invalid_argument);
    CHECK(code(dir.str() + "/" + std::string(300, 'x')) == Errc::invalid_argument);
    CHECK(names(dir / "real").empty());
    std::string content;
    std::ifstream(dir / "file") >> content;
    CHECK(content == "content");
}

TEST_CASE("a directory that everybody can write is refused, with or without the sticky bit") {
    TmpDir dir;
    fs::create_directory(dir / "q");
    for (const unsigned mode : {0777U, 01777U, 0702U}) {
        REQUIRE(chmod((dir / "q").c_str(), mode) == 0);
        const auto q = Queue::create(dir / "q", small_queue);
        REQUIRE_FALSE(q);
        CHECK(q.error().code == Errc::permission);
        CHECK(names(dir / "q").empty());
        CHECK(Queue::explain(dir / "q", q.error()).find("mode") != std::string::npos);
    }
    REQUIRE(chmod((dir / "q").c_str(), 0770) == 0);
    CHECK(Queue::create(dir / "q", small_queue));
}

TEST_CASE("another user's directory is refused") {
    if (!root()) return;
    TmpDir dir;
    fs::create_directory(dir / "q");
    REQUIRE(chown((dir / "q").c_str(), 12345, 12345) == 0);
    const auto q = Queue::create(dir / "q", small_queue);
    REQUIRE_FALSE(q);
    CHECK(q.error().code == Errc::permission);
    CHECK(Queue::explain(dir / "q", q.error()).find("owner 12345") != std::string::npos);
}

TEST_CASE("a volatile queue is not made on a disk, and no directory stays there") {
    TmpDir dir("/var/tmp");
    struct stat s, shm;
    REQUIRE(stat(dir.str().c_str(), &s) == 0);
    REQUIRE(stat("/dev/shm", &shm) == 0);
    if (s.st_dev == shm.st_dev) return;  // no disk here
    const auto q = Queue::create(dir / "q", small_queue);
    if (q) return;  // /var/tmp is a tmpfs of its own
    CHECK(q.error().code == Errc::not_supported);
    CHECK_FALSE(fs::exists(dir / "q"));
}

TEST_CASE("a file size limit ends in an error, not in a signal, and leaves nothing") {
    TmpDir dir;
    const auto path = dir / "q";
    Child child([&] {
        const rlimit limit{100'000, 100'000};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
        const auto q = Queue::create(path, small_queue);
        if (q) return 2;
        return q.error().code == Errc::no_space ? 0 : 3;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
    CHECK_FALSE(fs::exists(path));
}

TEST_CASE("an existing directory keeps what is not ours") {
    TmpDir dir;
    const auto path = dir / "q";
    fs::create_directory(path);
    const std::vector<std::string> foreign = {"lane-00.ring.bak", "lease-agreement.tab", "notes.txt", "x.ring"};
    for (const auto& name : foreign) std::ofstream(path / name) << name;
    REQUIRE(Queue::create(path, small_queue));
    for (const auto& name : foreign) CHECK(fs::exists(path / name));
    CHECK(Queue::destroy(path));
    CHECK(names(path) == foreign);
}

TEST_CASE("what a killed creator left is replaced") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    fs::remove(path / "lane-00.ring");  // as if it had never got its name
    std::ofstream(path / ".rondo-new-0123456789abcdef") << "half";
    std::ofstream(path / "lease-3-7.tab") << "half";
    CHECK(Queue::open(path).error().code == Errc::not_found);
    REQUIRE(Queue::create(path, small_queue));
    CHECK(names(path) == all_files);
    CHECK(Queue::create(path, small_queue).error().code == Errc::exists);
    CHECK(names(path) == all_files);
}

TEST_CASE("every descriptor of a queue is above 2 and closed on exec, also in a process without stdin") {
    TmpDir dir;
    const auto path = dir / "q";
    Child child([&] {
        for (const int fd : {0, 1, 2}) close(fd);
        auto queue = Queue::create(path, small_queue);
        if (!queue) return 1;
        auto consumer = queue->consumer("g", {.start = Start::earliest()});
        if (!consumer || !consumer->wait_fd()) return 2;
        for (int fd = 0; fd < 100; ++fd) {
            const int flags = fcntl(fd, F_GETFD);
            if (flags < 0) continue;
            char name[4096] = {};
            const fs::path link = fs::path("/proc/self/fd") / std::to_string(fd);
            if (readlink(link.c_str(), name, sizeof name - 1) <= 0) continue;
            const std::string_view target = name;
            if (target.find("rondo-test-") == std::string_view::npos &&
                target.find("eventfd") == std::string_view::npos)
                continue;
            if (fd < 3) return 3;
            if ((flags & FD_CLOEXEC) == 0) return 4;
        }
        return 0;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
}
