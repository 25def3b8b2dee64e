// SPDX-License-Identifier: MIT
// The gate: what comes from a file, from another process or from a caller is checked here once, and only the checked
// copy is used afterwards. Pure functions of bytes and numbers, any thread, no allocation, no system call.
// Every failure has its own static `what`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "rondo/format.hpp"
#include "rondo/options.hpp"
#include "rondo/result.hpp"

namespace rondo::format {

// ---- files ---------------------------------------------------------------------------------------------------

/// The superblock at the start of a ring file: copied once, then checked, so that the bytes may change meanwhile.
/// `page` is the beginning of the file (its first page, or all of it if it is shorter), `file_bytes` the size that
/// the file really has. `*seen_version` (may be null) is the version found; it is 0 if the file is no ring at all.
/// corrupt: no ring, damaged, shorter than it says. version_mismatch: another version, byte order or feature.
/// not_supported: a durable ring.
/// Not checked, because it needs more than these bytes: device and inode, boot id, time namespace, the uuids.
[[nodiscard]] Result<Superblock> validate_superblock(std::span<const std::byte> page, std::uint64_t file_bytes,
                                                     std::uint64_t* seen_version = nullptr) noexcept;

/// The low 32 bits of XXH3-64, seeded with the salt, over all bytes before the checksum.
[[nodiscard]] std::uint32_t superblock_checksum_of(const Superblock& superblock) noexcept;

/// Sets the checksum. The last thing a creator does to a superblock.
void seal_superblock(Superblock& superblock) noexcept;

/// The header of a lease table by itself; same rules. It carries no checksum: check_lease_owner compares it with the
/// ring, which says what every one of its fields must be.
[[nodiscard]] Result<LeaseHeader> validate_lease_header(std::span<const std::byte> page, std::uint64_t file_bytes,
                                                        std::uint64_t* seen_version = nullptr) noexcept;

/// Is this validated lease table the one of that group, in that life, of this ring? corrupt if not.
[[nodiscard]] Result<void> check_lease_owner(const LeaseHeader& header, const Superblock& ring, std::uint32_t group,
                                             std::uint32_t life) noexcept;

// ---- options -------------------------------------------------------------------------------------------------

/// What a dead letter or a retry copy may need beside the message: its own max_record_bytes is that much larger.
inline constexpr std::uint64_t story_bytes = 16 * 1024;
inline constexpr std::uint64_t min_capacity_bytes = min_slots * slot_bytes;
inline constexpr std::uint64_t max_capacity_bytes = max_slots * slot_bytes;
inline constexpr std::uint64_t min_record_bytes = 256;

/// What a queue's options come to. Capacities are powers of two.
struct Geometry {
    std::uint64_t slots;  // of the main ring
    std::uint64_t retry_slots;
    std::uint64_t dead_slots;
    std::uint64_t max_record_bytes;       // of the main ring: header, extensions, payload
    std::uint64_t side_max_record_bytes;  // of retry.ring and dead.ring: max_record_bytes + story_bytes
    std::uint32_t groups;
};
[[nodiscard]] Result<Geometry> check_options(const QueueOptions& options) noexcept;

/// `slots`: of the group's ring. Where the group starts is checked when it is made, against the ring's tail.
[[nodiscard]] Result<void> check_group_options(const GroupOptions& options, std::uint64_t slots) noexcept;

/// A group's definition as it is stored in its block.
struct ResolvedGroup {
    GroupMode mode;
    GroupKind kind;
    Jitter jitter;
    StartKind start_kind;
    std::uint64_t start_value;
    std::uint64_t lease_timeout_ns;
    std::uint64_t max_lease_total_ns;
    std::uint32_t max_deliveries;  // 0 = no limit
    std::uint32_t backoff_multiplier_milli;
    std::uint64_t backoff_initial_ns;
    std::uint64_t backoff_max_ns;
    std::uint64_t retry_max_age_ns;  // no_age_limit = none
    std::uint64_t max_in_flight_consumer;
    std::uint64_t max_in_flight_group;
    std::uint64_t max_dead_pending;  // exclusive groups: 1
    bool operator==(const ResolvedGroup&) const = default;
};
inline constexpr std::uint64_t no_age_limit = static_cast<std::uint64_t>(forever.count());

/// Options that check_group_options accepted, with the defaults filled in. A default gives way to what was set:
/// with lease_timeout = 20 h the default of max_lease_total is 20 h, and no limit of messages exceeds slots / 2.
[[nodiscard]] ResolvedGroup resolve(const GroupOptions& options, std::uint64_t slots = max_slots) noexcept;

/// An existing group is opened with options: option_mismatch, naming the option, if one that was set differs from
/// what is stored. `start` is not compared.
[[nodiscard]] Result<void> check_same_group(const GroupOptions& options, const ResolvedGroup& stored) noexcept;

/// Name of a group, producer or consumer: 1 to 63 of [A-Za-z0-9._-], and neither "." nor "..".
[[nodiscard]] Result<void> check_name(std::string_view name) noexcept;

/// Everything but the size of the record, which depends on the payload. O(headers).
[[nodiscard]] Result<void> check_publish_options(const PublishOptions& options) noexcept;

}  // namespace rondo::format
