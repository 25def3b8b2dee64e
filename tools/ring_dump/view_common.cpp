// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What several views share.
#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "format/record.hpp"
#include "tools/common/format_text.hpp"
#include "tools/ring_dump/views.hpp"

namespace rondo::dump {

const Ring& main_ring(const Context& context) {
    if (context.source.main() != nullptr) return *context.source.main();
    throw Failure{exit_not_found, fmt::format("{}: this view needs the queue's main ring, which is not here",
                                              tools::printable(context.source.path()))};
}

void note_walk_end(Answer& answer, const Ring& ring, format::WalkEnd end) {
    const auto tell = [&](std::string_view what) {
        answer.notices.push_back(fmt::format("{}: {}", ring.name(), what));
    };
    switch (end) {
        case format::WalkEnd::running:
        case format::WalkEnd::reached:
            return;
        case format::WalkEnd::budget:
            tell("too many records to look at all of them; numbers are lower bounds");
            return;
        case format::WalkEnd::silent:
            tell("damaged: a record is missing before the tail; what follows cannot be found");
            break;
        case format::WalkEnd::lost:
            tell("damaged: nothing readable follows the damage");
            break;
        case format::WalkEnd::truncated:
            tell("the file is cut short; what is missing was not looked at");
            break;
    }
    answer.damage = true;
}

void note_walk(Answer& answer, const Ring& ring, const format::Survey& seen) {
    note_walk_end(answer, ring, seen.end);
    if (!ring.bytes.complete()) {
        answer.notices.push_back(fmt::format("{}: {} of {} bytes are there", ring.name(), ring.bytes.file.size(),
                                             ring.bytes.layout.file_bytes));
        answer.damage = true;
    }
    if (seen.first_damaged) {
        answer.notices.push_back(
            fmt::format("{}: {} damaged places, the first at seq {}", ring.name(), seen.damaged, *seen.first_damaged));
        answer.damage = true;
    }
    std::uint64_t unknown = 0;
    for (const auto& c : seen.counts) unknown += c.unknown;
    if (unknown != 0) {
        answer.notices.push_back(fmt::format("{}: the lease tables are not here; the state of {} messages is unknown",
                                             ring.name(), unknown));
    }
}

std::vector<format::GroupInfo> wanted_groups(const Context& context, const Ring& ring) {
    auto all = ring.bytes.groups();
    if (!context.request.group) return all;
    std::erase_if(all, [&](const auto& g) { return g.name != *context.request.group; });
    if (all.empty()) {
        throw Failure{exit_not_found, fmt::format("{}: no such group: {}", tools::printable(context.source.path()),
                                                  tools::printable(*context.request.group))};
    }
    return all;
}

std::string message_id_text(const std::array<std::uint8_t, 16>& id) { return tools::uuid_text(id); }

MessageParts message_parts(const Ring& ring, const format::RecordInfo& record, std::uint64_t wall_ns,
                           std::uint64_t max_payload) {
    MessageParts parts;
    parts.accepted_ns = format::accepted_wall_ns(ring.super(), record.accepted, wall_ns);
    const bool extended = (record.head.flags & format::flag_extensions) != 0;
    if (!extended && max_payload == 0) {
        parts.readable = true;
        return parts;
    }
    // Extensions are at most a few KiB; the payload as far as it is shown.
    constexpr std::uint64_t extensions_max = std::uint64_t{16} << 10;
    const std::uint64_t wanted = std::min(max_payload, std::uint64_t{record.head.payload_bytes});
    const auto copy =
        format::copy_record(ring.bytes, record, format::header_bytes + (extended ? extensions_max : 0) + wanted);
    const auto split = copy ? format::parts_of(record.head, *copy) : std::nullopt;
    if (!split) return parts;
    parts.readable = true;
    parts.key = format::ExtensionReader::find_text(split->extensions, format::Tag::key);
    if (const auto id = format::ExtensionReader::find(split->extensions, format::Tag::message_id)) {
        std::array<std::uint8_t, 16> bytes{};
        if (id->size() == bytes.size()) {
            std::memcpy(bytes.data(), id->data(), bytes.size());
            parts.message_id = message_id_text(bytes);
        }
    }
    if (const auto exact = format::ExtensionReader::find_number(split->extensions, format::Tag::accepted_ns)) {
        parts.accepted_ns = *exact;
    }
    const auto payload = split->payload.first(std::min<std::size_t>(split->payload.size(), wanted));
    parts.payload.assign(payload.begin(), payload.end());
    return parts;
}

std::string payload_text(std::span<const std::byte> payload, PayloadForm form) {
    switch (form) {
        case PayloadForm::none:
            return {};
        case PayloadForm::text:
            return {reinterpret_cast<const char*>(payload.data()), payload.size()};
        case PayloadForm::hex:
            return tools::hex_text(payload);
        case PayloadForm::base64:
            return tools::base64_text(payload);
    }
    return {};
}

std::uint64_t payload_wanted(const Request& request) {
    if (request.payload == PayloadForm::none) return 0;
    return request.max_payload == 0 ? ~std::uint64_t{0} : request.max_payload;
}

}  // namespace rondo::dump
