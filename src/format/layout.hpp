// SPDX-License-Identifier: MIT
// Where the parts of a ring file and of a lease table lie. A function of the counts alone: a reader computes it
// again and compares, it never follows an offset from the file.
#pragma once

#include <cstdint>

#include "base/bits.hpp"
#include "format/words.hpp"
#include "rondo/format.hpp"

namespace rondo::format {

struct Counts {
    std::uint64_t slots;
    std::uint32_t participants;
    std::uint32_t handles;
    std::uint32_t groups;
};

struct Layout {
    std::uint64_t hot, queue, participants, handles, groups, claims, slots, file_bytes;
};

constexpr Layout layout_of(const Counts& c) {
    const auto page = [](std::uint64_t n) { return base::round_up(n, std::uint64_t{page_bytes}); };
    Layout l{};
    l.hot = page(sizeof(Superblock));
    l.queue = l.hot + page(sizeof(HotWords));
    l.participants = l.queue + page(sizeof(QueueBlock));
    l.handles = l.participants + page(c.participants * sizeof(Participant));
    l.groups = l.handles + page(c.handles * sizeof(Handle));
    l.claims = l.groups + page(c.groups * sizeof(Group));
    l.slots = l.claims + page(c.slots * sizeof(Word));
    l.file_bytes = l.slots + c.slots * slot_bytes;
    return l;
}

struct LeaseLayout {
    std::uint64_t notes, entries, file_bytes;
    std::uint32_t note_count;
};

/// Notes for one message in 64, so that even a storm of failures keeps most stories.
constexpr std::uint32_t note_count_of(std::uint64_t slots) {
    const std::uint64_t n = slots / 64;
    return static_cast<std::uint32_t>(n < 64 ? 64 : n > 4096 ? 4096 : n);
}

constexpr LeaseLayout lease_layout_of(std::uint64_t slots) {
    LeaseLayout l{};
    l.note_count = note_count_of(slots);
    l.notes = page_bytes;
    l.entries = base::round_up(l.notes + l.note_count * sizeof(Note), std::uint64_t{page_bytes});
    l.file_bytes = base::round_up(l.entries + slots * sizeof(Entry), std::uint64_t{page_bytes});
    return l;
}

/// Largest record of a ring: codable, and small enough that padding can never make it unplaceable.
constexpr std::uint64_t max_record_slots(std::uint64_t slots) {
    return slots / 8 < max_claim_slots ? slots / 8 : max_claim_slots;
}

}  // namespace rondo::format
