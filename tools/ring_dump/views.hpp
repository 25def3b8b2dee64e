// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The views. Each one walks what it needs and returns rows; main.cpp prints them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/ring_dump/people.hpp"
#include "tools/ring_dump/request.hpp"
#include "tools/ring_dump/rows.hpp"
#include "tools/ring_dump/source.hpp"

namespace rondo::dump {

/// What all views look at.
struct Context {
    const Source& source;
    const Request& request;
    const People& people;
    Style style;
};

struct Section {
    std::string title;  // above the table; may be empty
    Rows rows;
    std::string key;  // JSON key of a section beside "rows"
};

struct Answer {
    std::string preamble;  // tables only
    Fields properties;     // JSON only: the preamble's values
    Rows rows;
    std::vector<Section> more;         // tables, and further keys in JSON
    std::vector<std::string> notices;  // standard error; in JSON "notices"
    std::string text;                  // tables: instead of the rows
    bool damage = false;
};

[[nodiscard]] Answer overview(const Context& context);
[[nodiscard]] Answer groups(const Context& context);
[[nodiscard]] Answer records(const Context& context);
[[nodiscard]] Answer in_flight(const Context& context);
[[nodiscard]] Answer scheduled(const Context& context);
[[nodiscard]] Answer consumers(const Context& context);
[[nodiscard]] Answer producers(const Context& context);
[[nodiscard]] Answer dead_letters(const Context& context);
[[nodiscard]] Answer dead_letter(const Context& context);  // request.id
[[nodiscard]] Answer dead_letter_summary(const Context& context);
[[nodiscard]] Answer verify(const Context& context);

// ---- shared by several views ---------------------------------------------------------------------------------

/// The ring that messages are published to, for views that need it; Failure when PATH is another file alone.
[[nodiscard]] const Ring& main_ring(const Context& context);
/// Tells of a walk that did not see everything, and marks damage.
void note_walk(Answer& answer, const Ring& ring, const format::Survey& seen);
void note_walk_end(Answer& answer, const Ring& ring, format::WalkEnd end);
/// The groups that the request asks for; Failure when it names one that is not there.
[[nodiscard]] std::vector<format::GroupInfo> wanted_groups(const Context& context, const Ring& ring);
/// Rows of the groups view, for a survey of `ring`.
[[nodiscard]] Rows group_rows(const Context& context, const Ring& ring, const format::Survey& seen);

/// The parts of a message that views show.
struct MessageParts {
    std::string key;
    std::string message_id;
    std::uint64_t accepted_ns = 0;   // wall clock, 0 = unknown
    std::vector<std::byte> payload;  // cut to the wanted number of bytes
    bool readable = false;
};
[[nodiscard]] MessageParts message_parts(const Ring& ring, const format::RecordInfo& record, std::uint64_t wall_ns,
                                         std::uint64_t max_payload);
/// The payload in the form asked for.
[[nodiscard]] std::string payload_text(std::span<const std::byte> payload, PayloadForm form);
[[nodiscard]] std::string message_id_text(const std::array<std::uint8_t, 16>& id);
/// Does the record still match its checksum? Nothing when it was overwritten meanwhile.
[[nodiscard]] std::optional<bool> checksum_matches(const Ring& ring, const format::RecordInfo& record);
/// Bytes of payload to copy for the request: 0 when none are shown.
[[nodiscard]] std::uint64_t payload_wanted(const Request& request);

}  // namespace rondo::dump
