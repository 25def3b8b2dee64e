// SPDX-License-Identifier: MIT
#include "os/fd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "os/sys_error.hpp"

namespace rondo::os {

namespace {

constexpr int lowest_fd = 3;

}  // namespace

Result<UniqueFd> UniqueFd::adopt(int fd) noexcept {
    UniqueFd owned(fd);
    if (fd < 0) return fail(Errc::invalid_argument, "not a file descriptor", EBADF);
    if (fd < lowest_fd) {
        const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, lowest_fd);
        if (moved < 0) return fail_errno("cannot move a descriptor above the standard streams");
        return UniqueFd(moved);  // `owned` closes the low number
    }
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0) {
        const auto error = fail_errno("cannot read the flags of a descriptor");
        (void)owned.release();  // it was not open: closing it could hit somebody else's
        return error;
    }
    if ((flags & FD_CLOEXEC) == 0 && ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0) {
        return fail_errno("cannot set close-on-exec");
    }
    return owned;
}

Result<UniqueFd> UniqueFd::duplicate() const noexcept {
    const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, lowest_fd);
    if (copy < 0) return fail_errno("cannot duplicate a descriptor");
    return UniqueFd(copy);
}

void UniqueFd::reset() noexcept {
    if (fd_ < 0) return;
    const int saved = errno;
    ::close(std::exchange(fd_, -1));
    errno = saved;
}

}  // namespace rondo::os
