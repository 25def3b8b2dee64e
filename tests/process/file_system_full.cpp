// ctest: TIMEOUT 60
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A tmpfs of eight megabytes: what does not fit is refused before it begins, what fits never dies of a missing page.
// Skipped where nothing may be mounted.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/seed.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr int not_allowed = 77;

/// Runs `body` in a child that has a tmpfs of `megabytes` of its own at `where`.
void on_small_tmpfs(const std::string& where, int megabytes, const std::function<int()>& body) {
    Child child([&] {
        if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return not_allowed;
        if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return not_allowed;
        const std::string size = "size=" + std::to_string(megabytes) + "m";
        if (mount("tmpfs", where.c_str(), "tmpfs", 0, size.c_str()) != 0) return not_allowed;
        return body();
    });
    const auto status = child.wait();
    if (status.exited_with(not_allowed)) {
        skip("nothing may be mounted here");
        return;
    }
    CHECK_MESSAGE(status.exited_with(0), status.text());
}

/// Takes all that is left. Returns the bytes.
std::uint64_t fill(const std::string& path) {
    const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    std::vector<char> block(64 << 10, 'x');
    std::uint64_t total = 0;
    for (std::size_t n = block.size(); n > 0;) {
        const ssize_t put = write(fd, block.data(), n);
        if (put > 0) {
            total += static_cast<std::uint64_t>(put);
        } else {
            n /= 2;
        }
    }
    close(fd);
    return total;
}

QueueOptions of_capacity(std::uint64_t bytes) {
    auto o = small_queue();
    o.capacity_bytes = bytes;
    return o;
}

}  // namespace

TEST_CASE("a queue that is larger than its file system is refused, with the bytes it needs, and nothing is left") {
    const TmpDir dir;
    on_small_tmpfs(dir.str(), 8, [&] {
        const std::string path = dir.str() + "/q";
        const auto made = Queue::create(path, of_capacity(16 << 20));
        if (made || made.error().code != Errc::no_space || made.error().sys_errno == 0) return 1;
        const auto text = Queue::explain(path, made.error());
        std::printf("%s\n", text.c_str());
        std::fflush(stdout);
        if (text.find(path) == std::string::npos) return 2;
        // How much it takes, and how much there is.
        if (text.find("need") == std::string::npos || text.find("free there") == std::string::npos) return 12;
        if (!files_of(path).empty()) return 3;
        // The same room is enough for a smaller one.
        return Queue::create(path, of_capacity(1 << 20)) ? 0 : 4;
    });
}

TEST_CASE("each size that does not quite fit is refused cleanly") {
    const TmpDir dir;
    on_small_tmpfs(dir.str(), 8, [&] {
        const std::string path = dir.str() + "/q";
        std::uint64_t refused = 0, made = 0;
        // What is left shrinks step by step past what the queue's files need, one after the other.
        for (std::uint64_t taken = 0; taken < (8U << 20); taken += 96 << 10) {
            const std::string blocker = dir.str() + "/blocker";
            const int fd = open(blocker.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            if (taken != 0 && fallocate(fd, 0, 0, static_cast<off_t>(taken)) != 0) return 1;
            close(fd);
            const auto q = Queue::create(path, of_capacity(2 << 20));
            if (q) {
                ++made;
                if (!Queue::destroy(path, Force::yes)) return 2;
            } else {
                ++refused;
                if (q.error().code != Errc::no_space) return 3;
                if (!files_of(path).empty()) return 4;
            }
            unlink(blocker.c_str());
        }
        std::printf("%llu made, %llu refused\n", static_cast<unsigned long long>(made),
                    static_cast<unsigned long long>(refused));
        return made > 3 && refused > 3 ? 0 : 5;
    });
}

TEST_CASE("a queue on a file system that others have filled works to its last byte, dead letters included") {
    const TmpDir dir;
    on_small_tmpfs(dir.str(), 8, [&] {
        const std::string path = dir.str() + "/q";
        auto queue = must(Queue::create(path, of_capacity(2 << 20), {.prefault = false}));
        auto options = group_of(GroupMode::shared);
        options.max_in_flight = 16384;
        auto consumer = must(queue.consumer("g", options));
        auto producer = must(queue.producer());
        if (fill(dir.str() + "/others") < (1 << 20)) return 1;
        // Everything that the queue has, three times round; some of it dies. No SIGBUS.
        std::uint64_t sent = 0, acked = 0, rejected = 0;
        for (int lap = 0; lap < 3; ++lap) {
            while (publish_item(producer, {1, sent}, 1000, {.timeout = 0ms})) ++sent;
            while (auto m = consumer.receive(0ms)) {
                (void)item_of(*m);
                if (rejected < 100) {
                    must(m->reject({.code = "full", .message = std::string(1000, 'm')}));
                    ++rejected;
                } else {
                    must(m->ack());
                    ++acked;
                }
            }
        }
        auto dead = must(queue.dead_letters());
        const auto list = must(dead.list());
        if (list.size() != rejected) return 2;
        for (const auto& d : list)
            if (!read_item(d.payload) || d.payload.size() != 1000) return 3;
        std::printf("%llu sent, %llu acked, %llu rejected\n", static_cast<unsigned long long>(sent),
                    static_cast<unsigned long long>(acked), static_cast<unsigned long long>(rejected));
        if (sent != acked + rejected || sent < 5000) return 4;
        // What would need more room says so and changes nothing.
        const auto files = files_of(path);
        const auto more = queue.create_group("another", group_of(GroupMode::shared));
        if (more || more.error().code != Errc::no_space) return 5;
        if (joined(files_of(path)) != joined(files)) return 6;
        if (queue.consumer("another").error().code != Errc::no_such_group) return 7;
        if (queue.stats().groups.size() != 1) return 8;
        // An exclusive group needs none.
        return queue.create_group("exclusive", group_of(GroupMode::exclusive)) ? 0 : 9;
    });
}

TEST_CASE("a limit on the size of files refuses the queue and kills nobody") {
    const TmpDir dir;
    Child child([&] {
        const rlimit limit{1 << 20, 1 << 20};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return not_allowed;
        const auto made = Queue::create(dir.str() + "/q", of_capacity(4 << 20));
        if (made || made.error().code != Errc::no_space) return 1;
        return files_of(dir.path() / "q").empty() ? 0 : 2;
    });
    const auto status = child.wait();
    CHECK_MESSAGE(status.exited_with(0), status.text());
}
