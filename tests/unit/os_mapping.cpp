// SPDX-License-Identifier: MIT
#include "os/mapping.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/file.hpp"
#include "os_seccomp.hpp"
#include "support/child.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using os::Access;
using os::Mapping;
using rondo::test::TmpDir;

namespace {

constexpr std::size_t size = std::size_t{64} * 4096;

struct RingFile {
    TmpDir tmp;
    os::UniqueFd dir = std::move(os::open_dir(tmp.str()).value());
    os::UniqueFd file = std::move(os::create_exclusive(dir.get(), "ring", 0600).value());

    RingFile() { REQUIRE(os::allocate_fully(file.get(), size)); }
    int fd() const { return file.get(); }
    Mapping map(Access access = Access::read_write, os::MapOptions options = {}) const {
        return os::map(fd(), size, access, options).value();
    }
};

// The VmFlags line of /proc/self/smaps of the mapping that starts at `address`; nullopt when nothing is mapped there.
std::optional<std::string> vm_flags(const void* address) {
    char start[32];
    std::snprintf(start, sizeof start, "%lx-", reinterpret_cast<unsigned long>(address));
    std::ifstream smaps("/proc/self/smaps");
    bool found = false;
    for (std::string line; std::getline(smaps, line);) {
        if (line.rfind(start, 0) == 0) found = true;
        if (found && line.rfind("VmFlags:", 0) == 0) return line + " ";
    }
    return std::nullopt;
}

}  // namespace

TEST_CASE("two mappings of a file show the same bytes, also after the descriptor is closed") {
    RingFile ring;
    const Mapping writer = ring.map();
    const Mapping reader = ring.map(Access::read_only);
    ring.file.reset();
    CHECK(writer.size() == size);
    CHECK(writer.bytes().size() == size);
    CHECK(writer.access() == Access::read_write);
    CHECK(reader.access() == Access::read_only);
    writer.data()[size - 1] = std::byte{42};
    CHECK(reader.data()[size - 1] == std::byte{42});
}

TEST_CASE("a file that is shorter than it must be is not mapped") {
    const RingFile ring;
    REQUIRE(ftruncate(ring.fd(), static_cast<off_t>(size - 1)) == 0);
    const auto mapped = os::map(ring.fd(), size, Access::read_only);
    REQUIRE_FALSE(mapped);
    CHECK(mapped.error().code == Errc::corrupt);
    CHECK(os::map(ring.fd(), size - 1, Access::read_only));
    REQUIRE(ftruncate(ring.fd(), 0) == 0);
    CHECK(os::map(ring.fd(), 1, Access::read_only).error().code == Errc::corrupt);
}

TEST_CASE("a bad request for a mapping is an error") {
    const RingFile ring;
    CHECK(os::map(ring.fd(), 0, Access::read_only).error().code == Errc::invalid_argument);
    CHECK(os::map(ring.fd(), UINT64_MAX, Access::read_only).error().code == Errc::invalid_argument);
    CHECK(os::map(ring.dir.get(), 4096, Access::read_only).error().code == Errc::invalid_argument);
    CHECK_FALSE(os::map(-1, 4096, Access::read_only));
    const auto read_only = os::open_file(ring.dir.get(), "ring", Access::read_only);
    REQUIRE(read_only);
    const auto mapped = os::map(read_only->get(), size, Access::read_write);
    REQUIRE_FALSE(mapped);
    CHECK(mapped.error().code == Errc::permission);
    CHECK(mapped.error().sys_errno == EACCES);
}

TEST_CASE("more than the address space is an error and not an exception") {
    const RingFile ring;
    REQUIRE(ftruncate(ring.fd(), INT64_MAX & ~4095LL) == 0);
    const auto mapped = os::map(ring.fd(), std::uint64_t{1} << 62, Access::read_write, {.prefault = false});
    REQUIRE_FALSE(mapped);
    CHECK(mapped.error().code == Errc::no_memory);
}

TEST_CASE("a mapping moves without moving its memory and ends with its last owner") {
    const RingFile ring;
    Mapping first = ring.map();
    std::byte* const where = first.data();
    Mapping second = std::move(first);
    CHECK_FALSE(first);
    CHECK(first.data() == nullptr);
    CHECK(first.size() == 0);
    CHECK(second.data() == where);
    CHECK(vm_flags(where).has_value());
    Mapping third = ring.map();
    third = std::move(second);
    CHECK(third.data() == where);
    third.reset();
    CHECK_FALSE(third);
    CHECK_FALSE(vm_flags(where).has_value());
    third.reset();
}

TEST_CASE("a store into a read-only mapping is a fault") {
    const RingFile ring;
    const Mapping mapping = ring.map(Access::read_only);
    test::Child child([&] {
        *static_cast<volatile std::byte*>(mapping.data()) = std::byte{1};
        return 0;
    });
    CHECK(child.wait().killed_by(SIGSEGV));
}

TEST_CASE("a forked child cannot touch a writable mapping, and a read-only one it can") {
    const RingFile ring;
    const Mapping writable = ring.map();
    const Mapping readable = ring.map(Access::read_only);
    writable.data()[0] = std::byte{3};
    test::Child toucher([&] { return static_cast<int>(*static_cast<volatile std::byte*>(writable.data())); });
    CHECK(toucher.wait().killed_by(SIGSEGV));
    test::Child reader([&] {
        if (writable.usable() || !readable.usable()) return 100;
        return static_cast<int>(*static_cast<volatile std::byte*>(readable.data()));
    });
    CHECK(reader.wait().exited_with(3));
    CHECK(writable.usable());
    CHECK(writable.data()[0] == std::byte{3});
}

TEST_CASE("the child's copy of a mapping unmaps nothing, whatever lies there by then") {
    const RingFile ring;
    Mapping mapping = ring.map();
    test::Child child([&] {
        void* const other = mmap(mapping.data(), size, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (other != mapping.data()) return 1;
        auto* const bytes = static_cast<volatile char*>(other);
        bytes[0] = 5;
        Mapping moved = std::move(mapping);
        if (moved.usable()) return 2;
        moved.reset();
        if (moved) return 3;
        return bytes[0] == 5 ? 0 : 4;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
}

TEST_CASE("a child may map the file anew") {
    const RingFile ring;
    const Mapping mapping = ring.map();
    mapping.data()[0] = std::byte{8};
    test::Child child([&] {
        const auto own = os::map(ring.fd(), size, Access::read_write);
        return own && own->usable() && own->data()[0] == std::byte{8} ? 0 : 1;
    });
    CHECK(child.wait().exited_with(0));
}

TEST_CASE("writable mappings stay out of children and core dumps") {
    const RingFile ring;
    const Mapping writable = ring.map();
    const auto flags = vm_flags(writable.data());
    REQUIRE(flags);
    INFO(*flags);
    CHECK(flags->find(" dc ") != std::string::npos);  // do not copy on fork
    CHECK(flags->find(" dd ") != std::string::npos);  // do not dump
}

TEST_CASE("prefaulting makes all pages resident and changes no byte") {
    const RingFile ring;
    std::string content(size, '\0');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7);
    REQUIRE(os::write_all(ring.fd(), std::as_bytes(std::span(content)), 0));
    for (const Access access : {Access::read_write, Access::read_only}) {
        const Mapping mapping = ring.map(access, {.prefault = true});
        CHECK(mapping.prefaulted());
        CHECK(std::memcmp(mapping.data(), content.data(), size) == 0);
        unsigned char resident[size / 4096];
        REQUIRE(mincore(mapping.data(), size, resident) == 0);
        for (const unsigned char page : resident) REQUIRE((page & 1) == 1);
    }
    CHECK_FALSE(ring.map(Access::read_write, {.prefault = false}).prefaulted());
}

TEST_CASE("a kernel that cannot populate gets the pages touched, and no byte changes") {
    const RingFile ring;
    const std::string content(size, 'x');
    REQUIRE(os::write_all(ring.fd(), std::as_bytes(std::span(content)), 0));
    test::Child child([&] {
        if (!test::deny_syscall(SYS_madvise, EINVAL, 23)) return test::no_seccomp;  // MADV_POPULATE_WRITE
        const auto mapping = os::map(ring.fd(), size, Access::read_write);
        if (!mapping || !mapping->prefaulted()) return 1;
        return std::memcmp(mapping->data(), content.data(), size) == 0 ? 0 : 2;
    });
    const auto status = child.wait();
    CHECK((status.exited_with(0) || status.exited_with(test::no_seccomp)));
}

TEST_CASE("a file truncated between the check and the prefault is an error and not a SIGBUS") {
    const RingFile ring;
    test::Child child([&] {
        // The kernel's answer to populating pages beyond the end.
        if (!test::deny_syscall(SYS_madvise, EFAULT, 23)) return test::no_seccomp;
        const auto mapping = os::map(ring.fd(), size, Access::read_write);
        return !mapping && mapping.error().code == Errc::corrupt ? 0 : 1;
    });
    const auto status = child.wait();
    CHECK((status.exited_with(0) || status.exited_with(test::no_seccomp)));
}

TEST_CASE("locked memory is reported as it is, and a refusal is no error") {
    const RingFile ring;
    const Mapping plain = ring.map();
    CHECK_FALSE(plain.locked());
    const Mapping mapping = ring.map(Access::read_write, {.lock_memory = true});
    const auto flags = vm_flags(mapping.data());
    REQUIRE(flags);
    CHECK(mapping.locked() == (flags->find(" lo ") != std::string::npos));
    test::Child child([&] {
        if (!test::deny_syscall(SYS_mlock, ENOMEM)) return test::no_seccomp;
        const auto refused = os::map(ring.fd(), size, Access::read_write, {.lock_memory = true});
        return refused && !refused->locked() ? 0 : 1;
    });
    const auto status = child.wait();
    CHECK((status.exited_with(0) || status.exited_with(test::no_seccomp)));
}
