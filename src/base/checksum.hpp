// SPDX-License-Identifier: MIT
//
// Checksums of records and blocks: XXH3-64 with a seed, the low 32 bits where a field is 32 bits wide. They find
// damage; they do not authenticate. Any thread; no allocation; the result is the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::base {

[[nodiscard]] std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept;

[[nodiscard]] std::uint32_t checksum32(std::span<const std::byte> bytes, std::uint64_t seed) noexcept;

// The checksum of `first` followed by `second`, without joining them: for records whose own checksum field lies
// between, and for those that wrap.
[[nodiscard]] std::uint32_t checksum32(std::span<const std::byte> first, std::span<const std::byte> second,
                                       std::uint64_t seed) noexcept;

}  // namespace rondo::base
