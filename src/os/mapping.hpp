// SPDX-License-Identifier: MIT
//
// Mapping: a whole file, or its front part, in memory (MAP_SHARED).
//
// - Ownership: move-only; the destructor unmaps. The mapping holds the open file description of `fd`: closing the
//   descriptor does not free an OFD lock taken through it while the mapping lives.
// - Fork: a read_write mapping is not inherited (MADV_DONTFORK); touching it in the child is SIGSEGV, and the child's
//   copy of the object does nothing, not even unmap: the range may be in use by something else there. It is kept out
//   of core dumps (MADV_DONTDUMP), since a dump delays the release of a dead process's locks. read_only mappings are
//   plain: inherited and dumped.
// - Threads: the object like any value; the memory as the ring's protocol says.
// - A file that another process truncates later raises SIGBUS: directory permissions are the protection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <boost/interprocess/mapped_region.hpp>

#include <rondo/result.hpp>

#include "os/fd.hpp"

namespace rondo::os {

struct MapOptions {
    bool prefault = true;      // page tables filled now instead of at the first touch; changes no byte
    bool lock_memory = false;  // mlock; needs RLIMIT_MEMLOCK
};

class Mapping {
public:
    Mapping() noexcept {}
    Mapping(Mapping&& other) noexcept { take(other); }
    Mapping& operator=(Mapping&& other) noexcept {
        if (this != &other) {
            reset();
            take(other);
        }
        return *this;
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() { reset(); }

    // Null when empty. Stores into a read_only mapping are SIGSEGV.
    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
    [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
    [[nodiscard]] Access access() const noexcept { return access_; }

    // What was obtained of the options; asking and not getting is no error.
    [[nodiscard]] bool prefaulted() const noexcept { return prefaulted_; }
    [[nodiscard]] bool locked() const noexcept { return locked_; }
    // False in a process that inherited the object of a read_write mapping by fork: data() must not be touched.
    [[nodiscard]] bool usable() const noexcept;

    // Unmaps now.
    void reset() noexcept;

    // size: bytes, above 0. A file shorter than that: corrupt. Memory exhausted: no_memory; hugetlbfs without free
    // pages: no_memory as well.
    friend Result<Mapping> map(int fd, std::uint64_t size, Access access, const MapOptions& options) noexcept;

private:
    using Region = boost::interprocess::mapped_region;

    void take(Mapping& other) noexcept;
    Result<void> map_unshared(int fd, std::size_t size, Access access) noexcept;
    Result<void> prefault() noexcept;

    // A union, so that in a forked child the region's destructor can be left out (Boost has no public release).
    union Store {
        Store() noexcept {}
        ~Store() {}
        Region region;
    } store_;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::uint64_t fork_generation_ = 0;
    Access access_ = Access::read_only;
    bool prefaulted_ = false;
    bool locked_ = false;
};

[[nodiscard]] Result<Mapping> map(int fd, std::uint64_t size, Access access, const MapOptions& options = {}) noexcept;

}  // namespace rondo::os
