// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The work of the demo: paragraphs of Debian's package database, their fields, and the packages they depend on.
// Pure functions of text; views point into it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <tl/expected.hpp>

namespace rondo::demo {

/// The names of all packages of a file.
using Names = std::unordered_set<std::string_view>;

struct Paragraph {
    std::string_view package;
    std::uint64_t fields = 0;
    std::uint64_t installed_kib = 0;
    std::vector<std::string_view> depends;  // each name once per mention, alternatives and Pre-Depends included
};

/// What a worker finds out about one package; sums up to the totals of a file.
struct Findings {
    std::uint64_t packages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t fields = 0;
    std::uint64_t installed_kib = 0;
    std::uint64_t depends = 0;
    std::uint64_t resolved = 0;  // of depends: the name is a package of the file

    bool operator==(const Findings&) const = default;
    Findings& operator+=(const Findings& other);
};

/// The whole file. Throws std::system_error.
[[nodiscard]] std::string read_file(const std::string& path);

/// Paragraphs are separated by empty lines.
[[nodiscard]] std::vector<std::string_view> split_paragraphs(std::string_view text);

/// Fields are "Name: value"; lines that begin with a blank continue the field before. What is not a paragraph about
/// a package gives the reason.
[[nodiscard]] tl::expected<Paragraph, std::string> parse_paragraph(std::string_view text);

[[nodiscard]] Findings examine(std::string_view text, const Paragraph& paragraph, const Names& names);

}  // namespace rondo::demo
