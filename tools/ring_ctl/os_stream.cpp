// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_ctl/os_stream.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace rondo::ctl {

namespace {

volatile sig_atomic_t stops = 0;

extern "C" void on_stop(int /*number*/) { stops = stops + 1; }

// The descriptor may be a non-blocking one that somebody else left behind: wait until it is ready.
void wait_ready(int fd, short events) noexcept {
    pollfd wanted{fd, events, 0};
    poll(&wanted, 1, -1);  // whatever it says, the next read or write knows better
}

}  // namespace

void ignore_broken_pipes() noexcept { signal(SIGPIPE, SIG_IGN); }

void catch_stop_signals() noexcept {
    struct sigaction action = {};
    action.sa_handler = on_stop;  // without SA_RESTART: a wait shall end
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &both, nullptr);
}

int stop_signals() noexcept { return static_cast<int>(stops); }

Transfer read_some(int fd, std::span<std::byte> buffer) noexcept {
    while (true) {
        const ssize_t got = read(fd, buffer.data(), buffer.size());
        if (got >= 0) return {static_cast<std::size_t>(got), 0};
        if (errno == EAGAIN) {
            wait_ready(fd, POLLIN);
        } else if (errno != EINTR) {
            return {0, errno};
        }
    }
}

Transfer write_all(int fd, std::initializer_list<std::span<const std::byte>> parts) noexcept {
    Transfer done;
    for (std::span<const std::byte> part : parts) {
        while (!part.empty()) {
            const ssize_t put = write(fd, part.data(), part.size());
            if (put >= 0) {
                done.bytes += static_cast<std::size_t>(put);
                part = part.subspan(static_cast<std::size_t>(put));
                continue;
            }
            if (errno == EAGAIN) {
                wait_ready(fd, POLLOUT);
            } else if (errno != EINTR) {
                done.sys_errno = errno;
                return done;
            }
            if (stop_signals() > 1) {
                done.sys_errno = EINTR;
                return done;
            }
        }
    }
    return done;
}

Transfer write_all(int fd, std::string_view text) noexcept { return write_all(fd, {std::as_bytes(std::span(text))}); }

}  // namespace rondo::ctl
