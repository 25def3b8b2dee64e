// SPDX-License-Identifier: MIT
// What a ring holds at this moment: counts per group, open claims, and who blocks whom. Read-only and bounded, like
// the words and walks it is made of (snapshot_words.hpp, snapshot_walk.hpp).
//
// Every number is bounded by the ring's slots also while the ring moves, and exact when it is quiet. lag is always
// ready + scheduled + in_flight + dead_pending.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "format/snapshot_walk.hpp"
#include "format/snapshot_words.hpp"

namespace rondo::format {

/// The clocks, read by the caller. mono 0: deadlines mean nothing here (another boot, another time namespace): then
/// no backoff counts as over.
struct Now {
    std::uint64_t mono_ns = 0;
    std::uint64_t wall_ns = 0;
};

enum class MessageState : std::uint8_t {
    not_for_group,  // another group's copy, or no message
    settled,
    ready,
    scheduled,     // failed before; waits for its next attempt
    in_flight,     // leased to or handed to a consumer
    dead_pending,  // failed for good, not in dead.ring yet
    unknown,       // the lease table is missing
};

struct MessageStatus {
    MessageState state = MessageState::unknown;
    EntryState entry = EntryState::ready;  // shared groups
    std::uint32_t owner = 0;               // in_flight: participant
    std::uint32_t attempts = 0;            // hand-overs so far
    Outcome outcome = Outcome::none;       // settled, shared groups, while the entry remembers it
    std::optional<std::uint64_t> due_ns;   // monotonic. in_flight: end of the lease; scheduled: not before
};

/// What `record` (a message) is to `group`. `table` may be null; then [cursor, hint) of a shared group is unknown.
[[nodiscard]] MessageStatus status_of(const GroupInfo& group, const LeaseBytes* table, const RecordInfo& record,
                                      const std::optional<OnlyGroup>& only, std::uint64_t slots, const Now& now);

struct GroupCounts {
    std::uint64_t ready = 0, scheduled = 0, in_flight = 0, dead_pending = 0;
    std::uint64_t unknown = 0;  // messages whose lease table is missing; not part of lag
    std::uint64_t lag = 0;
    // Positions of the oldest, or `nowhere`.
    Seq oldest_unsettled = nowhere, oldest_ready = nowhere, oldest_scheduled = nowhere, oldest_in_flight = nowhere,
        oldest_dead_pending = nowhere;
    MessageStatus oldest;               // of oldest_unsettled
    std::uint32_t oldest_accepted = 0;  // 4 ms units of oldest_unsettled
    bool complete = true;               // false: the walk ended early, the counts are lower bounds
};

/// One group. A group that does not exist counts nothing.
[[nodiscard]] GroupCounts count_group(const RingBytes& ring, const LeaseBytes* table, std::uint32_t group,
                                      const Now& now, std::uint64_t max_steps = default_walk_steps);

struct OpenClaim {
    Seq position;
    std::uint64_t slots;
    std::uint32_t owner;                           // participant
    std::optional<std::uint32_t> accepted_behind;  // 4 ms units of a message behind it: the claim is older
};
inline constexpr std::size_t open_claims_kept = 64;

/// Everything about a ring, from one walk over [floor, tail).
struct Survey {
    HotValues hot{};
    Seq floor = 0;                       // limit - slots
    Seq tail = 0;                        // hot.tail, but within [floor, floor + slots]
    std::vector<GroupInfo> groups;       // all that are not free
    std::vector<GroupCounts> counts;     // same order
    std::vector<OpenClaim> open_claims;  // the oldest open_claims_kept
    std::uint64_t open_claim_count = 0;
    std::uint64_t messages = 0, pads = 0, voids = 0, damaged = 0;
    std::optional<Seq> first_damaged;
    std::uint64_t used_slots = 0;    // that nobody could be given now: the floor moves only when somebody needs it to
    std::uint64_t credit_slots = 0;  // slots - used
    std::uint64_t pinned_slots = 0;  // settled by every durable group, but behind something that is not
    WalkEnd end = WalkEnd::reached;
    [[nodiscard]] bool complete() const { return end == WalkEnd::reached; }
};

[[nodiscard]] Survey survey(const RingBytes& ring, std::span<const LeaseBytes> tables, const Now& now,
                            std::uint64_t max_steps = default_walk_steps);

enum class BlockKind : std::uint8_t {
    open_claim,       // consumers wait at it, and with it everybody
    lease,            // a shared group's oldest message is in a consumer's hands
    exclusive_owner,  // same of an exclusive group
    retry,            // the oldest message waits for its next attempt
    dead_pending,     // the oldest message finds no room in dead.ring
    no_members,       // nobody consumes
    unconsumed,       // members exist, the oldest message is ready: they are slow, or wait at an open claim
    borrow,           // a consumer still reads bytes that its group has settled
    no_group,         // no durable group exists: everything is kept
};

struct Blocker {
    BlockKind kind{};
    std::uint32_t participant = 0;          // of the main ring; 0 = nobody
    std::optional<std::uint32_t> handle{};  // when it can be told which of the participant's
    std::optional<std::uint32_t> group{};
    Seq position = 0;
    std::optional<std::uint64_t> age_ns{};  // since the lease, hand-over or claim
    bool age_at_least = false;              // age_ns is a lower bound
    bool holds_floor = false;               // nothing is older: credit ends here
};

/// Time since a lease was taken or last extended; nothing when the clock means nothing.
[[nodiscard]] std::optional<std::uint64_t> lease_age_ns(const GroupInfo& group, std::uint64_t deadline_ns,
                                                        const Now& now);

/// One line per open claim (the oldest open_claims_kept), per group that has something unsettled, per borrow below
/// all of these, and for a ring without durable groups. Lowest position first. `handles` are the main ring's.
[[nodiscard]] std::vector<Blocker> who_blocks(const RingBytes& ring, const Survey& seen,
                                              std::span<const HandleInfo> handles, const Now& now);

}  // namespace rondo::format
