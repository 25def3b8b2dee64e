// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// verify: is everything in its place? Walks every record of every ring, checks stamps, sizes and checksums, and
// whether the marks agree with each other. Finds, tells, repairs nothing. A ring that moves meanwhile is no damage.
#include <algorithm>

#include <fmt/format.h>

#include "format/dead_entry.hpp"
#include "tools/ring_dump/views.hpp"

namespace rondo::dump {

namespace {

using format::nowhere;
using format::RecordInfo;
using format::RecordState;

constexpr std::size_t problems_kept = 100;

struct Report {
    std::uint64_t records = 0, voids = 0, open = 0;
    std::uint64_t checked = 0;  // of the records: those with a checksum to compare
    std::uint64_t bad = 0, problem_count = 0;
    std::optional<Seq> first_bad;
    std::vector<std::string> problems;

    void problem(std::string text, std::optional<Seq> at = {}) {
        ++problem_count;
        if (at && (!first_bad || *at < *first_bad)) first_bad = at;
        if (problems.size() < problems_kept) problems.push_back(std::move(text));
    }
};

/// Marks, in an order in which each is compared only with what can merely have grown since.
void check_marks(const Ring& ring, Report& report) {
    const auto before = ring.bytes.hot();
    const auto groups = ring.bytes.groups();
    const auto after = ring.bytes.hot();
    if (!before || !after) return;
    const std::uint64_t slots = ring.bytes.slots();
    if (before->limit < slots) report.problem(fmt::format("limit {} is below one ring length", before->limit));
    if (after->tail > after->limit)
        report.problem(fmt::format("tail {} is beyond limit {}", after->tail, after->limit));
    const Seq floor = format::RingBytes::floor_of(before->limit, slots);
    if (after->tail < floor) report.problem(fmt::format("tail {} is below floor {}", after->tail, floor));
    if (after->state != static_cast<std::uint32_t>(format::RingState::open) &&
        after->state != static_cast<std::uint32_t>(format::RingState::closed)) {
        report.problem(fmt::format("unknown ring state {}", after->state));
    }
    bool durable = false;
    for (const auto& g : groups) {
        const auto at = [&](std::string_view text) { report.problem(fmt::format("group {}: {}", g.name, text)); };
        if (static_cast<std::uint32_t>(g.state) > static_cast<std::uint32_t>(format::GroupState::deleting)) {
            at("unknown state");
            continue;
        }
        if (g.mode != format::GroupMode::exclusive && g.mode != format::GroupMode::shared) at("unknown mode");
        if (g.owner >= format::max_participants) at("its owner is no participant");
        if (g.cursor == nowhere || g.state != format::GroupState::active) continue;
        durable = durable || g.kind == format::GroupKind::durable;
        if (g.cursor > after->tail) at(fmt::format("floor {} is beyond tail {}", g.cursor, after->tail));
        if (g.cursor < floor) at(fmt::format("floor {} is below the ring's floor {}", g.cursor, floor));
        if (g.mode == format::GroupMode::shared && g.hint > after->tail) {
            at(fmt::format("hint {} is beyond tail {}", g.hint, after->tail));
        }
        if (g.mode == format::GroupMode::exclusive && g.handed > after->tail) {
            at(fmt::format("handed {} is beyond tail {}", g.handed, after->tail));
        }
    }
    if (!durable && ring.super().kind == format::RingKind::main && after->keep_from == nowhere) {
        report.problem("no durable group, but nothing is kept either");
    }
}

void check_record(const Ring& ring, const RecordInfo& record, Report& report) {
    switch (record.state) {
        case RecordState::open_claim:
            ++report.open;
            return;
        case RecordState::damaged:
            ++report.bad;
            report.problem(fmt::format("seq {}: no record and no claim where one must be ({} slots)", record.position,
                                       record.slots),
                           record.position);
            return;
        case RecordState::void_claim:
            ++report.voids;
            break;
        case RecordState::message:
            ++report.records;
            break;
        case RecordState::pad:
            break;
    }
    const bool message = record.state == RecordState::message;
    if (!message || ring.super().checksum != format::Checksum::none) {
        const auto ok = checksum_matches(ring, record);
        if (!ok) return;
        if (message) ++report.checked;
        if (!*ok) {
            ++report.bad;
            report.problem(fmt::format("seq {}: the checksum does not match", record.position), record.position);
            return;
        }
    }
    if (!message ||
        (ring.super().kind != format::RingKind::dead && (record.head.flags & format::flag_extensions) == 0)) {
        return;
    }
    const auto copy = format::copy_record(ring.bytes, record);
    if (!copy) return;  // taken back meanwhile
    const auto parts = format::parts_of(record.head, *copy);
    if (!parts) {
        ++report.bad;
        report.problem(fmt::format("seq {}: its lengths make no sense", record.position), record.position);
    } else if (ring.super().kind == format::RingKind::dead) {
        if (const auto letter = format::decode_dead_entry(parts->payload); !letter) {
            ++report.bad;
            report.problem(fmt::format("seq {}: {}", record.position, letter.error().what), record.position);
        } else if (ring.super().checksum == format::Checksum::none) {
            ++report.checked;  // the entry has one of its own
        }
    }
}

void check_table(const Context& context, const Ring& ring, const format::GroupInfo& group, Report& report) {
    if (group.mode != format::GroupMode::shared || group.state != format::GroupState::active) return;
    const auto* table = format::table_of(context.source.tables(), ring.bytes, group);
    if (table == nullptr) {
        // Beside a single file the table may well be absent.
        if (context.source.is_directory())
            report.problem(fmt::format("group {}: its lease table is not here", group.name));
        return;
    }
    std::uint64_t bad = 0;
    for (std::uint64_t slot = 0; slot < ring.bytes.slots(); ++slot) {
        const auto entry = table->entry(slot);
        if (!entry) {
            report.problem(fmt::format("group {}: its lease table is cut short", group.name));
            break;
        }
        if (entry->a.state > format::EntryState::settled) ++bad;
    }
    if (bad != 0) report.problem(fmt::format("group {}: {} lease entries make no sense", group.name, bad));
}

Report check(const Context& context, const Ring& ring) {
    Report report;
    if (!ring.bytes.complete()) {
        report.problem(fmt::format("{} of {} bytes are there", ring.bytes.file.size(), ring.bytes.layout.file_bytes));
    }
    check_marks(ring, report);
    for (const auto& group : ring.bytes.groups()) check_table(context, ring, group, report);
    const auto hot = ring.bytes.hot();
    if (!hot) return report;
    const std::uint64_t slots = ring.bytes.slots();
    const Seq floor = format::RingBytes::floor_of(hot->limit, slots);
    const Seq tail = std::clamp(hot->tail, floor, floor + slots);
    format::RecordWalk walk(ring.bytes, floor, tail, 4 * slots);
    while (const auto record = walk.next()) check_record(ring, *record, report);
    switch (walk.end()) {
        case format::WalkEnd::running:
        case format::WalkEnd::reached:
            break;
        case format::WalkEnd::budget:
            report.problem("the walk did not end", walk.position());
            break;
        case format::WalkEnd::silent:
            report.problem(fmt::format("seq {}: the record that must be here is not", walk.position()),
                           walk.position());
            break;
        case format::WalkEnd::lost:
            report.problem("nothing readable follows the damage");
            break;
        case format::WalkEnd::truncated:
            report.problem(fmt::format("seq {}: the file ends here", walk.position()), walk.position());
            break;
    }
    if (walk.end() == format::WalkEnd::reached && walk.position() > tail && hot->tail == tail) {
        report.problem(fmt::format("the last record ends at {}, beyond tail {}", walk.position(), tail));
    }
    return report;
}

}  // namespace

Answer verify(const Context& context) {
    Answer answer;
    answer.rows.columns = {column("RING"),
                           column("RESULT"),
                           column("RECORDS", Kind::count),
                           column("VOID", Kind::count),
                           column("OPEN-RESERVATIONS", Kind::count),
                           column("CRC-CHECKED", Kind::count),
                           column("BAD", Kind::count),
                           column("FIRST-BAD-SEQ", Kind::count),
                           hidden("problem_count", Kind::count),
                           hidden("problems", Kind::json)};
    const auto add = [&](std::string_view name, const Report& report) {
        const bool ok = report.problem_count == 0;
        if (!ok) answer.damage = true;
        tools::Json problems = tools::Json::array();
        for (const auto& p : report.problems) {
            problems.push_back(tools::json_text(p));
            if (context.request.output == Output::table) answer.notices.push_back(fmt::format("{}: {}", name, p));
        }
        answer.rows.rows.push_back({std::string(name), std::string(ok ? "ok" : "damaged"), report.records, report.voids,
                                    report.open, report.checked, report.bad, number_or_unknown(report.first_bad),
                                    report.problem_count, Cell::json(problems)});
    };
    for (const Ring* ring : context.source.rings()) add(ring->name(), check(context, *ring));
    for (const auto& bad : context.source.bad_files()) {
        Report report;
        report.problem(bad.problem);
        add(bad.name, report);
    }
    return answer;
}

}  // namespace rondo::dump
