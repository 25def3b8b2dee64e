// SPDX-License-Identifier: MIT
#include "flow/exclusive_group.hpp"

#include <algorithm>
#include <cstring>

#include "flow/shared_group.hpp"
#include "ring/mend.hpp"

namespace rondo::flow {

using format::Outcome;

namespace {

/// Attempts charged to the unsettled message at p: `handed` counts one for everything below it, `retry` more.
std::uint32_t charged(const format::Group& g, Seq p, Seq handed) {
    // ORD(none): written by the owner, whose ownership this thread holds or inherited through an acquire.
    const std::uint64_t retry = g.retry.load(std::memory_order_relaxed);
    if (format::retry_set(retry) && format::retry_position(retry) == p) return format::retry_attempts(retry);
    return p < handed ? 1 : 0;
}

}  // namespace

ExclusiveGroup::ExclusiveGroup(const ring::RingView& ring, format::Group& group, std::uint32_t index,
                               std::uint32_t life, std::string_view name, std::uint64_t owner_word,
                               const GroupPolicy& policy, DeadRing dead, const format::Superblock& super,
                               std::size_t in_flight_max)
    : ring_(ring),
      group_(&group),
      index_(index),
      life_(life),
      name_(name),
      owner_word_(owner_word),
      policy_(policy),
      dead_(dead),
      super_(&super),
      rng_(owner_word ^ super.salt),
      open_(std::max<std::size_t>(in_flight_max, 1)) {}

bool ExclusiveGroup::acquire() {
    if (active()) {
        if (!acquired_) take_over();
        return true;
    }
    std::uint64_t nobody = 0;
    // ORD(none): a standby looks often, and must not take the line from the owner.
    if (group_->owner.load(std::memory_order_relaxed) != 0) return false;
    // ORD(group.owner): acq_rel; pairs with give_up() and the scavenger. Carries the marks and the note.
    if (!group_->owner.compare_exchange_strong(nobody, owner_word_, std::memory_order_acq_rel,
                                               std::memory_order_relaxed))
        return false;
    take_over();
    return true;
}

bool ExclusiveGroup::active() const {
    // ORD(group.owner): acquire; pairs with acquire().
    return group_->owner.load(std::memory_order_acquire) == owner_word_;
}

void ExclusiveGroup::take_over() {
    acquired_ = true;
    // ORD(group.mark): acquire; pairs with the former owner's set_cursor().
    cursor_ = group_->cursor.load(std::memory_order_acquire);
    // ORD(none): carried by the ownership.
    handed_ = std::max(cursor_, group_->handed.load(std::memory_order_relaxed));
    forget_all();
    restart(cursor_);
    // ORD(none): the former owner's mark of a move that may have been cut short.
    const std::uint64_t move = group_->move.load(std::memory_order_relaxed);
    if (move == 0) return;
    Seq p = cursor_;
    ring::RecordView r{};
    // What is not this group's may lie before the message that was being moved.
    while (p < move >> 1 && ring::peek(ring_, p, r) == ring::Peek::record && not_for(ring_, p, r, index_, life_))
        p += r.head.slots;
    if (move == (p << 1 | 1) && ring::peek(ring_, p, r) == ring::Peek::record) {
        Death d;
        d.position = p;
        d.record = r;
        d.group = index_;
        d.life = life_;
        // ORD(none): as above.
        if (dead_.contains(identity_of(*super_, d), group_->move_tail.load(std::memory_order_relaxed))) {
            restart(p + r.head.slots);
            set_cursor(next_);
        }
    }
    // ORD(none): only the owner reads it.
    group_->move.store(0, std::memory_order_relaxed);
}

void ExclusiveGroup::give_up() {
    if (!acquired_ || !active()) return;
    acquired_ = false;
    forget_all();
    ++session_;
    // ORD(group.owner): release; pairs with acquire().
    group_->owner.store(0, std::memory_order_release);
}

ExclusiveGroup::Next ExclusiveGroup::next(const Clock& now, const Handler& handler, Handed& out) {
    if (!acquire()) return Next::standby;
    if (dropped_at_ != format::nowhere) settle_dropped(now);
    if (dropped_at_ != format::nowhere) return Next::waiting_for_outcome;
    if (count_ == open_.size()) return Next::full;
    for (std::uint64_t steps = 0; steps <= ring_.slots; ++steps) {
        const Seq p = next_;
        if (p < careful_until_ && count_ != 0) return Next::waiting_for_outcome;
        ring::RecordView r{};
        switch (ring::peek(ring_, p, r)) {
            case ring::Peek::absent:
                return Next::empty;
            case ring::Peek::corrupt: {
                out.position = p;
                next_ = p + ring::extent_of_damage(ring_, p);
                if (count_ == 0) set_cursor(next_);
                return Next::corrupt;
            }
            case ring::Peek::record:
                break;
        }
        const Seq end = p + r.head.slots;
        if (not_for(ring_, p, r, index_, life_)) {
            next_ = end;
            if (count_ == 0) set_cursor(end);
            continue;
        }
        const std::uint32_t attempts = charged(*group_, p, handed_);
        if (attempts != 0) {
            // ORD(none): written by this owner or inherited with the ownership.
            due_ns_ = group_->not_before.load(std::memory_order_relaxed);
            const std::uint64_t retry = group_->retry.load(std::memory_order_relaxed);
            const bool waits = format::retry_set(retry) && format::retry_position(retry) == p;
            if (waits && due_ns_ > now.mono_ns) return Next::backing_off;
        }
        // ORD(none): written by this owner or inherited with the ownership.
        const bool pending = group_->dead_pending.load(std::memory_order_relaxed) == (p << 1 | 1);
        if (pending || policy_.spent(attempts)) {
            auto& note = note_for(p);
            const auto reason = note.reason != 0 ? static_cast<DeadReason>(note.reason) : DeadReason::max_deliveries;
            if (!dead_letter(p, end, r, attempts, reason, noted_reason(note), handler, now)) return Next::dead_pending;
            continue;
        }
        if (p < handed_) {
            // ORD(none): carried to a successor by the ownership.
            group_->retry.store(format::pack_retry(p, std::min(attempts + 1, format::max_attempts)),
                                std::memory_order_relaxed);
        } else {
            handed_ = end;
            // ORD(group.handed): release; pairs with readers of the marks. Before the message is handed over.
            group_->handed.store(end, std::memory_order_release);
        }
        next_ = end;
        push({p, end, now.wall_ns, std::min(attempts + 1, format::max_attempts)});
        if (count_ == 1) tell_first();
        out = {p, end, open_[(first_ + count_ - 1) % open_.size()].attempts, r, session_};
        return Next::handed;
    }
    return Next::empty;
}

bool ExclusiveGroup::owns(Seq position, std::uint64_t session) const {
    return acquired_ && session == session_ && active() && count_ != 0 && position >= first().position &&
           position <= open_[(first_ + count_ - 1) % open_.size()].position && position <= dropped_at_;
}

std::uint32_t ExclusiveGroup::attempts_handed(Seq position) const {
    for (std::size_t i = 0; i < count_; ++i) {
        const Open& o = open_[(first_ + i) % open_.size()];
        if (o.position == position) return o.attempts;
    }
    return 1;
}

ExclusiveGroup::Settled ExclusiveGroup::ack(Seq position, std::uint64_t session) {
    // A dropped message between the first and this one would be swallowed: it is stale then.
    if (!owns(position, session) || position == dropped_at_) return Settled::stale;
    Seq end = cursor_;
    while (count_ != 0 && first().position <= position) {
        end = first().end;
        pop_first();
    }
    if (count_ != 0) tell_first();
    set_cursor(count_ == 0 ? std::max(end, next_) : end);
    return Settled::ok;
}

ExclusiveGroup::Settled ExclusiveGroup::fail(Seq position, std::uint64_t session, const Failure& f, const Clock& now) {
    if (!owns(position, session)) return Settled::stale;
    if (position != first().position) return Settled::not_first;
    return fail_first(f, now);
}

ExclusiveGroup::Settled ExclusiveGroup::fail_first(const Failure& f, const Clock& now) {
    const Open o = first();
    ring::RecordView r{};
    if (ring::peek(ring_, o.position, r) != ring::Peek::record) {
        // Damaged since it was handed over: nobody can read it any more.
        group_->skipped.fetch_add(1, std::memory_order_relaxed);  // ORD(none): a counter
        forget_all();
        restart(o.end);
        set_cursor(o.end);
        return Settled::ok;
    }
    auto& note = note_for(o.position);
    const bool tried = f.outcome != Outcome::released;  // otherwise only its age can end it
    const bool last = f.outcome == Outcome::rejected || (tried && policy_.spent(o.attempts));
    const std::uint64_t wait = last ? 0 : f.delay_ns ? *f.delay_ns : policy_.backoff_after(o.attempts, rng_);
    note_attempt(note, o.attempts, f, wait);
    const bool old = too_old(note, now);
    forget_all();
    // The later ones come one at a time from here on.
    if (last || old) {
        const auto reason = f.damaged                        ? DeadReason::corrupt
                            : f.outcome == Outcome::rejected ? DeadReason::rejected
                            : last                           ? DeadReason::max_deliveries
                                                             : DeadReason::retry_timeout;
        note.reason = static_cast<std::uint32_t>(reason);
        restart(o.position);
        (void)dead_letter(o.position, o.end, r, o.attempts, reason, f.reason, f.handler, now);
        return Settled::ok;
    }
    // ORD(none): carried to a successor by the ownership; the wait first, so that a retry is never due too early.
    group_->not_before.store(wait == 0 ? 0 : now.mono_ns + wait, std::memory_order_relaxed);
    group_->retry.store(format::pack_retry(o.position, o.attempts), std::memory_order_relaxed);
    restart(o.position);
    return Settled::ok;
}

ExclusiveGroup::Settled ExclusiveGroup::release(Seq position, std::uint64_t session, const Failure& f,
                                                const Clock& now) {
    if (!owns(position, session)) return Settled::stale;
    if (position != first().position) return Settled::not_first;
    return release_first(f, now);
}

ExclusiveGroup::Settled ExclusiveGroup::release_first(const Failure& f, const Clock& now) {
    const Open o = first();
    auto& note = note_for(o.position);
    ++note.release_count;
    note_hand_over(note, f);
    if (too_old(note, now)) return fail_first(f, now);
    forget_all();
    // ORD(none): carried to a successor by the ownership.
    group_->not_before.store(0, std::memory_order_relaxed);
    group_->retry.store(format::pack_retry(o.position, o.attempts - 1), std::memory_order_relaxed);
    restart(o.position);
    return Settled::ok;
}

bool ExclusiveGroup::drop(Seq position, std::uint64_t session, const Failure& f, const Clock& now) {
    if (!owns(position, session) || dropped_at_ == position) return false;
    dropped_at_ = position;
    dropped_ = f;
    // The texts must outlive the call; the library's own are literals, the handler's names its consumer's.
    settle_dropped(now);
    return true;
}

void ExclusiveGroup::settle_dropped(const Clock& now) {
    if (count_ == 0 || first().position > dropped_at_) {
        dropped_at_ = format::nowhere;
        return;
    }
    if (first().position != dropped_at_) return;
    dropped_at_ = format::nowhere;
    if (dropped_->outcome == Outcome::released) {
        (void)release_first(*dropped_, now);
    } else {
        (void)fail_first(*dropped_, now);
    }
}

bool ExclusiveGroup::dead_letter(Seq position, Seq end, const ring::RecordView& record, std::uint32_t attempts,
                                 DeadReason reason, const Reason& texts, const Handler& handler, const Clock& now) {
    Death d;
    d.position = position;
    d.record = record;
    d.group = index_;
    d.life = life_;
    d.group_name = name_;
    d.reason = reason;
    d.texts = texts;
    d.note = &note_for(position);
    d.delivery_count = attempts;
    d.max_deliveries = policy_.max_deliveries;
    d.handler = handler;
    d.now_ns = now.wall_ns;
    const auto& noted = d.note->attempts[(std::max(attempts, 1U) - 1) % format::attempts_kept];
    // The one who had it last, which after a death is not the one who moves it.
    if (noted.number == attempts && noted.pid != handler.pid)
        d.handler = {std::string_view(noted.consumer.data(), ::strnlen(noted.consumer.data(), noted.consumer.size())),
                     {},
                     noted.pid};
    // ORD(none): for a successor, carried by the ownership: where to look for the copy before copying again.
    group_->move_tail.store(dead_.tail(), std::memory_order_relaxed);
    group_->move.store(position << 1 | 1, std::memory_order_relaxed);
    if (dead_.append(ring_, *super_, d) != DeadRing::Append::done) {
        // ORD(none): carried by the ownership; shown by ring-dump.
        group_->dead_pending.store(position << 1 | 1, std::memory_order_relaxed);
        group_->move.store(0, std::memory_order_relaxed);
        return false;
    }
    next_ = end;
    set_cursor(end);
    // ORD(none): as above.
    group_->dead_pending.store(0, std::memory_order_relaxed);
    group_->move.store(0, std::memory_order_relaxed);
    group_->dead_lettered.fetch_add(1, std::memory_order_relaxed);  // ORD(none): a counter
    return true;
}

bool ExclusiveGroup::too_old(const format::Note& note, const Clock& now) const {
    return age_of(note, now.mono_ns) >= policy_.retry_max_age_ns;
}

format::Note& ExclusiveGroup::note_for(Seq p) {
    // ORD(none): written by this owner or inherited with the ownership.
    if (group_->note.position.load(std::memory_order_relaxed) != (p << 1 | 1)) begin_note(group_->note, p);
    return group_->note;
}

void ExclusiveGroup::set_cursor(Seq p) {
    cursor_ = p;
    // ORD(group.mark): release; pairs with settled_floor(): this consumer's reads below are over.
    group_->cursor.store(p, std::memory_order_release);
}

/// For the story of the first unsettled message, should this process die with it.
void ExclusiveGroup::tell_first() {
    // ORD(none): carried to the scavenger by the owner's death, to a successor by the ownership.
    group_->handed_ns.store(first().handed_ns, std::memory_order_relaxed);
}

/// Everything from `from` on is handed over anew, what was handed over before one at a time.
void ExclusiveGroup::restart(Seq from) {
    next_ = from;
    careful_until_ = handed_;
    ++session_;
}

void ExclusiveGroup::forget_all() {
    first_ = count_ = 0;
    dropped_at_ = format::nowhere;
}

void ExclusiveGroup::pop_first() {
    first_ = (first_ + 1) % open_.size();
    --count_;
}

void ExclusiveGroup::push(const Open& o) {
    open_[(first_ + count_) % open_.size()] = o;
    ++count_;
}

void note_owner_death(const ring::RingView& ring, format::Group& g, std::uint32_t index, std::uint32_t life,
                      const Handler& handler, std::uint64_t wall_ns) {
    // ORD(group.mark): acquire; pairs with set_cursor().
    Seq p = g.cursor.load(std::memory_order_acquire);
    // ORD(group.handed): acquire; pairs with next().
    const Seq handed = g.handed.load(std::memory_order_acquire);
    ring::RecordView r{};
    while (p < handed && ring::peek(ring, p, r) == ring::Peek::record && not_for(ring, p, r, index, life))
        p += r.head.slots;
    if (p >= handed) return;
    const std::uint32_t attempts = charged(g, p, handed);
    if (attempts == 0) return;
    // ORD(none): the owner is dead and its lock is held: nobody else writes.
    if (g.note.position.load(std::memory_order_relaxed) != (p << 1 | 1)) begin_note(g.note, p);
    if (g.note.attempt_count >= attempts) return;  // noted already, by an outcome or an earlier repair
    Failure f;
    f.outcome = Outcome::owner_died;
    f.reason.code = "owner_died";
    f.reason.message = "the consumer's process ended while it had the message";
    f.started_ns = std::min(g.handed_ns.load(std::memory_order_relaxed), wall_ns);  // ORD(none): as above
    f.ended_ns = wall_ns;
    f.handler = handler;
    note_attempt(g.note, attempts, f, 0);
    g.note.reason = static_cast<std::uint32_t>(DeadReason::owner_died_limit);
}

}  // namespace rondo::flow
