// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// records: what lies in the ring, record by record, and what it is to each group.
#include <fmt/format.h>

#include <algorithm>

#include "ring/record_io.hpp"
#include "tools/ring_dump/views.hpp"

namespace rondo::dump {

namespace {

using format::MessageState;
using format::RecordInfo;
using format::RecordState;

std::string_view storage_word(RecordState state) {
    switch (state) {
        case RecordState::message:
            return "accepted";
        case RecordState::pad:
            return "pad";
        case RecordState::void_claim:
            return "aborted";
        case RecordState::open_claim:
            return "reserved";
        case RecordState::damaged:
            return "damaged";
    }
    return "unknown";
}

/// ok, bad, or nothing where no checksum is kept.
std::string checksum_word(const Ring& ring, const RecordInfo& record) {
    const bool message = record.state == RecordState::message;
    if (!message && record.state != RecordState::pad && record.state != RecordState::void_claim) return {};
    if (message && ring.super().checksum == format::Checksum::none) return {};
    const auto ok = checksum_matches(ring, record);
    if (!ok) return {};
    return *ok ? "ok" : "bad";
}

std::string_view state_word(const format::MessageStatus& status) {
    switch (status.state) {
        case MessageState::not_for_group:
            return "";
        case MessageState::ready:
            return "ready";
        case MessageState::scheduled:
            return "scheduled";
        case MessageState::in_flight:
            return "in_flight";
        case MessageState::dead_pending:
            return "dead_pending";
        case MessageState::unknown:
            return "";
        case MessageState::settled:
            break;
    }
    switch (status.outcome) {
        case format::Outcome::acked:
            return "acked";
        case format::Outcome::dead_lettered:
            return "dead_lettered";
        case format::Outcome::skipped:
            return "skipped";
        case format::Outcome::redriven:
            return "redriven";
        case format::Outcome::discarded:
            return "discarded";
        default:
            return "settled";
    }
}

}  // namespace

std::optional<bool> checksum_matches(const Ring& ring, const RecordInfo& record) {
    ring::RingView view;
    view.salt = ring.super().salt;
    std::span<const std::byte> body;
    std::optional<std::vector<std::byte>> copy;
    if (record.state == RecordState::message) {
        copy = format::copy_record(ring.bytes, record);
        if (!copy) return std::nullopt;
        const auto parts = format::parts_of(record.head, *copy);
        if (!parts) return false;
        body = std::span(*copy).subspan(format::header_bytes, parts->extensions.size() + parts->payload.size());
    }
    return ring::checksum_of(view, record.position, format::pack_head(record.head), {record.accepted, record.producer},
                             record.epoch, body) == record.checksum;
}

Answer records(const Context& context) {
    Answer answer;
    const auto rings = context.source.rings();
    const Ring& ring = *rings.front();
    const Request& request = context.request;
    const auto now = context.source.now(ring);
    const auto hot = ring.bytes.hot();
    answer.rows.columns = {column("SEQ", Kind::count),       column("STORAGE"), column("CRC"),
                           column("BYTES", Kind::size),      column("KEY"),     column("MESSAGE-ID"),
                           column("ACCEPTED-AT", Kind::time)};
    answer.rows.when_empty = "no records";
    const auto groups = wanted_groups(context, ring);
    std::vector<const format::LeaseBytes*> tables;
    for (const auto& g : groups) {
        tables.push_back(format::table_of(context.source.tables(), ring.bytes, g));
        answer.rows.columns.push_back({g.name + "-STATE", g.name + "_state", Kind::text});
    }
    answer.rows.columns.push_back(hidden("slots", Kind::count));
    answer.rows.columns.push_back(hidden("epoch", Kind::count));
    if (request.payload != PayloadForm::none) answer.rows.columns.push_back(column("PAYLOAD"));
    if (!hot) {
        note_walk_end(answer, ring, format::WalkEnd::truncated);
        return answer;
    }

    std::uint64_t left_off = 0;
    const Seq floor = format::RingBytes::floor_of(hot->limit, ring.bytes.slots());
    const auto end = format::walk_records(ring.bytes, floor, hot->tail, [&](const RecordInfo& record) {
        if (record.state == RecordState::damaged) answer.damage = true;
        if (request.seq && record.position > request.seq->last) return false;
        if (request.seq && !request.seq->contains(record.position)) return true;
        const bool message = record.state == RecordState::message;
        MessageParts parts;
        if (message) parts = message_parts(ring, record, now.wall_ns, payload_wanted(request));
        if (request.key && (!message || parts.key != *request.key)) return true;
        if (answer.rows.rows.size() >= request.row_limit()) {
            ++left_off;
            // Beyond the limit only the count is of interest, and only where it is cheap.
            return !request.key;
        }
        const std::string crc = checksum_word(ring, record);
        if (crc == "bad") answer.damage = true;
        Row row = {record.position,
                   std::string(storage_word(record.state)),
                   text_or_unknown(crc),
                   message ? std::uint64_t{record.head.payload_bytes} : record.slots * format::slot_bytes,
                   text_or_unknown(parts.key),
                   text_or_unknown(parts.message_id),
                   parts.accepted_ns == 0 ? Cell{} : Cell{parts.accepted_ns}};
        const auto only = format::only_group_of(ring.bytes, record);
        for (std::size_t i = 0; i < groups.size(); ++i) {
            const auto status = format::status_of(groups[i], tables[i], record, only, ring.bytes.slots(), now);
            row.push_back(text_or_unknown(std::string(state_word(status))));
        }
        row.emplace_back(record.slots);
        row.push_back(message ? Cell{std::uint64_t{record.epoch}} : Cell{});
        if (request.payload != PayloadForm::none) {
            row.push_back(message ? Cell{payload_text(parts.payload, request.payload)} : Cell{});
        }
        answer.rows.rows.push_back(std::move(row));
        return true;
    });
    if (left_off != 0) {
        answer.notices.push_back(fmt::format("{} more records not shown (--limit 0 shows all)",
                                             request.key ? "some" : std::to_string(left_off)));
    }
    note_walk_end(answer, ring, end);
    return answer;
}

}  // namespace rondo::dump
