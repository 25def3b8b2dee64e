// SPDX-License-Identifier: MIT
#include "os/file.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "os/file_size_signal.hpp"
#include "os/sys_error.hpp"

namespace rondo::os {

namespace {

// A terminated copy of a name or path, checked; `text` is null when it is not acceptable.
template <std::size_t Size>
struct Terminated {
    std::array<char, Size> buffer;
    const char* text = nullptr;
    int sys_errno = 0;

    explicit Terminated(std::string_view source) noexcept {
        if (source.empty() || source.find('\0') != std::string_view::npos) {
            sys_errno = EINVAL;
        } else if (source.size() >= Size) {
            sys_errno = ENAMETOOLONG;
        } else {
            std::memcpy(buffer.data(), source.data(), source.size());
            buffer[source.size()] = '\0';
            text = buffer.data();
        }
    }
};

struct Name : Terminated<256> {
    explicit Name(std::string_view source) noexcept : Terminated(source) {
        if (text != nullptr && (source == "." || source == ".." || source.find('/') != std::string_view::npos)) {
            text = nullptr;
            sys_errno = EINVAL;
        }
    }
};

struct Path : Terminated<4096> {
    explicit Path(std::string_view source) noexcept : Terminated(stripped(source)) {}

    // O_NOFOLLOW guards the last component only: "link/" and "link/." would be followed.
    static std::string_view stripped(std::string_view source) noexcept {
        while (source.size() > 1 && (source.ends_with('/') || (source.size() > 2 && source.ends_with("/.")))) {
            source.remove_suffix(1);
        }
        return source;
    }
};

FileInfo to_info(const struct stat& status) noexcept {
    FileInfo result;
    result.size = static_cast<std::uint64_t>(status.st_size);
    result.allocated = static_cast<std::uint64_t>(status.st_blocks) * 512;
    result.inode = status.st_ino;
    result.device = status.st_dev;
    result.nlink = status.st_nlink;
    result.uid = status.st_uid;
    result.gid = status.st_gid;
    result.mode = status.st_mode & 07777U;
    result.regular = S_ISREG(status.st_mode);
    result.directory = S_ISDIR(status.st_mode);
    result.symlink = S_ISLNK(status.st_mode);
    return result;
}

int open_retried(int dir, const char* name, int flags, mode_t mode) noexcept {
    int fd = -1;
    do {
        fd = ::openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

constexpr std::uint64_t max_offset = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

}  // namespace

Result<UniqueFd> open_dir(std::string_view path) noexcept {
    const Path copy(path);
    if (copy.text == nullptr) return fail(Errc::invalid_argument, "malformed path", copy.sys_errno);
    const int fd = open_retried(AT_FDCWD, copy.text, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        return fail_errno("not a directory, or a symbolic link");
    }
    if (fd < 0) return fail_errno("cannot open the directory");
    return UniqueFd::adopt(fd);
}

Result<void> make_dir(std::string_view path, std::uint32_t mode) noexcept {
    const Path copy(path);
    if (copy.text == nullptr) return fail(Errc::invalid_argument, "malformed path", copy.sys_errno);
    if (::mkdir(copy.text, mode & 07777U) < 0) return fail_errno("cannot make the directory");
    return {};
}

Result<void> remove_dir(std::string_view path) noexcept {
    const Path copy(path);
    if (copy.text == nullptr) return fail(Errc::invalid_argument, "malformed path", copy.sys_errno);
    if (::rmdir(copy.text) < 0) {
        // Some file systems say EEXIST for a directory that is not empty.
        if (errno == EEXIST) return fail(Errc::busy, "the directory is not empty", EEXIST);
        return fail_errno("cannot remove the directory");
    }
    return {};
}

Result<UniqueFd> open_file(int dir, std::string_view name, Access access) noexcept {
    const Name copy(name);
    if (copy.text == nullptr) return fail(Errc::invalid_argument, "malformed file name", copy.sys_errno);
    const int mode = access == Access::read_only ? O_RDONLY : O_RDWR;
    // O_NONBLOCK: opening a fifo must not wait for its other end.
    const int raw = open_retried(dir, copy.text, mode | O_NONBLOCK, 0);
    if (raw < 0 && errno == ELOOP) return fail_errno("the file is a symbolic link");
    if (raw < 0) return fail_errno("cannot open the file");
    auto fd = UniqueFd::adopt(raw);
    if (!fd) return fd;
    const auto status = info(fd->get());
    if (!status) return fail(status.error());
    if (!status->regular) return fail(Errc::invalid_argument, "not a regular file");
    // io_uring answers EAGAIN on O_NONBLOCK descriptors where it would otherwise wait for the disk.
    if (::fcntl(fd->get(), F_SETFL, 0) < 0) return fail_errno("cannot make the descriptor blocking");
    return fd;
}

Result<UniqueFd> create_exclusive(int dir, std::string_view name, std::uint32_t mode) noexcept {
    const Name copy(name);
    if (copy.text == nullptr) return fail(Errc::invalid_argument, "malformed file name", copy.sys_errno);
    const int fd = open_retried(dir, copy.text, O_RDWR | O_CREAT | O_EXCL, mode & 07777U);
    if (fd < 0) return fail_errno("cannot create the file");
    return UniqueFd::adopt(fd);
}

Result<void> set_owner_mode(int fd, std::uint32_t mode, std::optional<std::uint32_t> gid) noexcept {
    // The group first: chown clears setuid and setgid, and the old group must not get the new group's rights.
    if (gid && ::fchown(fd, static_cast<uid_t>(-1), *gid) < 0) return fail_errno("cannot set the group");
    if (::fchmod(fd, mode & 07777U) < 0) return fail_errno("cannot set the mode");
    const auto status = info(fd);
    if (!status) return fail(status.error());
    if (status->mode != (mode & 07777U)) return fail(Errc::permission, "the system did not grant the mode", EPERM);
    return {};
}

Result<void> publish(int dir, std::string_view temp_name, std::string_view final_name) noexcept {
    const Name source(temp_name);
    const Name target(final_name);
    if (source.text == nullptr) return fail(Errc::invalid_argument, "malformed file name", source.sys_errno);
    if (target.text == nullptr) return fail(Errc::invalid_argument, "malformed file name", target.sys_errno);
    if (::linkat(dir, source.text, dir, target.text, 0) < 0) return fail_errno("cannot give the file its name");
    ::unlinkat(dir, source.text, 0);  // published already; a second name left behind is swept by others
    return {};
}

Result<void> remove(int dir, std::string_view name) noexcept {
    const Name copy(name);
    if (copy.text == nullptr) return fail(Errc::invalid_argument, "malformed file name", copy.sys_errno);
    if (::unlinkat(dir, copy.text, 0) < 0) return fail_errno("cannot remove the file");
    return {};
}

Result<std::vector<std::string>> list(int dir, std::size_t max) noexcept {
    // A description of its own: reading through `dir` would move the offset that others share.
    const int raw = open_retried(dir, ".", O_RDONLY | O_DIRECTORY, 0);
    if (raw < 0) return fail_errno("cannot open the directory for listing");
    auto own = UniqueFd::adopt(raw);
    if (!own) return fail(own.error());
    struct Closer {
        void operator()(DIR* stream) const noexcept { ::closedir(stream); }
    };
    const std::unique_ptr<DIR, Closer> stream(::fdopendir(own->get()));
    if (!stream) return fail_errno("cannot list the directory");
    (void)own->release();  // closedir closes it
    try {
        std::vector<std::string> names;
        for (;;) {
            errno = 0;
            const dirent* entry = ::readdir(stream.get());
            if (entry == nullptr && errno != 0) return fail_errno("cannot read the directory");
            if (entry == nullptr) break;
            const std::string_view name = entry->d_name;
            if (name == "." || name == "..") continue;
            if (names.size() == max) return fail(Errc::too_large, "too many files in the directory");
            names.emplace_back(name);
        }
        std::sort(names.begin(), names.end());
        return names;
    } catch (const std::bad_alloc&) {
        return fail(Errc::no_memory, "no memory for a list of files", ENOMEM);
    }
}

Result<FileInfo> info(int fd) noexcept {
    struct stat status;
    if (::fstat(fd, &status) < 0) return fail_errno("cannot inspect the file");
    return to_info(status);
}

Result<FileInfo> info_at(int dir, std::string_view name) noexcept {
    const Name copy(name);
    if (copy.text == nullptr) return fail(Errc::invalid_argument, "malformed file name", copy.sys_errno);
    struct stat status;
    if (::fstatat(dir, copy.text, &status, AT_SYMLINK_NOFOLLOW) < 0) return fail_errno("cannot inspect the file");
    return to_info(status);
}

Result<FsKind> fs_kind(int fd) noexcept {
    struct statfs status;
    if (::fstatfs(fd, &status) < 0) return fail_errno("cannot inspect the file system");
    switch (static_cast<std::uint32_t>(status.f_type)) {
        case TMPFS_MAGIC:
        case RAMFS_MAGIC:
            return FsKind::tmpfs;
        case HUGETLBFS_MAGIC:
            return FsKind::hugetlbfs;
        case NFS_SUPER_MAGIC:
        case SMB_SUPER_MAGIC:
        case CIFS_SUPER_MAGIC:
        case SMB2_SUPER_MAGIC:
        case V9FS_MAGIC:
        case CEPH_SUPER_MAGIC:
        case AFS_FS_MAGIC:
            return FsKind::network;
        default:
            return FsKind::disk;
    }
}

Result<std::size_t> read_all(int fd, std::span<std::byte> buffer, std::uint64_t offset) noexcept {
    if (buffer.size() > max_offset || offset > max_offset - buffer.size()) {
        return fail(Errc::invalid_argument, "read beyond the largest file offset", EOVERFLOW);
    }
    std::size_t filled = 0;
    while (filled < buffer.size()) {
        const ssize_t got =
            ::pread(fd, buffer.data() + filled, buffer.size() - filled, static_cast<off_t>(offset + filled));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("cannot read the file");
        if (got == 0) break;
        filled += static_cast<std::size_t>(got);
    }
    return filled;
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept {
    if (bytes.size() > max_offset || offset > max_offset - bytes.size()) {
        return fail(Errc::no_space, "write beyond the largest file offset", EFBIG);
    }
    const FileSizeSignalGuard guard;
    std::size_t written = 0;
    while (written < bytes.size()) {
        const ssize_t put =
            ::pwrite(fd, bytes.data() + written, bytes.size() - written, static_cast<off_t>(offset + written));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return fail_errno("cannot write the file");
        if (put == 0) return fail(Errc::system, "a write made no progress", EIO);
        written += static_cast<std::size_t>(put);
    }
    return {};
}

std::string full_path(int fd) noexcept {
    std::array<char, 64> link;
    std::array<char, 4096> target;
    std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
    const ssize_t length = ::readlink(link.data(), target.data(), target.size());
    if (length <= 0) return {};
    try {
        return {target.data(), static_cast<std::size_t>(length)};
    } catch (const std::bad_alloc&) {
        return {};
    }
}

}  // namespace rondo::os
