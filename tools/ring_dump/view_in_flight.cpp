// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// inflight: who has which message. scheduled: what waits for its next attempt.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tools/ring_dump/views.hpp"

namespace rondo::dump {

namespace {

using format::GroupInfo;
using format::LeaseBytes;
using format::MessageState;
using format::MessageStatus;
using format::RecordInfo;

struct Found {
    const GroupInfo& group;
    const LeaseBytes* table;
    const RecordInfo& record;
    const MessageStatus& status;
};

/// Calls `each` for every message of the wanted groups in the wanted state, oldest first, until it returns false.
void walk_state(const Context& context, const Ring& ring, MessageState wanted, Answer& answer,
                const std::function<bool(const Found&)>& each) {
    const auto now = context.source.now(ring);
    const auto hot = ring.bytes.hot();  // before the groups' marks
    const auto groups = wanted_groups(context, ring);
    if (!hot) {
        note_walk_end(answer, ring, format::WalkEnd::truncated);
        return;
    }
    const Seq floor = format::RingBytes::floor_of(hot->limit, ring.bytes.slots());
    Seq from = hot->tail;
    for (const auto& g : groups) from = std::min(from, g.cursor);
    std::vector<const LeaseBytes*> tables;
    tables.reserve(groups.size());
    for (const auto& g : groups) tables.push_back(format::table_of(context.source.tables(), ring.bytes, g));
    std::uint64_t unknown = 0;
    const auto end = format::walk_records(ring.bytes, std::max(floor, from), hot->tail, [&](const RecordInfo& record) {
        if (record.state == format::RecordState::damaged) answer.damage = true;
        if (record.state != format::RecordState::message) return true;
        if (context.request.seq && !context.request.seq->contains(record.position)) return true;
        const auto only = format::only_group_of(ring.bytes, record);
        for (std::size_t i = 0; i < groups.size(); ++i) {
            const auto status = format::status_of(groups[i], tables[i], record, only, ring.bytes.slots(), now);
            if (status.state == MessageState::unknown) ++unknown;
            if (status.state == wanted && !each({groups[i], tables[i], record, status})) return false;
        }
        return true;
    });
    if (unknown != 0) {
        answer.notices.push_back(
            fmt::format("{}: a lease table is not here; the state of {} messages is unknown", ring.name(), unknown));
    }
    note_walk_end(answer, ring, end);
}

/// False when there is no room for another row.
bool room(const Context& context, Answer& answer) {
    if (answer.rows.rows.size() < context.request.row_limit()) return true;
    answer.notices.emplace_back("more rows exist (--limit 0 shows all)");
    return false;
}

Column group_column(const Request& request) { return request.group ? hidden("group", Kind::text) : column("GROUP"); }

}  // namespace

Answer in_flight(const Context& context) {
    Answer answer;
    const Ring& ring = main_ring(context);
    answer.rows.columns = {group_column(context.request),
                           column("SEQ", Kind::count),
                           column("MESSAGE-ID"),
                           column("KEY"),
                           column("CONSUMER"),
                           column("PARTICIPANT", Kind::count),
                           column("PID", Kind::count),
                           column("ALIVE"),
                           column("LEASED-AGE", Kind::age),
                           column("LEASE-LEFT", Kind::age),
                           column("DELIVERIES", Kind::count),
                           column("HANDED-OVER", Kind::flag),
                           column("BYTES", Kind::size)};
    answer.rows.when_empty = "nothing in flight";
    const auto now = context.source.now(ring);
    walk_state(context, ring, MessageState::in_flight, answer, [&](const Found& found) {
        const bool exclusive = found.group.mode == format::GroupMode::exclusive;
        const auto parts = message_parts(ring, found.record, now.wall_ns, 0);
        if (context.request.key && parts.key != *context.request.key) return true;
        std::optional<std::uint64_t> age;
        Cell left;  // exclusive groups have no leases
        if (found.status.due_ns && now.mono_ns != 0) {
            age = format::lease_age_ns(found.group, *found.status.due_ns, now);
            left = static_cast<std::int64_t>(*found.status.due_ns - now.mono_ns);
        }
        if (context.request.idle && (!age || *age < static_cast<std::uint64_t>(context.request.idle->count()))) {
            return true;
        }
        if (!room(context, answer)) return false;
        const std::uint32_t owner = found.status.owner;
        const auto handle = exclusive ? found.group.owner_handle : context.people.consumer_of(owner, found.group);
        const Person person = context.people.person(owner, handle);
        answer.rows.rows.push_back({found.group.name, found.record.position, text_or_unknown(parts.message_id),
                                    text_or_unknown(parts.key), text_or_unknown(person.name), std::uint64_t{owner},
                                    number_or_unknown(person.pid), text_or_unknown(person.process), age_cell(age), left,
                                    std::uint64_t{found.status.attempts},
                                    exclusive || found.status.entry != format::EntryState::leased,
                                    std::uint64_t{found.record.head.payload_bytes}});
        return true;
    });
    return answer;
}

Answer scheduled(const Context& context) {
    Answer answer;
    const Ring& ring = main_ring(context);
    answer.rows.columns = {group_column(context.request),
                           column("SEQ", Kind::count),
                           column("MESSAGE-ID"),
                           column("CAUSE"),
                           column("DUE-IN", Kind::age),
                           column("NOT-BEFORE", Kind::time),
                           column("DELIVERIES", Kind::count),
                           column("LAST-ERROR-CODE")};
    answer.rows.when_empty = "nothing scheduled";
    const auto now = context.source.now(ring);
    walk_state(context, ring, MessageState::scheduled, answer, [&](const Found& found) {
        if (!room(context, answer)) return false;
        const auto parts = message_parts(ring, found.record, now.wall_ns, 0);
        std::optional<format::NoteInfo> note;
        if (found.group.mode == format::GroupMode::exclusive) {
            note = ring.bytes.group_note(found.group.index);
            if (note && note->position != found.record.position) note.reset();
        } else if (found.table != nullptr) {
            note = found.table->note(found.record.position);
        }
        Cell due_in;
        Cell not_before;
        if (found.status.due_ns && now.mono_ns != 0) {
            const std::uint64_t wait = *found.status.due_ns > now.mono_ns ? *found.status.due_ns - now.mono_ns : 0;
            due_in = age_cell(wait);
            not_before = now.wall_ns + wait;
        }
        answer.rows.rows.push_back({found.group.name, found.record.position, text_or_unknown(parts.message_id),
                                    std::string("retry"), due_in, not_before, std::uint64_t{found.status.attempts},
                                    text_or_unknown(note ? note->code : "")});
        return true;
    });
    return answer;
}

}  // namespace rondo::dump
