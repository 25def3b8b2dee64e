// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/common/format_text.hpp"

#include <chrono>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace rondo::tools {

namespace {

/// Length of the UTF-8 sequence at the front of `text` (not empty), 0 if there is none.
std::size_t sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xc2 ? 0
                               : first < 0xe0 ? 2
                               : first < 0xf0 ? 3
                               : first < 0xf5 ? 4
                                              : 0;
    if (length == 0 || length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
    }
    const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
    const bool surrogate = first == 0xed && byte(1) >= 0xa0;
    const bool beyond = first == 0xf4 && byte(1) >= 0x90;
    return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

std::string age_text(std::int64_t ns) {
    // The magnitude of the most negative number does not fit its own type.
    const auto magnitude = ns < 0 ? ~static_cast<std::uint64_t>(ns) + 1 : static_cast<std::uint64_t>(ns);
    const char* sign = ns < 0 ? "-" : "";
    const auto exact = static_cast<double>(magnitude);
    if (magnitude < 1'000) return fmt::format("{}{}ns", sign, magnitude);
    if (magnitude < 1'000'000) return fmt::format("{}{}us", sign, magnitude / 1'000);
    if (magnitude < 1'000'000'000) return fmt::format("{}{:.1f}ms", sign, exact / 1e6);
    const std::uint64_t s = magnitude / 1'000'000'000;
    if (s < 60) return fmt::format("{}{:.1f}s", sign, exact / 1e9);
    if (s < 3'600) return fmt::format("{}{}m{:02}s", sign, s / 60, s % 60);
    if (s < 86'400) return fmt::format("{}{}h{:02}m", sign, s / 3'600, s / 60 % 60);
    return fmt::format("{}{}d{:02}h", sign, s / 86'400, s / 3'600 % 24);
}

std::string bytes_text(std::uint64_t bytes) {
    if (bytes < 1024) return fmt::format("{}", bytes);
    double value = static_cast<double>(bytes) / 1024;
    const char* unit = "KiB";
    for (const char* next : {"MiB", "GiB", "TiB"}) {
        if (value < 1024) break;
        value /= 1024;
        unit = next;
    }
    return fmt::format("{:.1f}{}", value, unit);
}

std::string rfc3339(std::uint64_t wall_ns) {
    if (wall_ns == 0) return {};
    const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), wall_ns / 1'000'000 % 1000);
}

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        const auto first = static_cast<unsigned char>(text.front());
        // U+0080 .. U+009F are control characters too: some terminals obey them.
        const bool control = first < 0x20 || first == 0x7f ||
                             (length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
        if (length == 0 || control) {
            const std::size_t bytes = length == 0 ? 1 : length;
            if (first == '\n') {
                out += "\\n";
            } else if (first == '\t') {
                out += "\\t";
            } else {
                for (std::size_t i = 0; i < bytes; ++i) {
                    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
                }
            }
            text.remove_prefix(bytes);
            continue;
        }
        if (first == '\\') {
            out += "\\\\";
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length);
    }
    return out;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string valid_utf8(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        out += length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return out;
}

std::string hex_text(std::span<const std::byte> bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    out.reserve(bytes.size() * 2);
    for (const std::byte b : bytes) {
        out += digits[std::to_integer<unsigned>(b) >> 4];
        out += digits[std::to_integer<unsigned>(b) & 15U];
    }
    return out;
}

std::string base64_text(std::span<const std::byte> bytes) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const auto octet = [&](std::size_t n) {
            return i + n < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i + n]) : 0U;
        };
        const std::uint32_t group = octet(0) << 16 | octet(1) << 8 | octet(2);
        out += digits[group >> 18];
        out += digits[group >> 12 & 63U];
        out += i + 1 < bytes.size() ? digits[group >> 6 & 63U] : '=';
        out += i + 2 < bytes.size() ? digits[group & 63U] : '=';
    }
    return out;
}

std::string uuid_text(const std::array<std::uint8_t, 16>& uuid) {
    const std::string hex = hex_text(std::as_bytes(std::span(uuid)));
    return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4), hex.substr(16, 4),
                       hex.substr(20));
}

std::size_t text_width(std::string_view text) {
    std::size_t width = 0;
    for (const char c : text) {
        if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) ++width;
    }
    return width;
}

}  // namespace rondo::tools
