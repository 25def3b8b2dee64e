// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// to_string() as a program outside rondo's namespaces calls it: every overload is found by its argument.
#include <doctest/doctest.h>
#include <rondo/rondo.hpp>

#include <concepts>
#include <string_view>

namespace somebody {

template <class T>
concept Printable = requires(T value) {
    { to_string(value) } -> std::same_as<const char*>;
};

static_assert(Printable<rondo::Errc>);
static_assert(Printable<rondo::DeadReason>);
static_assert(Printable<rondo::DeadState>);
static_assert(Printable<decltype(rondo::format::Attempt::outcome)>);

std::string_view outcome_of(const rondo::format::Attempt& attempt) { return to_string(attempt.outcome); }

}  // namespace somebody

TEST_CASE("the outcome of a dead letter's attempt can be printed") {
    rondo::format::Attempt attempt{};
    attempt.outcome = rondo::format::Outcome::rejected;
    CHECK(somebody::outcome_of(attempt) == "rejected");
    CHECK(rondo::to_string(attempt.outcome) == somebody::outcome_of(attempt));
}
