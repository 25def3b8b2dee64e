// SPDX-License-Identifier: MIT
// Every option of a queue, a group, a publish, an outcome: unit, default, range. An option that this version does
// not offer yet is refused with not_supported, never ignored.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "rondo/format.hpp"
#include "rondo/types.hpp"

namespace rondo {

using format::Checksum;
using format::Durability;
using format::GroupKind;
using format::GroupMode;
using format::Jitter;
using format::Overflow;
using format::Producers;
using format::Timestamps;

enum class Force : bool { no = false, yes = true };

/// What must have happened before publish returns.
enum class Confirm : std::uint8_t { none, accepted, durable, settled };

/// Fixed when the queue is created, unless said otherwise.
struct QueueOptions {
    std::uint64_t capacity_bytes = std::uint64_t{64} << 20;  // message slots; 256 KiB .. 1 TiB, rounded up to 2^n
    Producers producers = Producers::many;                   // one: a second producer gets role_taken
    Durability durability = Durability::none;                // durable: not supported yet
    std::uint64_t max_record_bytes = 0;      // header + extensions + payload; 0 = capacity/64; 256 .. capacity/8
    std::uint64_t retry_capacity_bytes = 0;  // 0 = next 2^n of max(capacity/4, 8 * (max_record_bytes + 16 KiB))
    std::uint64_t dead_capacity_bytes = 0;   // same
    std::uint32_t max_groups = 16;           // 1 .. 64
    Checksum checksum = Checksum::none;      // of each record: low 32 bits of XXH3-64
    Timestamps timestamps = Timestamps::coarse;  // off: no ages, no time positions; coarse: 4 ms; exact: ns
    Overflow overflow = Overflow::block;         // block or fail; changeable
    std::uint32_t mode = 0600;                   // 0600, 0640 or 0660, for all files alike
    std::optional<std::uint32_t> group{};          // gid that owns the files
};

/// Per process, not stored.
struct OpenOptions {
    bool prefault = true;      // touch all pages now
    bool lock_memory = false;  // mlock; what was obtained is in stats()
    Duration spin = std::chrono::microseconds(20);  // before a wait sleeps; 0 is used if only one core is allowed
};

/// Where a new group begins. There is no default: to leave it out does not compile.
class Start {
public:
    static constexpr Start earliest() { return {format::StartKind::earliest, 0}; }
    static constexpr Start latest() { return {format::StartKind::latest, 0}; }
    static constexpr Start seq(Seq position) { return {format::StartKind::seq, position}; }
    /// First message accepted at or after this wall clock time (ns since 1970).
    static constexpr Start time(std::uint64_t wall_ns) { return {format::StartKind::time, wall_ns}; }

    constexpr format::StartKind kind() const { return kind_; }
    constexpr std::uint64_t value() const { return value_; }

private:
    constexpr Start(format::StartKind kind, std::uint64_t value) : kind_(kind), value_(value) {}
    format::StartKind kind_;
    std::uint64_t value_;
};

/// Stored when the group is created. Opening an existing group compares the options that were set (not `start`):
/// a difference is option_mismatch.
struct GroupOptions {
    std::optional<GroupMode> mode{};  // default shared
    Start start;
    std::optional<GroupKind> kind{};                  // default durable; lossy: not supported yet
    std::optional<Duration> lease_timeout{};            // shared groups; 30 s; 10 ms .. 24 h
    std::optional<Duration> max_lease_total{};          // 12 h; lease_timeout .. 7 d
    std::optional<std::int32_t> max_deliveries{};       // 5; 1 .. 1000; -1: no limit
    std::optional<Duration> backoff_initial{};          // 1 s; 0 .. 24 h
    std::optional<double> backoff_multiplier{};         // 2; 1 .. 10
    std::optional<Duration> backoff_max{};              // 60 s; initial .. 24 h
    std::optional<Jitter> jitter{};                     // equal: uniform in [d/2, d]
    std::optional<Duration> retry_max_age{};            // 24 h from the first hand-over; 1 s .. forever
    // Per consumer; 1024, but 1 in an exclusive group with max_deliveries 1: a failure there brings all behind it back,
    // each hand-over counts, and what was in hand would be dead. 1 .. slots/2.
    std::optional<std::uint32_t> max_in_flight{};
    std::optional<std::uint32_t> max_in_flight_group{};  // 65536
    std::optional<std::uint32_t> max_dead_pending{};    // 1000; shared groups; an exclusive one stops at the first
};

/// A name and a value that travel with a message, unchanged. At most 32, 4 KiB in all.
struct Header {
    std::string_view name;
    std::string_view value;
};

struct PublishOptions {
    std::string_view key{};                             // 0 .. 255 bytes
    std::optional<std::uint64_t> type{};                // the application's message type
    std::optional<std::array<std::uint8_t, 16>> message_id{};
    std::span<const Header> headers{};
    Confirm confirm = Confirm::accepted;
    Duration timeout = std::chrono::seconds(1);         // how long to wait for credit under overflow = block
    std::string_view dedup_key{};                       // not supported yet
    std::optional<Duration> delay{};                    // not supported yet
    std::optional<std::uint64_t> expires_at_ns{};       // not supported yet
};

/// One message of a batch.
struct Outgoing {
    Bytes payload;
    PublishOptions options{};  // confirm and timeout of the first one count
};

struct ProducerOptions {
    std::string_view name{};  // 1 .. 63 of [A-Za-z0-9._-]; default "producer"
};

struct ConsumerOptions {
    std::string_view name{};  // default "consumer"
};

/// Why a message failed. Copied before the call returns; cut at a UTF-8 border (and flagged) where too long.
struct Reason {
    std::string_view code{};     // 64 bytes; stable, for machines
    std::string_view type{};     // 128; exception class or status name
    std::string_view stage{};    // 32; decode, handle, ...
    std::string_view message{};  // 1 KiB; for people
    std::string_view detail{};   // 4 KiB; stack trace or structured text
};

}  // namespace rondo
