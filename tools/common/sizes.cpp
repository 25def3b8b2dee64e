// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/common/sizes.hpp"

#include <array>
#include <charconv>

#include <fmt/format.h>

namespace rondo::tools {

namespace {

/// The number at the front of `text`, which is cut by it. Nothing if there is no digit or it does not fit.
bool take_number(std::string_view& text, std::uint64_t& number) {
    const char* end = text.data() + text.size();
    if (text.empty() || text.front() < '0' || text.front() > '9') return false;
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    return true;
}

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

constexpr std::array<Unit, 4> size_units = {{{"", 1}, {"KiB", 1U << 10}, {"MiB", 1U << 20}, {"GiB", 1U << 30}}};
// Longest names first where one begins another.
constexpr std::array<Unit, 6> time_units = {{{"ns", 1},
                                             {"us", 1'000},
                                             {"ms", 1'000'000},
                                             {"s", 1'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"h", 3'600'000'000'000}}};

}  // namespace

tl::unexpected<std::string> refuse(std::string_view text, std::string_view rule) {
    return tl::unexpected<std::string>(fmt::format("'{}': {}", text, rule));
}

Parsed<std::uint64_t> parse_count(std::string_view text) {
    std::string_view rest = text;
    std::uint64_t number = 0;
    if (!take_number(rest, number) || !rest.empty()) return refuse(text, "not a whole number (or too large)");
    return number;
}

Parsed<std::uint64_t> parse_bytes(std::string_view text) {
    std::string_view rest = text;
    std::uint64_t number = 0;
    if (take_number(rest, number)) {
        for (const auto& unit : size_units) {
            std::uint64_t bytes = 0;
            if (rest != unit.name) continue;
            if (__builtin_mul_overflow(number, unit.factor, &bytes)) return refuse(text, "too large");
            return bytes;
        }
    }
    return refuse(text, "a size is a whole number of bytes, or one with KiB, MiB or GiB (powers of 1024)");
}

Parsed<Duration> parse_duration(std::string_view text) {
    constexpr std::string_view rule = "a duration is a whole number with ns, us, ms, s, m or h, or 'forever'";
    if (text == "forever") return forever;
    if (text == "0") return Duration::zero();
    std::string_view rest = text;
    std::int64_t sum = 0;
    std::uint64_t former = ~std::uint64_t{0};
    while (!rest.empty()) {
        std::uint64_t number = 0;
        if (!take_number(rest, number)) return refuse(text, rule);
        const Unit* found = nullptr;
        for (const auto& unit : time_units) {
            // "m" also begins "ms": the longer one comes first in the table.
            if (found == nullptr && rest.starts_with(unit.name)) found = &unit;
        }
        if (found == nullptr || found->factor >= former) return refuse(text, rule);
        std::int64_t part = 0;
        if (__builtin_mul_overflow(number, found->factor, &part) || __builtin_add_overflow(sum, part, &sum)) {
            return refuse(text, "too long");
        }
        former = found->factor;
        rest.remove_prefix(found->name.size());
    }
    if (former == ~std::uint64_t{0}) return refuse(text, rule);
    return Duration(sum);
}

Parsed<SeqRange> parse_seq_range(std::string_view text) {
    constexpr std::string_view rule = "a range is A..B, A.., ..B or one number";
    SeqRange range;
    std::string_view rest = text;
    const bool has_first = take_number(rest, range.first);
    if (has_first && rest.empty()) {
        range.last = range.first;
        return range;
    }
    if (!rest.starts_with("..")) return refuse(text, rule);
    rest.remove_prefix(2);
    if (rest.empty() ? !has_first : !take_number(rest, range.last) || !rest.empty()) return refuse(text, rule);
    if (range.last < range.first) return refuse(text, "the range ends before it begins");
    return range;
}

}  // namespace rondo::tools
