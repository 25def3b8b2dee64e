// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// dlq: the dead letters, and one of them with its whole story. dlq-summary: the same by cause.
#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "format/dead_entry.hpp"
#include "format/dead_state.hpp"
#include "tools/common/format_text.hpp"
#include "tools/ring_dump/views.hpp"

namespace rondo::dump {

namespace {

using tools::Json;

const Ring& dead_ring(const Context& context) {
    if (context.source.dead() != nullptr) return *context.source.dead();
    throw Failure{exit_not_found, fmt::format("{}: this view needs the queue's dead.ring, which cannot be used here",
                                              tools::printable(context.source.path()))};
}

/// How far an entry is; nothing when its lease table is not here.
std::optional<format::DeadStatus> status_of(const format::GroupInfo& group, const format::LeaseBytes* table,
                                            Seq position) {
    if (table != nullptr) return format::dead_status(*table, position);
    return position < group.hint ? std::nullopt : std::optional(format::DeadStatus{});
}

struct Entry {
    DeadLetter letter;
    std::optional<DeadState> state;  // nothing: not known
};

/// Every readable entry, oldest first, until `each` returns false.
void walk_entries(const Context& context, Answer& answer, const std::function<bool(const Entry&)>& each) {
    const Ring& ring = dead_ring(context);
    const auto hot = ring.bytes.hot();
    const auto group = ring.bytes.group(0);
    if (!hot || !group) {
        note_walk_end(answer, ring, format::WalkEnd::truncated);
        return;
    }
    const auto* table = format::table_of(context.source.tables(), ring.bytes, *group);
    if (table == nullptr) answer.notices.emplace_back("lease-dead.tab is not here; states are unknown");
    const Seq floor = format::RingBytes::floor_of(hot->limit, ring.bytes.slots());
    const auto end = format::walk_records(ring.bytes, floor, hot->tail, [&](const format::RecordInfo& record) {
        if (record.state == format::RecordState::damaged) answer.damage = true;
        if (record.state != format::RecordState::message) return true;
        const auto copy = format::copy_record(ring.bytes, record);
        if (!copy) return true;  // taken back meanwhile
        const auto parts = format::parts_of(record.head, *copy);
        auto letter = parts ? format::decode_dead_entry(parts->payload)
                            : Result<DeadLetter>(fail(Errc::corrupt, "the record's lengths make no sense"));
        if (!letter) {
            answer.damage = true;
            answer.notices.push_back(
                fmt::format("{}: dead letter {}: {}", ring.name(), record.position, letter.error().what));
            return true;
        }
        letter->id = record.position;
        auto status = status_of(*group, table, record.position);
        Entry entry{std::move(*letter), status ? std::optional(status->state) : std::nullopt};
        if (status) format::put_status(std::move(*status), entry.letter);
        return each(entry);
    });
    note_walk_end(answer, ring, end);
}

bool wanted(const Context& context, const Entry& entry) {
    const auto& r = context.request;
    return (!r.group || entry.letter.group == *r.group) && (!r.key || entry.letter.key == *r.key) &&
           (!r.state || entry.state == *r.state);
}

/// The group that is asked for must be the queue's, or one that the dead letters still name. Without the main ring
/// nobody knows which groups there are.
void check_group(const Context& context, const Answer& answer, bool named) {
    if (named || !context.request.group || context.source.main() == nullptr || answer.damage) return;
    (void)wanted_groups(context, *context.source.main());
}

Cell state_cell(const std::optional<DeadState>& state) {
    if (!state) return {};
    return {std::string(to_string(*state))};
}

Cell age_since(std::uint64_t then_ns, std::uint64_t now_ns) {
    if (then_ns == 0) return {};
    return age_cell(now_ns > then_ns ? now_ns - then_ns : 0);
}

std::string fingerprint_text(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::string cut_payload(const Context& context, const DeadLetter& letter) {
    const auto bytes = std::min<std::uint64_t>(payload_wanted(context.request), letter.payload.size());
    return payload_text(std::span(letter.payload).first(bytes), context.request.payload);
}

}  // namespace

Answer dead_letters(const Context& context) {
    Answer answer;
    answer.rows.columns = {column("DLQ-ID", Kind::count),
                           column("STATE"),
                           column("GROUP"),
                           column("REASON"),
                           column("ERROR-CODE"),
                           column("DELIVERIES", Kind::count),
                           column("REDRIVES", Kind::count),
                           column("DEAD-FOR", Kind::age),
                           column("MESSAGE-AGE", Kind::age),
                           column("MESSAGE-ID"),
                           column("KEY"),
                           column("BYTES", Kind::size),
                           hidden("seq", Kind::count),
                           hidden("original_seq", Kind::count),
                           hidden("epoch", Kind::count),
                           hidden("fingerprint", Kind::text),
                           hidden("error_message", Kind::text),
                           hidden("dead_lettered_at", Kind::time)};
    const bool payload = context.request.payload != PayloadForm::none;
    if (payload) answer.rows.columns.push_back(column("PAYLOAD"));
    answer.rows.when_empty = "no dead letters";
    const std::uint64_t now = context.source.wall_ns();
    std::uint64_t left_off = 0;
    bool named = false;
    walk_entries(context, answer, [&](const Entry& entry) {
        const DeadLetter& d = entry.letter;
        named = named || d.group == context.request.group;
        if (!wanted(context, entry)) return true;
        if (answer.rows.rows.size() >= context.request.row_limit()) {
            ++left_off;
            return true;
        }
        Row row = {d.id,
                   state_cell(entry.state),
                   d.group,
                   std::string(to_string(d.reason)),
                   text_or_unknown(d.code),
                   std::uint64_t{d.delivery_count},
                   std::uint64_t{d.redrive_count},
                   age_since(d.dead_ns, now),
                   age_since(d.first_accepted_ns, now),
                   text_or_unknown(d.message_id ? message_id_text(*d.message_id) : ""),
                   text_or_unknown(d.key),
                   std::uint64_t{d.payload.size()},
                   d.seq,
                   d.original_seq,
                   std::uint64_t{d.epoch},
                   fingerprint_text(d.fingerprint),
                   text_or_unknown(d.message),
                   d.dead_ns == 0 ? Cell{} : Cell{d.dead_ns}};
        if (payload) row.emplace_back(cut_payload(context, d));
        answer.rows.rows.push_back(std::move(row));
        return true;
    });
    check_group(context, answer, named);
    if (left_off != 0) {
        answer.notices.push_back(fmt::format("{} more dead letters not shown (--limit 0 shows all)", left_off));
    }
    return answer;
}

// ---- one entry -----------------------------------------------------------------------------------------------

namespace {

/// The entry as name and cell, grouped as people read it.
Fields fields_of(const Context& context, const Entry& entry) {
    const DeadLetter& d = entry.letter;
    Fields all;
    const auto text = [&](const char* name, std::string value) {
        all.push_back({{name, name, Kind::text}, text_or_unknown(std::move(value))});
    };
    const auto count = [&](const char* name, std::uint64_t value) {
        all.push_back({{name, name, Kind::count}, Cell(value)});
    };
    const auto time = [&](const char* name, std::uint64_t value) {
        all.push_back({{name, name, Kind::time}, value == 0 ? Cell{} : Cell(value)});
    };
    const auto flag = [&](const char* name, bool value) { all.push_back({{name, name, Kind::flag}, Cell(value)}); };

    count("dlq_id", d.id);
    all.push_back({{"state", "state", Kind::text}, state_cell(entry.state)});
    text("state_by", d.state_by);
    all.push_back(
        {{"state_pid", "state_pid", Kind::count}, d.state_pid == 0 ? Cell{} : Cell(std::uint64_t{d.state_pid})});
    time("state_at", d.state_ns);
    text("state_note", d.state_note);
    text("queue", context.source.path());
    text("group", d.group);
    text("ring", tools::uuid_text(d.ring_uuid));
    count("lane", d.lane);
    count("epoch", d.epoch);
    count("seq", d.seq);
    count("original_seq", d.original_seq);
    text("message_id", d.message_id ? message_id_text(*d.message_id) : "");
    text("key", d.key);
    all.push_back({{"type", "type", Kind::count}, number_or_unknown(d.type)});

    text("reason", to_string(d.reason));
    text("error_code", d.code);
    text("error_type", d.error_type);
    text("failed_stage", d.stage);
    text("error_message", d.message);
    text("error_detail", d.detail);
    flag("texts_cut", d.texts_cut);
    text("fingerprint", fingerprint_text(d.fingerprint));

    count("delivery_count", d.delivery_count);
    count("release_count", d.release_count);
    all.push_back({{"max_deliveries", "max_deliveries", Kind::count},
                   d.max_deliveries == 0 ? Cell{} : Cell(std::uint64_t{d.max_deliveries})});
    time("first_accepted_at", d.first_accepted_ns);
    time("accepted_at", d.accepted_ns);
    time("first_delivered_at", d.first_delivered_ns);
    time("last_delivered_at", d.last_delivered_ns);
    time("dead_lettered_at", d.dead_ns);

    text("consumer_name", d.consumer);
    text("program", d.program);
    count("pid", d.consumer_pid);
    text("producer", d.producer);

    text("first_reason", d.first_reason);
    time("first_dead_lettered_at", d.first_dead_ns);
    count("redrive_count", d.redrive_count);

    all.push_back({{"payload_bytes", "payload_bytes", Kind::size}, Cell(std::uint64_t{d.payload.size()})});
    text("payload_checksum", fmt::format("{:08x}", d.payload_checksum));
    flag("payload_damaged", d.payload_damaged);
    Json headers = Json::array();
    for (const auto& [name, value] : d.headers) {
        headers.push_back({{"name", tools::json_text(name)}, {"value", tools::json_text(value)}});
    }
    all.push_back({{"headers", "headers", Kind::json}, Cell::json(headers)});
    if (context.request.payload != PayloadForm::none) {
        all.push_back({{"payload", "payload", Kind::text}, Cell(cut_payload(context, d))});
    }
    return all;
}

std::string array_text(std::span<const char> field) {
    return {field.data(), static_cast<std::size_t>(std::find(field.begin(), field.end(), '\0') - field.begin())};
}

Rows attempt_rows(const DeadLetter& d) {
    Rows rows;
    rows.columns = {{"ATTEMPT", "n", Kind::count},  column("CONSUMER"),
                    column("PID", Kind::count),     column("STARTED-AT", Kind::time),
                    column("ENDED-AT", Kind::time), column("OUTCOME"),
                    column("ERROR-CODE"),           {"DELAY", "delay_used_seconds", Kind::age}};
    rows.when_empty = "no attempts kept";
    for (const auto& a : d.attempts) {
        rows.rows.push_back({std::uint64_t{a.number}, text_or_unknown(array_text(a.consumer)), std::uint64_t{a.pid},
                             a.started_ns == 0 ? Cell{} : Cell{a.started_ns},
                             a.ended_ns == 0 ? Cell{} : Cell{a.ended_ns}, std::string(to_string(a.outcome)),
                             text_or_unknown(array_text(a.error_code)), age_cell(a.delay_ns)});
    }
    return rows;
}

std::string entry_text(const Context& context, const Fields& fields, const DeadLetter& d) {
    std::string text = fields_text(fields, context.style);
    // Headers are nested: they have lines of their own.
    for (const auto& [name, value] : d.headers) {
        text += fmt::format("{:<24}{}: {}\n", "header", tools::printable(name), tools::printable(value));
    }
    return text + "\n" + table_text(attempt_rows(d), context.style);
}

}  // namespace

Answer dead_letter(const Context& context) {
    Answer answer;
    std::optional<Entry> found;
    walk_entries(context, answer, [&](const Entry& entry) {
        if (entry.letter.id == context.request.id) found = entry;
        return !found;
    });
    if (!found) {
        throw Failure{
            answer.damage ? exit_corrupt : exit_not_found,
            fmt::format("{}: no dead letter {}", tools::printable(context.source.path()), *context.request.id)};
    }
    auto fields = fields_of(context, *found);
    answer.text = entry_text(context, fields, found->letter);
    const Rows attempts = attempt_rows(found->letter);
    Json list = Json::array();
    for (const Row& row : attempts.rows) list.push_back(row_json(attempts, row));
    fields.push_back({{"attempts", "attempts", Kind::json}, Cell::json(list)});
    Row row;
    for (auto& field : fields) {
        answer.rows.columns.push_back(field.column);
        row.push_back(std::move(field.cell));
    }
    answer.rows.rows.push_back(std::move(row));
    return answer;
}

// ---- by cause ------------------------------------------------------------------------------------------------

Answer dead_letter_summary(const Context& context) {
    struct Cause {
        std::uint64_t count = 0, open = 0, first_ns = ~std::uint64_t{0}, last_ns = 0, sample = 0;
        DeadLetter letter;
    };
    Answer answer;
    // A cause belongs to one group: it is that group's consumers that fail.
    std::map<std::pair<std::string, std::uint64_t>, Cause> causes;
    bool named = false;
    walk_entries(context, answer, [&](const Entry& entry) {
        const DeadLetter& d = entry.letter;
        named = named || d.group == context.request.group;
        if (!wanted(context, entry)) return true;
        Cause& cause = causes[{d.group, d.fingerprint}];
        if (cause.count++ == 0) {
            cause.letter = d;
            cause.letter.payload.clear();
            cause.sample = d.id;
        }
        if (entry.state == DeadState::open) ++cause.open;
        cause.first_ns = std::min(cause.first_ns, d.dead_ns);
        cause.last_ns = std::max(cause.last_ns, d.dead_ns);
        return true;
    });
    check_group(context, answer, named);
    answer.rows.columns = {column("FINGERPRINT"),
                           column("COUNT", Kind::count),
                           column("OPEN", Kind::count),
                           column("GROUP"),
                           column("REASON"),
                           column("ERROR-TYPE"),
                           column("ERROR-CODE"),
                           column("FIRST-SEEN", Kind::time),
                           column("LAST-SEEN", Kind::time),
                           column("SAMPLE-ID", Kind::count)};
    answer.rows.when_empty = "no dead letters";
    std::vector<const Cause*> sorted;
    sorted.reserve(causes.size());
    for (const auto& [key, cause] : causes) sorted.push_back(&cause);
    std::stable_sort(sorted.begin(), sorted.end(), [](const Cause* a, const Cause* b) { return a->count > b->count; });
    for (const Cause* cause : sorted) {
        const DeadLetter& d = cause->letter;
        answer.rows.rows.push_back({fingerprint_text(d.fingerprint), cause->count, cause->open, d.group,
                                    std::string(to_string(d.reason)), text_or_unknown(d.error_type),
                                    text_or_unknown(d.code), cause->first_ns == 0 ? Cell{} : Cell{cause->first_ns},
                                    cause->last_ns == 0 ? Cell{} : Cell{cause->last_ns}, cause->sample});
    }
    return answer;
}

}  // namespace rondo::dump
