// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "format/layout.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace rondo::format;

namespace {

// Each part begins on a page, behind the end of the one before it.
void check_order(const Counts& c) {
    CAPTURE(c.slots);
    const Layout l = layout_of(c);
    struct Part {
        std::uint64_t at, bytes;
    };
    const std::array<Part, 8> parts = {Part{0, sizeof(Superblock)},
                                       Part{l.hot, sizeof(HotWords)},
                                       Part{l.queue, sizeof(QueueBlock)},
                                       Part{l.participants, c.participants * sizeof(Participant)},
                                       Part{l.handles, c.handles * sizeof(Handle)},
                                       Part{l.groups, c.groups * sizeof(Group)},
                                       Part{l.claims, c.slots * sizeof(Word)},
                                       Part{l.slots, c.slots * slot_bytes}};
    for (std::size_t i = 0; i < parts.size(); ++i) {
        CAPTURE(i);
        const std::uint64_t next = i + 1 < parts.size() ? parts[i + 1].at : l.file_bytes;
        CHECK(parts[i].at % page_bytes == 0);
        CHECK(parts[i].at + parts[i].bytes <= next);
        CHECK(next - parts[i].at - parts[i].bytes < page_bytes);
    }
    CHECK(l.file_bytes % page_bytes == 0);
}

}  // namespace

TEST_CASE("the parts of a ring file follow each other without overlap, in every size") {
    for (std::uint64_t slots = 64; slots <= max_slots; slots *= 2) {
        check_order({slots, max_participants, max_handles, max_groups});
        check_order({slots, 0, 0, 1});
        check_order({slots, 0, 0, 0});
    }
}

TEST_CASE("the parts of a lease table follow each other without overlap, in every size") {
    for (std::uint64_t slots = 64; slots <= max_slots; slots *= 2) {
        CAPTURE(slots);
        const LeaseLayout l = lease_layout_of(slots);
        CHECK(l.notes == page_bytes);
        CHECK(l.note_count >= 64);
        CHECK(l.note_count <= 4096);
        CHECK(l.entries % page_bytes == 0);
        CHECK(l.entries >= l.notes + l.note_count * sizeof(Note));
        CHECK(l.file_bytes >= l.entries + slots * sizeof(Entry));
        CHECK(l.file_bytes % page_bytes == 0);
    }
}

TEST_CASE("the largest record is an eighth of the ring and codable as one claim") {
    for (std::uint64_t slots = 64; slots <= max_slots; slots *= 2) {
        CAPTURE(slots);
        const std::uint64_t most = max_record_slots(slots);
        CHECK(most <= slots / 8);
        CHECK(round_up_slots(most) == most);
        CHECK(decode_slots(encode_slots(most)) == most);
    }
}
