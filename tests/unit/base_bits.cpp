// SPDX-License-Identifier: MIT
#include "base/bits.hpp"

#include <doctest/doctest.h>

#include "base/cpu.hpp"

using namespace rondo::base;

namespace {

constexpr std::uint64_t top = UINT64_MAX;

}  // namespace

TEST_CASE("powers of two are told from other numbers") {
    static_assert(is_pow2(1) && is_pow2(4096) && is_pow2(std::uint64_t{1} << 63));
    static_assert(!is_pow2(0) && !is_pow2(3) && !is_pow2(top));
    static_assert(next_pow2(0) == 1 && next_pow2(1) == 1 && next_pow2(2) == 2 && next_pow2(3) == 4);
    static_assert(next_pow2((std::uint64_t{1} << 62) + 1) == std::uint64_t{1} << 63);
    CHECK(next_pow2((std::uint64_t{1} << 63) + 1) == 0);
    static_assert(log2_floor(1) == 0 && log2_floor(64) == 6 && log2_floor(top) == 63);
}

TEST_CASE("rounding reaches the next multiple and never wraps") {
    static_assert(round_up(0, 64) == 0 && round_up(1, 64) == 64 && round_up(64, 64) == 64 && round_up(65, 64) == 128);
    static_assert(round_up(10, 3) == 12 && round_down(10, 3) == 9);
    CHECK(round_up(top, 64) == top - 63);
    CHECK(round_up(top - 64, 64) == top - 63);
    static_assert(ceil_div(0, 64) == 0 && ceil_div(64, 64) == 1 && ceil_div(65, 64) == 2);
    CHECK(ceil_div(top, 2) == std::uint64_t{1} << 63);
}

TEST_CASE("saturating arithmetic stops at the ends") {
    static_assert(saturating_add(1, 2) == 3 && saturating_add(top, 1) == top && saturating_add(top - 1, 1) == top);
    static_assert(saturating_sub(3, 2) == 1 && saturating_sub(2, 3) == 0);
    static_assert(saturating_mul(3, 4) == 12 && saturating_mul(top, 2) == top && saturating_mul(0, top) == 0);
    CHECK(saturating_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32) == top);
}

TEST_CASE("hints to the processor do nothing to a program, whatever the address") {
    int word = 5;
    prefetch_read(&word);
    prefetch_write(&word);
    prefetch_read(nullptr);
    prefetch_write(nullptr);
    rondo::base::pause();  // pause() of unistd.h would wait for a signal
    CHECK(word == 5);
}
