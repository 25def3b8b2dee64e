// SPDX-License-Identifier: MIT
// Numbers of a queue at one moment. Reading them changes nothing; each is bounded, exact when the queue is quiet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rondo/format.hpp"
#include "rondo/types.hpp"

namespace rondo {

struct GroupStats {
    std::string name;
    format::GroupMode mode{};
    Seq floor = 0;                // first position not settled
    std::uint64_t lag = 0;        // messages not settled: ready + scheduled + in_flight + dead_pending
    std::uint64_t ready = 0, scheduled = 0, in_flight = 0, dead_pending = 0;
    std::uint64_t delivered = 0, redelivered = 0, acked = 0, nacked = 0, rejected = 0, released = 0, stale = 0,
                  lapsed = 0, owner_died = 0, dead_lettered = 0, skipped = 0;
    std::uint32_t members = 0;
    bool active_owner = false;  // exclusive: somebody owns the group
};

struct Stats {
    // In slots of 64 bytes: used + credit = capacity, always.
    std::uint64_t capacity_slots = 0, used_slots = 0, credit_slots = 0;
    Seq floor = 0, tail = 0, limit = 0;  // first position somebody still needs, next record's, floor + capacity
    std::uint64_t participants = 0, producers = 0, consumers = 0;
    std::uint64_t voids = 0, corrupt = 0;
    std::uint64_t dead_open = 0, dead_used_slots = 0, dead_capacity_slots = 0;
    bool closed = false, prefaulted = false, memory_locked = false, membarrier = false, file_gone = false;
    std::vector<GroupStats> groups;
};

}  // namespace rondo
