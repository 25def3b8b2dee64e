// SPDX-License-Identifier: MIT
#include "os/event.hpp"

#include <cerrno>
#include <cstdint>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/sys_error.hpp"

namespace rondo::os {

Result<Event> Event::create() noexcept {
    const int raw = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (raw < 0) return fail_errno("cannot make an eventfd");
    auto fd = UniqueFd::adopt(raw);
    if (!fd) return fail(fd.error());
    return Event(std::move(*fd));
}

void Event::signal() noexcept {
    const int saved = errno;
    const std::uint64_t one = 1;
    // EAGAIN means that the counter is full: signalled already.
    while (::write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    errno = saved;
}

bool Event::drain() noexcept {
    std::uint64_t count = 0;
    ssize_t got = 0;
    do {
        got = ::read(fd_.get(), &count, sizeof count);
    } while (got < 0 && errno == EINTR);
    return got == static_cast<ssize_t>(sizeof count);
}

SignalBlock::SignalBlock() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former_);
}

SignalBlock::~SignalBlock() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

}  // namespace rondo::os
