// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/demo/packages.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>

namespace rondo::demo {

namespace {

constexpr std::string_view blanks = " \t\n";

std::string_view trim(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// Calls act(piece) for each piece between separators.
template <class Act>
void for_each_piece(std::string_view text, std::string_view separators, Act act) {
    while (!text.empty()) {
        const std::size_t length = std::min(text.find_first_of(separators), text.size());
        act(text.substr(0, length));
        text.remove_prefix(std::min(length + 1, text.size()));
    }
}

/// "libc6 (>= 2.34), perl:any | perl-base" names libc6, perl and perl-base.
void add_names(std::string_view list, std::vector<std::string_view>& names) {
    for_each_piece(list, ",|", [&](std::string_view piece) {
        const std::string_view name = trim(piece).substr(0, trim(piece).find_first_of(" \t\n:(["));
        if (!name.empty()) names.push_back(name);
    });
}

/// A field with the lines that continue it.
struct Field {
    std::string_view name;
    std::string_view value;
};

/// Takes the first field off `text`; the reason if there is none.
tl::expected<Field, std::string> take_field(std::string_view& text) {
    std::size_t end = text.find('\n');
    const std::string_view first = text.substr(0, end);
    const std::size_t colon = first.find(':');
    if (first.find('\0') != std::string_view::npos) return tl::make_unexpected(std::string("a line contains a NUL"));
    if (blanks.find(first.front()) != std::string_view::npos)
        return tl::make_unexpected(std::string("begins with a continuation line"));
    if (colon == std::string_view::npos) return tl::make_unexpected("a line without a colon: " + std::string(first));
    if (colon == 0 || first.substr(0, colon).find_first_of(blanks) != std::string_view::npos) {
        return tl::make_unexpected("not a field name: " + std::string(first.substr(0, colon)));
    }
    while (end != std::string_view::npos && end + 1 < text.size() &&
           blanks.find(text[end + 1]) != std::string_view::npos) {
        end = text.find('\n', end + 1);
    }
    const Field field{first.substr(0, colon),
                      trim(text.substr(colon + 1, end == std::string_view::npos ? end : end - colon - 1))};
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return field;
}

}  // namespace

Findings& Findings::operator+=(const Findings& other) {
    packages += other.packages;
    bytes += other.bytes;
    fields += other.fields;
    installed_kib += other.installed_kib;
    depends += other.depends;
    resolved += other.resolved;
    return *this;
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file) throw std::system_error(errno, std::generic_category(), path);
    return text;
}

std::vector<std::string_view> split_paragraphs(std::string_view text) {
    std::vector<std::string_view> result;
    while (!text.empty()) {
        const std::size_t length = std::min(text.find("\n\n"), text.size());
        const std::string_view paragraph = text.substr(0, length);
        if (!trim(paragraph).empty()) result.push_back(paragraph.substr(paragraph.find_first_not_of('\n')));
        text.remove_prefix(std::min(length + 2, text.size()));
    }
    return result;
}

tl::expected<Paragraph, std::string> parse_paragraph(std::string_view text) {
    Paragraph result;
    std::vector<std::string_view> seen;
    while (!text.empty()) {
        const auto field = take_field(text);
        if (!field) return tl::make_unexpected(field.error());
        if (std::find(seen.begin(), seen.end(), field->name) != seen.end()) {
            return tl::make_unexpected("the field " + std::string(field->name) + " comes twice");
        }
        seen.push_back(field->name);
        if (field->name == "Package") result.package = field->value;
        if (field->name == "Depends" || field->name == "Pre-Depends") add_names(field->value, result.depends);
        if (field->name == "Installed-Size") {
            const char* const end = field->value.data() + field->value.size();
            if (std::from_chars(field->value.data(), end, result.installed_kib).ptr != end) {
                return tl::make_unexpected("Installed-Size is not a number: " + std::string(field->value));
            }
        }
    }
    if (result.package.empty()) return tl::make_unexpected(std::string("names no package"));
    result.fields = seen.size();
    return result;
}

Findings examine(std::string_view text, const Paragraph& paragraph, const Names& names) {
    const auto known = std::count_if(paragraph.depends.begin(), paragraph.depends.end(),
                                     [&](std::string_view name) { return names.contains(name); });
    return {1,
            text.size(),
            paragraph.fields,
            paragraph.installed_kib,
            paragraph.depends.size(),
            static_cast<std::uint64_t>(known)};
}

}  // namespace rondo::demo
