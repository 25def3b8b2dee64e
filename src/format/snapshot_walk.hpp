// SPDX-License-Identifier: MIT
// Walking the records of a ring that others write at the same time, and copying one of them.
//
// - A walk goes from record to record by their sizes, over holes by their claim words, and never backwards: no
//   position comes twice. It ends after a given number of steps at the latest.
// - Producers may overtake a walk. Whatever was read of a position counts only if the ring's floor was still at or
//   below it afterwards; otherwise the walk goes on at the new floor.
// - Progress: wait-free, bounded by the step budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "format/record.hpp"
#include "format/snapshot_words.hpp"

namespace rondo::format {

/// 4 M steps: about 40 ms, every record of a 256 MiB ring.
inline constexpr std::uint64_t default_walk_steps = std::uint64_t{1} << 22;

enum class RecordState : std::uint8_t {
    message,
    pad,         // up to the ring's end, or left over
    void_claim,  // aborted, or its owner died
    open_claim,  // claimed, not committed: `owner` has it in hand
    damaged,     // no record, and no claim of this lap that somebody can still have open
};

struct RecordInfo {
    Seq position;
    std::uint64_t slots;
    RecordState state;
    RecordHead head;      // message, pad, void_claim
    std::uint32_t owner;  // open_claim: participant
    std::uint32_t checksum, accepted;
    std::uint16_t producer, epoch;
};

enum class WalkEnd : std::uint8_t {
    running,
    reached,    // all of the range was seen
    budget,     // the step budget is used up: what follows was not looked at
    silent,     // single producer: the record that should be here is not; where to go on is not known
    lost,       // damage, and no claim word behind it that says where to go on
    truncated,  // the file ends here
};

class RecordWalk {
public:
    /// Records that begin in [from, to). A range longer than the ring is cut at its front.
    RecordWalk(const RingBytes& ring, Seq from, Seq to, std::uint64_t max_steps = default_walk_steps);

    [[nodiscard]] std::optional<RecordInfo> next();

    [[nodiscard]] WalkEnd end() const { return end_; }
    /// Where the next record is expected.
    [[nodiscard]] Seq position() const { return at_; }
    [[nodiscard]] std::uint64_t steps_left() const { return steps_; }
    /// Slots that producers took back before they were looked at.
    [[nodiscard]] std::uint64_t overtaken_slots() const { return overtaken_; }

private:
    std::optional<RecordInfo> at_position();
    std::optional<RecordInfo> read_header(const RecordHeader& header);
    std::optional<RecordInfo> damaged();
    bool overtaken();
    bool stop(WalkEnd end);

    const RingBytes& ring_;
    Seq at_, to_;
    std::uint64_t steps_;
    std::uint64_t overtaken_ = 0;
    WalkEnd end_ = WalkEnd::running;
};

/// Calls `each(const RecordInfo&)`, which returns false to stop (then the result is `running`).
template <class Each>
WalkEnd walk_records(const RingBytes& ring, Seq from, Seq to, Each&& each,
                     std::uint64_t max_steps = default_walk_steps) {
    RecordWalk walk(ring, from, to, max_steps);
    while (const auto record = walk.next()) {
        if (!each(*record)) return WalkEnd::running;
    }
    return walk.end();
}

/// The bytes of a record's slots, header first, copied word by word and checked afterwards: nothing if producers took
/// the slots back meanwhile, or the file ends before them. At most `max_bytes` (rounded up to 8) are copied.
[[nodiscard]] std::optional<std::vector<std::byte>> copy_record(const RingBytes& ring, const RecordInfo& record,
                                                                std::uint64_t max_bytes = ~std::uint64_t{0});
/// Same into a buffer of the caller's (aligned to 8): the number of bytes copied, 0 for nothing.
[[nodiscard]] std::size_t copy_record_into(const RingBytes& ring, const RecordInfo& record, std::span<std::byte> out);

/// The parts of a copied message: extension block (maybe empty) and payload. Nothing if the lengths do not fit.
struct RecordParts {
    std::span<const std::byte> extensions;
    std::span<const std::byte> payload;  // shorter than head.payload_bytes when the copy was cut
};
[[nodiscard]] std::optional<RecordParts> parts_of(const RecordHead& head, std::span<const std::byte> record);

/// For whom a message is: everybody (nothing), or one group.
[[nodiscard]] std::optional<OnlyGroup> only_group_of(const RingBytes& ring, const RecordInfo& record);

/// Wall clock ns at which a message was accepted, from its 4 ms units; 0 where the queue keeps no times. The units wrap
/// after 198 days: the newest time not after `now_wall_ns` (with a second of slack) is meant.
[[nodiscard]] std::uint64_t accepted_wall_ns(const Superblock& super, std::uint32_t accepted,
                                             std::uint64_t now_wall_ns);

}  // namespace rondo::format
