// SPDX-License-Identifier: MIT
#include "base/checksum.hpp"

#include <array>
#include <cstring>

// The whole of xxhash in this file: nothing is linked, and nothing clashes with a copy the application has.
#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): the name is xxhash's
#include <xxhash.h>

namespace rondo::base {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint32_t checksum32(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
    return static_cast<std::uint32_t>(hash64(bytes, seed));
}

std::uint32_t checksum32(std::span<const std::byte> first, std::span<const std::byte> second,
                         std::uint64_t seed) noexcept {
    // Joining a small record costs less than setting up the streaming state (about 600 bytes).
    std::array<std::byte, 512> joined;
    const std::size_t size = first.size() + second.size();
    if (size <= joined.size()) {
        if (!first.empty()) std::memcpy(joined.data(), first.data(), first.size());
        if (!second.empty()) std::memcpy(joined.data() + first.size(), second.data(), second.size());
        return checksum32(std::span<const std::byte>(joined.data(), size), seed);
    }
    XXH3_state_t state;
    XXH3_INITSTATE(&state);  // reset reads two fields before it sets them
    XXH3_64bits_reset_withSeed(&state, seed);
    XXH3_64bits_update(&state, first.data(), first.size());
    XXH3_64bits_update(&state, second.data(), second.size());
    return static_cast<std::uint32_t>(XXH3_64bits_digest(&state));
}

}  // namespace rondo::base
