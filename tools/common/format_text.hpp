// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// How the tools write values for people. Whatever came out of a ring goes through printable() first: it may hold
// control characters that a terminal would obey.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rondo::tools {

/// "850ns", "12us", "3.4ms", "4.2s", "3m10s", "2h05m", "3d04h"; "-4.2s" when negative.
[[nodiscard]] std::string age_text(std::int64_t ns);

/// "512", "4.0KiB", "64.0MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// UTC, to the millisecond: "2026-01-02T03:04:05.678Z". Empty for 0 (unknown).
[[nodiscard]] std::string rfc3339(std::uint64_t wall_ns);

/// Control characters, backslashes and bytes that are no UTF-8 as \n, \t, \\, \x1b ...
[[nodiscard]] std::string printable(std::string_view text);

/// Is this UTF-8 (no overlong forms, no surrogates)?
[[nodiscard]] bool is_utf8(std::string_view text);

/// The text with every byte that is no UTF-8 replaced by U+FFFD: JSON allows nothing else.
[[nodiscard]] std::string valid_utf8(std::string_view text);

[[nodiscard]] std::string hex_text(std::span<const std::byte> bytes);
[[nodiscard]] std::string base64_text(std::span<const std::byte> bytes);
/// 8-4-4-4-12.
[[nodiscard]] std::string uuid_text(const std::array<std::uint8_t, 16>& uuid);

/// Columns that a terminal needs for valid UTF-8, taken as one per character.
[[nodiscard]] std::size_t text_width(std::string_view text);

}  // namespace rondo::tools
