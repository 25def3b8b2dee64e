// SPDX-License-Identifier: MIT
// Records: sizes, the copied-and-checked view of a header, the extension block. Pure functions of bytes; nothing
// here trusts a length that it has not compared with the room it was given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/bits.hpp"
#include "format/words.hpp"
#include "rondo/format.hpp"
#include "rondo/options.hpp"

namespace rondo::format {

constexpr std::uint64_t slots_for(std::uint64_t extension_bytes, std::uint64_t payload_bytes) {
    return (header_bytes + extension_bytes + payload_bytes + slot_bytes - 1) / slot_bytes;
}

/// A header as read once from the ring, checked against the ring and the position.
struct RecordView {
    RecordHead head;
    std::uint32_t checksum;
    std::uint32_t accepted;
    std::uint16_t producer;
    std::uint16_t epoch;
};

/// Is `head`, found at `position` of a ring of `slots`, something a producer can have written?
constexpr bool plausible(const RecordHead& head, Seq position, std::uint64_t slots) {
    if (head.slots == 0 || head.slots > slots || (position & (slots - 1)) + head.slots > slots) return false;
    if (head.type == RecordType::pad || head.type == RecordType::void_claim) return true;
    return head.type == RecordType::message && slots_for(0, head.payload_bytes) <= head.slots;
}

// ---- extensions ----------------------------------------------------------------------------------------------

inline constexpr std::size_t max_headers = 32;
inline constexpr std::size_t max_headers_bytes = 4096;
inline constexpr std::size_t max_key_bytes = 255;

/// Where a redriven record comes from, so that a second redrive of the same entry is recognised.
struct Origin {
    Uuid ring_uuid;
    std::uint64_t epoch;
    Seq seq;
    bool operator==(const Origin&) const = default;
};

/// Everything that may stand in an extension block of this version.
struct Extensions {
    std::string_view key{};
    std::optional<std::uint64_t> type{};
    std::optional<std::array<std::uint8_t, 16>> message_id{};
    std::optional<std::uint64_t> accepted_ns{};
    std::span<const Header> headers{};
    std::uint32_t only_group_life = 0;  // with only_group
    std::optional<std::uint32_t> only_group{};
    std::uint32_t redrive_count = 0;
    std::optional<Origin> origin{};
    std::optional<std::uint64_t> original_seq{};  // where it was published first
    std::string_view first_reason{};
    std::uint64_t first_dead_ns = 0, first_accepted_ns = 0;
};

/// Bytes the block takes: 0 when nothing is set, otherwise a multiple of 16.
std::size_t extension_bytes(const Extensions& e);
/// Writes the block into `out`, which has exactly extension_bytes(e).
void encode_extensions(const Extensions& e, std::span<std::byte> out);

/// Reads an extension block that other processes may have damaged: every step stays inside `bytes`.
class ExtensionReader {
public:
    explicit ExtensionReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    struct Field {
        Tag tag;
        std::span<const std::byte> value;
    };
    /// The next field, or nothing at the end or at the first that does not fit.
    std::optional<Field> next();

    static std::optional<std::span<const std::byte>> find(std::span<const std::byte> block, Tag tag);
    static std::optional<std::uint64_t> find_number(std::span<const std::byte> block, Tag tag);
    static std::string_view find_text(std::span<const std::byte> block, Tag tag);
    /// Name and value of the field of a header; empty names for anything odd.
    static Header as_header(std::span<const std::byte> value);
    static std::optional<Origin> find_origin(std::span<const std::byte> block);

private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 8;
};

/// Bytes of the extension block of a record whose body (after the header) is `body`, or nothing if it cannot be.
std::optional<std::size_t> extension_block_bytes(const RecordHead& head, std::span<const std::byte> body);

/// only_group field of the block: group index and its life, or nothing.
struct OnlyGroup {
    std::uint32_t group, life;
};
std::optional<OnlyGroup> find_only_group(std::span<const std::byte> block);

}  // namespace rondo::format
