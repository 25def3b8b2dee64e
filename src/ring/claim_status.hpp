// SPDX-License-Identifier: MIT
// What a ring says to a producer that asks for room.
#pragma once

#include <cstdint>

#include "rondo/types.hpp"

namespace rondo::ring {

enum class ClaimStatus {
    ok,
    full,       // beyond the limit: advance it, or wait
    exhausted,  // positions are used up: this ring takes no more
    corrupt,    // the ring's words contradict each other
};

/// Room that only its owner may write: slots [position, position + slots).
struct Claimed {
    Seq position = 0;
    std::uint64_t slots = 0;
};

}  // namespace rondo::ring
