// SPDX-License-Identifier: MIT
// A group with one active consumer: messages in order, cumulative ack, no leases and no time.
//
//   owner   {participant, handle}: taken from 0 by one CAS; given up by close, or by the scavenger after death
//   cursor  first unsettled position         } plain release stores: only the owner writes them,
//   handed  end of what was handed over      } or the holder of its lock after its death
//   retry   {position, attempts} of the first unsettled message, once it was handed over a second time
//
// A record below `handed` was charged once. After a take-over or a failure everything below `handed` is handed over
// one at a time, the next after the outcome of the last, so that a crash blames one message and charges an innocent
// neighbour at most once more.
// Progress: a stopped owner blocks its group, visibly; a dead one is replaced.
// Threads: one object per consumer, used under that consumer's own lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/backoff_rng.hpp"
#include "flow/dead_letters.hpp"
#include "flow/policy.hpp"

namespace rondo::flow {

class ExclusiveGroup {
public:
    struct Handed {
        Seq position = 0;
        Seq end = 0;
        std::uint32_t attempts = 0;
        ring::RecordView record{};
        std::uint64_t session = 0;
    };
    struct Clock {
        std::uint64_t mono_ns, wall_ns;
    };
    enum class Next { handed, empty, waiting_for_outcome, backing_off, dead_pending, standby, full, corrupt };
    enum class Settled { ok, stale, not_first };

    ExclusiveGroup(const ring::RingView& ring, format::Group& group, std::uint32_t index, std::uint32_t life,
                   std::string_view name, std::uint64_t owner_word, const GroupPolicy& policy, DeadRing dead,
                   const format::Superblock& super, std::size_t in_flight_max);

    /// Owns the group, or takes it if it is free.
    bool acquire();
    bool active() const;
    /// Gives ownership up. Messages still in the program's hands are stale from here on.
    void give_up();

    /// The next message, charged. On `corrupt` the position is out.position, already stepped over if possible.
    Next next(const Clock& now, const Handler& handler, Handed& out);
    /// When a message that backs off is due (monotonic ns), for the caller's wait.
    std::uint64_t due_ns() const { return due_ns_; }

    /// Settles everything up to and including the message.
    Settled ack(Seq position, std::uint64_t session);
    /// nack and reject of the first unsettled message.
    Settled fail(Seq position, std::uint64_t session, const Failure& f, const Clock& now);
    Settled release(Seq position, std::uint64_t session, const Failure& f, const Clock& now);
    /// Given back out of turn: the later ones become stale now; it is nacked (or released, as `f` says) once it is
    /// first. False: stale.
    bool drop(Seq position, std::uint64_t session, const Failure& f, const Clock& now);

    /// After an ack: a message that was dropped out of turn may be first now.
    bool has_dropped() const { return dropped_at_ != format::nowhere; }
    void settle_dropped(const Clock& now);
    bool owns(Seq position, std::uint64_t session) const;
    std::uint64_t session() const { return session_; }
    Seq cursor() const { return cursor_; }
    /// Messages handed over without an outcome.
    std::size_t in_hand() const { return count_; }
    /// Where the next look goes.
    Seq position() const { return next_; }
    /// Attempts of a message in hand, this one included.
    std::uint32_t attempts_handed(Seq position) const;

private:
    struct Open {
        Seq position, end;
        std::uint64_t handed_ns;  // wall clock
        std::uint32_t attempts;
    };
    const Open& first() const { return open_[first_]; }
    void pop_first();
    void push(const Open& o);
    void forget_all();
    void take_over();
    void set_cursor(Seq p);
    void tell_first();
    void restart(Seq from);
    bool dead_letter(Seq position, Seq end, const ring::RecordView& record, std::uint32_t attempts,
                     DeadReason reason, const Reason& texts, const Handler& handler, const Clock& now);
    Settled fail_first(const Failure& f, const Clock& now);
    Settled release_first(const Failure& f, const Clock& now);
    bool too_old(const format::Note& note, const Clock& now) const;
    format::Note& note_for(Seq p);

    ring::RingView ring_;
    format::Group* group_;
    std::uint32_t index_, life_;
    std::string_view name_;
    std::uint64_t owner_word_;
    GroupPolicy policy_;
    DeadRing dead_;
    const format::Superblock* super_;
    base::BackoffRng rng_;

    Seq cursor_ = 0;         // = group_->cursor
    Seq handed_ = 0;         // = group_->handed
    Seq next_ = 0;           // next position to look at
    Seq careful_until_ = 0;  // below: one at a time
    std::uint64_t session_ = 0;
    std::uint64_t due_ns_ = 0;
    bool acquired_ = false;
    std::vector<Open> open_;  // messages handed over and not settled, oldest first (ring buffer)
    std::size_t first_ = 0, count_ = 0;
    std::optional<Failure> dropped_;  // of the message at dropped_at_
    Seq dropped_at_ = format::nowhere;
};

/// In a dead owner's name, its lock held: notes the attempt it died in. The ownership is the caller's to clear.
void note_owner_death(const ring::RingView& ring, format::Group& group, std::uint32_t index, std::uint32_t life,
                      const Handler& handler, std::uint64_t wall_ns);

}  // namespace rondo::flow
