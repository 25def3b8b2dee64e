// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Well-formed structures with fixed contents, for the tests of the format to damage and the golden files to keep.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/checksum.hpp"
#include "format/dead_entry.hpp"
#include "format/layout.hpp"
#include "format/record.hpp"
#include "format/validate.hpp"
#include "format/words.hpp"

namespace rondo::test {

using ByteVector = std::vector<std::byte>;

inline constexpr std::uint64_t sample_salt = 0x0123456789abcdef;

inline format::Uuid uuid_from(std::uint8_t first) {
    format::Uuid uuid{};
    for (std::size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<std::uint8_t>(first + i);
    return uuid;
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline ByteVector bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return {bytes.begin(), bytes.end()};
}

/// Fills in the counts of the ring's kind and what follows from them.
inline void lay_out(format::Superblock& s) {
    const bool is_main = s.kind == format::RingKind::main;
    s.participant_count = is_main ? format::max_participants : 0;
    s.handle_count = is_main ? format::max_handles : 0;
    const auto l = format::layout_of({s.slot_count, s.participant_count, s.handle_count, s.group_count});
    s.hot_offset = l.hot;
    s.queue_offset = l.queue;
    s.participants_offset = l.participants;
    s.handles_offset = l.handles;
    s.groups_offset = l.groups;
    s.claims_offset = l.claims;
    s.slots_offset = l.slots;
    s.file_bytes = l.file_bytes;
}

/// A sealed superblock of a ring of 2^14 slots.
inline format::Superblock sample_superblock(format::RingKind kind = format::RingKind::main) {
    format::Superblock s{};
    s.magic = format::magic;
    s.version = format::version;
    s.byte_order = format::byte_order_mark;
    s.queue_uuid = uuid_from(0x10);
    s.ring_uuid = uuid_from(0x40);
    s.boot_id = uuid_from(0x70);
    s.salt = sample_salt;
    s.kind = kind;
    s.producers = format::Producers::many;
    s.checksum = format::Checksum::xxh3;
    s.timestamps = format::Timestamps::coarse;
    s.durability = format::Durability::none;
    s.slot_count = 1 << 14;
    s.slot_bytes = format::slot_bytes;
    s.group_count = 16;
    s.max_record_bytes = 1 << 14;
    s.retry_slot_count = 1 << 13;
    s.dead_slot_count = 1 << 12;
    s.time_base_ns = 1'700'000'000'000'000'000;
    s.created_ns = 1'700'000'000'123'456'789;
    s.device = 27;
    s.inode = 4711;
    s.time_namespace = 4026531834;
    s.mode = 0600;
    s.gid = ~std::uint32_t{0};
    lay_out(s);
    format::seal_superblock(s);
    return s;
}

template <class T>
ByteVector page_of(const T& head) {
    ByteVector page(format::page_bytes);
    std::memcpy(page.data(), &head, sizeof head);
    return page;
}

inline format::LeaseHeader sample_lease_header() {
    const auto ring = sample_superblock();
    const auto layout = format::lease_layout_of(ring.slot_count);
    return {format::lease_magic, format::version,  3, 2, layout.note_count, ring.slot_count, ring.queue_uuid,
            ring.ring_uuid,      layout.file_bytes};
}

/// Every field that an extension block of this version may have.
inline format::Extensions full_extensions() {
    static const std::array<Header, 3> headers = {Header{"content-type", "application/json"},
                                                  Header{"trace", std::string_view("\0\x01\xff", 3)},
                                                  Header{"empty", ""}};
    format::Extensions e;
    e.key = "order-17";
    e.type = 0x1122334455667788;
    e.message_id = uuid_from(0xa0);
    e.accepted_ns = 1'700'000'001'000'000'000;
    e.headers = headers;
    e.only_group = 5;
    e.only_group_life = 9;
    e.redrive_count = 2;
    e.origin = format::Origin{uuid_from(0x40), 1, 77};
    e.first_reason = "max_deliveries";
    e.first_dead_ns = 1'700'000'000'500'000'000;
    e.original_seq = 33;
    return e;
}

inline ByteVector encoded(const format::Extensions& e) {
    ByteVector block(format::extension_bytes(e), std::byte{0xee});
    format::encode_extensions(e, block);
    return block;
}

/// A whole record as a producer leaves it in its slots, with its checksum.
inline ByteVector record_bytes(Seq position, const format::Extensions& extensions, std::string_view payload,
                               std::uint32_t accepted, std::uint16_t producer) {
    ByteVector body = encoded(extensions);
    const bool extended = !body.empty();
    for (const std::byte b : bytes_of(payload)) body.push_back(b);
    const std::uint64_t slots = format::round_up_slots(format::slots_for(0, body.size()));
    const std::uint64_t head =
        format::pack_head({static_cast<std::uint32_t>(payload.size()), slots, format::RecordType::message,
                           extended ? format::flag_extensions : std::uint8_t{0}});
    const std::array<std::uint64_t, 2> fixed = {head, std::uint64_t{accepted} << 32 | std::uint64_t{producer} << 16};
    const std::uint64_t stamp = format::stamp_of(position, sample_salt);
    const std::uint32_t checksum = base::checksum32(std::as_bytes(std::span(fixed)), body, sample_salt ^ position);
    ByteVector out(slots * format::slot_bytes);
    const auto put = [&out](std::size_t at, const auto& value) { std::memcpy(out.data() + at, &value, sizeof value); };
    put(offsetof(format::RecordHeader, stamp), stamp);
    put(offsetof(format::RecordHeader, head), head);
    put(offsetof(format::RecordHeader, checksum), checksum);
    put(offsetof(format::RecordHeader, accepted), accepted);
    put(offsetof(format::RecordHeader, producer), producer);
    std::copy(body.begin(), body.end(), out.begin() + format::header_bytes);
    return out;
}

inline format::Attempt sample_attempt(std::uint32_t number, format::Outcome outcome) {
    format::Attempt a{};
    a.number = number;
    a.outcome = outcome;
    a.pid = 4000 + number;
    a.started_ns = 1'700'000'001'000'000'000 + number;
    a.ended_ns = a.started_ns + 1000;
    a.delay_ns = 250'000'000;
    std::memcpy(a.consumer.data(), "worker", 6);
    std::memcpy(a.error_code.data(), "bad_order", 9);
    return a;
}

/// A dead entry with everything in it. Its views point to static storage.
inline format::DeadEntry full_dead_entry() {
    static const ByteVector extensions = encoded(full_extensions());
    static const ByteVector payload = bytes_of("{\"order\":17,\"price\":\"\xe2\x82\xac 12\"}");
    static const std::array<format::Attempt, 3> attempts = {sample_attempt(1, format::Outcome::nacked),
                                                            sample_attempt(2, format::Outcome::owner_died),
                                                            sample_attempt(3, format::Outcome::nacked)};
    format::DeadEntry e;
    e.ring_uuid = uuid_from(0x40);
    e.epoch = 1;
    e.seq = 4099;
    e.lane = 0;
    e.group = 5;
    e.group_life = 9;
    e.group_name = "billing";
    e.reason = DeadReason::max_deliveries;
    e.code = "bad_order";
    e.type = "std::invalid_argument";
    e.stage = "decode";
    e.message = "no price in order 17 at 0x7ffd12";
    e.detail = "#0 decode\n#1 handle\n";
    e.accepted_ns = 1'700'000'000'900'000'000;
    e.first_delivered_ns = 1'700'000'001'000'000'001;
    e.last_delivered_ns = 1'700'000'001'000'000'003;
    e.dead_ns = 1'700'000'001'000'001'003;
    e.delivery_count = 3;
    e.release_count = 1;
    e.max_deliveries = 3;
    e.attempts = attempts;
    e.consumer = "worker";
    e.program = "billingd";
    e.producer = "gateway";
    e.consumer_pid = 4003;
    e.redrive_count = 2;
    e.first_reason = "rejected";
    e.first_dead_ns = 1'700'000'000'500'000'000;
    e.extensions = extensions;
    e.payload = payload;
    return e;
}

inline ByteVector encoded(const format::DeadEntry& e) {
    ByteVector out(format::dead_entry_bytes(e), std::byte{0xee});
    if (!format::encode_dead_entry(e, out)) out.clear();
    return out;
}

inline format::DeadEntryHead head_of(const ByteVector& bytes) {
    format::DeadEntryHead h;
    std::memcpy(&h, bytes.data(), sizeof h);
    return h;
}

}  // namespace rondo::test
