// SPDX-License-Identifier: MIT
// What becomes of a message of a shared group that was not acked: noted, then scheduled again, given back, or moved
// to the dead-letter ring. Used by the outcomes of a message, by the sweep for lapsed leases, and by the scavenger
// in a dead consumer's name.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/backoff_rng.hpp"
#include "flow/dead_letters.hpp"
#include "flow/policy.hpp"
#include "flow/shared_group.hpp"

namespace rondo::flow {

/// What a decision needs beside the message.
struct FailureContext {
    SharedGroup& group;
    const GroupPolicy& policy;
    DeadRing& dead;
    const format::Superblock& super;
    base::BackoffRng& rng;
    std::string_view group_name;
    std::uint64_t mono_ns = 0, wall_ns = 0;
};

enum class Fate { stale, scheduled, given_back, dead_lettered, dead_pending };

/// handed (exactly `word`) -> its fate. `owner` owns the entry meanwhile: this participant, or the dead one whose
/// lock the caller holds.
Fate fail_message(const FailureContext& c, Seq position, std::uint64_t word, std::uint32_t owner, const Failure& f);

/// handed -> ready, uncharged; dead letter once it is older than retry_max_age.
Fate release_message(const FailureContext& c, Seq position, std::uint64_t word, std::uint32_t owner,
                     const Failure& f);

/// dead_pending -> dead_lettered, if dead.ring has room now.
Fate retry_move(const FailureContext& c, Seq position, std::uint64_t word, std::uint32_t owner);

/// Puts into `f` when a message that is handed (or failing) as `word` says was handed over, by its deadline: if the
/// lease was extended, when that was. Left 0 if it is not known.
void put_hand_over(const FailureContext& c, Seq position, std::uint64_t word, Failure& f);

/// Repairs every entry of the dead participant `owner`, whose lock the caller holds. Restartable at any point.
/// Returns how many messages came back or were moved.
std::uint64_t repair_leases(const FailureContext& c, std::uint32_t owner, const Handler& handler);

}  // namespace rondo::flow
