// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Randomness of the tests: all of it comes from one seed, which main.cpp prints and RONDO_SEED sets, so that a failing
// run can be repeated. rng(stream) gives independent generators; threads and children each take a stream of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::test {

// The seed of this run. A child process has its parent's.
std::uint64_t seed();

// SplitMix64 (Steele, Lea, Flood 2014). Small, good enough for choosing cases, and the same on every platform.
class Rng {
public:
    using result_type = std::uint64_t;

    explicit constexpr Rng(std::uint64_t state) : state_(state) {}

    static constexpr std::uint64_t min() { return 0; }
    static constexpr std::uint64_t max() { return UINT64_MAX; }

    constexpr std::uint64_t operator()() {
        state_ += 0x9E3779B97F4A7C15U;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31U);
    }

    // 0 <= result < bound; bound must not be 0. The bias is below bound / 2^64.
    constexpr std::uint64_t below(std::uint64_t bound) { return (*this)() % bound; }

    // first <= result <= last.
    constexpr std::uint64_t between(std::uint64_t first, std::uint64_t last) {
        return last - first == UINT64_MAX ? (*this)() : first + below(last - first + 1);
    }

    // True in one of n calls on average.
    constexpr bool one_in(std::uint64_t n) { return below(n) == 0; }

    void fill(std::span<std::byte> bytes) {
        for (std::byte& byte : bytes) byte = static_cast<std::byte>((*this)() >> 56U);
    }

private:
    std::uint64_t state_;
};

inline Rng rng(std::uint64_t stream = 0) {
    Rng mixer(seed() ^ (stream * 0xD1B54A32D192ED03U));
    return Rng(mixer());
}

// Marks the whole test program as skipped (exit code 77) if nothing fails: for a machine that lacks what it needs.
// The reason must be a string literal.
void skip(const char* reason);
const char* skip_reason();

}  // namespace rondo::test
