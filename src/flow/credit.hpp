// SPDX-License-Identifier: MIT
// Credit: how far producers may run. One word, `limit`, an absolute position derived from what the groups have
// settled; nobody holds credit, so nobody can lose it by dying.
//
//   limit = min(tail, every active group's first unsettled position, every borrow, keep_from without groups) + slots
//
// Anyone may advance it. Order of the loads, each done once: limit, tail, group marks, keep_from, borrows, then the
// CAS of limit. A join pins its mark first and then raises limit's generation, so an advance that missed the pin
// fails its CAS. A deletion sets keep_from before it takes its mark away.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "format/words.hpp"
#include "ring/view.hpp"
#include "rondo/format.hpp"

namespace rondo::flow {

/// First position that still matters to somebody, as of now. `handles`: the whole table.
inline Seq settled_floor(const ring::RingView& v, std::span<const format::Group> groups,
                         std::span<const format::Handle> handles) {
    // ORD(ring.tail): acquire; pairs with move_tail() and publish_tail().
    Seq m = v.tail().load(std::memory_order_acquire);
    for (const auto& g : groups) {
        // ORD(group.mark): acquire; pairs with settle's release: the group's reads of the slots are over.
        m = std::min(m, g.cursor.load(std::memory_order_acquire));
    }
    // ORD(credit.keep): acquire; pairs with the deletion's release, which comes before its mark is withdrawn.
    m = std::min(m, v.hot->keep_from.load(std::memory_order_acquire));
    // ORD(table.high): acquire; pairs with raise_to(). After the marks, as the borrows: a handle that appeared since
    // cannot have pinned anything below them.
    const auto used = std::min<std::uint64_t>(v.hot->handles_high.load(std::memory_order_acquire), handles.size());
    for (const auto& h : handles.first(used)) {
        // ORD(handle.borrow): acquire; pairs with the reader's unpin. A pin set before its lease is carried here by
        // the mark that a later taker of the same message moved.
        m = std::min(m, h.borrow.load(std::memory_order_acquire));
    }
    return m;
}

/// Moves the limit as far as the marks allow. True if it moved (whoever sleeps for space may look again).
inline bool advance_limit(const ring::RingView& v, std::span<const format::Group> groups,
                          std::span<const format::Handle> handles) {
    // ORD(credit.limit): acquire; pairs with the CAS below and the join's.
    std::uint64_t word = v.limit().load(std::memory_order_acquire);
    const Seq next = settled_floor(v, groups, handles) + v.slots;
    if (next <= format::limit_position(word)) return false;
    // ORD(credit.limit): acq_rel; pairs with the producers' load. Releases the slots to them; a failure means that
    // somebody else advanced, or that a group joined.
    return v.limit().compare_exchange_strong(word, format::pack_limit(next, 0), std::memory_order_acq_rel,
                                             std::memory_order_relaxed);
}

/// First position whose bytes are still kept: a record boundary.
inline Seq floor_of(const ring::RingView& v) {
    // ORD(credit.limit): acquire; pairs with advance_limit().
    return format::limit_position(v.limit().load(std::memory_order_acquire)) - v.slots;
}

}  // namespace rondo::flow
