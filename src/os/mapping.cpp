// SPDX-License-Identifier: MIT
#include "os/mapping.hpp"

#include <limits>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <boost/interprocess/exceptions.hpp>

#include "os/child_fds.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/sys_error.hpp"

// Since Linux 5.14; older headers lack them.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace rondo::os {

namespace {

namespace ipc = boost::interprocess;

// What mapped_region wants to know of a file. Boost's own file_mapping opens by path, without O_CLOEXEC and
// O_NOFOLLOW.
class BorrowedFile {
public:
    BorrowedFile(int fd, ipc::mode_t mode) noexcept : fd_(fd), mode_(mode) {}
    ipc::mapping_handle_t get_mapping_handle() const noexcept {
        return ipc::ipcdetail::mapping_handle_from_file_handle(fd_);
    }
    ipc::mode_t get_mode() const noexcept { return mode_; }

private:
    int fd_;
    ipc::mode_t mode_;
};

// Reads one byte of each page; for kernels that cannot populate. On tmpfs a page that has storage is mapped writable
// by that as well.
void touch_pages(const std::byte* data, std::size_t size) noexcept {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < size; at += page) {
        (void)*static_cast<const volatile std::byte*>(data + at);
    }
}

}  // namespace

void Mapping::take(Mapping& other) noexcept {
    if (other.data_ == nullptr) return;
    new (&store_.region) Region(std::move(other.store_.region));
    other.store_.region.~Region();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    fork_generation_ = other.fork_generation_;
    access_ = other.access_;
    prefaulted_ = other.prefaulted_;
    locked_ = other.locked_;
}

void Mapping::reset() noexcept {
    if (data_ == nullptr) return;
    if (usable()) store_.region.~Region();
    data_ = nullptr;
    size_ = 0;
    prefaulted_ = false;
    locked_ = false;
}

bool Mapping::usable() const noexcept {
    return data_ != nullptr && (access_ == Access::read_only || fork_generation_ == fork_generation());
}

Result<void> Mapping::prefault() noexcept {
    const int advice = access_ == Access::read_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    for (int attempt = 0; attempt < 100; ++attempt) {
        if (::madvise(data_, size_, advice) == 0) {
            prefaulted_ = true;
            return {};
        }
        if (errno == EINTR || errno == EAGAIN) continue;
        if (errno == EFAULT) return fail(Errc::corrupt, "the file was truncated while it was mapped", EFAULT);
        if (errno == EINVAL) {
            touch_pages(data_, size_);
            prefaulted_ = true;
        }
        break;
    }
    return {};
}

Result<Mapping> map(int fd, std::uint64_t size, Access access, const MapOptions& options) noexcept {
    if (size == 0 || size > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max())) {
        return fail(Errc::invalid_argument, "a mapping needs a size of 1 byte or more");
    }
    const auto file = info(fd);
    if (!file) return fail(file.error());
    if (!file->regular) return fail(Errc::invalid_argument, "not a regular file");
    if (file->size < size) return fail(Errc::corrupt, "the file is shorter than its contents need");
    if (const auto tracked = ensure_fork_tracking(); !tracked) return fail(tracked.error());

    Mapping result;
    if (const auto mapped = result.map_unshared(fd, static_cast<std::size_t>(size), access); !mapped) {
        return fail(mapped.error());
    }
    if (options.prefault) {
        if (const auto done = result.prefault(); !done) return fail(done.error());
    }
    // Not mlock(): the sanitizers make that do nothing and report success.
    if (options.lock_memory) result.locked_ = ::syscall(SYS_mlock, result.data_, result.size_) == 0;
    return result;
}

Result<void> Mapping::map_unshared(int fd, std::size_t size, Access access) noexcept {
    const NoFork alone;  // a mapping that a child gets in between would hold the description, and with it its locks
    access_ = access;
    fork_generation_ = fork_generation();
    try {
        const auto mode = access == Access::read_write ? ipc::read_write : ipc::read_only;
        new (&store_.region) Region(BorrowedFile(fd, mode), mode, 0, size);
    } catch (const ipc::interprocess_exception& error) {
        const int sys_errno = error.get_native_error();
        return fail(errc_of(sys_errno), "cannot map the file", sys_errno);
    } catch (...) {
        return fail(Errc::system, "cannot map the file");
    }
    data_ = static_cast<std::byte*>(store_.region.get_address());
    size_ = store_.region.get_size();
    if (access == Access::read_only) return {};
    if (::madvise(data_, size_, MADV_DONTFORK) < 0) return fail_errno("cannot keep a mapping from fork");
    (void)::madvise(data_, size_, MADV_DONTDUMP);  // a matter of speed at a crash only
    return {};
}

}  // namespace rondo::os
