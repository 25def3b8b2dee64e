// SPDX-License-Identifier: MIT
// A shared group's lease table in memory: one entry per slot, and the notes of failing messages.
#pragma once

#include <cstdint>
#include <span>

#include "base/mix.hpp"
#include "flow/failure.hpp"
#include "rondo/format.hpp"

namespace rondo::flow {

struct LeaseTable {
    std::span<format::Entry> entries{};
    std::span<format::Note> notes{};

    explicit operator bool() const { return !entries.empty(); }

    /// The note of the message at `position`, or null.
    format::Note* find_note(Seq position) const { return probe(position, nullptr); }

    /// Same; takes a free one, or one whose message lies below `floor` (settled), when there is none yet. Null when
    /// the neighbourhood is full: the story is then kept without attempts. The caller owns the message's entry.
    format::Note* note_for(Seq position, Seq floor) const { return probe(position, &floor); }

    /// The message is settled: its note is free. Left out by a killed process, it is free once low water has passed.
    void free_note(Seq position) const {
        auto* note = find_note(position);
        if (note == nullptr) return;
        std::uint64_t mine = position << 1 | 1;
        // ORD(note.position): acq_rel; pairs with the loads in probe().
        note->position.compare_exchange_strong(mine, 0, std::memory_order_acq_rel, std::memory_order_relaxed);
    }

private:
    static constexpr std::size_t probes = 16;

    format::Note* probe(Seq position, const Seq* floor) const {
        if (notes.empty()) return nullptr;
        const std::uint64_t wanted = position << 1 | 1;
        const std::size_t first = base::mix64(position) % notes.size();
        for (std::size_t i = 0; i < probes && i < notes.size(); ++i) {
            auto& n = notes[(first + i) % notes.size()];
            // ORD(note.position): acquire; pairs with begin_note().
            if (n.position.load(std::memory_order_acquire) == wanted) return &n;
        }
        if (floor == nullptr) return nullptr;
        for (std::size_t i = 0; i < probes && i < notes.size(); ++i) {
            auto& n = notes[(first + i) % notes.size()];
            // ORD(note.position): acquire; pairs with begin_note().
            std::uint64_t there = n.position.load(std::memory_order_acquire);
            // Its own message's, half emptied: the one who began that was killed.
            const bool mine = there == (wanted | note_emptied);
            if (there != 0 && !mine && (there & ~note_emptied) >> 1 >= *floor) continue;
            // ORD(note.position): acq_rel; pairs with the loads above. Positions below the floor never come back.
            if (!n.position.compare_exchange_strong(there, wanted | note_emptied, std::memory_order_acq_rel,
                                                    std::memory_order_relaxed))
                continue;
            begin_note(n, position);
            return &n;
        }
        return nullptr;
    }
};

}  // namespace rondo::flow
