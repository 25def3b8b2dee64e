// SPDX-License-Identifier: MIT
//
// What the algorithms need to know of the processor.
#pragma once

#include <cstddef>

namespace rondo::base {

// Bytes of a cache line. Part of the file format, so never std::hardware_destructive_interference_size.
inline constexpr std::size_t line = 64;
// Bytes between words that different processors write: two lines, since the prefetcher fetches lines in pairs.
inline constexpr std::size_t hot_distance = 128;

// One turn of a spinning wait: leaves the core to its sibling for a moment.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

// A hint that the line will be read soon. Any address, even an invalid one, is harmless.
inline void prefetch_read(const void* address) noexcept { __builtin_prefetch(address, 0, 3); }

// A hint that the line will be written soon: brings it exclusive. Any address is harmless.
inline void prefetch_write(const void* address) noexcept {
#if defined(__x86_64__)
    // __builtin_prefetch(p, 1) is a read prefetch in code for plain x86-64. Processors without PREFETCHW in 64-bit
    // mode execute it as a no-op.
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address, 1, 3);
#endif
}

}  // namespace rondo::base
