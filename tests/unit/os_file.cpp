// SPDX-License-Identifier: MIT
#include "os/file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using os::Access;
using rondo::test::TmpDir;

namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

void put(int dir, std::string_view name, std::string_view text) {
    const auto file = os::create_exclusive(dir, name, 0600);
    REQUIRE(file);
    REQUIRE(os::write_all(file->get(), as_bytes(text), 0));
}

std::string get(int dir, std::string_view name) {
    const auto file = os::open_file(dir, name, Access::read_only);
    REQUIRE(file);
    std::string text(100, '\0');
    const auto size = os::read_all(file->get(), std::as_writable_bytes(std::span(text)), 0);
    REQUIRE(size);
    text.resize(*size);
    return text;
}

template <class T>
Errc code(const Result<T>& result) {
    REQUIRE_FALSE(result);
    return result.error().code;
}

}  // namespace

TEST_CASE("a directory is opened by path, and a symbolic link to it is refused") {
    const TmpDir dir;
    CHECK(os::make_dir(dir.str() + "/real", 0700));
    REQUIRE(symlink("real", (dir / "link").c_str()) == 0);
    CHECK(os::open_dir(dir.str() + "/real"));
    CHECK(os::open_dir(dir.str() + "/real//"));
    for (const char* tail : {"/link", "/link/", "/link//", "/link/.", "/link/./"}) {
        CAPTURE(tail);
        CHECK(code(os::open_dir(dir.str() + tail)) == Errc::invalid_argument);
    }
}

TEST_CASE("opening a directory tells missing from forbidden from wrong") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    put(opened->get(), "file", "x");
    CHECK(code(os::open_dir(dir.str() + "/file")) == Errc::invalid_argument);
    CHECK(code(os::open_dir(dir.str() + "/absent")) == Errc::not_found);
    CHECK(code(os::open_dir("")) == Errc::invalid_argument);
    CHECK(code(os::open_dir(std::string_view("/tmp\0x", 6))) == Errc::invalid_argument);
    CHECK(code(os::open_dir(std::string(4096, 'a'))) == Errc::invalid_argument);
    CHECK(os::open_dir("/"));
    CHECK(os::open_dir("."));
}

TEST_CASE("an existing directory is not made again, and only an empty one is removed") {
    const TmpDir dir;
    const std::string path = dir.str() + "/queue";
    CHECK(os::make_dir(path, 0700));
    CHECK(code(os::make_dir(path, 0700)) == Errc::exists);
    const auto opened = os::open_dir(path);
    REQUIRE(opened);
    put(opened->get(), "file", "x");
    CHECK(code(os::remove_dir(path)) == Errc::busy);
    CHECK(os::remove(opened->get(), "file"));
    CHECK(code(os::remove(opened->get(), "file")) == Errc::not_found);
    CHECK(os::remove_dir(path));
    CHECK(code(os::remove_dir(path)) == Errc::not_found);
}

TEST_CASE("only regular files are opened") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    put(opened->get(), "file", "x");
    REQUIRE(symlink("file", (dir / "link").c_str()) == 0);
    REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
    REQUIRE(mkdir((dir / "sub").c_str(), 0700) == 0);
    for (const Access access : {Access::read_only, Access::read_write}) {
        CHECK(os::open_file(opened->get(), "file", access));
        // The fifo has no other end: a blocking open would end in the watchdog.
        for (const char* name : {"link", "fifo", "sub"}) {
            CAPTURE(name);
            CHECK(code(os::open_file(opened->get(), name, access)) == Errc::invalid_argument);
        }
        CHECK(code(os::open_file(opened->get(), "absent", access)) == Errc::not_found);
    }
}

TEST_CASE("an opened file is blocking and closes on exec") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    put(opened->get(), "file", "x");
    const auto file = os::open_file(opened->get(), "file", Access::read_write);
    REQUIRE(file);
    CHECK((fcntl(file->get(), F_GETFL) & O_NONBLOCK) == 0);
    CHECK((fcntl(file->get(), F_GETFL) & O_ACCMODE) == O_RDWR);
    CHECK((fcntl(file->get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("names that could leave the directory are refused") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    const std::string longest(255, 'n');
    for (const std::string& name :
         {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("../x"),
          std::string("/etc/passwd"), std::string("a\0b", 3), longest + "n"}) {
        CAPTURE(name);
        CHECK(code(os::create_exclusive(opened->get(), name, 0600)) == Errc::invalid_argument);
        CHECK(code(os::open_file(opened->get(), name, Access::read_only)) == Errc::invalid_argument);
        CHECK(code(os::remove(opened->get(), name)) == Errc::invalid_argument);
        CHECK(code(os::info_at(opened->get(), name)) == Errc::invalid_argument);
        CHECK(code(os::publish(opened->get(), name, "x")) == Errc::invalid_argument);
        CHECK(code(os::publish(opened->get(), "x", name)) == Errc::invalid_argument);
    }
    CHECK(os::create_exclusive(opened->get(), longest, 0600));
}

TEST_CASE("a new file is new, and a taken name is kept") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    put(opened->get(), "file", "first");
    CHECK(code(os::create_exclusive(opened->get(), "file", 0600)) == Errc::exists);
    REQUIRE(symlink("nowhere", (dir / "dangling").c_str()) == 0);
    CHECK(code(os::create_exclusive(opened->get(), "dangling", 0600)) == Errc::exists);
    CHECK(get(opened->get(), "file") == "first");
}

TEST_CASE("publishing never replaces a file, and leaves the temporary one to try another name") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    put(opened->get(), "final", "old");
    put(opened->get(), "temp", "new");
    CHECK(code(os::publish(opened->get(), "temp", "final")) == Errc::exists);
    CHECK(get(opened->get(), "final") == "old");
    CHECK(get(opened->get(), "temp") == "new");
    REQUIRE(os::publish(opened->get(), "temp", "other"));
    CHECK(get(opened->get(), "other") == "new");
    CHECK(*os::list(opened->get()) == std::vector<std::string>{"final", "other"});
    CHECK(os::info_at(opened->get(), "other")->nlink == 1);
    CHECK(code(os::publish(opened->get(), "temp", "third")) == Errc::not_found);
}

TEST_CASE("of many processes that publish one name exactly one succeeds") {
    const TmpDir dir;
    int winners = 0;
    std::vector<std::unique_ptr<test::Child>> children;
    children.reserve(8);
    for (int i = 0; i < 8; ++i) {
        children.push_back(std::make_unique<test::Child>([&dir, i] {
            const auto opened = os::open_dir(dir.str());
            const std::string temp = "temp" + std::to_string(i);
            if (!opened || !os::create_exclusive(opened->get(), temp, 0600)) return 2;
            const auto done = os::publish(opened->get(), temp, "final");
            if (!done && done.error().code != Errc::exists) return 3;
            return done ? 1 : 0;
        }));
    }
    for (auto& child : children) {
        const auto status = child->wait();
        INFO(status.text());
        CHECK((status.exited_with(0) || status.exited_with(1)));
        winners += status.exited_with(1) ? 1 : 0;
    }
    CHECK(winners == 1);
}

TEST_CASE("a listing is sorted, complete, repeatable and bounded") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    CHECK(os::list(opened->get())->empty());
    for (const char* name : {"b", ".hidden", "a"}) put(opened->get(), name, "");
    const std::vector<std::string> expected{".hidden", "a", "b"};
    CHECK(*os::list(opened->get()) == expected);
    CHECK(*os::list(opened->get()) == expected);
    CHECK(*os::list(opened->get(), 3) == expected);
    CHECK(code(os::list(opened->get(), 2)) == Errc::too_large);
    put(opened->get(), "file", "");
    const auto file = os::open_file(opened->get(), "file", Access::read_only);
    CHECK_FALSE(os::list(file->get()));
}

TEST_CASE("the mode is exact under any umask, and setgid is kept with the group") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    const mode_t former = umask(0777);
    const auto file = os::create_exclusive(opened->get(), "file", 0600);
    umask(former);
    REQUIRE(file);
    CHECK(os::info(file->get())->mode == 0);
    CHECK(os::set_owner_mode(file->get(), 0660, getegid()));
    const auto after = os::info(file->get());
    CHECK(after->mode == 0660);
    CHECK(after->gid == getegid());
    CHECK(os::set_owner_mode(opened->get(), 02770, getegid()));
    CHECK(os::info(opened->get())->mode == 02770);
}

TEST_CASE("a mode that the system silently cuts is an error") {
    if (geteuid() != 0) return;  // needs a file whose group the caller does not belong to
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    const auto file = os::create_exclusive(opened->get(), "file", 0600);
    REQUIRE(file);
    REQUIRE(fchown(file->get(), 65534, 0) == 0);
    test::Child child([&] {
        if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return 1;
        const auto done = os::set_owner_mode(file->get(), 02770);
        if (done || done.error().code != Errc::permission) return 2;
        const auto group = os::set_owner_mode(file->get(), 0660, 1);
        return !group && group.error().code == Errc::permission ? 0 : 3;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
}

TEST_CASE("what is told of a file is what it is") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    put(opened->get(), "file", "12345");
    REQUIRE(symlink("file", (dir / "link").c_str()) == 0);
    const auto at = os::info_at(opened->get(), "file");
    REQUIRE(at);
    CHECK(at->size == 5);
    CHECK(at->uid == geteuid());
    CHECK(at->mode == 0600);
    CHECK(at->nlink == 1);
    CHECK(at->regular);
    CHECK_FALSE(at->directory);
    const auto file = os::open_file(opened->get(), "file", Access::read_only);
    REQUIRE(file);
    CHECK(os::info(file->get())->inode == at->inode);
    CHECK(os::info(file->get())->device == at->device);
    CHECK(os::info_at(opened->get(), "link")->symlink);
    CHECK(os::info(opened->get())->directory);
    CHECK(os::remove(opened->get(), "file"));
    CHECK(os::info(file->get())->nlink == 0);
}

TEST_CASE("file systems are told apart") {
    const auto shm = os::open_dir("/dev/shm");
    REQUIRE(shm);
    CHECK(*os::fs_kind(shm->get()) == os::FsKind::tmpfs);
    const auto proc = os::open_dir("/proc");
    REQUIRE(proc);
    CHECK(*os::fs_kind(proc->get()) == os::FsKind::disk);
    CHECK_FALSE(os::fs_kind(-1));
}

TEST_CASE("reading stops at the end of the file, writing fills gaps with zeros") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    const auto file = os::create_exclusive(opened->get(), "file", 0600);
    REQUIRE(file);
    REQUIRE(os::write_all(file->get(), as_bytes("abc"), 10000));
    std::vector<std::byte> buffer(20000, std::byte{1});
    CHECK(*os::read_all(file->get(), buffer, 0) == 10003);
    CHECK(std::count(buffer.begin(), buffer.begin() + 10000, std::byte{0}) == 10000);
    CHECK(buffer[10002] == std::byte{'c'});
    CHECK(*os::read_all(file->get(), buffer, 10003) == 0);
    CHECK(*os::read_all(file->get(), {}, 0) == 0);
    CHECK(code(os::read_all(file->get(), buffer, UINT64_MAX)) == Errc::invalid_argument);
    CHECK(code(os::write_all(file->get(), buffer, INT64_MAX)) == Errc::no_space);
    const auto other = os::open_file(opened->get(), "file", Access::read_only);
    CHECK_FALSE(os::write_all(other->get(), as_bytes("x"), 0));
}

TEST_CASE("writing beyond RLIMIT_FSIZE is an error and not the end of the process") {
    const TmpDir dir;
    test::Child child([&] {
        const auto opened = os::open_dir(dir.str());
        const auto file = os::create_exclusive(opened->get(), "file", 0600);
        const rlimit limit{4096, 4096};
        if (!file || setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
        const std::vector<std::byte> data(8192);
        const auto done = os::write_all(file->get(), data, 0);
        if (done || done.error().code != Errc::no_space || done.error().sys_errno != EFBIG) return 2;
        sigset_t pending;
        sigpending(&pending);
        return sigismember(&pending, SIGXFSZ) == 0 ? 0 : 3;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
}

TEST_CASE("a descriptor tells its path for messages") {
    const TmpDir dir;
    const auto opened = os::open_dir(dir.str());
    REQUIRE(opened);
    CHECK(os::full_path(opened->get()) == dir.str());
    put(opened->get(), "file", "x");
    const auto file = os::open_file(opened->get(), "file", Access::read_only);
    CHECK(os::full_path(file->get()) == dir.str() + "/file");
    CHECK(os::remove(opened->get(), "file"));
    CHECK(os::full_path(file->get()) == dir.str() + "/file (deleted)");
    CHECK(os::full_path(-1).empty());
}

TEST_CASE("everything happens in the opened directory, also when it gets another name") {
    const TmpDir dir;
    REQUIRE(os::make_dir(dir.str() + "/first", 0700));
    const auto opened = os::open_dir(dir.str() + "/first");
    REQUIRE(opened);
    std::filesystem::rename(dir / "first", dir / "moved");
    REQUIRE(os::make_dir(dir.str() + "/first", 0700));
    put(opened->get(), "file", "x");
    CHECK(std::filesystem::exists(dir / "moved/file"));
    CHECK_FALSE(std::filesystem::exists(dir / "first/file"));
}
