// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Reads the tables of docs/format.md and compares them with what a test knows from the compiler.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/paths.hpp"

namespace rondo::test {

struct DocumentField {
    std::string name;
    std::size_t offset, size;
    bool operator==(const DocumentField&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const DocumentField& f) {
    return out << f.name << " at " << f.offset << ", " << f.size << " bytes";
}

using Row = std::vector<std::string>;  // cells, without blanks and backticks around them

struct Section {
    std::string size;  // of the heading: "### `Superblock`, 360 bytes"
    std::vector<Row> rows;
    std::string code;  // of a block between ```hex and ```
};

inline std::string stripped(const std::string& text) {
    const char* const around = " `";
    const auto first = text.find_first_not_of(around);
    if (first == std::string::npos) return {};
    return text.substr(first, text.find_last_not_of(around) - first + 1);
}

// Headings of the third level, by name, each with its table. Rows of head and rule are left out.
inline std::map<std::string, Section> read_document() {
    std::ifstream file(test::source_directory() + "/docs/format.md");
    REQUIRE(file.good());
    std::map<std::string, Section> out;
    std::string name, line;
    bool in_code = false;
    while (std::getline(file, line)) {
        if (line.starts_with("```")) {
            in_code = line == "```hex";
        } else if (in_code) {
            out[name].code += line + ' ';
        } else if (line.starts_with("#")) {
            const auto comma = line.find(", ");
            name = stripped(line.substr(line.find_first_not_of('#'), comma - line.find_first_not_of('#')));
            out[name].size = comma == std::string::npos ? "" : line.substr(comma + 2);
        } else if (line.starts_with("| ") && line[2] >= '0' && line[2] <= '9') {
            Row row;
            std::istringstream cells(line.substr(1));
            for (std::string cell; std::getline(cells, cell, '|');) row.push_back(stripped(cell));
            out[name].rows.push_back(row);
        }
    }
    return out;
}

inline const Section& section(const std::string& name) {
    static const auto document = read_document();
    const auto found = document.find(name);
    INFO("section: ", name);
    REQUIRE(found != document.end());
    return found->second;
}

inline void check_table(const std::string& name, std::size_t size, const std::vector<DocumentField>& fields) {
    CAPTURE(name);
    const Section& s = section(name);
    CHECK(s.size == std::to_string(size) + " bytes");
    std::size_t end = 0;
    std::vector<DocumentField> documented;
    for (const Row& row : s.rows) {
        REQUIRE(row.size() >= 5);
        const DocumentField field{row[2], std::stoul(row[0]), std::stoul(row[1])};
        CAPTURE(field.name);
        CHECK(field.offset == end);  // no byte is left out
        end = field.offset + field.size;
        CHECK_FALSE(row[3].empty());
        CHECK_FALSE(row[4].empty());
        if (field.name != "(padding)") documented.push_back(field);
    }
    CHECK(end == size);
    REQUIRE(documented.size() == fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i) CHECK(documented[i] == fields[i]);
}

// bits of `field` in the document's table of a packed word must be `mask`.
inline void check_bits(const std::string& name, const std::vector<std::pair<std::string, std::uint64_t>>& fields) {
    CAPTURE(name);
    const Section& s = section(name);
    CHECK(s.size == "64 bits");
    REQUIRE(s.rows.size() == fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Row& row = s.rows[i];
        CAPTURE(row[1]);
        const auto dots = row[0].find("..");
        REQUIRE(dots != std::string::npos);
        const auto low = std::stoul(row[0].substr(0, dots)), high = std::stoul(row[0].substr(dots + 2));
        const std::uint64_t mask = (high == 63 ? 0 : std::uint64_t{1} << (high + 1)) - (std::uint64_t{1} << low);
        CHECK(row[1] == fields[i].first);
        CHECK(mask == fields[i].second);
    }
}

}  // namespace rondo::test
