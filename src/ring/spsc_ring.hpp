// SPDX-License-Identifier: MIT
// The ring of one producer: no claim words, no locked instructions. The tail is written by the producer alone.
//
// Invariants: as in mpmc_ring.hpp, with the tail as the truth while the producer lives. After its death the records
// reach as far as valid stamps chain on from the tail; the successor (which holds the role) walks there first, then
// clears the stamps that an unfinished batch left beyond, and only then writes.
// Progress: wait-free. A producer that stops or dies holds up nobody but itself.
// Threads: one producer at a time holds the role.
#pragma once

#include "ring/claim_status.hpp"
#include "ring/record_io.hpp"

namespace rondo::ring {

template <class View = RingView>
class SpscRing {
public:
    explicit SpscRing(const View& view) : v_(view) {}

    /// Called once by a new holder of the role, before its first claim.
    void take_over() {
        // ORD(ring.tail): acquire; pairs with the former producer's publish_tail().
        Seq p = v_.tail().load(std::memory_order_acquire);
        RecordView r{};
        for (std::uint64_t steps = 0; steps < v_.slots && peek(v_, p, r) == Peek::record; ++steps) p += r.head.slots;
        // ORD(credit.limit): acquire; pairs with advance_limit().
        limit_ = capped(format::limit_position(v_.limit().load(std::memory_order_acquire)));
        for (Seq q = p + 1; q < limit_ && q < p + v_.slots; ++q) {
            // ORD(none): only the role's holder writes stamps beyond the tail.
            if (v_.stamp(q).load(std::memory_order_relaxed) == v_.stamp_of(q))
                v_.stamp(q).store(0, std::memory_order_relaxed);
        }
        next_ = p;
        publish_tail(p);
    }

    /// Room for k slots (codable, at most 1/8 of the ring). Padding as in MpmcRing.
    ClaimStatus claim(std::uint64_t k, Claimed& out) {
        for (;;) {
            const std::uint64_t to_end = v_.slots - (next_ & v_.mask());
            const bool pad = k > to_end;
            const std::uint64_t piece = pad ? format::round_down_slots(to_end) : k;
            if (next_ + piece > limit_) {
                // ORD(credit.limit): acquire; pairs with advance_limit(). The slots' former readers are done.
                limit_ = capped(format::limit_position(v_.limit().load(std::memory_order_acquire)));
                if (next_ + piece > v_.end_of_positions()) return ClaimStatus::exhausted;
                if (next_ + piece > limit_) return ClaimStatus::full;
            }
            out = {next_, piece};
            if (!pad) return ClaimStatus::ok;
            write_void(v_, next_, piece, RecordType::pad);
            committed(out);
        }
    }

    /// After the stamp of the claim's first record.
    void committed(const Claimed& c) {
        next_ = c.position + c.slots;
        publish_tail(next_);
    }

    const View& view() const { return v_; }

private:
    /// A limit beyond the last position is none: otherwise claims would go on behind `exhausted`.
    Seq capped(Seq limit) const { return std::min(limit, v_.end_of_positions()); }

    void publish_tail(Seq p) {
        // ORD(ring.tail): release; pairs with loads of the tail. The stamps before it are visible first.
        v_.tail().store(p, std::memory_order_release);
    }

    View v_;
    Seq next_ = 0;
    Seq limit_ = 0;
};

}  // namespace rondo::ring
