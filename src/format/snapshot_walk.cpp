// SPDX-License-Identifier: MIT
#include "format/snapshot_walk.hpp"

#include <algorithm>
#include <array>

namespace rondo::format {

namespace {

/// The floor now: positions below may be overwritten at any moment.
Seq floor_now(const RingBytes& ring) {
    const HotWords* words = ring.hot_words();
    // Without the word nothing below it can be trusted either; such a file ends before its slots.
    if (words == nullptr) return nowhere;
    return RingBytes::floor_of(limit_position(peek_acquire(words->limit)), ring.slots());
}

/// As Attachment::claim_ended(): can none of the participant's producers have a claim open at `position`?
bool claim_ended(const RingBytes& ring, std::uint32_t owner, Seq position) {
    for (const auto& h : ring.handles()) {
        if (h.participant != owner || h.kind == HandleKind::consumer) continue;
        if (h.last_seq == nowhere || h.last_seq < position) return false;
    }
    return true;
}

bool claim_fits(const ClaimWord& claim, Seq position, std::uint64_t slots) {
    return claim.lap1 == lap1_of(position, slots) && claim.slots != 0 &&
           (position & (slots - 1)) + claim.slots <= slots;
}

}  // namespace

RecordWalk::RecordWalk(const RingBytes& ring, Seq from, Seq to, std::uint64_t max_steps)
    : ring_(ring), at_(from), to_(to), steps_(max_steps) {
    if (to_ > at_ && to_ - at_ > ring_.slots()) at_ = to_ - ring_.slots();
}

bool RecordWalk::stop(WalkEnd end) {
    end_ = end;
    return false;
}

/// Moves on to the floor if producers may have begun to overwrite this position.
bool RecordWalk::overtaken() {
    const Seq floor = floor_now(ring_);
    if (floor <= at_) return false;
    overtaken_ += std::min(floor, to_) - at_;
    at_ = floor;
    return true;
}

std::optional<RecordInfo> RecordWalk::next() {
    while (end_ == WalkEnd::running) {
        if (at_ >= to_) {
            stop(WalkEnd::reached);
        } else if (steps_ == 0) {
            stop(WalkEnd::budget);
        } else {
            --steps_;
            if (auto record = at_position()) {
                at_ += record->slots;
                return record;
            }
        }
    }
    return std::nullopt;
}

std::optional<RecordInfo> RecordWalk::at_position() {
    const RecordHeader* header = ring_.header(at_);
    if (header == nullptr) {
        stop(WalkEnd::truncated);
        return std::nullopt;
    }
    if (peek_acquire(header->stamp) == stamp_of(at_, ring_.super.salt)) return read_header(*header);
    if (ring_.super.producers == Producers::one) {
        if (!overtaken()) stop(WalkEnd::silent);
        return std::nullopt;
    }
    const auto claim = ring_.claim(at_);
    if (!claim) {
        stop(WalkEnd::truncated);
        return std::nullopt;
    }
    if (overtaken()) return std::nullopt;
    if (!claim_fits(*claim, at_, ring_.slots())) return damaged();
    // The handles are the main ring's alone.
    if (ring_.super.kind == RingKind::main && claim_ended(ring_, claim->owner, at_)) {
        // Unless it was committed meanwhile, the stamp was there and is gone.
        if (peek_acquire(header->stamp) == stamp_of(at_, ring_.super.salt)) return read_header(*header);
        if (overtaken()) return std::nullopt;
        return damaged();
    }
    RecordInfo info{};
    info.position = at_;
    info.slots = claim->slots;
    info.state = RecordState::open_claim;
    info.owner = claim->owner;
    return info;
}

std::optional<RecordInfo> RecordWalk::read_header(const RecordHeader& header) {
    RecordInfo info{};
    info.position = at_;
    info.head = unpack_head(peek(header.head));
    struct Rest {
        std::uint32_t checksum, durable_lag, accepted;
        std::uint16_t producer, epoch;
    } rest{};
    static_assert(sizeof rest == 16);
    copy_words(reinterpret_cast<const std::byte*>(&header.checksum), reinterpret_cast<std::byte*>(&rest), sizeof rest);
    // Only now is it known that the words belong to the stamp.
    if (overtaken()) return std::nullopt;
    if (!plausible(info.head, at_, ring_.slots())) return damaged();
    info.slots = info.head.slots;
    info.checksum = rest.checksum;
    info.accepted = rest.accepted;
    info.producer = rest.producer;
    info.epoch = rest.epoch;
    info.state = info.head.type == RecordType::message ? RecordState::message
                 : info.head.type == RecordType::pad   ? RecordState::pad
                                                       : RecordState::void_claim;
    return info;
}

/// Something else than a record: up to the next claim of this lap. Each claim word looked at is a step.
std::optional<RecordInfo> RecordWalk::damaged() {
    RecordInfo info{};
    info.position = at_;
    info.state = RecordState::damaged;
    if (ring_.super.producers == Producers::one) {
        stop(WalkEnd::lost);
        info.slots = to_ - at_;
        return info;
    }
    const auto own = ring_.claim(at_);
    if (own && claim_fits(*own, at_, ring_.slots())) {
        info.slots = own->slots;
        return info;
    }
    for (Seq q = at_ + 1; q < to_; ++q) {
        const auto claim = ring_.claim(q);
        if (!claim || steps_ == 0) {
            stop(claim ? WalkEnd::budget : WalkEnd::truncated);
            info.slots = q - at_;
            return info;
        }
        --steps_;
        if (claim_fits(*claim, q, ring_.slots())) {
            info.slots = q - at_;
            return info;
        }
    }
    stop(WalkEnd::lost);
    info.slots = to_ - at_;
    return info;
}

// ---- copies --------------------------------------------------------------------------------------------------

std::size_t copy_record_into(const RingBytes& ring, const RecordInfo& record, std::span<std::byte> out) {
    if (record.slots == 0 || (record.position & (ring.slots() - 1)) + record.slots > ring.slots()) return 0;
    const std::byte* from = ring.slot(record.position, record.slots);
    const std::size_t bytes = std::min<std::uint64_t>(record.slots * slot_bytes, out.size() / 8 * 8);
    if (from == nullptr || bytes == 0) return 0;
    copy_words(from, out.data(), bytes);
    return floor_now(ring) <= record.position ? bytes : 0;
}

std::optional<std::vector<std::byte>> copy_record(const RingBytes& ring, const RecordInfo& record,
                                                  std::uint64_t max_bytes) {
    const std::uint64_t rounded = max_bytes > ~std::uint64_t{7} ? max_bytes : (max_bytes + 7) / 8 * 8;
    if (ring.slot(record.position, record.slots) == nullptr) return std::nullopt;
    std::vector<std::byte> copy(std::min(record.slots * slot_bytes, rounded));
    if (copy_record_into(ring, record, copy) != copy.size() || copy.empty()) return std::nullopt;
    return copy;
}

std::optional<RecordParts> parts_of(const RecordHead& head, std::span<const std::byte> record) {
    if (record.size() < header_bytes || head.slots == 0) return std::nullopt;
    const auto body = record.subspan(header_bytes);
    const std::uint64_t room = head.slots * slot_bytes - header_bytes;
    std::uint64_t extensions = 0;
    if ((head.flags & flag_extensions) != 0) {
        // As extension_block_bytes(), for a body that may be a copy of the record's beginning only.
        std::uint32_t bytes = 0;
        if (body.size() < sizeof bytes) return std::nullopt;
        std::memcpy(&bytes, body.data(), sizeof bytes);
        if (bytes < 16 || bytes % 16 != 0) return std::nullopt;
        extensions = bytes;
    }
    if (extensions > room || head.payload_bytes > room - extensions || extensions > body.size()) return std::nullopt;
    const auto rest = body.subspan(extensions);
    return RecordParts{body.first(extensions), rest.first(std::min<std::size_t>(head.payload_bytes, rest.size()))};
}

std::optional<OnlyGroup> only_group_of(const RingBytes& ring, const RecordInfo& record) {
    if (record.state != RecordState::message || (record.head.flags & flag_extensions) == 0) return std::nullopt;
    // Most blocks fit; a longer one is copied whole.
    alignas(8) std::array<std::byte, 512> near;
    const std::size_t bytes = copy_record_into(ring, record, near);
    if (bytes < header_bytes + 8) return std::nullopt;
    if (const auto parts = parts_of(record.head, std::span(near).first(bytes)))
        return find_only_group(parts->extensions);
    const auto whole = copy_record(ring, record);
    if (!whole) return std::nullopt;
    const auto parts = parts_of(record.head, *whole);
    return parts ? find_only_group(parts->extensions) : std::nullopt;
}

std::uint64_t accepted_wall_ns(const Superblock& super, std::uint32_t accepted, std::uint64_t now_wall_ns) {
    constexpr std::uint64_t unit_ns = 4'000'000;
    constexpr std::uint64_t slack_units = 250;
    if (super.timestamps == Timestamps::off) return 0;
    const std::uint64_t now_units =
        (now_wall_ns > super.time_base_ns ? now_wall_ns - super.time_base_ns : 0) / unit_ns + slack_units;
    // How many units before the newest possible moment, modulo 2^32.
    const std::uint32_t back = static_cast<std::uint32_t>(now_units) - accepted;
    const std::uint64_t units = back <= now_units ? now_units - back : accepted;
    return super.time_base_ns + units * unit_ns;
}

}  // namespace rondo::format
