// SPDX-License-Identifier: MIT
//
// Small text files of /proc and /sys, read into a buffer of the caller. Used only inside src/os.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace rondo::os {

// The file's text, cut to the buffer; empty with errno set when it cannot be read.
[[nodiscard]] std::string_view read_text(const char* path, std::span<char> buffer) noexcept;

// The decimal number at the front of `text` after blanks; `otherwise` when there is none. Saturates.
[[nodiscard]] std::uint64_t parse_number(std::string_view text,
                                         std::uint64_t otherwise = std::numeric_limits<std::uint64_t>::max()) noexcept;

// The number behind `key` at the start of a line ("MemAvailable:", "inactive_file "); `otherwise` when absent.
[[nodiscard]] std::uint64_t number_after(std::string_view text, std::string_view key, std::uint64_t otherwise) noexcept;

}  // namespace rondo::os
