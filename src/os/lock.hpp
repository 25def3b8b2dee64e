// SPDX-License-Identifier: MIT
//
// Locks on single bytes of a file that belong to an open file description (F_OFD_SETLK). The kernel frees them when
// the last reference to the description goes: rondo's proof that a process is dead, in any namespace.
//
// - The owner is the description, not the process or thread: two threads that use one descriptor do not exclude each
//   other, two opens of a file in one process do.
// - Freed by: unlock(); the end of the last descriptor *and* the last mapping made through the description (close()
//   alone does not free the lock of a file that is still mapped); the death of the process, also by SIGKILL, after its
//   memory is gone, so no store of the dead follows the release.
// - Not freed by closing another descriptor of the same file, unlike POSIX locks: never use F_SETLK on these files.
// - Inherited by fork: the child's copy of the descriptor keeps the lock alive until it is closed there as well
//   (process.hpp, on_fork_child). In-flight io_uring requests keep it too.
// - The byte need not exist in the file; 0 .. 2^63-1. Read-only descriptors may take shared locks and may probe.
// - Locks by other means (POSIX locks of the same byte) count as held by another.
#pragma once

#include <cstdint>

#include <rondo/result.hpp>

namespace rondo::os {

enum class Lock : std::uint8_t {
    exclusive,  // needs a read_write descriptor
    shared,     // any number of shared holders, no exclusive one
};

// true: this description holds the byte now, in that kind (a lock it already held is converted). false: another
// description stands in the way, nothing changed.
[[nodiscard]] Result<bool> try_lock(int fd, std::uint64_t byte, Lock kind) noexcept;

// Unlocking what is not held is no error.
[[nodiscard]] Result<void> unlock(int fd, std::uint64_t byte) noexcept;

// Whether another description holds the byte, in either kind. A lock of the probing description itself is not seen.
// Takes nothing, not even for a moment; works with a read_only descriptor.
[[nodiscard]] Result<bool> is_held(int fd, std::uint64_t byte) noexcept;

}  // namespace rondo::os
