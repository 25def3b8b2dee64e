// SPDX-License-Identifier: MIT
//
// mix64: a bijection of 64-bit words that spreads every input bit over all output bits (the finaliser of splitmix64).
// A record at position p is stamped with mix64(p ^ salt): being a bijection, no other position of that ring has the
// same stamp. mix64(0) is 0.
#pragma once

#include <cstdint>

namespace rondo::base {

[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

// unmix64(mix64(x)) == x. For tests and for tools that show which position a stale stamp belongs to.
[[nodiscard]] constexpr std::uint64_t unmix64(std::uint64_t x) noexcept {
    x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642b2d24d8ec3U;
    x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96de1b173f119089U;
    return x ^ (x >> 30) ^ (x >> 60);
}

static_assert(0xbf58476d1ce4e5b9U * 0x96de1b173f119089U == 1 && 0x94d049bb133111ebU * 0x319642b2d24d8ec3U == 1,
              "the multipliers are inverses modulo 2^64");

}  // namespace rondo::base
