// SPDX-License-Identifier: MIT
// How far an entry of dead.ring is as a piece of work, and who closed it: read from the lease table beside the ring
// (its group `operator`: ready = open, handed = redriving, settled = redriven or discarded).
#pragma once

#include <optional>
#include <string>

#include "format/snapshot_words.hpp"
#include "rondo/dead_letter.hpp"

namespace rondo::format {

struct DeadStatus {
    DeadState state = DeadState::open;
    // Of a closed entry, as long as the table has its note: the program that closed it, when (wall clock), and why.
    std::string by{};
    std::uint32_t pid = 0;
    std::uint64_t at_ns = 0;
    std::string note{};
};

/// Of the entry at `position`; nothing if the table ends before it.
[[nodiscard]] std::optional<DeadStatus> dead_status(const LeaseBytes& table, Seq position);

void put_status(DeadStatus&& status, DeadLetter& letter);

}  // namespace rondo::format
