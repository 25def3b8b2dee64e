// SPDX-License-Identifier: MIT
// What dead.ring holds: the payload of each of its records is one dead entry, a message with its whole story.
// Layout (docs/format.md): DeadEntryHead | attempts | texts | zeros to 16 | extension block | zeros to 16 | payload.
// Extension block and payload are the failed record's, byte for byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "format/record.hpp"
#include "format/validate.hpp"
#include "rondo/dead_letter.hpp"
#include "rondo/format.hpp"
#include "rondo/result.hpp"
#include "rondo/types.hpp"

namespace rondo::format {

inline constexpr std::array<char, 4> dead_entry_magic = {'R', 'D', 'L', 'E'};
inline constexpr std::uint32_t dead_entry_version = 1;

inline constexpr std::size_t max_code_bytes = 64;
inline constexpr std::size_t max_type_bytes = 128;
inline constexpr std::size_t max_stage_bytes = 32;
inline constexpr std::size_t max_message_bytes = 1024;
inline constexpr std::size_t max_detail_bytes = 4096;
inline constexpr std::size_t max_first_reason_bytes = 32;

/// The texts of an entry, in this order behind its attempts.
enum class DeadText : std::uint32_t {
    group = 0,
    consumer,
    program,
    producer,
    first_reason,
    code,
    type,
    stage,
    message,
    detail
};
inline constexpr std::size_t dead_text_count = 10;
/// The longest each may be; longer ones are cut at a UTF-8 border and flagged.
inline constexpr std::array<std::size_t, dead_text_count> max_dead_text_bytes = {
    name_bytes - 1, name_bytes - 1, name_bytes - 1,  name_bytes - 1,    max_first_reason_bytes,
    max_code_bytes, max_type_bytes, max_stage_bytes, max_message_bytes, max_detail_bytes};

inline constexpr std::uint32_t dead_flag_payload_damaged = 1;
/// This text was cut: bit 1 + DeadText.
constexpr std::uint32_t dead_flag_cut(DeadText text) { return 2U << static_cast<std::uint32_t>(text); }
inline constexpr std::uint32_t dead_flags_known = (2U << dead_text_count) - 1;

/// The fixed part of an entry. Written once, with the rest; reserved bytes are zero.
struct DeadEntryHead {
    std::array<char, 4> magic;
    std::uint32_t version;
    std::uint32_t entry_checksum;  // low 32 bits of XXH3-64, seed 0, over the whole entry without this field
    std::uint32_t flags;
    Uuid ring_uuid;  // identity: this, epoch, seq, group, group_life
    std::uint64_t epoch;
    std::uint64_t seq;
    std::uint32_t lane;
    std::uint32_t group;
    std::uint32_t group_life;
    DeadReason reason;
    std::uint64_t accepted_ns, first_delivered_ns, last_delivered_ns, dead_ns;  // wall clock; 0 = unknown
    std::uint32_t delivery_count, release_count, max_deliveries;
    std::uint32_t attempt_count;  // that follow; at most attempts_kept
    std::uint32_t consumer_pid;
    std::uint32_t redrive_count;
    std::uint64_t first_dead_ns;
    std::uint64_t fingerprint;
    std::array<std::uint16_t, dead_text_count> text_bytes;
    std::uint32_t payload_checksum;  // low 32 bits of XXH3-64, seed 0, of the payload
    std::uint32_t extension_bytes;
    std::uint32_t reserved0;
    std::uint64_t payload_bytes;
    std::uint64_t reserved1[2];
};
static_assert(sizeof(DeadEntryHead) == 192 && std::is_trivially_copyable_v<DeadEntryHead>);
static_assert(offsetof(DeadEntryHead, text_bytes) == 136 && offsetof(DeadEntryHead, payload_bytes) == 168);

constexpr std::size_t max_dead_texts_bytes() {
    std::size_t sum = 0;
    for (const std::size_t n : max_dead_text_bytes) sum += n;
    return sum;
}
/// The most that an entry takes beside the message's extension block and payload (15 + 15: the zeros).
inline constexpr std::size_t max_dead_overhead_bytes =
    sizeof(DeadEntryHead) + attempts_kept * sizeof(Attempt) + max_dead_texts_bytes() + 15 + 15;
// So dead.ring, whose records may be story_bytes larger than the main ring's, takes the largest message with the
// longest story, its record header included.
static_assert(max_dead_overhead_bytes + header_bytes < story_bytes);

/// What is put into an entry. The views need to live for the call only; they must not be written meanwhile, except
/// `extensions` and `payload`, which may lie in a ring: they are copied once and the copy is checksummed.
struct DeadEntry {
    Uuid ring_uuid{};
    Epoch epoch = 0;
    Seq seq = 0;
    std::uint32_t lane = 0;
    std::uint32_t group = 0;
    std::uint32_t group_life = 0;
    std::string_view group_name{};
    DeadReason reason = DeadReason::rejected;
    // Cut to the limits above by the encoder.
    std::string_view code{}, type{}, stage{}, message{}, detail{};
    bool message_cut = false;  // the caller has a cut message already (note_message_cut)
    bool detail_cut = false;   // the detail was lost or cut earlier (note_detail_lost)
    std::uint64_t accepted_ns = 0, first_delivered_ns = 0, last_delivered_ns = 0, dead_ns = 0;
    std::uint32_t delivery_count = 0, release_count = 0, max_deliveries = 0;
    std::span<const Attempt> attempts{};  // oldest first; of more than 8 the last 8 are kept
    std::string_view consumer{}, program{}, producer{};
    std::uint32_t consumer_pid = 0;
    std::uint32_t redrive_count = 0;
    std::string_view first_reason{};  // empty: this is the first death, `reason`'s word is stored
    std::uint64_t first_dead_ns = 0;  // 0: same, dead_ns is stored
    bool payload_damaged = false;
    std::span<const std::byte> extensions{};
    std::span<const std::byte> payload{};
};

/// Bytes of the encoded entry.
[[nodiscard]] std::size_t dead_entry_bytes(const DeadEntry& entry) noexcept;

/// Writes the entry into `out`, which has exactly dead_entry_bytes(entry). False, and nothing usable written, if it
/// has not: then a text changed under the call. No allocation. What other processes may have damaged in the attempts
/// is put right (an unknown outcome becomes none), so that whatever was encoded can be decoded.
[[nodiscard]] bool encode_dead_entry(const DeadEntry& entry, std::span<std::byte> out) noexcept;

/// The entry as users see it; `id` and `state` are left for the caller. Copies the bytes first, then checks all of
/// them. corrupt: damaged or cut short; version_mismatch: written by another version. Allocates (std::bad_alloc).
[[nodiscard]] Result<DeadLetter> decode_dead_entry(std::span<const std::byte> bytes);

/// Which message an entry is about. Two entries with the same identity are the same death.
struct DeadIdentity {
    Origin origin;
    std::uint32_t group;
    std::uint32_t group_life;
    bool operator==(const DeadIdentity&) const = default;
};
/// From the first bytes of an entry, without its checksum: for the search for duplicates. No allocation.
[[nodiscard]] std::optional<DeadIdentity> dead_entry_identity(std::span<const std::byte> bytes) noexcept;

/// The same cause gives the same value: a hash of reason, type, code, stage and the message (as cut), in which
/// UUIDs, hexadecimal words and runs of digits count as one and the same. No allocation.
[[nodiscard]] std::uint64_t fingerprint_of(DeadReason reason, std::string_view type, std::string_view code,
                                           std::string_view stage, std::string_view message) noexcept;

/// The reason with that word, or nothing.
[[nodiscard]] std::optional<DeadReason> dead_reason_of(std::string_view word) noexcept;

}  // namespace rondo::format
