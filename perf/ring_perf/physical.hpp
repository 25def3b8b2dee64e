// SPDX-License-Identifier: MIT
// What the two cores can do right now, without any queue: how long a cache line takes from one to the other, and how
// many 64-byte lines a second pass through a shared array. Everything else is read beside these two.
#pragma once

#include <cstdint>

#include "perf/ring_perf/pair.hpp"

namespace perf {

/// One-way hand-off of one line, ns.
double handoff_ns(Control& control, std::uint64_t rounds);

/// M messages/s of 64 bytes by plain stores; the index is published every `batch` lines. 0 if the data was wrong.
double ideal_mps(Control& control, unsigned batch, double seconds);

}  // namespace perf
