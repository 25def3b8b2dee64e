// SPDX-License-Identifier: MIT
#include "os/lock.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <optional>

#include <unistd.h>

#include "os/file.hpp"
#include "os/mapping.hpp"
#include "support/child.hpp"
#include "support/eventually.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using os::Access;
using os::Lock;
using rondo::test::Child;
using rondo::test::TmpDir;

namespace {

struct LockFile {
    TmpDir tmp;
    os::UniqueFd dir = std::move(os::open_dir(tmp.str()).value());

    LockFile() { REQUIRE(os::allocate_fully(os::create_exclusive(dir.get(), "file", 0600).value().get(), 4096)); }
    os::UniqueFd open(Access access = Access::read_write) const {
        return std::move(os::open_file(dir.get(), "file", access).value());
    }
};

struct Book {
    std::atomic<int> step{0};
};

constexpr std::uint64_t byte = 7;

bool held(const os::UniqueFd& fd, std::uint64_t at = byte) { return os::is_held(fd.get(), at).value(); }
bool try_it(const os::UniqueFd& fd, Lock kind, std::uint64_t at = byte) {
    return os::try_lock(fd.get(), at, kind).value();
}
void unlock(const os::UniqueFd& fd, std::uint64_t at = byte) { REQUIRE(os::unlock(fd.get(), at)); }

}  // namespace

TEST_CASE("two openings of a file exclude each other, also within one process") {
    const LockFile file;
    const auto first = file.open();
    const auto second = file.open();
    CHECK_FALSE(held(second));
    CHECK(try_it(first, Lock::exclusive));
    CHECK(try_it(first, Lock::exclusive));
    CHECK_FALSE(try_it(second, Lock::exclusive));
    CHECK_FALSE(try_it(second, Lock::shared));
    CHECK(held(second));
    CHECK_FALSE(held(first));  // the own lock is not seen
    unlock(first);
    CHECK_FALSE(held(second));
    CHECK(try_it(second, Lock::exclusive));
}

TEST_CASE("bytes are locked one by one, in the file and beyond its end") {
    const LockFile file;
    const auto first = file.open();
    const auto second = file.open();
    const std::uint64_t last = INT64_MAX;
    for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{5000}, last}) {
        CHECK(try_it(first, Lock::exclusive, at));
    }
    for (const std::uint64_t at : {std::uint64_t{1}, std::uint64_t{4999}, std::uint64_t{5001}, last - 1}) {
        CHECK_FALSE(held(second, at));
        CHECK(try_it(second, Lock::exclusive, at));
    }
    for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{5000}, last}) CHECK(held(second, at));
    CHECK(os::try_lock(first.get(), last + 1, Lock::exclusive).error().code == Errc::invalid_argument);
    CHECK(os::is_held(first.get(), last + 1).error().code == Errc::invalid_argument);
}

TEST_CASE("shared holders exclude the exclusive one, and a lock can be converted") {
    const LockFile file;
    const auto first = file.open();
    const auto second = file.open();
    const auto third = file.open();
    CHECK(try_it(first, Lock::shared));
    CHECK(try_it(second, Lock::shared));
    CHECK(held(third));
    CHECK_FALSE(try_it(third, Lock::exclusive));
    CHECK_FALSE(try_it(first, Lock::exclusive));
    CHECK(held(second));  // the failed conversion kept the shared lock
    unlock(second);
    CHECK(try_it(first, Lock::exclusive));
    CHECK_FALSE(try_it(second, Lock::shared));
    CHECK(try_it(first, Lock::shared));
    CHECK(try_it(second, Lock::shared));
}

TEST_CASE("a read-only descriptor probes and takes shared locks, but no exclusive one") {
    const LockFile file;
    const auto writer = file.open();
    const auto reader = file.open(Access::read_only);
    CHECK_FALSE(held(reader));
    CHECK(try_it(writer, Lock::exclusive));
    CHECK(held(reader));
    CHECK(try_it(writer, Lock::shared));
    CHECK(held(reader));
    CHECK(try_it(reader, Lock::shared));
    unlock(writer);
    unlock(reader);
    const auto refused = os::try_lock(reader.get(), byte, Lock::exclusive);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().sys_errno == EBADF);
}

TEST_CASE("the kernel frees the lock of a killed process, and no earlier") {
    const LockFile file;
    const auto probe = file.open(Access::read_only);
    const test::SharedBlock<Book> book;
    Child child([&] {
        const auto own = file.open();
        if (!try_it(own, Lock::exclusive)) return 1;
        book->step = 1;
        for (;;) pause();
    });
    test::eventually([&] { return book->step == 1; });
    CHECK(held(probe));
    child.stop();
    CHECK(held(probe));  // stopped is not dead
    child.kill(SIGKILL);
    CHECK(child.wait().killed_by(SIGKILL));
    CHECK_FALSE(held(probe));
}

TEST_CASE("closing another descriptor of the file frees nothing") {
    const LockFile file;
    const auto probe = file.open();
    const auto owner = file.open();
    CHECK(try_it(owner, Lock::exclusive));
    { const auto other = file.open(); }
    CHECK(held(probe));
    auto copy = owner.duplicate();
    REQUIRE(copy);
    CHECK_FALSE(held(*copy));  // a duplicate is the same owner
    copy->reset();
    CHECK(held(probe));
}

TEST_CASE("a forked child keeps its parent's lock alive until it closes its copy") {
    const LockFile file;
    const auto probe = file.open();
    const test::SharedBlock<Book> book;
    auto owner = file.open();
    CHECK(try_it(owner, Lock::exclusive));
    Child child([&]() -> int {
        test::eventually([&] { return book->step == 1; });
        owner.reset();
        book->step = 2;
        for (;;) pause();
    });
    owner.reset();
    CHECK(held(probe));
    book->step = 1;
    test::eventually([&] { return book->step == 2; });
    CHECK_FALSE(held(probe));
}

TEST_CASE("a child that closes its copy does not free its parent's lock") {
    const LockFile file;
    const auto probe = file.open();
    auto owner = file.open();
    CHECK(try_it(owner, Lock::exclusive));
    Child child([&] {
        owner.reset();
        return 0;
    });
    CHECK(child.wait().exited_with(0));
    CHECK(held(probe));
}

TEST_CASE("a mapping made through the locked descriptor keeps the lock when that is closed") {
    const LockFile file;
    const auto probe = file.open();
    auto owner = file.open();
    CHECK(try_it(owner, Lock::exclusive));
    auto mapping = os::map(owner.get(), 4096, Access::read_write);
    REQUIRE(mapping);
    owner.reset();
    CHECK(held(probe));
    mapping->reset();
    CHECK_FALSE(held(probe));
}

TEST_CASE("unlocking what is not held is no error, and a closed descriptor is one") {
    const LockFile file;
    const auto fd = file.open();
    CHECK(os::unlock(fd.get(), byte));
    CHECK_FALSE(os::unlock(-1, byte));
    CHECK_FALSE(os::try_lock(-1, byte, Lock::shared));
    CHECK_FALSE(os::is_held(-1, byte));
}
