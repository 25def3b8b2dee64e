// SPDX-License-Identifier: MIT
#include "rondo/result.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>

using rondo::Errc;
using rondo::Error;
using rondo::Result;

namespace {

Result<int> half(int number) {
    if (number % 2 != 0) return rondo::fail(Errc::invalid_argument, "an odd number");
    return number / 2;
}

Result<std::string> half_as_text(int number) {
    const auto result = half(number);
    if (!result) return rondo::fail(result.error());
    return std::to_string(*result);
}

constexpr int errc_count = static_cast<int>(Errc::exhausted) + 1;

}  // namespace

TEST_CASE("every error code has a name of its own") {
    std::set<std::string> names;
    for (int code = 0; code < errc_count; ++code) names.insert(to_string(static_cast<Errc>(code)));
    CHECK(names.size() == errc_count);
    CHECK(names.count("invalid Errc") == 0);
    CHECK(std::strcmp(to_string(static_cast<Errc>(60000)), "invalid Errc") == 0);
    static_assert(errc_count == 32);
    static_assert(to_string(Errc::would_deadlock)[0] == 'w');
}

TEST_CASE("an error is passed on unchanged") {
    const auto result = half_as_text(3);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == Errc::invalid_argument);
    CHECK(result.error().sys_errno == 0);
    CHECK(std::strcmp(result.error().what, "an odd number") == 0);
    CHECK(half_as_text(8) == std::string("4"));
}

TEST_CASE("the text of an error is never null") {
    const Result<void> result = rondo::fail(Errc::system, nullptr, 5);
    CHECK(result.error().what != nullptr);
    CHECK(result.error().sys_errno == 5);
}
