// SPDX-License-Identifier: MIT
//
// BackoffRng: small random numbers for jitter and sampling (splitmix64). Not for secrets. Same seed, same numbers; the
// seed comes from the caller, so that a test can repeat a run. One thread at a time.
#pragma once

#include <cstdint>

#include "base/mix.hpp"

namespace rondo::base {

class BackoffRng {
public:
    explicit constexpr BackoffRng(std::uint64_t seed) noexcept : state_(seed) {}

    [[nodiscard]] constexpr std::uint64_t next() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15U); }

    // Uniform in [low, high], both included; low when high < low. (The bias of the multiplication is below
    // (high - low) / 2^64.)
    [[nodiscard]] constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
        if (high <= low) return low;
        const std::uint64_t span = high - low + 1;
        if (span == 0) return next();
        __extension__ using Wide = unsigned __int128;
        return low + static_cast<std::uint64_t>((static_cast<Wide>(next()) * span) >> 64);
    }

private:
    std::uint64_t state_;
};

}  // namespace rondo::base
