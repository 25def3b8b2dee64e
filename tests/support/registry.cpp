// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// See registry.hpp. Fixed tables of atomics, because clean_up() runs in signal handlers.
#include "support/registry.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rondo::test {

namespace {

struct DirectorySlot {
    std::atomic<int> state{0};  // 0 free, 1 being written, 2 valid
    std::array<char, 256> path{};
};

std::array<std::atomic<pid_t>, 256> children{};
std::array<DirectorySlot, 64> directories{};

[[noreturn]] void registry_full(const char* what) noexcept {
    std::fprintf(stderr, "test support: too many %s\n", what);
    std::abort();
}

// rm -rf in a process of its own: a signal handler may not walk a directory itself. posix_spawn, not fork: it neither
// allocates nor runs atfork handlers here.
void remove_tree(const char* path) noexcept {
    char rm[] = "rm";
    char options[] = "-rf";
    char end_of_options[] = "--";
    char* const arguments[] = {rm, options, end_of_options, const_cast<char*>(path), nullptr};
    pid_t pid = 0;
    if (posix_spawn(&pid, "/bin/rm", nullptr, nullptr, arguments, environ) != 0) return;
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace

void register_child(pid_t pid) noexcept {
    for (auto& slot : children) {
        pid_t expected = 0;
        if (slot.compare_exchange_strong(expected, pid)) return;
    }
    registry_full("child processes");
}

void forget_child(pid_t pid) noexcept {
    for (auto& slot : children) {
        pid_t expected = pid;
        if (slot.compare_exchange_strong(expected, 0)) return;
    }
}

void register_directory(std::string_view path) noexcept {
    for (auto& slot : directories) {
        int expected = 0;
        if (path.size() < slot.path.size() && slot.state.compare_exchange_strong(expected, 1)) {
            std::memcpy(slot.path.data(), path.data(), path.size());
            slot.path[path.size()] = '\0';
            slot.state.store(2);
            return;
        }
    }
    registry_full("temporary directories (or too long a path)");
}

void forget_directory(std::string_view path) noexcept {
    for (auto& slot : directories) {
        if (slot.state.load() == 2 && path == slot.path.data()) slot.state.store(0);
    }
}

void reset_registry_after_fork() noexcept {
    for (auto& slot : children) slot.store(0);
    for (auto& slot : directories) slot.state.store(0);
}

int clean_up() noexcept {
    int killed = 0;
    for (auto& slot : children) {
        const pid_t pid = slot.exchange(0);
        if (pid <= 0) continue;
        // Not reaped yet, so the number still names our child.
        ++killed;
        kill(pid, SIGKILL);
        while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
    for (auto& slot : directories) {
        int expected = 2;
        if (slot.state.compare_exchange_strong(expected, 1)) {
            remove_tree(slot.path.data());
            slot.state.store(0);
        }
    }
    return killed;
}

}  // namespace rondo::test
