// SPDX-License-Identifier: MIT
//
// A write or allocation beyond RLIMIT_FSIZE fails with EFBIG *and* raises SIGXFSZ, whose default is a core dump. While
// a FileSizeSignalGuard lives, the calling thread gets EFBIG alone: the signal is blocked and, when it came, consumed.
// One that was pending before stays pending. Used only inside src/os; must end on the thread that made it.
#pragma once

#include <cerrno>
#include <csignal>
#include <ctime>

#include <pthread.h>

namespace rondo::os {

class FileSizeSignalGuard {
public:
    FileSizeSignalGuard() noexcept {
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
        sigemptyset(&ours_);
        sigaddset(&ours_, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &ours_, &former_);
    }
    ~FileSizeSignalGuard() {
        const int saved = errno;
        const timespec at_once{0, 0};
        if (!was_pending_) {
            while (sigtimedwait(&ours_, nullptr, &at_once) < 0 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &former_, nullptr);
        errno = saved;
    }
    FileSizeSignalGuard(const FileSizeSignalGuard&) = delete;
    FileSizeSignalGuard& operator=(const FileSizeSignalGuard&) = delete;

private:
    sigset_t ours_;
    sigset_t former_;
    bool was_pending_ = false;
};

}  // namespace rondo::os
