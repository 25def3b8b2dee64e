// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The JSON that every tool prints: {"rondo":{"format":N,"version":"..."},"view":..,"queue":..,"live":..,"rows":[..]}.
// Keys are column names in lower case with '_', times RFC 3339, ages end in _seconds, sizes in _bytes; what is not
// known is null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace rondo::tools {

using Json = nlohmann::ordered_json;

/// The envelope with empty rows.
[[nodiscard]] Json json_envelope(std::string_view view, std::string_view queue, bool live);

/// A string that may hold anything; bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] Json json_text(std::string_view text);
/// RFC 3339, or null for 0.
[[nodiscard]] Json json_time(std::uint64_t wall_ns);
[[nodiscard]] Json json_seconds(std::int64_t ns);

/// One line, without the line's end.
[[nodiscard]] std::string json_line(const Json& value);

/// "LEASED-AGE" -> "leased_age", "REDELIVERED%" -> "redelivered_percent".
[[nodiscard]] std::string json_key(std::string_view column);

/// A field of a CSV line: quoted where it has to be (RFC 4180).
[[nodiscard]] std::string csv_field(std::string_view text);

}  // namespace rondo::tools
