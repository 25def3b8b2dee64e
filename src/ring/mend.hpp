// SPDX-License-Identifier: MIT
// Past damage: what readers need when a record's stamp or header was overwritten by somebody who should not have.
//
// A missing stamp normally means that the record is being written, and readers wait. These functions tell that from
// a stamp that was there and is gone, and find out where the next record begins.
#pragma once

#include <algorithm>

#include "ring/record_io.hpp"

namespace rondo::ring {

/// Is p inside a claim that was committed? Then it is one of a batch, whose stamps were all set before the first's.
template <class View>
bool in_committed_claim(const View& v, Seq p) {
    for (Seq q = p, steps = p & v.mask(); steps-- > 0;) {
        --q;
        // ORD(ring.claim): acquire; pairs with claim_at().
        const auto claim = format::unpack_claim(v.claim(q).load(std::memory_order_acquire));
        if (claim.lap1 != v.lap1(q)) continue;
        // ORD(record.stamp): acquire; pairs with put_stamp().
        return q + claim.slots > p && v.stamp(q).load(std::memory_order_acquire) == v.stamp_of(q);
    }
    return false;
}

/// Puts back the stamp of a record that was complete. Whether its other bytes still make sense, the readers' own checks
/// say. `ended(owner, p)`: has this participant no claim open at p any more? It must acquire what the owner wrote.
/// The caller knows that p is a record boundary. Any thread, any time; killed anywhere, the next reader does it.
template <class View, class Ended>
bool restamp(const View& v, Seq p, bool one_producer, Ended&& ended) {
    // ORD(ring.tail): acquire; pairs with publish_tail(): of one producer, whatever lies below is stamped.
    if (p >= v.tail().load(std::memory_order_acquire)) return false;
    if (!one_producer) {
        // ORD(ring.claim): acquire; pairs with claim_at().
        const auto claim = format::unpack_claim(v.claim(p).load(std::memory_order_acquire));
        if (claim.lap1 > v.lap1(p)) return false;
        const bool here = claim.lap1 == v.lap1(p);
        if (here ? !ended(claim.owner, p) : !in_committed_claim(v, p)) return false;
    }
    // ORD(record.stamp): acquire; pairs with put_stamp(). After the looks above and before the limit: if the slot went
    // to another record meanwhile, the limit shows it.
    std::uint64_t found = v.stamp(p).load(std::memory_order_acquire);
    if (found == v.stamp_of(p)) return false;
    // ORD(credit.limit): acquire; pairs with advance_limit().
    if (format::limit_position(v.limit().load(std::memory_order_acquire)) > p + v.slots) return false;
    // ORD(record.stamp): release; pairs with peek(). Passes on what `ended` acquired. From the bad value only: a
    // stamp of the next lap stays.
    return v.stamp(p).compare_exchange_strong(found, v.stamp_of(p), std::memory_order_release,
                                              std::memory_order_relaxed);
}

/// Slots of the record at p, whose header is damaged: up to the next stamp or claim of this lap, the end of its own
/// claim, or the tail. 0 if p lies at the tail.
template <class View>
std::uint64_t extent_of_damage(const View& v, Seq p) {
    // ORD(ring.claim): acquire; pairs with claim_at().
    const auto own = format::unpack_claim(v.claim(p).load(std::memory_order_acquire));
    const std::uint64_t to_end = v.slots - (p & v.mask());
    const bool claimed = own.lap1 == v.lap1(p) && own.slots != 0 && own.slots <= to_end;
    // ORD(ring.tail): acquire; pairs with move_tail() and publish_tail().
    const Seq tail = v.tail().load(std::memory_order_acquire);
    const Seq end = claimed ? p + own.slots : std::clamp(tail, p, p + to_end);
    for (Seq q = p + 1; q < end; ++q) {
        // ORD(record.stamp): acquire; pairs with put_stamp().
        if (v.stamp(q).load(std::memory_order_acquire) == v.stamp_of(q)) return q - p;
        // ORD(ring.claim): acquire; as above.
        if (format::unpack_claim(v.claim(q).load(std::memory_order_acquire)).lap1 == v.lap1(q)) return q - p;
    }
    return end - p;
}

}  // namespace rondo::ring
