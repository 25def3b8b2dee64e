// SPDX-License-Identifier: MIT
#include "os/futex.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rondo::os {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel and the atomic must mean the same four bytes");

FutexWait futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::chrono::nanoseconds timeout) noexcept {
    const auto bounded = std::max<std::int64_t>(timeout.count(), 0);
    timespec relative{};
    relative.tv_sec = static_cast<time_t>(bounded / 1'000'000'000);
    relative.tv_nsec = static_cast<long>(bounded % 1'000'000'000);
    if (::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0) == 0) return FutexWait::woken;
    switch (errno) {
        case ETIMEDOUT:
            return FutexWait::timed_out;
        case EAGAIN:
            return FutexWait::changed;
        default:
            return FutexWait::woken;  // EINTR; the rest cannot come from a mapped word
    }
}

int futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept {
    const long woken = ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
    return woken > 0 ? static_cast<int>(woken) : 0;
}

int futex_wake_all(std::atomic<std::uint32_t>& word) noexcept {
    return futex_wake(word, std::numeric_limits<int>::max());
}

}  // namespace rondo::os
