// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Real queues between two processes: throughput, and the time of a round trip. The producer builds each message, the
// consumer reads every byte, checks sequence and length, and acks; a run whose data was wrong is void.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "perf/ring_perf/pair.hpp"
#include "rondo/rondo.hpp"

namespace perf {

struct Work {
    std::size_t bytes = 64;
    rondo::Producers producers = rondo::Producers::one;
    rondo::GroupMode mode = rondo::GroupMode::exclusive;
    unsigned batch = 1;
    rondo::Timestamps timestamps = rondo::Timestamps::coarse;
    /// "one/exclusive/64/x32"
    std::string name() const;
};

struct Options {
    double seconds = 0.2;
    std::uint64_t capacity_bytes = std::uint64_t{2} << 20;
};

/// Messages/s; nothing if the run is void.
std::optional<double> throughput(Control& control, const Work& work, const Options& options);

struct Latency {
    double p50_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;  // one way: half of a round trip
};
/// Ping-pong over two queues, 64 bytes, both sides polling or both sleeping in every wait.
std::optional<Latency> ping_pong(Control& control, bool polling, std::uint64_t rounds);

}  // namespace perf
