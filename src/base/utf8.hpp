// SPDX-License-Identifier: MIT
//
// Cutting text to a byte limit without splitting a character.
#pragma once

#include <cstddef>
#include <string_view>

namespace rondo::base {

struct Utf8Cut {
    std::string_view text;  // a prefix of the input
    bool cut;               // something was left off
};

// The longest prefix of at most max_bytes bytes that does not end inside a UTF-8 sequence. Input that is not UTF-8
// (more than three continuation bytes in a row) is cut at max_bytes. Combining characters may be separated.
[[nodiscard]] constexpr Utf8Cut cut_utf8(std::string_view text, std::size_t max_bytes) noexcept {
    if (text.size() <= max_bytes) return {text, false};
    const auto continues = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U; };
    std::size_t end = max_bytes;
    for (int back = 0; back < 3 && end > 0 && continues(end); ++back) --end;
    if (continues(end)) end = max_bytes;
    return {text.substr(0, end), true};
}

}  // namespace rondo::base
