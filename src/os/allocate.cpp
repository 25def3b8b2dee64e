// SPDX-License-Identifier: MIT
//
// allocate_fully and free_bytes of file.hpp.
#include <algorithm>
#include <array>
#include <limits>

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bits.hpp"
#include "os/file.hpp"
#include "os/file_size_signal.hpp"
#include "os/memory.hpp"
#include "os/sys_error.hpp"

namespace rondo::os {

namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t chunk_max = std::uint64_t{64} << 20;
constexpr std::uint64_t chunk_min = std::uint64_t{1} << 20;
constexpr int interrupts_max = 10000;
thread_local std::uint64_t asked_for = 0;

// In chunks: tmpfs undoes an interrupted fallocate, so that one large call never ends in a process with a profiling
// timer. Returns 0 or an errno.
int fallocate_chunked(int fd, std::uint64_t bytes) noexcept {
    std::uint64_t chunk = chunk_max;
    int interrupts = 0;
    for (std::uint64_t done = 0; done < bytes;) {
        const std::uint64_t part = std::min(chunk, bytes - done);
        if (::fallocate(fd, 0, static_cast<off_t>(done), static_cast<off_t>(part)) == 0) {
            done += part;
            interrupts = 0;
        } else if (errno != EINTR || ++interrupts == interrupts_max) {
            return errno;
        } else {
            chunk = std::max(chunk_min, chunk / 2);
        }
    }
    return 0;
}

// Where fallocate does not exist: what is there is written back over itself, the rest is written as zeros.
Result<void> write_every_byte(int fd, std::uint64_t bytes) noexcept {
    std::array<std::byte, 32768> buffer;
    for (std::uint64_t done = 0; done < bytes;) {
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), bytes - done));
        const std::span<std::byte> view(buffer.data(), part);
        const auto got = read_all(fd, view, done);
        if (!got) return fail(got.error());
        std::fill(view.begin() + static_cast<std::ptrdiff_t>(*got), view.end(), std::byte{0});
        if (const auto put = write_all(fd, view, done); !put) return put;
        done += part;
    }
    return {};
}

}  // namespace

std::uint64_t last_allocation() noexcept { return asked_for; }

Result<void> allocate_fully(int fd, std::uint64_t bytes) noexcept {
    asked_for = bytes;
    if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
        return fail(Errc::no_space, "larger than any file can be", EFBIG);
    }
    const auto before = info(fd);
    if (!before) return fail(before.error());
    if (!before->regular) return fail(Errc::invalid_argument, "not a regular file");
    const auto free = free_bytes(fd);
    if (!free) return fail(free.error());
    if (base::saturating_sub(bytes, before->allocated) > *free) {
        return fail(Errc::no_space, "not enough free space for the file", ENOSPC);
    }

    const FileSizeSignalGuard guard;
    Result<void> outcome;
    if (const int failed = fallocate_chunked(fd, bytes); failed == EOPNOTSUPP || failed == ENOSYS) {
        outcome = write_every_byte(fd, bytes);
    } else if (failed != 0) {
        outcome = fail(errc_of(failed), "cannot allocate the file", failed);
    }
    if (!outcome && ::ftruncate(fd, static_cast<off_t>(before->size)) < 0) {
        return fail_errno("cannot undo a failed allocation");
    }
    return outcome;
}

Result<std::uint64_t> free_bytes(int fd) noexcept {
    struct statfs status;
    if (::fstatfs(fd, &status) < 0) return fail_errno("cannot inspect the file system");
    const auto block = static_cast<std::uint64_t>(status.f_bsize);
    // Memory file systems without a limit of their own report zero blocks.
    const std::uint64_t in_fs = status.f_blocks == 0 ? unlimited : base::saturating_mul(status.f_bavail, block);
    const auto kind = fs_kind(fd);
    if (!kind) return fail(kind.error());
    if (*kind == FsKind::tmpfs) return std::min(in_fs, available_memory());
    if (*kind == FsKind::hugetlbfs) return std::min(in_fs, available_huge_memory(block));
    return in_fs;
}

}  // namespace rondo::os
