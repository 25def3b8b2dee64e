// SPDX-License-Identifier: MIT
// A group of competing consumers: one lease per message, in the lease table beside the ring.
//
//   hint       first position never leased; moved by whoever leases, helped by all
//   low water  (Group::cursor) first position not settled; moved by whoever settles
//   entry A    whose and in which state; every change is one CAS on the exact former word
//
//   ready -> leased -> handed -> settled                      take, hand-over (charges), ack
//                      handed -> failing -> backoff -> handed  nack, lapse, death: note the attempt, wait, again
//                                failing -> moving -> settled  reject, limit reached: copy to dead.ring
//                                           moving -> dead_pending, when dead.ring is full
//                                failing -> ready              release, uncharged
//   leased -> ready                                            given back untouched
//
// Invariants: lease first, hint second; low water <= hint; an entry below low water is settled; failing and moving
// belong to their owner alone (or to whoever holds its lock after its death). The sweep looks at every slot of
// [low water, hint) and believes only entries that carry the slot's own lap.
// Progress: lock-free. A consumer that stops holds its own messages only, until their leases lapse.
// Threads: one SharedGroup object per consumer, used under that consumer's own lock.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "flow/lease_table.hpp"
#include "format/words.hpp"
#include "ring/record_io.hpp"

namespace rondo::flow {

/// Monotonic time in the unit of entry deadlines (100 us), rounded up.
constexpr std::uint64_t due_of(std::uint64_t mono_ns) {
    return (mono_ns + format::due_tick_ns - 1) / format::due_tick_ns;
}

struct Leased {
    Seq position = 0;
    std::uint64_t word = 0;  // exact A word of this lease
    ring::RecordView record{};
    std::uint64_t due = 0;  // its deadline
    std::uint32_t attempts() const { return format::unpack_lease(word).attempts; }
};

enum class Take { taken, empty, corrupt };

class SharedGroup {
public:
    SharedGroup(const ring::RingView& ring, format::Group& group, std::uint32_t index, std::uint32_t life,
                LeaseTable table, std::uint32_t participant)
        : ring_(ring), group_(&group), index_(index), life_(life), table_(table), me_(participant) {}

    /// Leases the next never leased message, handed over at once or not. `pin` is the consumer's borrow word: it is
    /// lowered to the message before the lease exists. Steps over padding and other groups' copies.
    Take take_new(std::uint64_t deadline, bool hand_over, format::Word& pin, Leased& out);

    /// Settles a message whose header makes no sense, as skipped. False if nobody knows where the next one begins.
    bool skip_corrupt(Seq position);

    /// What a sweep found at one slot.
    enum class Found { nothing, ready, due, lapsed_untouched, lapsed, dead_pending };
    struct Returned {
        Found found = Found::nothing;
        Seq position = 0;
        std::uint64_t word = 0;
    };
    /// Looks from `at` (moved on) to the hint for one message that came back, is due, or lapsed. `next_due` is
    /// lowered to the earliest deadline seen. `lease`: what a deadline that cannot be believed is replaced by, from
    /// now. `nothing` when the hint is reached.
    Returned sweep(Seq& at, std::uint64_t now, std::uint64_t lease, std::uint64_t& next_due);
    /// Same of one position in [low water, hint).
    Returned look(Seq position, std::uint64_t now, std::uint64_t lease, std::uint64_t& next_due);

    /// Leases what sweep() found ready or due. False: another was faster.
    bool take_returned(const Returned& r, std::uint64_t deadline, bool hand_over, format::Word& pin, Leased& out);

    /// Leases the message at `position`, whether it was leased before or not, handed over at once. For a group whose
    /// members choose (dead letters). False: settled, or in somebody's hands. `word` before the lease in `former`.
    bool take_at(Seq position, std::uint64_t& former, Leased& out);

    /// leased -> handed: charges one delivery; the lease's time begins here. False: it lapsed untouched.
    bool hand_over(Leased& lease, std::uint64_t deadline);
    /// handed -> settled. False: stale.
    bool settle(const Leased& lease, format::Outcome outcome);
    /// Same; the message's note stays, until another message needs its place.
    bool close(const Leased& lease, format::Outcome outcome);
    /// leased -> ready; handed -> ready with the charge kept (take_at). False: stale.
    bool give_back(const Leased& lease);
    /// Attempt counts stand still at 1023, and then a lapsed lease of this participant looks like its next one but
    /// for the deadline. Checked by outcomes; true for every lease below that count.
    bool distinct(const Leased& lease) const;
    /// New deadline. False: stale.
    bool extend(const Leased& lease, std::uint64_t deadline);

    /// handed -> failing, owned by `owner` (this participant, or the dead one whose lock is held). False: stale.
    bool begin_failing(Seq position, std::uint64_t& word, std::uint32_t owner);
    /// failing -> backoff for `wait` due ticks from `now`; 0: ready at once.
    void end_failing(Seq position, std::uint64_t word, std::uint64_t now, std::uint64_t wait);
    /// failing -> ready, one attempt less.
    void end_releasing(Seq position, std::uint64_t word);
    /// failing or dead_pending -> moving. False: another was faster.
    bool begin_moving(Seq position, std::uint64_t& word, std::uint32_t owner);
    /// moving -> settled, or dead_pending.
    void end_moving(Seq position, std::uint64_t word, bool moved);

    /// Moves low water (and a hint that fell behind it) over settled records. True if it moved.
    bool advance_low_water();

    Seq low_water() const;
    Seq hint() const;
    /// How often something came back, so far.
    std::uint64_t returns() const;
    /// What the n-th return (from 0) brought back. Nothing: not told yet, or told over: only a sweep knows.
    std::optional<Seq> returned_at(std::uint64_t n) const;
    static constexpr std::uint64_t returns_kept = std::tuple_size_v<decltype(format::Group::returned)>;

    /// The record at a position that the caller holds.
    bool read(Seq position, ring::RecordView& out) const { return ring::peek(ring_, position, out) == ring::Peek::record; }

    const LeaseTable& table() const { return table_; }
    format::Group& group() const { return *group_; }
    const ring::RingView& ring() const { return ring_; }
    std::uint32_t index() const { return index_; }
    std::uint32_t life() const { return life_; }
    format::Entry& entry(Seq p) const { return table_.entries[p & ring_.mask()]; }

private:
    void note_return(Seq p);
    bool lease_until(std::uint64_t deadline, Seq p, std::uint64_t& word, const format::LeaseWord& to);
    bool skip(Seq p, std::uint64_t word);
    std::uint64_t slots_of(Seq p) const;
    bool change(Seq p, std::uint64_t& from, const format::LeaseWord& to);
    void move_hint(Seq p, std::uint64_t k);

    ring::RingView ring_;
    format::Group* group_;
    std::uint32_t index_, life_;
    LeaseTable table_;
    std::uint32_t me_;
};

/// Is this record not for that group: padding, void, or another group's copy?
bool not_for(const ring::RingView& v, Seq p, const ring::RecordView& r, std::uint32_t group, std::uint32_t life);

}  // namespace rondo::flow
