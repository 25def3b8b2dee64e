// SPDX-License-Identifier: MIT
// A group's stored options, copied once when a member opens it, and what follows from them after a failure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/backoff_rng.hpp"
#include "rondo/format.hpp"

namespace rondo::flow {

struct GroupPolicy {
    format::GroupMode mode = format::GroupMode::shared;
    std::uint64_t lease_ns = 0, lease_total_ns = 0;
    std::uint32_t max_deliveries = 5;  // 0 = no limit
    std::uint64_t backoff_initial_ns = 0, backoff_max_ns = 0;
    double backoff_multiplier = 2;
    format::Jitter jitter = format::Jitter::equal;
    std::uint64_t retry_max_age_ns = 0;
    std::uint64_t in_flight_consumer = 1024, in_flight_group = 65536, dead_pending_max = 1000;

    static GroupPolicy read(const format::Group& g) {
        // ORD(none): the definition was written before the state became active, which the caller acquired.
        const auto word = [](const format::Word& w) { return w.load(std::memory_order_relaxed); };
        const auto half = [](const format::Half& h) { return h.load(std::memory_order_relaxed); };  // ORD(none): same
        GroupPolicy p;
        p.mode = static_cast<format::GroupMode>(half(g.mode));
        p.lease_ns = word(g.lease_timeout_ns);
        p.lease_total_ns = word(g.max_lease_total_ns);
        p.max_deliveries = half(g.max_deliveries);
        p.backoff_initial_ns = word(g.backoff_initial_ns);
        p.backoff_max_ns = word(g.backoff_max_ns);
        p.backoff_multiplier = half(g.backoff_multiplier_milli) / 1000.0;
        p.jitter = static_cast<format::Jitter>(half(g.jitter));
        p.retry_max_age_ns = word(g.retry_max_age_ns);
        p.in_flight_consumer = word(g.max_in_flight_consumer);
        p.in_flight_group = word(g.max_in_flight_group);
        p.dead_pending_max = word(g.max_dead_pending);
        return p;
    }

    bool spent(std::uint32_t attempts) const { return max_deliveries != 0 && attempts >= max_deliveries; }

    /// Wait after the n-th failed attempt (n >= 1), jitter applied.
    std::uint64_t backoff_after(std::uint32_t n, base::BackoffRng& rng) const {
        double d = static_cast<double>(backoff_initial_ns);
        for (std::uint32_t i = 1; i < n && d < static_cast<double>(backoff_max_ns); ++i) d *= backoff_multiplier;
        const auto full = static_cast<std::uint64_t>(std::min(d, static_cast<double>(backoff_max_ns)));
        if (jitter == format::Jitter::none || full == 0) return full;
        const std::uint64_t low = jitter == format::Jitter::equal ? full / 2 : 0;
        return rng.between(low, full);
    }
};

}  // namespace rondo::flow
