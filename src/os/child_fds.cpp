// SPDX-License-Identifier: MIT
#include "os/child_fds.hpp"

#include <unistd.h>

#include <array>
#include <atomic>

#include "os/file.hpp"
#include "os/process.hpp"

namespace rondo::os {

namespace {

// -1: free. A fixed table of atomics, because the child may do only what a signal handler may.
struct Table {
    std::array<std::atomic<int>, 1024> fds;
    Table() {
        // ORD(none): before any other thread can know the table.
        for (auto& fd : fds) fd.store(-1, std::memory_order_relaxed);
    }
};

Table& table() {
    static Table t;
    return t;
}

void close_all_in_child() {
    for (auto& slot : table().fds) {
        // ORD(none): the child has one thread.
        const int fd = slot.exchange(-1, std::memory_order_relaxed);
        if (fd >= 0) ::close(fd);
    }
}

Result<void> close_in_child(int fd) noexcept {
    for (auto& slot : table().fds) {
        int free = -1;
        // ORD(none): fork() itself orders this before the child's reads.
        if (slot.compare_exchange_strong(free, fd, std::memory_order_relaxed, std::memory_order_relaxed)) return {};
    }
    return fail(Errc::no_memory, "too many queues are open in this process");
}

}  // namespace

Result<UniqueFd> open_file_uninherited(int dir, std::string_view name, Access access) noexcept {
    (void)table();
    if (auto ok = on_fork_child(close_all_in_child); !ok) return fail(ok.error());
    const NoFork alone;
    auto fd = open_file(dir, name, access);
    if (!fd) return fd;
    if (auto ok = close_in_child(fd->get()); !ok) return fail(ok.error());
    return fd;
}

void forget_child_fd(int fd) noexcept {
    for (auto& slot : table().fds) {
        int mine = fd;
        // ORD(none): as above.
        if (slot.compare_exchange_strong(mine, -1, std::memory_order_relaxed, std::memory_order_relaxed)) return;
    }
}

}  // namespace rondo::os
