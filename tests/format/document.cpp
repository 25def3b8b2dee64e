// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// docs/format.md says what the compiled structures are: every field, at its offset, with its size, none left out.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "document.hpp"
#include "format/dead_entry.hpp"
#include "format/words.hpp"
#include "rondo/format.hpp"
#include "samples.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::check_bits;
using rondo::test::check_table;
using rondo::test::Section;
using rondo::test::section;
using Field = rondo::test::DocumentField;

#define FIELD(member) \
    Field { #member, offsetof(T, member), sizeof(T::member) }

TEST_CASE("the superblock is as documented") {
    using T = Superblock;
    check_table("Superblock", sizeof(T),
                {FIELD(magic),
                 FIELD(version),
                 FIELD(byte_order),
                 FIELD(features_required),
                 FIELD(features_optional),
                 FIELD(queue_uuid),
                 FIELD(ring_uuid),
                 FIELD(boot_id),
                 FIELD(salt),
                 FIELD(kind),
                 FIELD(lane),
                 FIELD(producers),
                 FIELD(checksum),
                 FIELD(timestamps),
                 FIELD(durability),
                 FIELD(slot_count),
                 FIELD(slot_bytes),
                 FIELD(participant_count),
                 FIELD(handle_count),
                 FIELD(group_count),
                 FIELD(max_record_bytes),
                 FIELD(file_bytes),
                 FIELD(hot_offset),
                 FIELD(queue_offset),
                 FIELD(participants_offset),
                 FIELD(handles_offset),
                 FIELD(groups_offset),
                 FIELD(claims_offset),
                 FIELD(slots_offset),
                 FIELD(retry_slot_count),
                 FIELD(dead_slot_count),
                 FIELD(time_base_ns),
                 FIELD(created_ns),
                 FIELD(device),
                 FIELD(inode),
                 FIELD(time_namespace),
                 FIELD(mode),
                 FIELD(gid),
                 FIELD(image_uuid),
                 FIELD(image_reserved),
                 FIELD(reserved0),
                 FIELD(superblock_checksum)});
}

TEST_CASE("the hot words and the queue block are as documented") {
    {
        using T = HotWords;
        check_table("HotWords", sizeof(T),
                    {FIELD(tail), FIELD(limit), FIELD(data_event), FIELD(space_event), FIELD(durable_event),
                     FIELD(keep_from), FIELD(last_scan), FIELD(state), FIELD(epoch), FIELD(durable),
                     FIELD(checkpoint_head), FIELD(producer_owner), FIELD(participants_high), FIELD(handles_high),
                     FIELD(fence_needed), FIELD(void_total), FIELD(corrupt_total)});
    }
    using T = QueueBlock;
    check_table("QueueBlock", sizeof(T), {FIELD(overflow), FIELD(reserved)});
}

TEST_CASE("participants and handles are as documented") {
    {
        using T = Participant;
        check_table("Participant", sizeof(T),
                    {FIELD(state), FIELD(incarnation), FIELD(pid), FIELD(uid), FIELD(pid_namespace), FIELD(start_ticks),
                     FIELD(attached_ns), FIELD(program), FIELD(reserved)});
    }
    using T = Handle;
    check_table("Handle", sizeof(T),
                {FIELD(owner),
                 FIELD(group),
                 FIELD(group_life),
                 FIELD(borrow),
                 FIELD(waiting),
                 FIELD(reserved0),
                 FIELD(waiting_since_ns),
                 FIELD(name),
                 FIELD(reserved1),
                 FIELD(published),
                 FIELD(acked),
                 FIELD(nacked),
                 FIELD(rejected),
                 FIELD(released),
                 FIELD(stale),
                 FIELD(lapsed),
                 FIELD(in_flight),
                 FIELD(last_seq),
                 FIELD(last_outcome_ns),
                 FIELD(handler_ns),
                 FIELD(handler_samples),
                 FIELD(blocked_ns),
                 FIELD(reserved2)});
}

TEST_CASE("groups are as documented") {
    using T = Group;
    check_table("Group", sizeof(T),
                {FIELD(state),
                 FIELD(life),
                 FIELD(mode),
                 FIELD(kind),
                 FIELD(start_kind),
                 FIELD(jitter),
                 FIELD(start_value),
                 FIELD(lease_timeout_ns),
                 FIELD(max_lease_total_ns),
                 FIELD(max_deliveries),
                 FIELD(backoff_multiplier_milli),
                 FIELD(backoff_initial_ns),
                 FIELD(backoff_max_ns),
                 FIELD(retry_max_age_ns),
                 FIELD(max_in_flight_consumer),
                 FIELD(max_in_flight_group),
                 FIELD(max_dead_pending),
                 FIELD(created_ns),
                 FIELD(name),
                 FIELD(returns),
                 FIELD(reserved0),
                 FIELD(cursor),
                 FIELD(hint),
                 FIELD(owner),
                 FIELD(handed),
                 FIELD(retry),
                 FIELD(not_before),
                 FIELD(move),
                 FIELD(move_tail),
                 FIELD(dead_pending),
                 FIELD(delivered),
                 FIELD(acked),
                 FIELD(nacked),
                 FIELD(rejected),
                 FIELD(released),
                 FIELD(stale),
                 FIELD(lapsed),
                 FIELD(owner_died),
                 FIELD(dead_lettered),
                 FIELD(redelivered),
                 FIELD(skipped),
                 FIELD(reserved1),
                 FIELD(note),
                 FIELD(reserved2)});
}

TEST_CASE("record headers are as documented") {
    using T = RecordHeader;
    check_table("RecordHeader", sizeof(T),
                {FIELD(stamp), FIELD(head), FIELD(checksum), FIELD(durable_lag), FIELD(accepted), FIELD(producer),
                 FIELD(epoch)});
}

TEST_CASE("lease tables are as documented") {
    {
        using T = LeaseHeader;
        check_table("LeaseHeader", sizeof(T),
                    {FIELD(magic), FIELD(version), FIELD(group), FIELD(life), FIELD(note_count), FIELD(slot_count),
                     FIELD(queue_uuid), FIELD(ring_uuid), FIELD(file_bytes)});
    }
    {
        using T = Entry;
        check_table("Entry", sizeof(T), {FIELD(a), FIELD(b)});
    }
    {
        using T = Note;
        check_table(
            "Note", sizeof(T),
            {FIELD(position), FIELD(attempt_count), FIELD(release_count), FIELD(first_delivered_ns),
             FIELD(last_delivered_ns), FIELD(code_size), FIELD(type_size), FIELD(stage_size), FIELD(message_size),
             FIELD(flags), FIELD(reason), FIELD(attempts), FIELD(code), FIELD(type), FIELD(stage), FIELD(message)});
    }
    using T = Attempt;
    check_table("Attempt", sizeof(T),
                {FIELD(number), FIELD(outcome), FIELD(pid), FIELD(reserved0), FIELD(started_ns), FIELD(ended_ns),
                 FIELD(delay_ns), FIELD(consumer), FIELD(error_code)});
}

TEST_CASE("dead entries are as documented") {
    using T = DeadEntryHead;
    check_table("DeadEntryHead", sizeof(T),
                {FIELD(magic),
                 FIELD(version),
                 FIELD(entry_checksum),
                 FIELD(flags),
                 FIELD(ring_uuid),
                 FIELD(epoch),
                 FIELD(seq),
                 FIELD(lane),
                 FIELD(group),
                 FIELD(group_life),
                 FIELD(reason),
                 FIELD(accepted_ns),
                 FIELD(first_delivered_ns),
                 FIELD(last_delivered_ns),
                 FIELD(dead_ns),
                 FIELD(delivery_count),
                 FIELD(release_count),
                 FIELD(max_deliveries),
                 FIELD(attempt_count),
                 FIELD(consumer_pid),
                 FIELD(redrive_count),
                 FIELD(first_dead_ns),
                 FIELD(fingerprint),
                 FIELD(text_bytes),
                 FIELD(payload_checksum),
                 FIELD(extension_bytes),
                 FIELD(reserved0),
                 FIELD(payload_bytes),
                 FIELD(reserved1)});

    const Section& texts = section("Texts");
    REQUIRE(texts.rows.size() == dead_text_count);
    const char* const names[dead_text_count] = {"group", "consumer", "program", "producer", "first_reason",
                                                "code",  "type",     "stage",   "message",  "detail"};
    for (std::size_t i = 0; i < dead_text_count; ++i) {
        CHECK(texts.rows[i][0] == std::to_string(i));
        CHECK(texts.rows[i][1] == names[i]);
        CHECK(texts.rows[i][2] == std::to_string(max_dead_text_bytes[i]));
    }
}

TEST_CASE("packed words are as documented") {
    check_bits("claim word", {{"slots", pack_claim(0, 0, max_claim_slots)},
                              {"owner", pack_claim(0, 1023, 0)},
                              {"lap1", pack_claim(max_lap1, 0, 0)}});
    check_bits("limit word", {{"generation", pack_limit(0, join_generations - 1)},
                              {"position", pack_limit((Seq{1} << position_bits) - 1, 0)}});
    check_bits("head word", {{"payload_bytes", pack_head({~0U, 0, {}, 0})},
                             {"slots", pack_head({0, max_claim_slots, {}, 0})},
                             {"type", pack_head({0, 0, static_cast<RecordType>(255), 0})},
                             {"flags", pack_head({0, 0, {}, 255})}});
    check_bits("lease word", {{"attempts", pack_lease({0, {}, 0, max_attempts})},
                              {"owner", pack_lease({0, {}, 1023, 0})},
                              {"state", pack_lease({0, static_cast<EntryState>(15), 0, 0})},
                              {"lap1", pack_lease({max_lap1, {}, 0, 0})}});
    check_bits("due word", {{"attempts", pack_due({0, 0, max_attempts})},
                            {"owner", pack_due({0, 1023, 0})},
                            {"value", pack_due({max_due, 0, 0})}});
}

TEST_CASE("the tags of extensions are as documented") {
    const std::pair<const char*, Tag> tags[] = {
        {"key", Tag::key},
        {"message_type", Tag::message_type},
        {"message_id", Tag::message_id},
        {"accepted_ns", Tag::accepted_ns},
        {"dedup_key", Tag::dedup_key},
        {"expires_at", Tag::expires_at},
        {"deliver_at", Tag::deliver_at},
        {"only_group", Tag::only_group},
        {"lane", Tag::lane},
        {"header", Tag::header},
        {"created_ns", Tag::created_ns},
        {"redrive_count", Tag::redrive_count},
        {"origin", Tag::origin},
        {"delivery_count", Tag::delivery_count},
        {"first_reason", Tag::first_reason},
        {"first_dead_ns", Tag::first_dead_ns},
    };
    const Section& s = section("Tags");
    REQUIRE(s.rows.size() == std::size(tags));
    for (std::size_t i = 0; i < std::size(tags); ++i) {
        CHECK(s.rows[i][0] == std::to_string(static_cast<unsigned>(tags[i].second)));
        CHECK(s.rows[i][1] == tags[i].first);
    }
}

TEST_CASE("the example record is what an encoder writes") {
    Extensions e;
    e.key = "order-17";
    e.type = 7;
    const test::ByteVector record = test::record_bytes(4099, e, "hello", 2500, 3);
    std::istringstream hex(section("Example").code);
    std::vector<std::byte> documented;
    for (std::string byte; hex >> byte;) documented.push_back(static_cast<std::byte>(std::stoul(byte, nullptr, 16)));
    REQUIRE(documented.size() == 80);
    REQUIRE(record.size() == 128);
    CHECK(std::equal(documented.begin(), documented.end(), record.begin()));
    // The rest, left out there, is unused.
    CHECK(std::all_of(record.begin() + 80, record.end(), [](std::byte b) { return b == std::byte{0}; }));
}
