// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Sizes, durations, numbers and ranges as they stand on a command line. Each function takes the whole text or says
// what is wrong with it: "'64MB': sizes take KiB, MiB, GiB or plain bytes". No signs, no fractions, no blanks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "rondo/types.hpp"

namespace rondo::tools {

template <class T>
using Parsed = tl::expected<T, std::string>;

/// "'64MB': rule": how a parser says what is wrong with the text.
[[nodiscard]] tl::unexpected<std::string> refuse(std::string_view text, std::string_view rule);

/// Decimal digits only.
[[nodiscard]] Parsed<std::uint64_t> parse_count(std::string_view text);

/// "4096", "256KiB", "64MiB", "1GiB"; powers of 1024.
[[nodiscard]] Parsed<std::uint64_t> parse_bytes(std::string_view text);

/// "250us", "10s", "1h30m", "0", "forever". Units: ns us ms s m h; more than one only from large to small.
[[nodiscard]] Parsed<Duration> parse_duration(std::string_view text);

/// "A..B" (both included), "A..", "..B", or a single number.
struct SeqRange {
    Seq first = 0;
    Seq last = ~Seq{0};
    [[nodiscard]] bool contains(Seq seq) const { return first <= seq && seq <= last; }
};
[[nodiscard]] Parsed<SeqRange> parse_seq_range(std::string_view text);

}  // namespace rondo::tools
