// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The words for the values of a queue's and a group's options: what ring-ctl takes is what ring-dump shows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "rondo/options.hpp"
#include "tools/common/sizes.hpp"

namespace rondo::tools {

/// A word for a value of an enumeration.
template <class T>
struct Choice {
    std::string_view word;
    T value;
    bool offered = true;  // false: designed, but not in this version
};

inline constexpr Choice<Producers> producer_counts[] = {{"one", Producers::one}, {"many", Producers::many}};
inline constexpr Choice<Durability> durabilities[] = {{"none", Durability::none},
                                                      {"durable", Durability::durable, false}};
inline constexpr Choice<Checksum> checksums[] = {{"none", Checksum::none}, {"xxh3", Checksum::xxh3}};
inline constexpr Choice<Timestamps> timestamp_kinds[] = {
    {"off", Timestamps::off}, {"coarse", Timestamps::coarse}, {"exact", Timestamps::exact}};
inline constexpr Choice<Overflow> overflows[] = {{"block", Overflow::block},
                                                 {"fail", Overflow::fail},
                                                 {"drop_newest", Overflow::drop_newest, false},
                                                 {"drop_oldest", Overflow::drop_oldest, false}};
inline constexpr Choice<GroupMode> group_modes[] = {{"shared", GroupMode::shared}, {"exclusive", GroupMode::exclusive}};
inline constexpr Choice<GroupKind> group_kinds[] = {{"durable", GroupKind::durable},
                                                    {"lossy", GroupKind::lossy, false}};
inline constexpr Choice<Jitter> jitters[] = {{"none", Jitter::none}, {"equal", Jitter::equal}, {"full", Jitter::full}};
inline constexpr Choice<Confirm> confirms[] = {
    {"accepted", Confirm::accepted}, {"durable", Confirm::durable, false}, {"settled", Confirm::settled, false}};

/// The word of a value that may have come from a file: "unknown" when there is none.
template <class T, std::size_t N>
[[nodiscard]] std::string word_of(const Choice<T> (&choices)[N], T value) {
    for (const Choice<T>& choice : choices) {
        if (choice.value == value) return std::string(choice.word);
    }
    return "unknown";
}

/// The words that are offered (or those that are not), with `between` between them.
template <class T, std::size_t N>
[[nodiscard]] std::string words_of(const Choice<T> (&choices)[N], std::string_view between, bool offered = true) {
    std::string words;
    for (const Choice<T>& choice : choices) {
        if (choice.offered != offered) continue;
        if (!words.empty()) words += between;
        words += choice.word;
    }
    return words;
}

template <class T, std::size_t N>
[[nodiscard]] Parsed<T> parse_choice(std::string_view text, const Choice<T> (&choices)[N]) {
    for (const Choice<T>& choice : choices) {
        if (choice.word != text) continue;
        if (choice.offered) return choice.value;
        return refuse(text, "not_supported: this version does not offer it");
    }
    return refuse(text, "expected one of " + words_of(choices, ", "));
}

/// "earliest", "latest", "seq:17", "time:2026-01-02T03:04:05.678Z".
[[nodiscard]] std::string start_text(format::StartKind kind, std::uint64_t value);

}  // namespace rondo::tools
