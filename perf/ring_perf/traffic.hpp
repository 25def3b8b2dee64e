// SPDX-License-Identifier: MIT
// Real queues between two processes: throughput, and the time of a round trip. The producer builds each message, the
// consumer reads every byte, checks sequence and length, and acks; a run whose data was wrong is void.
#pragma once

#include <cstdint>
#include <string>

#include "perf/ring_perf/pair.hpp"
#include "rondo/rondo.hpp"

namespace perf {

struct Work {
    std::string name;
    std::size_t bytes = 64;
    rondo::Producers producers = rondo::Producers::one;
    rondo::GroupMode mode = rondo::GroupMode::exclusive;
    unsigned batch = 1;
    rondo::Timestamps timestamps = rondo::Timestamps::coarse;
};

/// M messages/s; 0 if the run is void.
double throughput_mps(Control& control, const Work& work, double seconds);

struct Latency {
    double p50_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;  // one way: half of a round trip
    bool valid = false;
};
/// Ping-pong over two queues, 64 bytes. `polling`: never sleeps; otherwise with the default spin of 0 here: sleeps.
Latency round_trip(Control& control, bool polling, std::uint64_t rounds);

}  // namespace perf
