// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A view is columns and rows of typed cells; how they look as table, JSON or CSV is decided here, once for all views.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/json.hpp"

namespace rondo::dump {

enum class Output : std::uint8_t { table, json, jsonl, csv };

/// What a column holds, and with it how its key ends: ages in _seconds, sizes in _bytes.
enum class Kind : std::uint8_t {
    text,
    count,
    size,    // bytes
    age,     // a duration in ns, maybe negative
    time,    // wall clock ns; in tables how long ago
    ratio,   // a number with one decimal
    factor,  // a number with those it has
    flag,
    bound,  // a count, or -1: no limit
    json,   // anything nested; in tables nothing, in CSV the elements of a list with "; " between them
};

struct Column {
    std::string header;  // empty: not in tables
    std::string key;
    Kind kind;
};
/// "LEASED-AGE" with the key that follows from it.
[[nodiscard]] Column column(std::string header, Kind kind = Kind::text);
/// A column that tables leave out.
[[nodiscard]] Column hidden(std::string key, Kind kind = Kind::text);

/// One value; default: not known, or does not apply. What it is must fit its column's kind.
class Cell {
public:
    Cell() = default;
    Cell(std::string value) : type_(Type::text), text_(std::move(value)) {}
    Cell(std::uint64_t value) : type_(Type::number), number_(static_cast<std::int64_t>(value)) {}
    Cell(std::int64_t value) : type_(Type::number), number_(value) {}
    Cell(double value) : type_(Type::real), real_(value) {}
    Cell(bool value) : type_(Type::flag), number_(value ? 1 : 0) {}
    Cell(const char*) = delete;  // would be a bool
    /// JSON text, already serialised.
    static Cell json(const tools::Json& value);

    [[nodiscard]] bool known() const { return type_ != Type::none; }
    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] std::uint64_t number() const { return static_cast<std::uint64_t>(number_); }
    [[nodiscard]] std::int64_t signed_number() const { return number_; }
    [[nodiscard]] double real() const { return real_; }
    [[nodiscard]] bool flag() const { return number_ != 0; }

private:
    enum class Type : std::uint8_t { none, text, number, real, flag };
    Type type_ = Type::none;
    std::int64_t number_ = 0;
    double real_ = 0;
    std::string text_;
};
using Row = std::vector<Cell>;

/// A number, or unknown.
template <class T>
[[nodiscard]] Cell number_or_unknown(const std::optional<T>& value) {
    if (!value) return {};
    return Cell(static_cast<std::uint64_t>(*value));
}
/// An age, or unknown.
[[nodiscard]] Cell age_cell(std::optional<std::uint64_t> ns);
/// Text, or unknown when empty.
[[nodiscard]] Cell text_or_unknown(std::string text);

/// A name and its value, for what is shown one below the other.
struct Field {
    Column column;
    Cell cell;
};
using Fields = std::vector<Field>;

struct Rows {
    std::vector<Column> columns;
    std::vector<Row> rows;
    std::string when_empty;  // said in a table without rows
};

struct Style {
    bool headers = true;
    bool raw = false;           // tables: ages and times as ns, sizes as bytes
    std::uint64_t wall_ns = 0;  // now
};

[[nodiscard]] std::string table_text(const Rows& rows, const Style& style);
[[nodiscard]] std::string csv_text(const Rows& rows, const Style& style);
[[nodiscard]] tools::Json row_json(const Rows& rows, const Row& row);
/// A line each, without what is not known or nested.
[[nodiscard]] std::string fields_text(const Fields& fields, const Style& style);
[[nodiscard]] tools::Json fields_json(const Fields& fields);

}  // namespace rondo::dump
