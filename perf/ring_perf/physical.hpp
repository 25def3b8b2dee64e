// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What the two cores can do right now, without any queue: how long a cache line takes from one to the other, and how
// many messages a second pass through a bare ring. Everything else is read beside these.
#pragma once

#include <cstdint>
#include <optional>

#include "perf/ring_perf/pair.hpp"

namespace perf {

/// One-way hand-off of one line, ns: median of all round trips.
std::optional<double> handoff_ns(Control& control, std::uint64_t rounds);

/// Messages/s through a bare ring of 1 MiB with plain stores: no header, no acknowledgement, nothing survives a crash.
/// The index is published every 64 lines or with each message. Nothing if the data was wrong.
std::optional<double> ideal_rate(Control& control, std::size_t bytes, bool each, double seconds);

}  // namespace perf
