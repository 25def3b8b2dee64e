// SPDX-License-Identifier: MIT
// Reading a mapped ring file without taking part in it: private copies of its words and blocks.
//
// Who calls this: Queue::stats() of a participant and ring-dump, which is none; any thread, any number at once.
// - Nothing is ever written, no system call is made. Each shared word is loaded once; what a caller sees is a copy.
// - Nothing outside `file` is touched, whatever the file says: offsets come from layout_of(), never from the file,
//   and a file that is shorter than its layout gives "not there" (an empty optional), not a fault.
// - Progress: wait-free. A ring that moves meanwhile gives values of different moments; each is one that was there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/layout.hpp"
#include "format/words.hpp"
#include "rondo/format.hpp"
#include "rondo/types.hpp"

namespace rondo::format {

/// Copies `bytes` (a multiple of 8; both ends aligned to 8) out of shared memory, word by word, so that a writer at
/// the same time is no data race. The words may be of different moments: the caller checks afterwards.
void copy_words(const std::byte* from, std::byte* to, std::size_t bytes);

/// One load of a shared word, nothing ordered.
[[nodiscard]] inline std::uint64_t peek(const Word& word) {
    // ORD(none): one word by itself; what follows from it is checked.
    return word.load(std::memory_order_relaxed);
}
[[nodiscard]] inline std::uint32_t peek(const Half& word) {
    // ORD(none): as above.
    return word.load(std::memory_order_relaxed);
}
/// One load of a shared word; what is read later is at least as new.
[[nodiscard]] inline std::uint64_t peek_acquire(const Word& word) {
    // ORD(record.stamp): acquire; pairs with put_stamp() when the word is a stamp.
    // ORD(ring.tail): acquire; pairs with move_tail() and publish_tail() when it is the tail.
    // ORD(credit.limit): acquire; pairs with advance_limit() when it is the limit.
    return word.load(std::memory_order_acquire);
}

/// The first bytes of a file as a superblock, unchecked. Nothing when the file is shorter than one.
[[nodiscard]] std::optional<Superblock> copy_superblock(std::span<const std::byte> file);
[[nodiscard]] std::optional<LeaseHeader> copy_lease_header(std::span<const std::byte> file);

struct HotValues {
    Seq tail;
    Seq limit;
    std::uint64_t join_generation;
    std::uint64_t keep_from, last_scan_ns;
    std::uint32_t state, epoch;
    std::uint64_t producer_owner, participants_high, handles_high;
    std::uint32_t fence_needed;
    std::uint64_t void_total, corrupt_total;
};

struct ParticipantInfo {
    std::uint32_t id;
    std::uint32_t state;  // ParticipantState
    std::uint32_t incarnation, pid, uid;
    std::uint64_t pid_namespace, start_ticks, attached_ns;
    std::string program;
};

struct HandleInfo {
    std::uint32_t index;
    std::uint32_t participant;
    HandleKind kind;
    std::uint32_t group, group_life;
    std::uint64_t borrow;
    Waiting waiting;
    std::uint64_t waiting_since_ns;
    std::string name;
    std::uint64_t published, acked, nacked, rejected, released, stale, lapsed, in_flight, last_seq, last_outcome_ns,
        handler_ns, handler_samples, blocked_ns;
};

struct GroupInfo {
    std::uint32_t index;
    GroupState state;
    std::uint32_t life;
    GroupMode mode;
    GroupKind kind;
    StartKind start_kind;
    std::uint64_t start_value;
    std::uint64_t lease_timeout_ns, max_lease_total_ns;
    std::uint32_t max_deliveries;
    std::uint64_t max_in_flight_consumer, max_in_flight_group, max_dead_pending;
    std::uint64_t created_ns;
    std::string name;
    // Marks.
    Seq cursor;  // or `nowhere`
    Seq hint;
    std::uint32_t owner;                        // participant, 0 = nobody
    std::optional<std::uint32_t> owner_handle;  // index
    std::uint64_t owner_in_flight;              // messages in the owner's hands, as its handle says; 0 without owner
    Seq handed;
    Seq retry_position;  // or `nowhere`
    std::uint32_t retry_attempts;
    std::uint64_t not_before_ns;
    std::uint64_t handed_ns;  // wall clock: exclusive, when the first unsettled message was handed over; 0 = unknown
    std::optional<Seq> moving, dead_pending;
    // Totals without those of living handles.
    std::uint64_t delivered, acked, nacked, rejected, released, stale, lapsed, owner_died, dead_lettered, redelivered,
        skipped;
};

/// What is known of a failed, unsettled message.
struct NoteInfo {
    Seq position;
    std::uint32_t attempt_count, release_count;
    std::uint64_t first_delivered_ns, last_delivered_ns;
    std::uint32_t flags;
    std::string code, type, stage, message;
    std::vector<Attempt> attempts;  // those that are kept, oldest first
};

/// A ring file in memory. `file` starts at the file's first byte, is aligned to 8 and may be shorter than the layout.
/// `super` is a private copy that passed the checks of validate.hpp, or at least usable_geometry().
struct RingBytes {
    std::span<const std::byte> file;
    Superblock super;
    Layout layout;

    [[nodiscard]] std::uint64_t slots() const { return super.slot_count; }
    /// Is every byte of the layout there?
    [[nodiscard]] bool complete() const { return file.size() >= layout.file_bytes; }

    // Shared words and blocks in place, or null when the file ends before them.
    [[nodiscard]] const HotWords* hot_words() const { return at<HotWords>(layout.hot, 0); }
    [[nodiscard]] const Word* claim_word(Seq position) const {
        return at<Word>(layout.claims, position & (super.slot_count - 1));
    }
    [[nodiscard]] const RecordHeader* header(Seq position) const {
        return reinterpret_cast<const RecordHeader*>(
            inside(layout.slots + (position & (super.slot_count - 1)) * slot_bytes, header_bytes));
    }
    [[nodiscard]] const std::byte* slot(Seq position, std::uint64_t count) const {
        return inside(layout.slots + (position & (super.slot_count - 1)) * slot_bytes, count * slot_bytes);
    }

    // Copies. Indices beyond the file's counts give nothing.
    [[nodiscard]] std::optional<HotValues> hot() const;
    [[nodiscard]] std::optional<ClaimWord> claim(Seq position) const;
    [[nodiscard]] std::uint32_t overflow() const;
    [[nodiscard]] std::optional<ParticipantInfo> participant(std::uint32_t id) const;
    [[nodiscard]] std::optional<HandleInfo> handle(std::uint32_t index) const;
    [[nodiscard]] std::optional<GroupInfo> group(std::uint32_t index) const;
    [[nodiscard]] std::optional<NoteInfo> group_note(std::uint32_t index) const;
    /// All that are not free, lowest first.
    [[nodiscard]] std::vector<ParticipantInfo> participants() const;
    [[nodiscard]] std::vector<HandleInfo> handles() const;
    [[nodiscard]] std::vector<GroupInfo> groups() const;

    /// First position that may not be overwritten yet: limit - slots.
    [[nodiscard]] static Seq floor_of(Seq limit, std::uint64_t slots) { return limit > slots ? limit - slots : 0; }

private:
    friend RingBytes ring_bytes(std::span<const std::byte> file, const Superblock& super);

    [[nodiscard]] const std::byte* inside(std::uint64_t offset, std::uint64_t bytes) const {
        return offset <= file.size() && bytes <= file.size() - offset ? file.data() + offset : nullptr;
    }
    template <class T>
    [[nodiscard]] const T* at(std::uint64_t offset, std::uint64_t index) const {
        return reinterpret_cast<const T*>(inside(offset + index * sizeof(T), sizeof(T)));
    }
};

/// Are the counts of `super` such that layout_of() cannot overflow and every index fits its table?
[[nodiscard]] bool usable_geometry(const Superblock& super);

/// `super` must be usable_geometry().
[[nodiscard]] RingBytes ring_bytes(std::span<const std::byte> file, const Superblock& super);

/// A lease table in memory. `slot_count` is the ring's, never the table's own word.
struct LeaseBytes {
    std::span<const std::byte> file;
    LeaseHeader header;
    LeaseLayout layout;
    std::uint64_t slot_count;

    struct Words {
        LeaseWord a;
        DueWord b;
    };
    /// The entry of `position`'s slot, whatever lap it carries. Nothing when the file ends before it.
    [[nodiscard]] std::optional<Words> entry(Seq position) const;
    /// The note of an unsettled message, if one was kept.
    [[nodiscard]] std::optional<NoteInfo> note(Seq position) const;
};

/// A table that belongs to `ring` (both uuids and the slot count agree), or nothing.
[[nodiscard]] std::optional<LeaseBytes> lease_bytes(std::span<const std::byte> file, const RingBytes& ring);

/// The table of a group of `ring` among several, maybe of several rings, or null.
[[nodiscard]] const LeaseBytes* table_of(std::span<const LeaseBytes> tables, const RingBytes& ring,
                                         const GroupInfo& group);

}  // namespace rondo::format
