// SPDX-License-Identifier: MIT
#include "os/lock.hpp"

#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <unistd.h>

#include "os/sys_error.hpp"

namespace rondo::os {

namespace {

constexpr std::uint64_t byte_max = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

// fcntl on one byte, EINTR retried. l_pid stays 0, as OFD locks demand.
int byte_lock(int fd, int command, short type, std::uint64_t byte, short* found = nullptr) noexcept {
    struct flock request {};
    request.l_type = type;
    request.l_whence = SEEK_SET;
    request.l_start = static_cast<off_t>(byte);
    request.l_len = 1;
    int outcome = 0;
    do {
        outcome = ::fcntl(fd, command, &request);
    } while (outcome < 0 && errno == EINTR);
    if (found != nullptr) *found = request.l_type;
    return outcome;
}

constexpr short type_of(Lock kind) noexcept { return static_cast<short>(kind == Lock::exclusive ? F_WRLCK : F_RDLCK); }

}  // namespace

Result<bool> try_lock(int fd, std::uint64_t byte, Lock kind) noexcept {
    if (byte > byte_max) return fail(Errc::invalid_argument, "no such lock byte");
    if (byte_lock(fd, F_OFD_SETLK, type_of(kind), byte) == 0) return true;
    if (errno == EAGAIN || errno == EACCES) return false;
    return fail_errno("cannot take a byte lock");
}

Result<void> unlock(int fd, std::uint64_t byte) noexcept {
    if (byte > byte_max) return fail(Errc::invalid_argument, "no such lock byte");
    if (byte_lock(fd, F_OFD_SETLK, F_UNLCK, byte) < 0) return fail_errno("cannot free a byte lock");
    return {};
}

Result<bool> is_held(int fd, std::uint64_t byte) noexcept {
    if (byte > byte_max) return fail(Errc::invalid_argument, "no such lock byte");
    short found = F_UNLCK;
    // Asking for F_WRLCK finds holders of both kinds. Unlike taking it, that needs no writable descriptor.
    if (byte_lock(fd, F_OFD_GETLK, F_WRLCK, byte, &found) < 0) return fail_errno("cannot probe a byte lock");
    return found != F_UNLCK;
}

}  // namespace rondo::os
