// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_ctl/parse.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>

#include <fmt/format.h>

namespace rondo::ctl {

namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::string_view digits = "0123456789";

bool take(std::string_view& text, std::string_view wanted) {
    if (!text.starts_with(wanted)) return false;
    text.remove_prefix(wanted.size());
    return true;
}

/// Exactly `count` digits at the front of `text`, which is cut by them.
bool take_digits(std::string_view& text, std::size_t count, int& value) {
    const std::string_view front = text.substr(0, count);
    if (front.size() < count || front.find_first_not_of(digits) != std::string_view::npos) return false;
    std::from_chars(front.data(), front.data() + count, value);
    text.remove_prefix(count);
    return true;
}

/// ".5": a dot and 1 to 9 digits. Without a dot nothing is taken, and that is no error.
bool take_fraction(std::string_view& text, nanoseconds& value) {
    value = nanoseconds(0);
    if (!take(text, ".")) return true;
    const std::size_t length = std::min(text.find_first_not_of(digits), text.size());
    if (length == 0 || length > 9) return false;
    std::string padded(text.substr(0, length));
    padded.resize(9, '0');
    text.remove_prefix(length);
    value = nanoseconds(std::stol(padded));
    return true;
}

/// Z, +01:00, -05:30.
bool take_offset(std::string_view& text, minutes& value) {
    value = minutes(0);
    if (take(text, "Z")) return true;
    const bool west = take(text, "-");
    int hour = 0;
    int minute = 0;
    if (!west && !take(text, "+")) return false;
    if (!take_digits(text, 2, hour) || !take(text, ":") || !take_digits(text, 2, minute)) return false;
    if (hour > 23 || minute > 59) return false;
    value = minutes((west ? -1 : 1) * (hour * 60 + minute));
    return true;
}

/// 2025-01-31T12:00:00.5+01:00, years 1970 to 2261 (64 bits of ns).
bool take_date_and_time(std::string_view& text, nanoseconds& since_1970) {
    std::array<int, 6> field{};  // year .. second
    constexpr std::array<std::string_view, 6> before{"", "-", "-", "T", ":", ":"};
    for (std::size_t i = 0; i < field.size(); ++i) {
        if (!take(text, before[i]) || !take_digits(text, i == 0 ? 4 : 2, field[i])) return false;
    }
    nanoseconds fraction{};
    minutes offset{};
    if (!take_fraction(text, fraction) || !take_offset(text, offset)) return false;
    using namespace std::chrono;
    const year_month_day date{year(field[0]), month(static_cast<unsigned>(field[1])),
                              day(static_cast<unsigned>(field[2]))};
    if (!date.ok() || field[0] < 1970 || field[0] > 2261 || field[3] > 23 || field[4] > 59 || field[5] > 60)
        return false;
    since_1970 =
        sys_days(date).time_since_epoch() + hours(field[3]) + minutes(field[4]) + seconds(field[5]) + fraction - offset;
    return since_1970.count() >= 0;
}

}  // namespace

Parsed<std::uint64_t> parse_bytes_above_0(std::string_view text) {
    auto bytes = parse_bytes(text);
    if (bytes && *bytes == 0) return refuse(text, "leave the option out for the default");
    return bytes;
}

Parsed<std::uint32_t> parse_count32(std::string_view text) {
    const auto count = parse_count(text);
    if (!count) return tl::unexpected<std::string>(count.error());
    if (*count > std::numeric_limits<std::uint32_t>::max()) return refuse(text, "too large");
    return static_cast<std::uint32_t>(*count);
}

Parsed<std::uint64_t> parse_count_above_0(std::string_view text) {
    auto count = parse_count(text);
    if (count && *count == 0) return refuse(text, "counted from 1");
    return count;
}

Parsed<Duration> parse_seconds(std::string_view text) {
    if (text.find_first_not_of("0123456789.") != std::string_view::npos) return parse_duration(text);
    const std::string_view whole = text.substr(0, text.find('.'));
    const auto count = parse_duration(fmt::format("{}s", whole));
    std::string_view rest = text.substr(whole.size());
    nanoseconds fraction{};
    if (!count || !take_fraction(rest, fraction) || !rest.empty() || *count > forever - fraction) {
        return refuse(text, "expected seconds, such as 2 or 0.5, or a duration such as 500ms");
    }
    return *count + fraction;
}

Parsed<std::int32_t> parse_max_deliveries(std::string_view text) {
    if (text == "-1") return -1;
    const auto count = parse_count(text);
    if (!count || *count > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
        return refuse(text, "expected 1 to 1000, or -1 for no limit");
    }
    return static_cast<std::int32_t>(*count);
}

Parsed<double> parse_factor(std::string_view text) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
    if (error != std::errc{} || stop != end) return refuse(text, "expected a number such as 2 or 1.5");
    return value;
}

Parsed<std::uint32_t> parse_octal_mode(std::string_view text) {
    std::uint32_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, 8);
    if (error != std::errc{} || stop != end) return refuse(text, "expected octal digits such as 0640");
    return value;
}

Parsed<std::uint64_t> parse_hex64(std::string_view text) {
    std::string_view rest = text;
    take(rest, "0x");
    std::uint64_t value = 0;
    const char* const end = rest.data() + rest.size();
    const auto [stop, error] = std::from_chars(rest.data(), end, value, 16);
    if (error != std::errc{} || stop != end) return refuse(text, "expected at most 16 hexadecimal digits");
    return value;
}

Parsed<Start> parse_start(std::string_view text) {
    std::string_view rest = text;
    if (rest == "earliest") return Start::earliest();
    if (rest == "latest") return Start::latest();
    if (take(rest, "seq:")) {
        const auto position = parse_count(rest);
        if (!position) return tl::unexpected<std::string>(position.error());
        return Start::seq(*position);
    }
    if (take(rest, "time:")) {
        nanoseconds since_1970{};
        const bool ok = take(rest, "@") ? parse_seconds(rest)
                                              .map([&](Duration d) {
                                                  since_1970 = d;
                                                  rest = {};
                                              })
                                              .has_value()
                                        : take_date_and_time(rest, since_1970);
        if (ok && rest.empty()) return Start::time(static_cast<std::uint64_t>(since_1970.count()));
        return refuse(text, "expected a time such as time:2025-01-31T12:00:00Z or time:@1738324800, from 1970 to 2261");
    }
    return refuse(text, "expected earliest, latest, seq:N or time:T");
}

}  // namespace rondo::ctl
