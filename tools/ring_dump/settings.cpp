// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_dump/settings.hpp"

#include <fmt/format.h>

#include "tools/common/format_text.hpp"
#include "tools/common/words.hpp"

namespace rondo::dump {

namespace {

using format::GroupInfo;
using format::peek;
using tools::word_of;

/// How one option of a group is named and read. GroupInfo leaves out what only the group's members need: that comes
/// from the block itself.
struct GroupOption {
    const char* name;
    Kind kind;
    Cell (*value)(const GroupInfo& group, const format::Group& block);
};

constexpr GroupOption group_option_list[] = {
    {"kind", Kind::text, [](auto& g, auto&) { return Cell(word_of(tools::group_kinds, g.kind)); }},
    {"start", Kind::text, [](auto& g, auto&) { return Cell(tools::start_text(g.start_kind, g.start_value)); }},
    {"created_at", Kind::time, [](auto& g, auto&) { return g.created_ns == 0 ? Cell{} : Cell(g.created_ns); }},
    {"lease_timeout", Kind::age, [](auto& g, auto&) { return age_cell(g.lease_timeout_ns); }},
    {"max_lease_total", Kind::age, [](auto& g, auto&) { return age_cell(g.max_lease_total_ns); }},
    {"max_deliveries", Kind::bound,
     [](auto& g, auto&) { return Cell(g.max_deliveries == 0 ? std::int64_t{-1} : std::int64_t{g.max_deliveries}); }},
    {"backoff_initial", Kind::age, [](auto&, auto& block) { return age_cell(peek(block.backoff_initial_ns)); }},
    {"backoff_multiplier", Kind::factor,
     [](auto&, auto& block) { return Cell(peek(block.backoff_multiplier_milli) / 1000.0); }},
    {"backoff_max", Kind::age, [](auto&, auto& block) { return age_cell(peek(block.backoff_max_ns)); }},
    {"jitter", Kind::text,
     [](auto&, auto& block) { return Cell(word_of(tools::jitters, static_cast<Jitter>(peek(block.jitter)))); }},
    {"retry_max_age", Kind::age, [](auto&, auto& block) { return age_cell(peek(block.retry_max_age_ns)); }},
    {"max_in_flight", Kind::count, [](auto& g, auto&) { return Cell(g.max_in_flight_consumer); }},
    {"max_in_flight_group", Kind::count, [](auto& g, auto&) { return Cell(g.max_in_flight_group); }},
    {"max_dead_pending", Kind::count, [](auto& g, auto&) { return Cell(g.max_dead_pending); }},
};

}  // namespace

std::vector<Column> group_option_columns() {
    std::vector<Column> columns;
    for (const GroupOption& option : group_option_list) {
        columns.push_back(hidden(std::string(option.name) + (option.kind == Kind::age ? "_seconds" : ""), option.kind));
    }
    return columns;
}

Row group_options(const Ring& ring, const GroupInfo& group) {
    // The group was read from this block, so it lies in the file.
    const auto& block = *reinterpret_cast<const format::Group*>(ring.bytes.file.data() + ring.bytes.layout.groups +
                                                                group.index * sizeof(format::Group));
    Row row;
    for (const GroupOption& option : group_option_list) row.push_back(option.value(group, block));
    return row;
}

// ---- the queue -----------------------------------------------------------------------------------------------

namespace {

std::string mode_text(const Ring& ring) { return fmt::format("{:04o}", ring.file.info.mode); }

std::string overflow_word(const Ring& ring) {
    return word_of(tools::overflows, static_cast<Overflow>(ring.bytes.overflow()));
}

/// Id 0 is nobody's.
std::uint64_t participants_max(const format::Superblock& super) {
    return super.participant_count == 0 ? 0 : super.participant_count - 1;
}

}  // namespace

Fields queue_properties(const Context& context) {
    const Ring* main = context.source.main();
    if (main == nullptr) return {};
    const format::Superblock& s = main->super();
    const auto text = [](const char* key, std::string value) {
        return Field{hidden(key, Kind::text), Cell(std::move(value))};
    };
    const auto count = [](const char* key, std::uint64_t value) {
        return Field{hidden(key, Kind::count), Cell(value)};
    };
    const auto size = [](const char* key, std::uint64_t bytes) { return Field{hidden(key, Kind::size), Cell(bytes)}; };
    return {text("uuid", tools::uuid_text(s.queue_uuid)),
            text("boot_id", tools::uuid_text(s.boot_id)),
            {hidden("created_at", Kind::time), s.created_ns == 0 ? Cell{} : Cell(s.created_ns)},
            size("capacity_bytes", s.slot_count * format::slot_bytes),
            size("max_record_bytes", s.max_record_bytes),
            size("retry_capacity_bytes", s.retry_slot_count * format::slot_bytes),
            size("dead_capacity_bytes", s.dead_slot_count * format::slot_bytes),
            text("producers", word_of(tools::producer_counts, s.producers)),
            text("durability", word_of(tools::durabilities, s.durability)),
            text("checksum", word_of(tools::checksums, s.checksum)),
            text("timestamps", word_of(tools::timestamp_kinds, s.timestamps)),
            text("overflow", overflow_word(*main)),
            count("max_groups", s.group_count),
            count("participants", context.people.participants().size()),
            count("max_participants", participants_max(s)),
            text("file_mode", mode_text(*main)),
            count("uid", main->file.info.uid),
            count("gid", main->file.info.gid)};
}

std::string queue_properties_text(const Context& context) {
    const Ring* main = context.source.main();
    if (main == nullptr) return "";
    const format::Superblock& s = main->super();
    return fmt::format(
        "capacity {}  max record {}  retry {}  dead {}  max groups {}  participants {} of {}\n"
        "overflow {}  durability {}  checksum {}  timestamps {}  files {}, uid {}, gid {}\n",
        tools::bytes_text(s.slot_count * format::slot_bytes), tools::bytes_text(s.max_record_bytes),
        tools::bytes_text(s.retry_slot_count * format::slot_bytes),
        tools::bytes_text(s.dead_slot_count * format::slot_bytes), s.group_count, context.people.participants().size(),
        participants_max(s), overflow_word(*main), word_of(tools::durabilities, s.durability),
        word_of(tools::checksums, s.checksum), word_of(tools::timestamp_kinds, s.timestamps), mode_text(*main),
        main->file.info.uid, main->file.info.gid);
}

}  // namespace rondo::dump
