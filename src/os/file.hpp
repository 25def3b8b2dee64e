// SPDX-License-Identifier: MIT
//
// Files and directories. A queue's directory is opened once; everything in it is reached through that descriptor, so
// a directory that is renamed or replaced meanwhile cannot lead half of a queue elsewhere.
//
// - Names (of files inside a directory) are 1..255 bytes without '/' and NUL, not "." or ".."; else invalid_argument.
//   Paths are at most 4095 bytes without NUL. Both are copied into a buffer on the stack; they need no terminator.
// - Symbolic links are never followed in a name, nor in the last component of a path (trailing "/" and "/." do not
//   count as components). Only regular files are opened: a fifo or device under a ring's name is invalid_argument and
//   cannot block the opener.
// - EINTR never surfaces. Errors: not_found, exists, permission, invalid_argument, no_space, ... as in errc_of(), with
//   sys_errno set.
// - Threads: any, at once; there is no shared state.
// - Functions that take an int borrow the descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rondo/result.hpp>

#include "os/fd.hpp"

namespace rondo::os {

struct FileInfo {
    std::uint64_t size = 0;       // bytes
    std::uint64_t allocated = 0;  // bytes that have storage behind them
    std::uint64_t inode = 0;
    std::uint64_t device = 0;
    std::uint64_t nlink = 0;  // 0: unlinked, still open
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t mode = 0;  // permission bits with setuid, setgid and sticky: 07777
    bool regular = false;
    bool directory = false;
    bool symlink = false;  // only from info_at
};

enum class FsKind : std::uint8_t {
    tmpfs,      // also ramfs: memory, never written back
    hugetlbfs,  // memory in huge pages: no read(), no write(); sizes are multiples of the huge page
    disk,       // anything local that is written back
    network,    // NFS, SMB, 9p, Ceph, AFS: locks and mappings are not coherent between hosts
};

// The directory itself, for use as `dir` below. A symbolic link or another file type: invalid_argument.
[[nodiscard]] Result<UniqueFd> open_dir(std::string_view path) noexcept;

// One directory, not its parents. The umask applies: set_owner_mode() on the opened directory makes the mode exact.
// Anything already there: exists.
[[nodiscard]] Result<void> make_dir(std::string_view path, std::uint32_t mode) noexcept;

// An empty directory. Not empty: busy.
[[nodiscard]] Result<void> remove_dir(std::string_view path) noexcept;

// An existing regular file.
[[nodiscard]] Result<UniqueFd> open_file(int dir, std::string_view name, Access access) noexcept;

// A new empty regular file, open read_write. The umask applies, so create with 0600 and widen with set_owner_mode():
// nobody else then sees it before it has its owner. Name taken: exists.
[[nodiscard]] Result<UniqueFd> create_exclusive(int dir, std::string_view name, std::uint32_t mode) noexcept;

// Storage for every byte of [0, bytes), so that no later store into a mapping can fail (SIGBUS). Content is kept, new
// bytes are zero; a file that is longer stays longer. For files that nobody else uses yet.
// no_space when file system, quota, RLIMIT_FSIZE or memory behind tmpfs do not suffice: the file then has its former
// size again, and what is there can be told with free_bytes(). Asks free_bytes() first, so a hopeless request does not
// eat the machine's memory before it fails. SIGXFSZ does not reach the program.
[[nodiscard]] Result<void> allocate_fully(int fd, std::uint64_t bytes) noexcept;

// What an unprivileged process can still allocate on the file system of `fd`; for tmpfs never more than the memory
// (and swap) that the machine and the memory cgroups of this process have left. An estimate: others allocate too.
// What this thread's last allocate_fully() asked for: for the message behind a no_space.
[[nodiscard]] std::uint64_t last_allocation() noexcept;

[[nodiscard]] Result<std::uint64_t> free_bytes(int fd) noexcept;

// First the group, then the exact mode (the umask plays no part), then a look whether both took: a kernel that
// silently drops setgid gives `permission`. Modes: 07777.
[[nodiscard]] Result<void> set_owner_mode(int fd, std::uint32_t mode, std::optional<std::uint32_t> gid = {}) noexcept;

// Gives `temp_name` its final name, in one step and never over an existing file (exists: nothing changed). Then the
// temporary name goes; if that alone fails, or the process dies in between, the file is published all the same and
// has two names.
[[nodiscard]] Result<void> publish(int dir, std::string_view temp_name, std::string_view final_name) noexcept;

// Removes a name, not a directory. Whoever has the file open or mapped keeps it.
[[nodiscard]] Result<void> remove(int dir, std::string_view name) noexcept;

// All names but "." and "..", sorted. More than `max` of them: too_large. Allocates.
[[nodiscard]] Result<std::vector<std::string>> list(int dir, std::size_t max = 65536) noexcept;

[[nodiscard]] Result<FileInfo> info(int fd) noexcept;
[[nodiscard]] Result<FileInfo> info_at(int dir, std::string_view name) noexcept;  // a symbolic link: the link itself
[[nodiscard]] Result<FsKind> fs_kind(int fd) noexcept;

// Reads from `offset` until the buffer is full or the file ends; returns the bytes read.
[[nodiscard]] Result<std::size_t> read_all(int fd, std::span<std::byte> buffer, std::uint64_t offset) noexcept;

// Writes all of it at `offset`. After an error some of it may have been written. SIGXFSZ does not reach the program.
[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept;

// Where the descriptor leads, for messages only: "/dev/shm/orders/main.ring", with " (deleted)" when unlinked. Empty
// when the kernel does not say.
[[nodiscard]] std::string full_path(int fd) noexcept;

}  // namespace rondo::os
