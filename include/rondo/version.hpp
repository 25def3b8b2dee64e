// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The version of the library. This file is the only place where it is written: CMake reads the three numbers
// below. The version of the file format is another number, it lives with the format.
#pragma once

#include <string_view>

namespace rondo {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

// The version of the headers that the program was compiled with.
inline constexpr std::string_view version_string = "0.1.0";

// The version of the library that the program was linked with. It differs from version_string only if headers and
// library come from two installations. Any thread, never fails.
[[nodiscard]] std::string_view linked_version() noexcept;

}  // namespace rondo
