// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// consumers and producers: the handles of the main ring.
#include <algorithm>

#include "tools/ring_dump/views.hpp"

namespace rondo::dump {

namespace {

using format::HandleInfo;
using format::HandleKind;

std::optional<std::uint64_t> since(std::uint64_t then, std::uint64_t now) {
    if (then == 0 || now == 0) return std::nullopt;
    return now > then ? now - then : 0;
}

/// The oldest lease of each participant in each shared group.
struct OldestLease {
    std::uint32_t group, participant;
    std::uint64_t due_ns;
};

std::vector<OldestLease> oldest_leases(const Context& context, const Ring& ring, Answer& answer,
                                       const std::vector<format::GroupInfo>& groups) {
    std::vector<OldestLease> oldest;
    const auto now = context.source.now(ring);
    const auto hot = ring.bytes.hot();
    if (!hot) {
        note_walk_end(answer, ring, format::WalkEnd::truncated);
        return oldest;
    }
    for (const auto& group : groups) {
        const auto* table = format::table_of(context.source.tables(), ring.bytes, group);
        if (group.mode != format::GroupMode::shared || table == nullptr || group.cursor == format::nowhere) continue;
        const Seq floor = format::RingBytes::floor_of(hot->limit, ring.bytes.slots());
        const auto end = format::walk_records(
            ring.bytes, std::max(floor, group.cursor), std::min(group.hint, hot->tail),
            [&](const format::RecordInfo& record) {
                const auto status = format::status_of(group, table, record, {}, ring.bytes.slots(), now);
                if (status.state != format::MessageState::in_flight || !status.due_ns) return true;
                const auto known = std::find_if(oldest.begin(), oldest.end(), [&](const OldestLease& o) {
                    return o.group == group.index && o.participant == status.owner;
                });
                if (known == oldest.end()) {
                    oldest.push_back({group.index, status.owner, *status.due_ns});
                } else {
                    known->due_ns = std::min(known->due_ns, *status.due_ns);
                }
                return true;
            });
        note_walk_end(answer, ring, end);
    }
    return oldest;
}

}  // namespace

Answer consumers(const Context& context) {
    Answer answer;
    const Ring& ring = main_ring(context);
    const auto groups = wanted_groups(context, ring);
    const auto now = context.source.now(ring);
    const auto leases = oldest_leases(context, ring, answer, groups);
    answer.rows.columns = {column("GROUP"),
                           column("CONSUMER"),
                           column("PARTICIPANT", Kind::count),
                           column("PID", Kind::count),
                           column("ALIVE"),
                           column("IN-FLIGHT", Kind::count),
                           column("MAX", Kind::count),
                           column("OLDEST-LEASE", Kind::age),
                           column("LAST-ACK", Kind::time),
                           column("ACKED", Kind::count),
                           column("NACKED", Kind::count),
                           column("EXPIRED", Kind::count),
                           column("AVG-HANDLER", Kind::age),
                           hidden("active", Kind::flag),
                           hidden("delivered", Kind::count),
                           hidden("rejected", Kind::count),
                           hidden("released", Kind::count),
                           hidden("stale", Kind::count)};
    answer.rows.when_empty = "no consumers";
    for (const auto& group : groups) {
        for (const HandleInfo& h : context.people.handles()) {
            if (h.kind != HandleKind::consumer || h.group != group.index || h.group_life != group.life) continue;
            const Person person = context.people.person(h.participant, h.index);
            std::optional<std::uint64_t> lease_age;
            for (const auto& o : leases) {
                if (o.group == group.index && o.participant == h.participant &&
                    context.people.consumer_of(h.participant, group)) {
                    lease_age = format::lease_age_ns(group, o.due_ns, now);
                }
            }
            const bool exclusive = group.mode == format::GroupMode::exclusive;
            answer.rows.rows.push_back(
                {group.name, h.name, std::uint64_t{h.participant}, number_or_unknown(person.pid),
                 text_or_unknown(person.process), h.in_flight, group.max_in_flight_consumer, age_cell(lease_age),
                 h.last_outcome_ns == 0 ? Cell{} : Cell{h.last_outcome_ns}, h.acked, h.nacked, h.lapsed,
                 h.handler_samples == 0 ? Cell{} : age_cell(h.handler_ns / h.handler_samples),
                 exclusive ? Cell{group.owner == h.participant && group.owner_handle == h.index} : Cell{}, h.published,
                 h.rejected, h.released, h.stale});
        }
    }
    return answer;
}

Answer producers(const Context& context) {
    Answer answer;
    const Ring& ring = main_ring(context);
    const auto now = context.source.now(ring);
    const auto seen = format::survey(ring.bytes, context.source.tables(), now);
    note_walk(answer, ring, seen);
    answer.rows.columns = {column("PRODUCER"),
                           column("PARTICIPANT", Kind::count),
                           column("PID", Kind::count),
                           column("ALIVE"),
                           column("PUBLISHED", Kind::count),
                           column("REJECTED", Kind::count),
                           column("BLOCKED-NOW", Kind::age),
                           column("BLOCKED-TOTAL", Kind::age),
                           column("LAST-SEQ", Kind::count),
                           column("OPEN-RESERVATIONS", Kind::count)};
    answer.rows.when_empty = "no producers";
    for (const HandleInfo& h : context.people.handles()) {
        if (h.kind != HandleKind::producer) continue;
        const Person person = context.people.person(h.participant, h.index);
        // A claim names its participant, not the handle.
        Cell open;
        if (context.people.producer_of(h.participant) && ring.super().producers == format::Producers::many) {
            open = static_cast<std::uint64_t>(
                std::count_if(seen.open_claims.begin(), seen.open_claims.end(),
                              [&](const format::OpenClaim& claim) { return claim.owner == h.participant; }));
        }
        const bool blocked = h.waiting == format::Waiting::for_credit;
        answer.rows.rows.push_back(
            {h.name, std::uint64_t{h.participant}, number_or_unknown(person.pid), text_or_unknown(person.process),
             h.published, h.acked, blocked ? age_cell(since(h.waiting_since_ns, now.mono_ns)) : Cell{},
             age_cell(h.blocked_ns), h.published == 0 ? Cell{} : Cell{h.last_seq}, open, std::uint64_t{h.participant}});
    }
    return answer;
}

}  // namespace rondo::dump
