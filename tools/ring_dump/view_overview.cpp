// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// overview: the marks of every ring, who holds them up, and the groups.
#include <fmt/format.h>

#include <algorithm>

#include "tools/common/format_text.hpp"
#include "tools/ring_dump/settings.hpp"

namespace rondo::dump {

namespace {

using format::Blocker;
using format::BlockKind;
using format::Survey;

std::string_view block_word(BlockKind kind, bool dead_ring) {
    switch (kind) {
        case BlockKind::open_claim:
            return "open_claim";
        case BlockKind::lease:
            return dead_ring ? "redriving" : "lease";
        case BlockKind::exclusive_owner:
            return "exclusive_owner";
        case BlockKind::retry:
            return "retry";
        case BlockKind::dead_pending:
            return "dead_pending";
        case BlockKind::no_members:
            return dead_ring ? "dead_letter" : "no_members";
        case BlockKind::unconsumed:
            return dead_ring ? "dead_letter" : "unconsumed";
        case BlockKind::borrow:
            return "borrow";
        case BlockKind::no_group:
            return "no_group";
    }
    return "unknown";
}

Rows blocker_columns() {
    Rows rows;
    rows.columns = {column("RING"),
                    column("SEQ", Kind::count),
                    column("BLOCKED-BY"),
                    column("GROUP"),
                    column("NAME"),
                    column("PARTICIPANT", Kind::count),
                    column("PID", Kind::count),
                    column("PROCESS"),
                    column("AGE", Kind::age),
                    column("HOLDS-FLOOR", Kind::flag),
                    hidden("age_at_least", Kind::flag)};
    rows.when_empty = "nothing: every message is settled";
    return rows;
}

void add_blockers(const Context& context, const Ring& ring, const Survey& seen, Rows& out) {
    const bool dead_ring = ring.super().kind == format::RingKind::dead;
    const auto blockers = format::who_blocks(ring.bytes, seen, context.people.handles(), context.source.now(ring));
    for (Blocker b : blockers) {
        std::string group;
        for (const auto& g : seen.groups) {
            if (g.index != b.group) continue;
            group = g.name;
            // Members whose process is dead do not count.
            if (b.kind == BlockKind::unconsumed && context.people.members(g) == 0) b.kind = BlockKind::no_members;
        }
        const Person person = context.people.person(b.participant, b.handle);
        out.rows.push_back({std::string(ring.name()), b.position, std::string(block_word(b.kind, dead_ring)),
                            text_or_unknown(group), text_or_unknown(person.name),
                            b.participant == 0 ? Cell{} : Cell{std::uint64_t{b.participant}},
                            number_or_unknown(person.pid), text_or_unknown(person.process), age_cell(b.age_ns),
                            b.holds_floor, b.age_at_least});
    }
}

std::string state_text(const Context& context, const Ring& ring) {
    if (ring.copied) return "a copy";
    return context.source.live() ? "live" : "not in use";
}

std::string preamble_of(const Context& context) {
    const auto rings = context.source.rings();
    const Ring& ring = *rings.front();
    const auto& s = ring.super();
    const auto hot = ring.bytes.hot();
    const bool closed = hot && hot->state == static_cast<std::uint32_t>(format::RingState::closed);
    std::string text = fmt::format("{}: {}{}, format {}, {}\n", tools::printable(context.source.path()),
                                   state_text(context, ring), closed ? ", closed" : "", format::version,
                                   s.producers == format::Producers::one ? "one producer" : "many producers");
    text +=
        fmt::format("queue {}  boot {} ({})  created {}\n", tools::uuid_text(s.queue_uuid), tools::uuid_text(s.boot_id),
                    context.source.this_boot(ring) ? "this one" : "an earlier one", tools::rfc3339(s.created_ns));
    return text + queue_properties_text(context) + "\n";
}

}  // namespace

Answer overview(const Context& context) {
    Answer answer;
    answer.preamble = preamble_of(context);
    answer.properties = queue_properties(context);
    answer.rows.columns = {column("RING"),
                           column("FLOOR-SEQ", Kind::count),
                           column("TAIL-SEQ", Kind::count),
                           column("LIMIT-SEQ", Kind::count),
                           column("RECORDS", Kind::count),
                           column("BYTES", Kind::size),
                           column("PINNED-BYTES", Kind::size),
                           column("VOID", Kind::count),
                           column("CREDIT-LEFT", Kind::size),
                           hidden("capacity_bytes", Kind::size),
                           hidden("open_claims", Kind::count),
                           hidden("corrupt", Kind::count),
                           hidden("closed", Kind::flag),
                           hidden("complete", Kind::flag)};
    Section blocked{"blocked by (oldest first)", blocker_columns(), "blockers"};
    for (const Ring* ring : context.source.rings()) {
        const auto seen = format::survey(ring->bytes, context.source.tables(), context.source.now(*ring));
        note_walk(answer, *ring, seen);
        const std::uint64_t slots = ring->bytes.slots();
        const Seq floor = seen.tail - seen.used_slots;
        answer.rows.rows.push_back({std::string(ring->name()), floor, seen.tail, floor + slots, seen.messages,
                                    seen.used_slots * format::slot_bytes, seen.pinned_slots * format::slot_bytes,
                                    seen.hot.void_total, seen.credit_slots * format::slot_bytes,
                                    slots * format::slot_bytes, seen.open_claim_count, seen.hot.corrupt_total,
                                    seen.hot.state == static_cast<std::uint32_t>(format::RingState::closed),
                                    seen.complete()});
        add_blockers(context, *ring, seen, blocked.rows);
        if (ring->super().kind == format::RingKind::main) {
            answer.more.push_back({"groups", group_rows(context, *ring, seen), "groups"});
        }
    }
    answer.more.insert(answer.more.begin(), std::move(blocked));
    return answer;
}

}  // namespace rondo::dump
