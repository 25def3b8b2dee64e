// SPDX-License-Identifier: MIT
#include "os/fd.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include "os/event.hpp"
#include "os/file.hpp"
#include "support/child.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using rondo::os::UniqueFd;

namespace {

bool close_on_exec(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }
bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

}  // namespace

TEST_CASE("no descriptor is a standard stream, also when those are closed") {
    const test::TmpDir dir;
    test::Child child([&] {
        for (int fd = 0; fd < 3; ++fd) close(fd);
        const auto opened = os::open_dir(dir.str());
        if (!opened || opened->get() < 3) return 1;
        const auto file = os::create_exclusive(opened->get(), "file", 0600);
        if (!file || file->get() < 3) return 2;
        const auto again = os::open_file(opened->get(), "file", os::Access::read_only);
        if (!again || again->get() < 3) return 3;
        const auto event = os::Event::create();
        if (!event || event->fd() < 3) return 4;
        const auto copy = again->duplicate();
        if (!copy || copy->get() < 3) return 5;
        for (const int fd : {opened->get(), file->get(), again->get(), event->fd(), copy->get()}) {
            if (!close_on_exec(fd)) return 6;
        }
        if (!os::list(opened->get())) return 7;
        for (int fd = 0; fd < 3; ++fd) {
            if (is_open(fd)) return 8;  // the low number was left open behind the moved descriptor
        }
        return 0;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
}

TEST_CASE("adopting a descriptor adds close-on-exec") {
    const int raw = open("/dev/null", O_RDONLY);
    REQUIRE(raw >= 3);
    REQUIRE_FALSE(close_on_exec(raw));
    const auto fd = UniqueFd::adopt(raw);
    REQUIRE(fd);
    CHECK(fd->get() == raw);
    CHECK(close_on_exec(raw));
}

TEST_CASE("adopting what is not open is an error") {
    CHECK(UniqueFd::adopt(-1).error().code == Errc::invalid_argument);
    const auto high = UniqueFd::adopt(1000000);
    REQUIRE_FALSE(high);
    CHECK(high.error().sys_errno == EBADF);
}

TEST_CASE("a descriptor is closed by its last owner and by none before") {
    auto first = UniqueFd::adopt(open("/dev/null", O_RDONLY));
    REQUIRE(first);
    const int number = first->get();
    UniqueFd second = std::move(*first);
    CHECK_FALSE(*first);
    CHECK(second.get() == number);
    CHECK(is_open(number));
    second = UniqueFd();
    CHECK_FALSE(is_open(number));
}

TEST_CASE("a released descriptor stays open") {
    auto fd = UniqueFd::adopt(open("/dev/null", O_RDONLY));
    REQUIRE(fd);
    const int number = fd->release();
    CHECK_FALSE(*fd);
    CHECK(is_open(number));
    close(number);
}

TEST_CASE("closing keeps errno") {
    auto fd = UniqueFd::adopt(open("/dev/null", O_RDONLY));
    REQUIRE(fd);
    errno = EDOM;
    fd->reset();
    CHECK(errno == EDOM);
}
