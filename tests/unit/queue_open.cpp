// SPDX-License-Identifier: MIT
// Creating, opening and destroying: each bad option and each odd directory has its own error, and leaves nothing
// behind.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/validate.hpp"
#include "os/lock.hpp"
#include "rondo/rondo.hpp"
#include "support/child.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace std::chrono_literals;
using test::Child;
using test::TmpDir;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t small = 256 << 10;
constexpr QueueOptions small_queue{.capacity_bytes = small};

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<std::string> names(const fs::path& directory) {
    std::vector<std::string> out;
    for (const auto& f : fs::directory_iterator(directory)) out.push_back(f.path().filename());
    std::sort(out.begin(), out.end());
    return out;
}
const std::vector<std::string> all_files = {"dead.ring", "lane-00.ring", "lease-dead.tab", "retry.ring"};

void patch(const fs::path& file, std::uint64_t offset, std::string_view with) {
    std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
    f.seekp(static_cast<std::streamoff>(offset));
    f.write(with.data(), static_cast<std::streamsize>(with.size()));
    REQUIRE(f.good());
}

/// Changes a superblock and seals it anew.
template <class Change>
void change_superblock(const fs::path& file, Change&& change) {
    std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
    format::Superblock s;
    std::string raw(sizeof s, '\0');
    f.read(raw.data(), sizeof s);
    std::memcpy(&s, raw.data(), sizeof s);
    change(s);
    format::seal_superblock(s);
    std::memcpy(raw.data(), &s, sizeof s);
    f.seekp(0);
    f.write(raw.data(), sizeof s);
    REQUIRE(f.good());
}

unsigned mode_of(const fs::path& p) {
    struct stat s;
    REQUIRE(stat(p.c_str(), &s) == 0);
    return s.st_mode & 07777U;
}

bool root() { return geteuid() == 0; }

}  // namespace

// ---- create --------------------------------------------------------------------------------------------------

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
    add("retry too small", bad, "retry_capacity", [](auto& o) { o.retry_capacity_bytes = 8 * (small / 64 + 16384) - 1; });
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
            if (target.find("rondo-test-") == std::string_view::npos && target.find("eventfd") == std::string_view::npos)
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

// ---- open ----------------------------------------------------------------------------------------------------

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

TEST_CASE("a queue that is older than its time stamps reach still tells the time") {
    // Stamps of 32 bits in units of 4 ms come round after 198 days.
    const auto wall = [] {
        return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                              std::chrono::system_clock::now().time_since_epoch())
                                              .count());
    };
    constexpr std::uint64_t day = 86'400'000'000'000, minute = 60'000'000'000;
    for (const std::uint64_t days : {0U, 198U, 199U, 400U, 5000U}) {
        CAPTURE(days);
        TmpDir dir;
        const auto path = dir / "q";
        REQUIRE(Queue::create(path, small_queue));
        change_superblock(path / "lane-00.ring", [&](auto& s) { s.time_base_ns -= days * day; });
        auto queue = Queue::open(path).value();
        REQUIRE(queue.producer().value().publish(bytes("x")));
        auto consumer = queue.consumer("g", {.start = Start::time(wall() - minute)}).value();
        Message m = consumer.try_receive().value();
        REQUIRE(m.accepted_at_ns());
        CHECK(*m.accepted_at_ns() + minute > wall());
        CHECK(*m.accepted_at_ns() < wall() + minute);
        CHECK(m.reject({.code = "c"}));
        const auto dead = queue.dead_letters().value().list().value();
        REQUIRE(dead.size() == 1);
        CHECK(dead[0].accepted_ns + minute > wall());
        CHECK(dead[0].accepted_ns < wall() + minute);
    }
}

TEST_CASE("a queue from the future, as seen by a clock that was set back, works and has no age") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    change_superblock(path / "lane-00.ring", [](auto& s) { s.time_base_ns += std::uint64_t{86'400'000'000'000}; });
    auto queue = Queue::open(path).value();
    auto consumer = queue.consumer("g", {.start = Start::earliest(), .backoff_initial = 0ns}).value();
    REQUIRE(queue.producer().value().publish(bytes("x")));
    CHECK(consumer.try_receive().value().nack({}, 0ns));
    Message m = consumer.receive(20s).value();
    CHECK(m.delivery_count() == 2);
    CHECK(m.reject({.code = "c"}));
    CHECK(queue.stats().groups.at(0).lag == 0);
    CHECK(queue.dead_letters().value().list().value().size() == 1);
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

TEST_CASE("a queue opened twice in a process is two participants") {
    TmpDir dir;
    const auto path = dir / "q";
    std::optional<Queue> a = Queue::create(path, small_queue).value();
    auto b = Queue::open(path).value();
    CHECK(a->stats().participants == 2);
    auto consumer = b.consumer("g", {.start = Start::earliest()}).value();
    REQUIRE(a->producer().value().publish(bytes("x")));
    Message m = consumer.try_receive().value();
    a.reset();
    CHECK(b.stats().participants == 1);
    CHECK(m.ack());
    CHECK(b.stats().groups.at(0).acked == 1);
    // The place of the one that left is free again.
    a = Queue::open(path).value();
    CHECK(a->stats().participants == 2);
    a->close();
    CHECK(b.producer().value().publish(bytes("y")));
}

TEST_CASE("what was obtained for the mapping is told") {
    TmpDir dir;
    const auto path = dir / "q";
    REQUIRE(Queue::create(path, small_queue));
    CHECK(Queue::open(path).value().stats().prefaulted);
    CHECK_FALSE(Queue::open(path, {.prefault = false}).value().stats().prefaulted);
    CHECK_FALSE(Queue::open(path).value().stats().memory_locked);
    for (const Duration spin : {Duration(0), Duration(-1), Duration(50us)}) {
        auto q = Queue::open(path, {.spin = spin}).value();
        auto c = q.consumer("g", {.start = Start::earliest()}).value();
        CHECK(c.receive(1ms).error().code == Errc::timeout);
    }
}

// ---- open or create ------------------------------------------------------------------------------------------

TEST_CASE("open_or_create creates, then opens") {
    TmpDir dir;
    const auto path = dir / "q";
    auto a = Queue::open_or_create(path, small_queue);
    REQUIRE(a);
    REQUIRE(a->producer().value().publish(bytes("x")));
    auto b = Queue::open_or_create(path, small_queue);
    REQUIRE(b);
    CHECK(b->stats().tail == 1);
    auto other_overflow = small_queue;  // a setting that may change is no difference
    other_overflow.overflow = Overflow::fail;
    CHECK(Queue::open_or_create(path, other_overflow));
}

TEST_CASE("open_or_create of a queue that has other options names the one that differs") {
    TmpDir dir;
    const auto path = dir / "q";
    auto queue = Queue::create(path, small_queue).value();
    struct Case {
        const char* named;
        QueueOptions options;
    };
    std::vector<Case> cases;
    const auto add = [&](const char* named, auto&& change) {
        QueueOptions o = small_queue;
        change(o);
        cases.push_back({named, o});
    };
    add("capacity", [](auto& o) { o.capacity_bytes = 2 * small; });
    add("producers", [](auto& o) { o.producers = Producers::one; });
    add("max_record_bytes", [](auto& o) { o.max_record_bytes = 512; });
    add("dead_capacity_bytes", [](auto& o) { o.dead_capacity_bytes = 2 * small; });
    add("retry_capacity_bytes", [](auto& o) { o.retry_capacity_bytes = 2 * small; });
    add("max_groups", [](auto& o) { o.max_groups = 17; });
    add("checksum", [](auto& o) { o.checksum = Checksum::xxh3; });
    add("timestamps", [](auto& o) { o.timestamps = Timestamps::exact; });
    for (const auto& c : cases) {
        CAPTURE(c.named);
        const auto q = Queue::open_or_create(path, c.options);
        REQUIRE_FALSE(q);
        CHECK(q.error().code == Errc::option_mismatch);
        CHECK(std::string(q.error().what).find(c.named) != std::string::npos);
    }
    CHECK(queue.stats().participants == 1);
}

TEST_CASE("several at once open or create one queue, none sees a race") {
    TmpDir dir;
    for (int round = 0; round < 20; ++round) {
        const auto path = dir / std::to_string(round);
        std::atomic<int> good = 0, at_start = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&] {
                at_start.fetch_add(1);
                while (at_start.load() < 3) std::this_thread::yield();
                auto q = Queue::open_or_create(path, small_queue);
                if (!q) return;
                auto p = q->producer();
                if (p && p->publish(bytes("x"))) good.fetch_add(1);
            });
        }
        for (auto& t : threads) t.join();
        CHECK(good.load() == 3);
        CHECK(Queue::open(path).value().stats().tail == 3);
    }
}

// ---- destroy -------------------------------------------------------------------------------------------------

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
    CHECK(Queue::explain(path, refused.error()).find(std::string("process ").append(std::to_string(getpid()))) != std::string::npos);
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
