// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A T in memory that the test process and the children it forks share: the book in which they write down what they
// did. T's members are lock-free std::atomics, or arrays and structs of them; nothing in it may point outside.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <type_traits>

namespace rondo::test {

template <class T>
class SharedBlock {
    static_assert(std::is_trivially_destructible_v<T>, "a shared block outlives processes that are killed");

public:
    SharedBlock() {
        void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
        block_ = new (memory) T();
    }
    SharedBlock(const SharedBlock&) = delete;
    SharedBlock& operator=(const SharedBlock&) = delete;
    ~SharedBlock() { munmap(static_cast<void*>(block_), sizeof(T)); }

    T& operator*() const { return *block_; }
    T* operator->() const { return block_; }

private:
    T* block_;
};

}  // namespace rondo::test
