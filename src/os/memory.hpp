// SPDX-License-Identifier: MIT
//
// How much memory this process may still cause to be allocated.
#pragma once

#include <cstdint>

namespace rondo::os {

// Bytes: the least of the machine's MemAvailable plus free swap and, for each memory cgroup (v2) above this process,
// its limit less its use (reclaimable file cache not counted as use). UINT64_MAX when nothing could be read.
// An estimate of the moment. Any thread; no allocation.
[[nodiscard]] std::uint64_t available_memory() noexcept;

// Free huge pages of that size, in bytes. UINT64_MAX when unknown.
[[nodiscard]] std::uint64_t available_huge_memory(std::uint64_t page_size) noexcept;

}  // namespace rondo::os
