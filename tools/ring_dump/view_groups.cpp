// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// groups: what each group has left to do, and what its oldest message waits for.
#include <fmt/format.h>

#include <algorithm>

#include "format/dead_entry.hpp"
#include "tools/common/format_text.hpp"
#include "tools/common/words.hpp"
#include "tools/ring_dump/settings.hpp"

namespace rondo::dump {

namespace {

using format::GroupInfo;
using format::MessageState;
using format::Survey;

/// Open dead letters by group and its life.
struct DeadCount {
    std::uint32_t group, life;
    std::uint64_t open;
};

std::vector<DeadCount> count_dead(const Context& context, Answer* answer) {
    std::vector<DeadCount> counts;
    const Ring* dead = context.source.dead();
    if (dead == nullptr) return counts;
    const auto hot = dead->bytes.hot();
    const auto group = dead->bytes.group(0);
    if (!hot || !group) return counts;
    const auto* table = format::table_of(context.source.tables(), dead->bytes, *group);
    const Seq floor = format::RingBytes::floor_of(hot->limit, dead->bytes.slots());
    const auto end = format::walk_records(
        dead->bytes, std::max(floor, group->cursor == format::nowhere ? floor : group->cursor), hot->tail,
        [&](const format::RecordInfo& record) {
            if (record.state != format::RecordState::message) return true;
            const auto status = format::status_of(*group, table, record, std::nullopt, dead->bytes.slots(), {});
            if (status.state != MessageState::ready && status.state != MessageState::scheduled) return true;
            const auto copy = format::copy_record(dead->bytes, record, 256);
            const auto parts = copy ? format::parts_of(record.head, *copy) : std::nullopt;
            const auto identity = parts ? format::dead_entry_identity(parts->payload) : std::nullopt;
            if (!identity) return true;
            const auto known = std::find_if(counts.begin(), counts.end(), [&](const DeadCount& c) {
                return c.group == identity->group && c.life == identity->group_life;
            });
            if (known != counts.end()) {
                ++known->open;
            } else {
                counts.push_back({identity->group, identity->group_life, 1});
            }
            return true;
        });
    if (answer != nullptr) note_walk_end(*answer, *dead, end);
    return counts;
}

std::string_view state_of(const GroupInfo& group, std::uint64_t members, std::uint64_t lag) {
    switch (group.state) {
        case format::GroupState::creating:
            return "creating";
        case format::GroupState::deleting:
            return "deleting";
        default:
            break;
    }
    if (members == 0) return "empty-no-members";
    return lag == 0 ? "idle" : "active";
}

/// What a group's oldest unsettled message waits for; empty when it is simply its turn next.
std::string blocked_by(const Context& context, const GroupInfo& group, const format::GroupCounts& counts,
                       const Survey& seen, std::uint64_t members, const format::Now& now) {
    const auto who = [&](std::uint32_t participant, std::optional<std::uint32_t> handle) {
        return person_text(context.people.person(participant, handle));
    };
    const Seq oldest = counts.oldest_unsettled;
    if (oldest == format::nowhere) return {};
    if (!seen.open_claims.empty() && seen.open_claims.front().position < oldest &&
        seen.open_claims.front().position >= group.cursor) {
        const auto& claim = seen.open_claims.front();
        return fmt::format("open claim at {} of {}", claim.position,
                           who(claim.owner, context.people.producer_of(claim.owner)));
    }
    switch (counts.oldest.state) {
        case MessageState::scheduled:
            return "retry";
        case MessageState::dead_pending:
            return "dead_pending";
        case MessageState::in_flight: {
            const bool exclusive = group.mode == format::GroupMode::exclusive;
            const std::uint32_t owner = counts.oldest.owner;
            std::string text =
                fmt::format("{} {}", exclusive ? "owner" : "lease",
                            who(owner, exclusive ? group.owner_handle : context.people.consumer_of(owner, group)));
            if (!exclusive && counts.oldest.due_ns) {
                if (const auto age = format::lease_age_ns(group, *counts.oldest.due_ns, now)) {
                    text += fmt::format(" since {}", tools::age_text(static_cast<std::int64_t>(*age)));
                }
            }
            return text;
        }
        default:
            break;
    }
    if (members == 0) return "no members";
    if (group.owner != 0) {
        // An exclusive owner that does not take the next message: of interest if it cannot.
        const Person owner = context.people.person(group.owner, group.owner_handle);
        if (owner.process == "stopped" || owner.process == "dead") return "owner " + person_text(owner);
    }
    return {};
}

/// The options of the one group of `rows`, one below the other.
std::string options_text(const Context& context, const Rows& rows) {
    auto columns = group_option_columns();
    const std::size_t first = rows.columns.size() - columns.size();
    Fields fields;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        Column& column = columns[i];
        column.header = column.key.substr(0, column.key.rfind("_seconds"));
        fields.push_back({std::move(column), rows.rows.front().at(first + i)});
    }
    return fields_text(fields, context.style);
}

}  // namespace

Rows group_rows(const Context& context, const Ring& ring, const Survey& seen) {
    Rows rows;
    rows.columns = {column("QUEUE"),
                    column("GROUP"),
                    column("STATE"),
                    column("MODE"),
                    column("MEMBERS", Kind::count),
                    column("ACK-FLOOR", Kind::count),
                    column("TAIL-SEQ", Kind::count),
                    column("LAG", Kind::count),
                    column("READY", Kind::count),
                    column("IN-FLIGHT", Kind::count),
                    column("SCHED-RETRY", Kind::count),
                    column("DEAD", Kind::count),
                    column("OLDEST-AGE", Kind::age),
                    column("REDELIVERED%", Kind::ratio),
                    column("BLOCKED-BY"),
                    hidden("dead_pending", Kind::count),
                    hidden("delivered", Kind::count),
                    hidden("acked", Kind::count),
                    hidden("nacked", Kind::count),
                    hidden("rejected", Kind::count),
                    hidden("released", Kind::count),
                    hidden("stale", Kind::count),
                    hidden("lapsed", Kind::count),
                    hidden("owner_died", Kind::count),
                    hidden("dead_lettered", Kind::count),
                    hidden("redelivered", Kind::count),
                    hidden("skipped", Kind::count),
                    hidden("complete", Kind::flag)};
    for (Column& column : group_option_columns()) rows.columns.push_back(std::move(column));
    rows.when_empty = "no groups";
    const auto now = context.source.now(ring);
    const auto dead = count_dead(context, nullptr);
    for (std::size_t i = 0; i < seen.groups.size(); ++i) {
        GroupInfo g = seen.groups[i];
        const auto& c = seen.counts[i];
        if (context.request.group && g.name != *context.request.group) continue;
        for (const auto& h : context.people.handles()) {
            if (h.kind != format::HandleKind::consumer || h.group != g.index || h.group_life != g.life) continue;
            g.delivered += h.published;
            g.acked += h.acked;
            g.nacked += h.nacked;
            g.rejected += h.rejected;
            g.released += h.released;
            g.stale += h.stale;
            g.lapsed += h.lapsed;
        }
        const std::uint64_t members = context.people.members(g);
        Cell open_dead;
        if (context.source.dead() != nullptr) {
            std::uint64_t open = 0;
            for (const auto& d : dead) {
                if (d.group == g.index && d.life == g.life) open += d.open;
            }
            open_dead = open;
        }
        const std::uint64_t accepted = c.oldest_unsettled == format::nowhere
                                           ? 0
                                           : format::accepted_wall_ns(ring.super(), c.oldest_accepted, now.wall_ns);
        const Cell age = accepted == 0 ? Cell{} : age_cell(now.wall_ns > accepted ? now.wall_ns - accepted : 0);
        const Cell redelivered =
            g.delivered == 0 ? Cell{}
                             : Cell{100.0 * static_cast<double>(g.redelivered) / static_cast<double>(g.delivered)};
        rows.rows.push_back({context.source.path(),
                             g.name,
                             std::string(state_of(g, members, c.lag)),
                             tools::word_of(tools::group_modes, g.mode),
                             members,
                             g.cursor == format::nowhere ? Cell{} : Cell{g.cursor},
                             seen.tail,
                             c.lag,
                             c.ready,
                             c.in_flight,
                             c.scheduled,
                             open_dead,
                             age,
                             redelivered,
                             text_or_unknown(blocked_by(context, g, c, seen, members, now)),
                             c.dead_pending,
                             g.delivered,
                             g.acked,
                             g.nacked,
                             g.rejected,
                             g.released,
                             g.stale,
                             g.lapsed,
                             g.owner_died,
                             g.dead_lettered,
                             g.redelivered,
                             g.skipped,
                             c.complete});
        for (Cell& cell : group_options(ring, g)) rows.rows.back().push_back(std::move(cell));
    }
    return rows;
}

Answer groups(const Context& context) {
    Answer answer;
    const Ring& ring = context.source.rings().size() == 1 ? *context.source.rings().front() : main_ring(context);
    (void)wanted_groups(context, ring);
    const auto seen = format::survey(ring.bytes, context.source.tables(), context.source.now(ring));
    note_walk(answer, ring, seen);
    answer.rows = group_rows(context, ring, seen);
    // A table of all groups has no room for their options; that of one has. It may have been deleted since.
    if (context.request.group && !answer.rows.rows.empty()) {
        answer.text = table_text(answer.rows, context.style) + "\n" + options_text(context, answer.rows);
    }
    return answer;
}

}  // namespace rondo::dump
