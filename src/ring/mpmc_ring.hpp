// SPDX-License-Identifier: MIT
// The ring of many producers.
//
// Each slot has a claim word, out of line: {lap + 1, owner, slots}. A producer claims [p, p+k) with one CAS on the
// word of slot p; that CAS is the claim. The tail is only a hint: whoever finds a claim at the tail moves it on.
// A record becomes visible by its stamp (ring/record_io.hpp).
//
// Invariants
//   I1 tail never decreases; the end of all claims is at most one claim ahead of it.
//   I2 each position is covered by exactly one claim; claims tile the ring and never cross its end (padding does).
//   I3 only the claim's owner writes its slots; after the owner's death only the holder of its lock.
//   I4 p + k <= limit at the claim.
// Progress: lock-free; a producer that stops between claim and commit holds up readers at that record, and nobody
// else's claim. One that dies there is finished by whoever gets its lock (finish_claims).
// Threads: any number of producers, each with its own MpmcRing object and the id of its (one) participant.
#pragma once

#include "ring/claim_status.hpp"
#include "ring/record_io.hpp"

namespace rondo::ring {

template <class View = RingView>
class MpmcRing {
public:
    MpmcRing(const View& view, std::uint32_t participant) : v_(view), me_(participant) {}

    /// Room for k slots (codable, at most 1/8 of the ring). Claims and fills padding first where k would cross the
    /// ring's end. `full` leaves at most such padding behind.
    ClaimStatus claim(std::uint64_t k, Claimed& out) {
        for (std::uint32_t turn = 0; turn < turns_max; ++turn) {
            // ORD(ring.tail): acquire; pairs with the CAS in claim_at() and help(). Carries nothing but itself.
            const Seq p = v_.tail().load(std::memory_order_acquire);
            // ORD(ring.claim): acquire; pairs with the CAS in claim_at().
            const std::uint64_t word = v_.claim(p).load(std::memory_order_acquire);
            const auto there = format::unpack_claim(word);
            const std::uint64_t lap1 = v_.lap1(p);
            if (there.lap1 == lap1) {
                if (!help(p, there.slots)) return ClaimStatus::corrupt;
                continue;
            }
            if (there.lap1 > lap1) continue;  // p is stale
            const std::uint64_t to_end = v_.slots - (p & v_.mask());
            const bool pad = k > to_end;
            const std::uint64_t piece = pad ? format::round_down_slots(to_end) : k;
            if (p + piece > limit_) {
                // ORD(credit.limit): acquire; pairs with advance_limit(). The slots' former readers are done.
                limit_ = capped(format::limit_position(v_.limit().load(std::memory_order_acquire)));
                if (p + piece > v_.end_of_positions()) return ClaimStatus::exhausted;
                if (p + piece > limit_) return ClaimStatus::full;
            }
            if (!claim_at(p, word, lap1, piece)) continue;
            if (!pad) {
                out = {p, k};
                return ClaimStatus::ok;
            }
            write_void(v_, p, piece, RecordType::pad);
        }
        return ClaimStatus::corrupt;  // the claim word at the tail is from the future and the tail does not move
    }

    const View& view() const { return v_; }

private:
    /// A limit beyond the last position is none: otherwise claims would go on behind `exhausted`.
    Seq capped(Seq limit) const { return std::min(limit, v_.end_of_positions()); }

    static constexpr std::uint32_t turns_max = 1U << 22;

    bool claim_at(Seq p, std::uint64_t word, std::uint64_t lap1, std::uint64_t k) {
        const std::uint64_t mine = format::pack_claim(lap1, me_, k);
        // ORD(ring.claim): acq_rel; pairs with the loads in claim() and finish_claims(). Laps only grow, so the
        // old word cannot come back. Failure: nothing is read on this path before the retry.
        if (!v_.claim(p).compare_exchange_strong(word, mine, std::memory_order_acq_rel, std::memory_order_relaxed))
            return false;
        move_tail(p, k);
        return true;
    }

    /// Moves the tail over somebody's claim. False if its size makes no sense.
    bool help(Seq p, std::uint64_t k) {
        if (k == 0 || (p & v_.mask()) + k > v_.slots) {
            // ORD(ring.tail): acquire; pairs with move_tail(). A stale p would explain a stale k.
            return v_.tail().load(std::memory_order_acquire) != p;
        }
        move_tail(p, k);
        return true;
    }

    void move_tail(Seq p, std::uint64_t k) {
        Seq expected = p;
        // ORD(ring.tail): acq_rel; pairs with the load in claim(): the claim word is visible before the tail that
        // lies behind it. Failure means that somebody helped.
        v_.tail().compare_exchange_strong(expected, p + k, std::memory_order_acq_rel, std::memory_order_relaxed);
    }

    View v_;
    std::uint32_t me_;
    Seq limit_ = 0;  // last seen; the true one is never lower
};

/// Ends every open claim of the dead participant `owner`, whose lock the caller holds. Returns how many were void.
template <class View>
std::uint64_t finish_claims(const View& v, std::uint32_t owner) {
    std::uint64_t voids = 0;
    for (std::uint64_t s = 0; s < v.slots; ++s) {
        // ORD(ring.claim): acquire; pairs with claim_at().
        const auto claim = format::unpack_claim(v.claims[s].load(std::memory_order_acquire));
        if (claim.owner != owner || claim.lap1 == 0 || claim.slots == 0 || s + claim.slots > v.slots) continue;
        if (finish(v, (claim.lap1 - 1) * v.slots + s, claim.slots)) ++voids;
    }
    return voids;
}

}  // namespace rondo::ring
