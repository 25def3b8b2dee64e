// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/file.hpp"
#include "os/memory.hpp"
#include "os/text_file.hpp"
#include "os_seccomp.hpp"
#include "support/child.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using rondo::test::TmpDir;

namespace {

constexpr std::uint64_t mib = 1 << 20;

// What fallocate() below does instead of its work.
struct FallocateHook {
    int calls = 0;
    int answer = 0;             // an errno; 0: the real call
    std::uint64_t above = 0;    // only for pieces larger than this
    int times = 1'000'000'000;  // and only so often
};
FallocateHook hook;

struct NewFile {
    os::UniqueFd dir;
    os::UniqueFd file;

    explicit NewFile(const TmpDir& where, std::string_view name = "file") {
        dir = std::move(os::open_dir(where.str()).value());
        file = std::move(os::create_exclusive(dir.get(), name, 0600).value());
    }
    int fd() const { return file.get(); }
    os::FileInfo info() const { return os::info(fd()).value(); }
};

std::vector<std::byte> read_back(int fd, std::size_t size) {
    std::vector<std::byte> bytes(size, std::byte{0xEE});
    bytes.resize(os::read_all(fd, bytes, 0).value());
    return bytes;
}

}  // namespace

// Stands before the C library's own, for the library under test as well.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t length) {
    ++hook.calls;
    if (hook.answer != 0 && static_cast<std::uint64_t>(length) > hook.above && hook.times-- > 0) {
        errno = hook.answer;
        return -1;
    }
    return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, length));
}

TEST_CASE("an allocated file has storage for each of its bytes and reads as zeros") {
    for (const char* base : {"/dev/shm", "/tmp"}) {
        CAPTURE(base);
        const TmpDir dir(base);
        const NewFile file(dir);
        REQUIRE(os::allocate_fully(file.fd(), 3 * mib + 5));
        CHECK(file.info().size == 3 * mib + 5);
        CHECK(file.info().allocated >= 3 * mib + 5);
        const auto bytes = read_back(file.fd(), 4 * mib);
        REQUIRE(bytes.size() == 3 * mib + 5);
        CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
    }
}

TEST_CASE("allocation keeps content and never shortens a file") {
    const TmpDir dir;
    const NewFile file(dir);
    const std::vector<std::byte> content(10000, std::byte{7});
    REQUIRE(os::write_all(file.fd(), content, 0));
    REQUIRE(os::allocate_fully(file.fd(), 4096));
    CHECK(file.info().size == 10000);
    REQUIRE(os::allocate_fully(file.fd(), 20000));
    CHECK(file.info().size == 20000);
    auto bytes = read_back(file.fd(), 10000);
    CHECK(bytes == content);
    CHECK(os::allocate_fully(file.fd(), 0));
}

TEST_CASE("more than the file system has is no_space without a try, and nothing changed") {
    const TmpDir dir;
    const NewFile file(dir);
    REQUIRE(os::allocate_fully(file.fd(), 4096));
    const auto free = os::free_bytes(file.fd());
    REQUIRE(free);
    // If the library did try, that must not use up the memory of the machine.
    hook = {.answer = ENOSPC};
    for (const std::uint64_t bytes : {*free + 1024 * mib, std::uint64_t{1} << 62, std::uint64_t{1} << 63, UINT64_MAX}) {
        CAPTURE(bytes);
        const auto done = os::allocate_fully(file.fd(), bytes);
        REQUIRE_FALSE(done);
        CHECK(done.error().code == Errc::no_space);
        CHECK(done.error().sys_errno != 0);
        CHECK(file.info().size == 4096);
        CHECK(file.info().allocated == 4096);
    }
    CHECK(hook.calls == 0);
    hook = {};
}

TEST_CASE("free space is never more than the file system or the memory of the machine has") {
    const TmpDir dir;
    const NewFile file(dir);
    struct statvfs status;
    REQUIRE(fstatvfs(file.fd(), &status) == 0);
    const auto free = os::free_bytes(file.fd());
    REQUIRE(free);
    CHECK(*free > 0);
    CHECK(*free <= std::uint64_t{status.f_blocks} * status.f_frsize);
    CHECK(os::available_memory() > 0);
    CHECK(os::available_memory() < UINT64_MAX);
    CHECK_FALSE(os::free_bytes(-1));
}

TEST_CASE("allocation beyond RLIMIT_FSIZE is an error and not the end of the process") {
    const TmpDir dir;
    test::Child child([&] {
        const NewFile file(dir);
        const rlimit limit{mib, mib};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
        const auto done = os::allocate_fully(file.fd(), 2 * mib);
        if (done || done.error().code != Errc::no_space || done.error().sys_errno != EFBIG) return 2;
        if (file.info().size != 0) return 3;
        sigset_t set;
        sigpending(&set);
        if (sigismember(&set, SIGXFSZ) != 0) return 4;
        pthread_sigmask(SIG_BLOCK, nullptr, &set);
        return sigismember(&set, SIGXFSZ) == 0 ? 0 : 5;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
}

TEST_CASE("a SIGXFSZ that the program itself keeps pending stays pending") {
    const TmpDir dir;
    test::Child child([&] {
        const NewFile file(dir);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &set, nullptr);
        raise(SIGXFSZ);
        if (!os::allocate_fully(file.fd(), mib)) return 1;
        sigpending(&set);
        if (sigismember(&set, SIGXFSZ) != 1) return 2;
        pthread_sigmask(SIG_BLOCK, nullptr, &set);
        return sigismember(&set, SIGXFSZ) == 1 ? 0 : 3;
    });
    CHECK(child.wait().exited_with(0));
}

TEST_CASE("without fallocate every byte is written, and what was there is kept") {
    for (const int answer : {EOPNOTSUPP, ENOSYS}) {
        const TmpDir dir;
        const NewFile file(dir);
        const std::vector<std::byte> content(100000, std::byte{9});
        REQUIRE(os::write_all(file.fd(), content, 50000));
        hook = {.answer = answer};
        CHECK(os::allocate_fully(file.fd(), mib + 3));
        CHECK(hook.calls == 1);
        hook = {};
        CHECK(file.info().size == mib + 3);
        CHECK(file.info().allocated >= mib + 3);
        std::vector<std::byte> expected(mib + 3, std::byte{0});
        std::copy(content.begin(), content.end(), expected.begin() + 50000);
        CHECK((read_back(file.fd(), 2 * mib) == expected));
    }
}

TEST_CASE("when the file system fills up half-way the file gets its former size back") {
    const TmpDir dir;
    const NewFile file(dir);
    REQUIRE(os::allocate_fully(file.fd(), 4096));
    // The first call is interrupted, the second allocates half of it, the third fails.
    hook = {.answer = EINTR, .above = 32 * mib, .times = 1};
    test::Child child([&] {
        if (!test::deny_syscall(SYS_fallocate, ENOSPC, 32 * mib)) return test::no_seccomp;  // the piece at that offset
        const auto done = os::allocate_fully(file.fd(), 64 * mib);
        if (done || done.error().code != Errc::no_space || done.error().sys_errno != ENOSPC) return 1;
        return hook.calls == 3 ? 0 : 2;
    });
    hook = {};
    const auto status = child.wait();
    INFO(status.text());
    CHECK((status.exited_with(0) || status.exited_with(test::no_seccomp)));
    CHECK(file.info().size == 4096);
    CHECK(file.info().allocated == 4096);
}

TEST_CASE("an allocation ends where signals interrupt every large piece of it") {
    const TmpDir dir;
    const NewFile file(dir);
    hook = {.answer = EINTR, .above = 2 * mib};
    CHECK(os::allocate_fully(file.fd(), 64 * mib));
    hook = {};
    CHECK(file.info().size == 64 * mib);
    CHECK(file.info().allocated == 64 * mib);
}

TEST_CASE("an allocation that is interrupted for ever is given up") {
    const TmpDir dir;
    const NewFile file(dir);
    hook = {.answer = EINTR};
    const auto done = os::allocate_fully(file.fd(), mib);
    CHECK(hook.calls > 1000);
    hook = {};
    REQUIRE_FALSE(done);
    CHECK(done.error().sys_errno == EINTR);
    CHECK(file.info().size == 0);
}

TEST_CASE("only regular files are allocated") {
    const auto dir = os::open_dir("/dev/shm");
    REQUIRE(dir);
    CHECK(os::allocate_fully(dir->get(), 4096).error().code == Errc::invalid_argument);
    CHECK_FALSE(os::allocate_fully(-1, 4096));
}

TEST_CASE("numbers are found in the kernel's text files, and missing ones are not invented") {
    constexpr std::string_view text = "MemTotal:   24683652 kB\nMemAvailable:\t 17 kB\nbroken: x\n";
    CHECK(os::number_after(text, "MemTotal:", 1) == 24683652);
    CHECK(os::number_after(text, "MemAvailable:", 1) == 17);
    CHECK(os::number_after(text, "Available:", 1) == 1);
    CHECK(os::number_after(text, "broken:", 5) == 5);
    CHECK(os::parse_number("max", 3) == 3);
    CHECK(os::parse_number("99999999999999999999999") == UINT64_MAX);
    CHECK(os::parse_number("") == UINT64_MAX);
    char small[4];
    CHECK(os::read_text("/proc/self/stat", small).size() == 4);
    CHECK(os::read_text("/proc/absent", small).empty());
}
