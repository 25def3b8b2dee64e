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

#define RONDO_FIELD(member) \
    Field { #member, offsetof(T, member), sizeof(T::member) }

TEST_CASE("the superblock is as documented") {
    using T = Superblock;
    check_table("Superblock", sizeof(T),
                {RONDO_FIELD(magic),
                 RONDO_FIELD(version),
                 RONDO_FIELD(byte_order),
                 RONDO_FIELD(features_required),
                 RONDO_FIELD(features_optional),
                 RONDO_FIELD(queue_uuid),
                 RONDO_FIELD(ring_uuid),
                 RONDO_FIELD(boot_id),
                 RONDO_FIELD(salt),
                 RONDO_FIELD(kind),
                 RONDO_FIELD(lane),
                 RONDO_FIELD(producers),
                 RONDO_FIELD(checksum),
                 RONDO_FIELD(timestamps),
                 RONDO_FIELD(durability),
                 RONDO_FIELD(slot_count),
                 RONDO_FIELD(slot_bytes),
                 RONDO_FIELD(participant_count),
                 RONDO_FIELD(handle_count),
                 RONDO_FIELD(group_count),
                 RONDO_FIELD(max_record_bytes),
                 RONDO_FIELD(file_bytes),
                 RONDO_FIELD(hot_offset),
                 RONDO_FIELD(queue_offset),
                 RONDO_FIELD(participants_offset),
                 RONDO_FIELD(handles_offset),
                 RONDO_FIELD(groups_offset),
                 RONDO_FIELD(claims_offset),
                 RONDO_FIELD(slots_offset),
                 RONDO_FIELD(retry_slot_count),
                 RONDO_FIELD(dead_slot_count),
                 RONDO_FIELD(time_base_ns),
                 RONDO_FIELD(created_ns),
                 RONDO_FIELD(device),
                 RONDO_FIELD(inode),
                 RONDO_FIELD(time_namespace),
                 RONDO_FIELD(mode),
                 RONDO_FIELD(gid),
                 RONDO_FIELD(image_uuid),
                 RONDO_FIELD(image_reserved),
                 RONDO_FIELD(reserved0),
                 RONDO_FIELD(superblock_checksum)});
}

TEST_CASE("the hot words and the queue block are as documented") {
    {
        using T = HotWords;
        check_table("HotWords", sizeof(T),
                    {RONDO_FIELD(tail), RONDO_FIELD(limit), RONDO_FIELD(data_event), RONDO_FIELD(space_event),
                     RONDO_FIELD(durable_event), RONDO_FIELD(keep_from), RONDO_FIELD(last_scan), RONDO_FIELD(state),
                     RONDO_FIELD(epoch), RONDO_FIELD(durable), RONDO_FIELD(checkpoint_head),
                     RONDO_FIELD(producer_owner), RONDO_FIELD(participants_high), RONDO_FIELD(handles_high),
                     RONDO_FIELD(fence_needed), RONDO_FIELD(void_total), RONDO_FIELD(corrupt_total)});
    }
    using T = QueueBlock;
    check_table("QueueBlock", sizeof(T), {RONDO_FIELD(overflow), RONDO_FIELD(reserved)});
}

TEST_CASE("participants and handles are as documented") {
    {
        using T = Participant;
        check_table("Participant", sizeof(T),
                    {RONDO_FIELD(state), RONDO_FIELD(incarnation), RONDO_FIELD(pid), RONDO_FIELD(uid),
                     RONDO_FIELD(pid_namespace), RONDO_FIELD(start_ticks), RONDO_FIELD(attached_ns),
                     RONDO_FIELD(program), RONDO_FIELD(reserved)});
    }
    using T = Handle;
    check_table("Handle", sizeof(T),
                {RONDO_FIELD(owner),
                 RONDO_FIELD(group),
                 RONDO_FIELD(group_life),
                 RONDO_FIELD(borrow),
                 RONDO_FIELD(waiting),
                 RONDO_FIELD(serial),
                 RONDO_FIELD(waiting_since_ns),
                 RONDO_FIELD(name),
                 RONDO_FIELD(reserved1),
                 RONDO_FIELD(published),
                 RONDO_FIELD(acked),
                 RONDO_FIELD(nacked),
                 RONDO_FIELD(rejected),
                 RONDO_FIELD(released),
                 RONDO_FIELD(stale),
                 RONDO_FIELD(lapsed),
                 RONDO_FIELD(in_flight),
                 RONDO_FIELD(last_seq),
                 RONDO_FIELD(last_outcome_ns),
                 RONDO_FIELD(handler_ns),
                 RONDO_FIELD(handler_samples),
                 RONDO_FIELD(blocked_ns),
                 RONDO_FIELD(reserved2)});
}

TEST_CASE("groups are as documented") {
    using T = Group;
    check_table("Group", sizeof(T),
                {RONDO_FIELD(state),
                 RONDO_FIELD(life),
                 RONDO_FIELD(mode),
                 RONDO_FIELD(kind),
                 RONDO_FIELD(start_kind),
                 RONDO_FIELD(jitter),
                 RONDO_FIELD(start_value),
                 RONDO_FIELD(lease_timeout_ns),
                 RONDO_FIELD(max_lease_total_ns),
                 RONDO_FIELD(max_deliveries),
                 RONDO_FIELD(backoff_multiplier_milli),
                 RONDO_FIELD(backoff_initial_ns),
                 RONDO_FIELD(backoff_max_ns),
                 RONDO_FIELD(retry_max_age_ns),
                 RONDO_FIELD(max_in_flight_consumer),
                 RONDO_FIELD(max_in_flight_group),
                 RONDO_FIELD(max_dead_pending),
                 RONDO_FIELD(created_ns),
                 RONDO_FIELD(name),
                 RONDO_FIELD(first),
                 RONDO_FIELD(returns),
                 RONDO_FIELD(returned),
                 RONDO_FIELD(cursor),
                 RONDO_FIELD(hint),
                 RONDO_FIELD(owner),
                 RONDO_FIELD(handed),
                 RONDO_FIELD(retry),
                 RONDO_FIELD(not_before),
                 RONDO_FIELD(move),
                 RONDO_FIELD(move_tail),
                 RONDO_FIELD(dead_pending),
                 RONDO_FIELD(handed_ns),
                 RONDO_FIELD(delivered),
                 RONDO_FIELD(acked),
                 RONDO_FIELD(nacked),
                 RONDO_FIELD(rejected),
                 RONDO_FIELD(released),
                 RONDO_FIELD(stale),
                 RONDO_FIELD(lapsed),
                 RONDO_FIELD(owner_died),
                 RONDO_FIELD(dead_lettered),
                 RONDO_FIELD(redelivered),
                 RONDO_FIELD(skipped),
                 RONDO_FIELD(reserved1),
                 RONDO_FIELD(note),
                 RONDO_FIELD(reserved2)});
}

TEST_CASE("record headers are as documented") {
    using T = RecordHeader;
    check_table("RecordHeader", sizeof(T),
                {RONDO_FIELD(stamp), RONDO_FIELD(head), RONDO_FIELD(checksum), RONDO_FIELD(durable_lag),
                 RONDO_FIELD(accepted), RONDO_FIELD(producer), RONDO_FIELD(epoch)});
}

TEST_CASE("lease tables are as documented") {
    {
        using T = LeaseHeader;
        check_table(
            "LeaseHeader", sizeof(T),
            {RONDO_FIELD(magic), RONDO_FIELD(version), RONDO_FIELD(group), RONDO_FIELD(life), RONDO_FIELD(note_count),
             RONDO_FIELD(slot_count), RONDO_FIELD(queue_uuid), RONDO_FIELD(ring_uuid), RONDO_FIELD(file_bytes)});
    }
    {
        using T = Entry;
        check_table("Entry", sizeof(T), {RONDO_FIELD(a), RONDO_FIELD(b)});
    }
    {
        using T = Note;
        check_table("Note", sizeof(T),
                    {RONDO_FIELD(position), RONDO_FIELD(attempt_count), RONDO_FIELD(release_count),
                     RONDO_FIELD(first_delivered_ns), RONDO_FIELD(last_delivered_ns), RONDO_FIELD(code_size),
                     RONDO_FIELD(type_size), RONDO_FIELD(stage_size), RONDO_FIELD(message_size), RONDO_FIELD(flags),
                     RONDO_FIELD(reason), RONDO_FIELD(first_mono_ns), RONDO_FIELD(attempts), RONDO_FIELD(code), RONDO_FIELD(type),
                     RONDO_FIELD(stage), RONDO_FIELD(message)});
    }
    using T = Attempt;
    check_table(
        "Attempt", sizeof(T),
        {RONDO_FIELD(number), RONDO_FIELD(outcome), RONDO_FIELD(pid), RONDO_FIELD(reserved0), RONDO_FIELD(started_ns),
         RONDO_FIELD(ended_ns), RONDO_FIELD(delay_ns), RONDO_FIELD(consumer), RONDO_FIELD(error_code)});
}

TEST_CASE("dead entries are as documented") {
    using T = DeadEntryHead;
    check_table("DeadEntryHead", sizeof(T),
                {RONDO_FIELD(magic),
                 RONDO_FIELD(version),
                 RONDO_FIELD(entry_checksum),
                 RONDO_FIELD(flags),
                 RONDO_FIELD(ring_uuid),
                 RONDO_FIELD(epoch),
                 RONDO_FIELD(seq),
                 RONDO_FIELD(lane),
                 RONDO_FIELD(group),
                 RONDO_FIELD(group_life),
                 RONDO_FIELD(reason),
                 RONDO_FIELD(accepted_ns),
                 RONDO_FIELD(first_delivered_ns),
                 RONDO_FIELD(last_delivered_ns),
                 RONDO_FIELD(dead_ns),
                 RONDO_FIELD(delivery_count),
                 RONDO_FIELD(release_count),
                 RONDO_FIELD(max_deliveries),
                 RONDO_FIELD(attempt_count),
                 RONDO_FIELD(consumer_pid),
                 RONDO_FIELD(redrive_count),
                 RONDO_FIELD(first_dead_ns),
                 RONDO_FIELD(fingerprint),
                 RONDO_FIELD(text_bytes),
                 RONDO_FIELD(payload_checksum),
                 RONDO_FIELD(extension_bytes),
                 RONDO_FIELD(reserved0),
                 RONDO_FIELD(payload_bytes),
                 RONDO_FIELD(reserved1)});

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
        {"original_seq", Tag::original_seq},
        {"first_accepted_ns", Tag::first_accepted_ns},
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
