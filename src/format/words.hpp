// SPDX-License-Identifier: MIT
// How positions, owners and states are packed into the 8-byte words of a ring. Pure functions of numbers.
#pragma once

#include <bit>
#include <cstdint>

#include "base/mix.hpp"
#include "rondo/format.hpp"
#include "rondo/types.hpp"

namespace rondo::format {

// ---- laps and ends -------------------------------------------------------------------------------------------
// A lap number has 40 bits (lap + 1, so that 0 is "never"), a limit word leaves 52 bits for the position.

constexpr std::uint64_t lap_bits = 40;
constexpr std::uint64_t position_bits = 52;
constexpr std::uint64_t max_lap1 = (std::uint64_t{1} << lap_bits) - 1;

/// lap + 1 of `position` in a ring of `slots` (a power of two).
constexpr std::uint64_t lap1_of(Seq position, std::uint64_t slots) {
    return (position >> std::countr_zero(slots)) + 1;
}

/// No claim may end beyond this position: publish returns `exhausted`. One ring length is kept free so that
/// position + slots never overflows its field.
constexpr Seq end_of_positions(std::uint64_t slots) {
    const auto shift = static_cast<std::uint64_t>(std::countr_zero(slots));
    const Seq by_word = (Seq{1} << position_bits) - slots;
    return shift + lap_bits >= position_bits ? by_word - slots : ((max_lap1 - 1) << shift) - slots;
}

// ---- slot counts ---------------------------------------------------------------------------------------------
// The slots of a claim are coded m * 2^e in 14 bits (m 10 bits, e 4 bits), so 16 MiB records fit.

constexpr std::uint64_t max_claim_slots = std::uint64_t{1023} << 15;

/// Smallest codable count >= k (k >= 1).
constexpr std::uint64_t round_up_slots(std::uint64_t k) {
    const int bits = static_cast<int>(std::bit_width(k));
    if (bits <= 10) return k;
    const int e = bits - 10;
    const std::uint64_t m = (k + (std::uint64_t{1} << e) - 1) >> e;
    return m << e;  // m may be 1024: then it codes as 512 << (e + 1)
}

/// Largest codable count <= k (k >= 1).
constexpr std::uint64_t round_down_slots(std::uint64_t k) {
    if (k > max_claim_slots) return max_claim_slots;
    const int bits = static_cast<int>(std::bit_width(k));
    if (bits <= 10) return k;
    const int e = bits - 10;
    return k >> e << e;
}

/// Code of a codable count.
constexpr std::uint32_t encode_slots(std::uint64_t k) {
    const int bits = static_cast<int>(std::bit_width(k));
    const int e = bits <= 10 ? 0 : bits - 10;
    return static_cast<std::uint32_t>((k >> e) << 4 | static_cast<std::uint64_t>(e));
}
constexpr std::uint64_t decode_slots(std::uint32_t code) {
    return std::uint64_t{code >> 4 & 1023} << (code & 15);
}

// ---- stamps --------------------------------------------------------------------------------------------------

constexpr std::uint64_t stamp_of(Seq position, std::uint64_t salt) { return base::mix64(position ^ salt); }

// ---- claim words ---------------------------------------------------------------------------------------------

struct ClaimWord {
    std::uint64_t lap1;
    std::uint32_t owner;
    std::uint64_t slots;
};
constexpr std::uint64_t pack_claim(std::uint64_t lap1, std::uint32_t owner, std::uint64_t slots) {
    return lap1 << 24 | std::uint64_t{owner} << 14 | encode_slots(slots);
}
constexpr ClaimWord unpack_claim(std::uint64_t word) {
    return {word >> 24, static_cast<std::uint32_t>(word >> 14 & 1023),
            decode_slots(static_cast<std::uint32_t>(word & 0x3fff))};
}

// ---- limit word ----------------------------------------------------------------------------------------------
// position << 12 | join generation. A join raises the generation, so that an advance which was computed before the
// join's pin was visible cannot be stored after it.

constexpr std::uint64_t join_generations = 4096;
constexpr std::uint64_t pack_limit(Seq position, std::uint64_t generation) { return position << 12 | generation; }
constexpr Seq limit_position(std::uint64_t word) { return word >> 12; }
constexpr std::uint64_t limit_generation(std::uint64_t word) { return word & 4095; }

// ---- record head ---------------------------------------------------------------------------------------------

struct RecordHead {
    std::uint32_t payload_bytes;
    std::uint64_t slots;
    RecordType type;
    std::uint8_t flags;
};
constexpr std::uint64_t pack_head(const RecordHead& h) {
    return std::uint64_t{h.payload_bytes} | std::uint64_t{encode_slots(h.slots)} << 32 |
           static_cast<std::uint64_t>(h.type) << 48 | std::uint64_t{h.flags} << 56;
}
constexpr RecordHead unpack_head(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word), decode_slots(static_cast<std::uint32_t>(word >> 32 & 0xffff)),
            static_cast<RecordType>(word >> 48 & 0xff), static_cast<std::uint8_t>(word >> 56)};
}

/// Which producer wrote a record: handle index and the low bits of the handle's serial.
constexpr std::uint16_t pack_producer(std::uint32_t handle, std::uint32_t serial) {
    return static_cast<std::uint16_t>((serial & 31) << 11 | (handle & 2047));
}
constexpr std::uint32_t producer_handle(std::uint16_t producer) { return producer & 2047; }
constexpr std::uint32_t producer_serial(std::uint16_t producer) { return producer >> 11; }

// ---- lease entries -------------------------------------------------------------------------------------------

struct LeaseWord {
    std::uint64_t lap1;
    EntryState state;
    std::uint32_t owner;
    std::uint32_t attempts;  // settled: the Outcome
};
constexpr std::uint32_t max_attempts = 1023;
constexpr std::uint64_t pack_lease(const LeaseWord& w) {
    return w.lap1 << 24 | static_cast<std::uint64_t>(w.state) << 20 | std::uint64_t{w.owner} << 10 | w.attempts;
}
constexpr LeaseWord unpack_lease(std::uint64_t word) {
    return {word >> 24, static_cast<EntryState>(word >> 20 & 15), static_cast<std::uint32_t>(word >> 10 & 1023),
            static_cast<std::uint32_t>(word & 1023)};
}

/// The B word of an entry: a value of 44 bits and whose it is.
struct DueWord {
    std::uint64_t value;
    std::uint32_t owner;
    std::uint32_t attempts;
};
/// A delay of due ticks in 10 bits, m * 2^e rounded up (m 5 bits, e 5 bits): the owner bits of an entry in backoff.
constexpr std::uint32_t encode_delay(std::uint64_t ticks) {
    std::uint32_t e = 0;
    while (ticks > 31) {
        ticks = (ticks + 1) / 2;
        ++e;
    }
    return e > 31 ? 1023 : static_cast<std::uint32_t>(ticks) << 5 | e;
}
constexpr std::uint64_t decode_delay(std::uint32_t code) { return std::uint64_t{code >> 5 & 31} << (code & 31); }

constexpr std::uint64_t due_tick_ns = 100'000;
constexpr std::uint64_t max_due = (std::uint64_t{1} << 44) - 1;
constexpr std::uint64_t pack_due(const DueWord& w) {
    return (w.value & max_due) << 20 | std::uint64_t{w.owner} << 10 | w.attempts;
}
constexpr DueWord unpack_due(std::uint64_t word) {
    return {word >> 20, static_cast<std::uint32_t>(word >> 10 & 1023), static_cast<std::uint32_t>(word & 1023)};
}

// ---- retry word of an exclusive group ------------------------------------------------------------------------

// position : 52 | attempts : 10 | 1; 0 = no message was tried again.
constexpr std::uint64_t pack_retry(Seq position, std::uint32_t attempts) {
    return position << 11 | std::uint64_t{attempts} << 1 | 1;
}
constexpr bool retry_set(std::uint64_t word) { return (word & 1) != 0; }
constexpr Seq retry_position(std::uint64_t word) { return word >> 11; }
constexpr std::uint32_t retry_attempts(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 1 & 1023); }

// ---- what came back ------------------------------------------------------------------------------------------

constexpr std::uint64_t pack_returned(std::uint64_t n, Seq position) { return position << 11 | (n & 2047); }
constexpr Seq returned_position(std::uint64_t word) { return word >> 11; }

// ---- owners of handles and groups ----------------------------------------------------------------------------

constexpr std::uint64_t pack_owner(std::uint32_t participant, std::uint32_t low) {
    return std::uint64_t{participant} << 32 | low;
}
constexpr std::uint32_t owner_participant(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
constexpr std::uint32_t owner_low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

}  // namespace rondo::format
