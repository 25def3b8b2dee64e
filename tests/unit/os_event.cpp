// SPDX-License-Identifier: MIT
#include "os/event.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <thread>
#include <type_traits>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

using namespace rondo;

namespace {

bool readable(const os::Event& event) {
    pollfd request{event.fd(), POLLIN, 0};
    return poll(&request, 1, 0) == 1;
}

bool blocked(int signal_number) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    return sigismember(&mask, signal_number) == 1;
}

}  // namespace

TEST_CASE("an event is readable from its signal until it is drained") {
    auto event = os::Event::create();
    REQUIRE(event);
    CHECK_FALSE(readable(*event));
    CHECK_FALSE(event->drain());
    event->signal();
    event->signal();
    CHECK(readable(*event));
    CHECK(readable(*event));
    CHECK(event->drain());
    CHECK_FALSE(readable(*event));
    CHECK_FALSE(event->drain());
    CHECK((fcntl(event->fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a signalled event ends a poll of another thread") {
    auto event = os::Event::create();
    REQUIRE(event);
    std::thread signaller([&] { event->signal(); });
    pollfd request{event->fd(), POLLIN, 0};
    CHECK(poll(&request, 1, 20000) == 1);
    signaller.join();
}

TEST_CASE("signalling keeps errno, and an event moves") {
    auto event = os::Event::create();
    REQUIRE(event);
    errno = EDOM;
    event->signal();
    CHECK(errno == EDOM);
    os::Event moved = std::move(*event);
    CHECK_FALSE(*event);
    CHECK(moved.drain());
}

TEST_CASE("threads made under a signal block take no signals, and their maker does again") {
    CHECK_FALSE(blocked(SIGUSR1));
    bool inside = false;
    std::thread thread;
    {
        const auto block = os::block_all_signals();
        CHECK(blocked(SIGUSR1));
        thread = std::thread([&] { inside = blocked(SIGUSR1) && blocked(SIGTERM) && blocked(SIGALRM); });
    }
    CHECK_FALSE(blocked(SIGUSR1));
    thread.join();
    CHECK(inside);
}
