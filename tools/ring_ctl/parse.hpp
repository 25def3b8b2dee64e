// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Values on ring-ctl's command line, beyond those of tools/common/sizes.hpp. Each parser takes the whole text or says
// what is wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rondo/options.hpp"
#include "tools/common/sizes.hpp"

namespace rondo::ctl {

using tools::parse_bytes;
using tools::parse_count;
using tools::parse_duration;
using tools::Parsed;
using tools::refuse;

/// A size that is not 0: for options whose 0 would mean "the default".
[[nodiscard]] Parsed<std::uint64_t> parse_bytes_above_0(std::string_view text);
[[nodiscard]] Parsed<std::uint32_t> parse_count32(std::string_view text);
[[nodiscard]] Parsed<std::uint64_t> parse_count_above_0(std::string_view text);
/// A number of seconds, also with a fraction; or a duration.
[[nodiscard]] Parsed<Duration> parse_seconds(std::string_view text);
/// 1 and more, -1 for no limit.
[[nodiscard]] Parsed<std::int32_t> parse_max_deliveries(std::string_view text);
/// A decimal number such as 2 or 1.5.
[[nodiscard]] Parsed<double> parse_factor(std::string_view text);
/// Permission bits in octal: 0600, 640.
[[nodiscard]] Parsed<std::uint32_t> parse_octal_mode(std::string_view text);
/// Hexadecimal digits, with or without 0x.
[[nodiscard]] Parsed<std::uint64_t> parse_hex64(std::string_view text);
/// earliest, latest, seq:N, time:T with T as 2025-01-31T12:00:00[.123](Z|+01:00) or @SECONDS since 1970.
[[nodiscard]] Parsed<Start> parse_start(std::string_view text);

}  // namespace rondo::ctl
