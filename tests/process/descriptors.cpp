// ctest: TIMEOUT 60 SANITIZE asan
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Descriptors: none is inherited by a program that is executed, none is 0, 1 or 2, and none is left over.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

/// Everything that holds a descriptor.
struct Everything {
    explicit Everything(const std::string& path) {
        queue.emplace(must(Queue::open(path)));
        producer.emplace(must(queue->producer()));
        consumer.emplace(must(queue->consumer("g", group_of(GroupMode::shared))));
        (void)must(consumer->wait_fd());
        dead.emplace(must(queue->dead_letters()));
    }
    std::optional<Queue> queue;
    std::optional<Producer> producer;
    std::optional<Consumer> consumer;
    std::optional<DeadLetters> dead;
};

std::vector<std::string> open_descriptors() {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const auto target = std::filesystem::read_symlink(e.path(), gone);
        if (!gone) out.push_back(e.path().filename().string() + " " + target.string());
    }
    std::sort(out.begin(), out.end());
    return out;
}

/// What an executed program sees of this process's descriptors.
std::string seen_after_exec() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
    const pid_t pid = fork();
    if (pid == 0) {
        // Not after the fork handlers alone: exec must close them by itself, so the parent's are what is looked at.
        dup2(ends[1], 1);
        execl("/bin/sh", "sh", "-c", "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]* -> .*\\)/\\1/p'",
              static_cast<char*>(nullptr));
        _exit(127);
    }
    close(ends[1]);
    std::string text;
    char buffer[512];
    for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
    close(ends[0]);
    waitpid(pid, nullptr, 0);
    return text;
}

}  // namespace

TEST_CASE("a program that is executed inherits no descriptor of a queue") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    must(Queue::create(path, small_queue()));
    const std::string without = seen_after_exec();
    const Everything all(path);
    const std::string with = seen_after_exec();
    INFO("without a queue: ", without);
    INFO("with a queue: ", with);
    CHECK(with.find("rondo") == std::string::npos);
    CHECK(with.find(".ring") == std::string::npos);
    CHECK(with.find("eventfd") == std::string::npos);
    CHECK(std::count(with.begin(), with.end(), '\n') == std::count(without.begin(), without.end(), '\n'));
    // Also by its own mark, without the fork handlers' help.
    for (const auto& entry : open_descriptors()) {
        if (entry.find("/q") == std::string::npos && entry.find("eventfd") == std::string::npos) continue;
        const int fd = std::stoi(entry);
        INFO(entry);
        CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(fd >= 3);
    }
}

TEST_CASE("with the standard streams closed no descriptor of a queue takes their numbers") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    Child child([&] {
        close(0);
        close(1);
        close(2);
        auto made = Queue::create(path, small_queue());
        if (!made) return 1;
        const Everything all(path);
        for (int fd = 0; fd < 3; ++fd)
            if (fcntl(fd, F_GETFD) != -1) return 2;
        // What other code prints goes nowhere.
        std::printf("this must not end in a ring");
        std::fflush(stdout);
        if (!publish_item(const_cast<Producer&>(*all.producer), {1, 1})) return 3;
        return 0;
    });
    CHECK(child.wait().exited_with(0));
    auto queue = must(Queue::open(path));
    auto consumer = must(queue.consumer("g"));
    auto m = must(consumer.receive(repair_watchdog));
    CHECK(item_of(m).sequence == 1);
    must(m.ack());
    must(Queue::destroy(path, Force::yes));
}

TEST_CASE("opening and closing a hundred times leaves no descriptor open") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    must(Queue::create(path, small_queue()));
    { const Everything once(path); }
    const auto before = open_descriptors();
    for (int i = 0; i < 100; ++i) {
        const Everything all(path);
        (void)Queue::open(path + "-missing");
        (void)Queue::create(path, small_queue());
    }
    CHECK(joined(open_descriptors()) == joined(before));
}

TEST_CASE("failed creations leave no descriptor open") {
    const TmpDir dir;
    const auto before = open_descriptors();
    for (int i = 0; i < 20; ++i) {
        CHECK_FALSE(Queue::create("/proc/rondo-test", small_queue()).has_value());
        auto huge = small_queue();
        huge.capacity_bytes = std::uint64_t{1} << 40;
        CHECK_FALSE(Queue::create(dir.str() + "/q", huge).has_value());
    }
    CHECK(joined(open_descriptors()) == joined(before));
    CHECK(files_of(dir.path() / "q").empty());
}
