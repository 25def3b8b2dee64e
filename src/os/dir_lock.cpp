// SPDX-License-Identifier: MIT
#include "os/dir_lock.hpp"

#include <sys/file.h>

#include <cerrno>

namespace rondo::os {

Result<void> lock_directory(int directory) noexcept {
    for (;;) {
        if (::flock(directory, LOCK_EX) == 0) return {};
        if (errno != EINTR) return fail(Errc::system, "cannot lock the queue's directory", errno);
    }
}

Result<bool> try_lock_directory(int directory) noexcept {
    if (::flock(directory, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    return fail(Errc::system, "cannot lock the queue's directory", errno);
}

}  // namespace rondo::os
