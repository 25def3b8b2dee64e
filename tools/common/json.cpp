// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/common/json.hpp"

#include "rondo/format.hpp"
#include "rondo/version.hpp"
#include "tools/common/format_text.hpp"

namespace rondo::tools {

Json json_envelope(std::string_view view, std::string_view queue, bool live) {
    Json envelope;
    envelope["rondo"] = Json{{"format", format::version}, {"version", std::string(linked_version())}};
    envelope["view"] = std::string(view);
    envelope["queue"] = json_text(queue);
    envelope["live"] = live;
    envelope["rows"] = Json::array();
    return envelope;
}

Json json_text(std::string_view text) { return valid_utf8(text); }

Json json_time(std::uint64_t wall_ns) { return wall_ns == 0 ? Json(nullptr) : Json(rfc3339(wall_ns)); }

Json json_seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string json_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string json_key(std::string_view column) {
    std::string key;
    for (const char c : column) {
        if (c == '%') {
            key += "_percent";
        } else if (c == '-' || c == ' ') {
            key += '_';
        } else {
            key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        }
    }
    return key;
}

std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"') quoted += '"';
        quoted += c;
    }
    return quoted + '"';
}

}  // namespace rondo::tools
