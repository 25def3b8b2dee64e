// SPDX-License-Identifier: MIT
//
// Arithmetic of sizes and positions. All constexpr, all on 64 bits.
#pragma once

#include <cstdint>
#include <limits>

namespace rondo::base {

[[nodiscard]] constexpr bool is_pow2(std::uint64_t value) noexcept { return value != 0 && (value & (value - 1)) == 0; }

// a + b, at most UINT64_MAX.
[[nodiscard]] constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
    return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

// a - b, at least 0.
[[nodiscard]] constexpr std::uint64_t saturating_sub(std::uint64_t a, std::uint64_t b) noexcept {
    return a > b ? a - b : 0;
}

// a * b, at most UINT64_MAX.
[[nodiscard]] constexpr std::uint64_t saturating_mul(std::uint64_t a, std::uint64_t b) noexcept {
    std::uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

// a / b rounded up; b > 0.
[[nodiscard]] constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept {
    return a / b + static_cast<std::uint64_t>(a % b != 0);
}

// The multiple of `step` at or below value; step > 0.
[[nodiscard]] constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t step) noexcept {
    return value - value % step;
}

// The multiple of `step` at or above value, or the largest multiple that 64 bits hold; step > 0.
[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
    const std::uint64_t down = round_down(value, step);
    return down == value || down > std::numeric_limits<std::uint64_t>::max() - step ? down : down + step;
}

// The power of two at or above value, at least 1; 0 when there is none in 64 bits.
[[nodiscard]] constexpr std::uint64_t next_pow2(std::uint64_t value) noexcept {
    if (value <= 1) return 1;
    const int width = 64 - __builtin_clzll(value - 1);
    return width == 64 ? 0 : std::uint64_t{1} << width;
}

// The exponent of a power of two; value > 0 (else of its highest bit).
[[nodiscard]] constexpr unsigned log2_floor(std::uint64_t value) noexcept {
    return 63U - static_cast<unsigned>(__builtin_clzll(value));
}

}  // namespace rondo::base
