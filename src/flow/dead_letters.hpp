// SPDX-License-Identifier: MIT
// The dead-letter ring from the side of the one who moves a message there.
//
// A move is: note dead.ring's tail (in the entry's B word, or the group's move_tail), mark the message as moving,
// copy it, settle it. Killed in between, the next one looks from that tail on whether the copy is there and only
// then copies again: identity (ring uuid, epoch, seq, group, life).
// Threads: any; appending is a claim of an ordinary many-producer ring.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "flow/failure.hpp"
#include "format/dead_entry.hpp"
#include "format/layout.hpp"
#include "ring/mpmc_ring.hpp"
#include "rondo/format.hpp"

namespace rondo::flow {

/// Which message of which group is dead, and why.
struct Death {
    Seq position = 0;
    ring::RecordView record{};
    std::uint32_t group = 0, life = 0;
    std::string_view group_name{};
    DeadReason reason = DeadReason::rejected;
    Reason texts{};
    const format::Note* note = nullptr;  // what is known of its attempts
    std::uint32_t delivery_count = 0;
    std::uint32_t max_deliveries = 0;
    Handler handler{};
    std::uint64_t now_ns = 0;  // wall clock
};

class DeadRing {
public:
    DeadRing() = default;
    /// `groups`: dead.ring's own; `handles`: the main ring's, for names. `participant` owns the claims made here.
    DeadRing(const ring::RingView& dead, std::span<format::Group> groups, std::span<const format::Handle> handles,
             std::uint32_t participant)
        : ring_(dead), groups_(groups), handles_(handles), participant_(participant) {}

    /// Where a search for a copy made from now on has to begin.
    Seq tail() const {
        // ORD(ring.tail): acquire; pairs with move_tail().
        return ring_.tail().load(std::memory_order_acquire);
    }

    /// Is there an entry of that identity at or behind `from`?
    bool contains(const format::DeadIdentity& identity, Seq from) const;

    enum class Append { done, full, broken };
    /// Copies the message out of `main` with its story. full: no room, nothing written. broken: the message cannot
    /// be read any more, or the ring cannot be written.
    Append append(const ring::RingView& main, const format::Superblock& main_super, const Death& death);

    const ring::RingView& view() const { return ring_; }

private:
    bool claim(std::uint64_t k, ring::Claimed& out, bool& full);
    std::string_view producer_name(std::uint16_t producer, std::array<char, format::name_bytes>& out) const;

    ring::RingView ring_{};
    std::span<format::Group> groups_{};
    std::span<const format::Handle> handles_{};
    std::uint32_t participant_ = 0;
};

format::DeadIdentity identity_of(const format::Superblock& main, const Death& death);

}  // namespace rondo::flow
