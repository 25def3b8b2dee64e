// SPDX-License-Identifier: MIT
// ctest: HOOKS
#include "os/clock.hpp"

#include <doctest/doctest.h>

#include <ctime>

using namespace rondo;

TEST_CASE("monotonic time does not go back, and the coarse clock is never ahead") {
    std::uint64_t last = 0;
    for (int i = 0; i < 10000; ++i) {
        const auto coarse = os::mono_coarse_ns();
        const auto exact = os::mono_ns();
        REQUIRE(coarse <= exact);
        REQUIRE(exact >= last);
        last = exact;
    }
    CHECK(last - os::mono_coarse_ns() < 1'000'000'000);
}

TEST_CASE("wall time is since 1970") {
    const auto before = static_cast<std::uint64_t>(std::time(nullptr));
    const auto exact = os::wall_ns() / 1'000'000'000;
    CHECK(exact >= before);
    CHECK(exact <= before + 60);
    const auto coarse = os::wall_coarse_ns() / 1'000'000'000;
    CHECK(coarse + 1 >= before);
    CHECK(coarse <= before + 60);
}

#ifdef RONDO_TEST_HOOKS
TEST_CASE("a test can step both clocks, and a step before 1970 is 0") {
    const std::int64_t hour = 3600LL * 1'000'000'000;
    const auto mono = os::mono_ns();
    const auto wall = os::wall_ns();
    os::set_clock_offsets(hour, 2 * hour);
    CHECK(os::mono_ns() >= mono + static_cast<std::uint64_t>(hour));
    CHECK(os::mono_coarse_ns() + 1'000'000'000 >= mono + static_cast<std::uint64_t>(hour));
    CHECK(os::wall_ns() + 1'000'000'000 >= wall + 2 * static_cast<std::uint64_t>(hour));
    CHECK(os::wall_coarse_ns() + 1'000'000'000 >= wall + 2 * static_cast<std::uint64_t>(hour));
    os::set_clock_offsets(0, -hour);
    CHECK(os::wall_ns() < wall);
    os::set_clock_offsets(INT64_MIN, INT64_MIN);
    CHECK(os::mono_ns() == 0);
    CHECK(os::wall_ns() == 0);
    os::set_clock_offsets(INT64_MAX, INT64_MAX);
    CHECK(os::mono_ns() == INT64_MAX);
    os::set_clock_offsets(0, 0);
    CHECK(os::mono_ns() >= mono);
    CHECK(os::mono_ns() < mono + static_cast<std::uint64_t>(hour));
}
#endif
