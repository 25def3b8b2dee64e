// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_dump/rows.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "rondo/types.hpp"
#include "tools/common/format_text.hpp"

namespace rondo::dump {

namespace {

using tools::Json;

bool right_aligned(Kind kind) { return kind != Kind::text && kind != Kind::flag; }

std::string time_text(std::uint64_t wall_ns, const Style& style) {
    const bool past = style.wall_ns >= wall_ns;
    const std::uint64_t distance = past ? style.wall_ns - wall_ns : wall_ns - style.wall_ns;
    const std::string age = tools::age_text(static_cast<std::int64_t>(distance));
    return fmt::format("{} ({})", tools::rfc3339(wall_ns), past ? age + " ago" : "in " + age);
}

std::string cell_text(const Cell& cell, Kind kind, const Style& style) {
    if (!cell.known()) return "-";
    switch (kind) {
        case Kind::text:
            return tools::printable(cell.text());
        case Kind::count:
            return fmt::format("{}", cell.number());
        case Kind::size:
            return style.raw ? fmt::format("{}", cell.number()) : tools::bytes_text(cell.number());
        case Kind::age:
            if (style.raw) return fmt::format("{}", cell.signed_number());
            return cell.signed_number() == forever.count() ? "forever" : tools::age_text(cell.signed_number());
        case Kind::time:
            return style.raw ? fmt::format("{}", cell.number()) : time_text(cell.number(), style);
        case Kind::ratio:
            return fmt::format("{:.1f}", cell.real());
        case Kind::factor:
            return fmt::format("{}", cell.real());
        case Kind::flag:
            return cell.flag() ? "yes" : "no";
        case Kind::bound:
            return fmt::format("{}", cell.signed_number());
        case Kind::json:
            break;
    }
    return {};
}

Json cell_json(const Cell& cell, Kind kind) {
    if (!cell.known()) return nullptr;
    switch (kind) {
        case Kind::text:
            return tools::json_text(cell.text());
        case Kind::count:
        case Kind::size:
            return cell.number();
        case Kind::age:
            return tools::json_seconds(cell.signed_number());
        case Kind::time:
            return tools::json_time(cell.number());
        case Kind::ratio:
        case Kind::factor:
            return cell.real();
        case Kind::flag:
            return cell.flag();
        case Kind::bound:
            return cell.signed_number();
        case Kind::json:
            return Json::parse(cell.text());
    }
    return nullptr;
}

std::string csv_value(const Json& value) {
    if (value.is_null()) return "";
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return tools::json_line(value);
    std::string list;
    for (const Json& element : value) list += (list.empty() ? "" : "; ") + csv_value(element);
    return list;
}

}  // namespace

Column column(std::string header, Kind kind) {
    std::string key = tools::json_key(header);
    if (kind == Kind::age) key += "_seconds";
    if (kind == Kind::size && key != "bytes" && !key.ends_with("_bytes")) key += "_bytes";
    return {std::move(header), std::move(key), kind};
}

Column hidden(std::string key, Kind kind) { return {{}, std::move(key), kind}; }

Cell Cell::json(const tools::Json& value) { return {tools::json_line(value)}; }

Cell age_cell(std::optional<std::uint64_t> ns) {
    if (!ns) return {};
    return {static_cast<std::int64_t>(std::min<std::uint64_t>(*ns, INT64_MAX))};
}

Cell text_or_unknown(std::string text) {
    if (text.empty()) return {};
    return {std::move(text)};
}

std::string table_text(const Rows& rows, const Style& style) {
    if (rows.rows.empty()) return rows.when_empty.empty() ? std::string() : rows.when_empty + "\n";
    std::vector<std::size_t> shown;
    for (std::size_t i = 0; i < rows.columns.size(); ++i) {
        if (!rows.columns[i].header.empty()) shown.push_back(i);
    }
    std::vector<std::vector<std::string>> lines;
    if (style.headers) {
        auto& line = lines.emplace_back();
        for (const std::size_t i : shown) line.push_back(tools::printable(rows.columns[i].header));
    }
    for (const Row& row : rows.rows) {
        auto& line = lines.emplace_back();
        for (const std::size_t i : shown) line.push_back(cell_text(row.at(i), rows.columns[i].kind, style));
    }
    std::vector<std::size_t> widths(shown.size(), 0);
    for (const auto& line : lines) {
        for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], tools::text_width(line[c]));
    }
    std::string out;
    for (const auto& line : lines) {
        std::string text;
        for (std::size_t c = 0; c < line.size(); ++c) {
            const std::string blanks(widths[c] - tools::text_width(line[c]), ' ');
            if (c != 0) text += "  ";
            text += right_aligned(rows.columns[shown[c]].kind) ? blanks + line[c] : line[c] + blanks;
        }
        text.erase(text.find_last_not_of(' ') + 1);
        out += text + '\n';
    }
    return out;
}

std::string csv_text(const Rows& rows, const Style& style) {
    std::string out;
    const auto append = [&](std::size_t i, std::string_view field) {
        if (i != 0) out += ',';
        out += tools::csv_field(field);
    };
    if (style.headers) {
        for (std::size_t i = 0; i < rows.columns.size(); ++i) append(i, rows.columns[i].key);
        out += "\n";
    }
    for (const Row& row : rows.rows) {
        for (std::size_t i = 0; i < rows.columns.size(); ++i) {
            append(i, csv_value(cell_json(row.at(i), rows.columns[i].kind)));
        }
        out += "\n";
    }
    return out;
}

tools::Json row_json(const Rows& rows, const Row& row) {
    Json object = Json::object();
    for (std::size_t i = 0; i < rows.columns.size(); ++i) {
        object[rows.columns[i].key] = cell_json(row.at(i), rows.columns[i].kind);
    }
    return object;
}

std::string fields_text(const Fields& fields, const Style& style) {
    std::string text;
    for (const Field& field : fields) {
        if (!field.cell.known() || field.column.kind == Kind::json) continue;
        text += fmt::format("{:<24}{}\n", field.column.header, cell_text(field.cell, field.column.kind, style));
    }
    return text;
}

tools::Json fields_json(const Fields& fields) {
    Json object = Json::object();
    for (const Field& field : fields) object[field.column.key] = cell_json(field.cell, field.column.kind);
    return object;
}

}  // namespace rondo::dump
