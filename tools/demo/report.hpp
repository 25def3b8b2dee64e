// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The end of the demo: what the books say, what the queue says, and whether both are right.
#pragma once

#include <string>

#include "rondo/rondo.hpp"
#include "tools/demo/cast.hpp"

namespace rondo::demo {

/// What the parent knows from a pass of its own over the same file.
struct Expected {
    Findings totals;
    std::size_t packages = 0;
    std::size_t malformed = 0;
    std::size_t crashing = 0;
};

/// Records and dead letters; all must be where they belong. Prints one line per check; true if all hold.
[[nodiscard]] bool books_balance(const Scene& scene, const Expected& expected, Queue& queue);

/// Times, duplicates, redeliveries, and what the survivors saw of the deaths beside them.
void print_numbers(const Scene& scene, const Cast& cast, Queue& queue);

/// The crashing record's dead letter, or any.
[[nodiscard]] Seq dead_letter_to_show(Queue& queue);

/// Runs ring-dump, which lies beside this program, with these arguments; false if it fails.
[[nodiscard]] bool ring_dump(std::initializer_list<std::string> arguments);

}  // namespace rondo::demo
