// SPDX-License-Identifier: MIT
#include "flow/shared_group.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "ring/mend.hpp"

namespace rondo::flow {

using format::EntryState;
using format::LeaseWord;

bool not_for(const ring::RingView& v, Seq p, const ring::RecordView& r, std::uint32_t group, std::uint32_t life) {
    if (r.head.type != ring::RecordType::message) return true;
    if ((r.head.flags & format::flag_extensions) == 0) return false;
    const auto body = ring::body_of(v, p, r);
    if (!body) return false;
    const auto only = format::find_only_group(body->first(body->size() - r.head.payload_bytes));
    return only && (only->group != group || only->life != life);
}

Take SharedGroup::take_new(std::uint64_t deadline, bool hand_over, format::Word& pin, Leased& out) {
    for (std::uint64_t turn = 0; turn < ring_.slots * 2; ++turn) {
        const Seq p = hint();
        ring::RecordView r{};
        const auto seen = ring::peek(ring_, p, r);
        if (seen == ring::Peek::absent || seen == ring::Peek::corrupt) {
            if (hint() != p) continue;
            if (seen == ring::Peek::absent) return Take::empty;
            out.position = p;
            return Take::corrupt;
        }
        // ORD(lease.entry): acquire; pairs with change().
        std::uint64_t word = entry(p).a.load(std::memory_order_acquire);
        const LeaseWord there = format::unpack_lease(word);
        const std::uint64_t lap1 = ring_.lap1(p);
        if (there.lap1 > lap1) continue;  // p is stale
        if (there.lap1 == lap1 && there.state != EntryState::ready) {
            move_hint(p, r.head.slots);
            continue;
        }
        if (r.head.type != ring::RecordType::message) {
            if (skip(p, word)) move_hint(p, r.head.slots);
            advance_low_water();
            continue;
        }
        const std::uint32_t attempts = there.lap1 == lap1 ? there.attempts : 0;
        const std::uint32_t charged = hand_over ? std::min(attempts + 1, format::max_attempts) : attempts;
        // ORD(handle.borrow): release; pairs with settled_floor(); carried to it by the CAS below and by the mark
        // that whoever settles this message moves.
        // ORD(none): only this consumer writes its pin.
        if (pin.load(std::memory_order_relaxed) > p) pin.store(p, std::memory_order_release);
        if (!lease_until(deadline, p, word, {lap1, hand_over ? EntryState::handed : EntryState::leased, me_, charged}))
            continue;
        move_hint(p, r.head.slots);
        out = {p, word, r, deadline};
        // Looked into only now: without the lease the bytes could be another record's already.
        if (!not_for(ring_, p, r, index_, life_)) return Take::taken;
        (void)settle(out, format::Outcome::skipped);
        advance_low_water();
    }
    return Take::empty;
}

bool SharedGroup::skip_corrupt(Seq p) {
    const std::uint64_t k = slots_of(p);
    // ORD(lease.entry): acquire; pairs with change().
    const std::uint64_t word = entry(p).a.load(std::memory_order_acquire);
    if (k == 0 || format::unpack_lease(word).lap1 >= ring_.lap1(p)) return false;
    if (skip(p, word)) move_hint(p, k);
    advance_low_water();
    return true;
}

SharedGroup::Returned SharedGroup::sweep(Seq& at, std::uint64_t now, std::uint64_t lease,
                                         std::uint64_t& next_due) {
    const Seq low = low_water();
    const Seq end = std::min(hint(), low + ring_.slots);
    for (at = std::max(at, low); at < end; ++at) {
        const auto r = look(at, now, lease, next_due);
        if (r.found == Found::nothing) continue;
        ++at;
        return r;
    }
    return {};
}

SharedGroup::Returned SharedGroup::look(Seq p, std::uint64_t now, std::uint64_t lease, std::uint64_t& next_due) {
    // ORD(lease.entry): acquire; pairs with change().
    const std::uint64_t word = entry(p).a.load(std::memory_order_acquire);
    const LeaseWord w = format::unpack_lease(word);
    if (w.lap1 != ring_.lap1(p) || w.state == EntryState::settled) return {};
    if (w.state == EntryState::ready) return {Found::ready, p, word};
    if (w.state == EntryState::dead_pending) return {Found::dead_pending, p, word};
    if (w.state == EntryState::failing || w.state == EntryState::moving) return {};
    // ORD(lease.deadline): acquire; pairs with lease_until().
    std::uint64_t b = entry(p).b.load(std::memory_order_acquire);
    const auto due = format::unpack_due(b);
    if (due.owner != w.owner || due.attempts != w.attempts) {
        // Either A moved on between the two loads, or its owner has not written the deadline yet, or never will. Only
        // then is there something to mend: start the clock anew and come back; late, never early.
        // ORD(lease.entry): acquire; pairs with change().
        if (entry(p).a.load(std::memory_order_acquire) != word) {
            next_due = std::min(next_due, now + 1);
            return {};
        }
        const std::uint64_t fresh = now + (w.state == EntryState::backoff ? format::decode_delay(w.owner) : lease);
        // ORD(lease.deadline): release; as lease_until(). From the old value only.
        entry(p).b.compare_exchange_strong(b, format::pack_due({fresh, w.owner, w.attempts}),
                                           std::memory_order_release, std::memory_order_relaxed);
        next_due = std::min(next_due, fresh);
        return {};
    }
    if (due.value > now) {
        next_due = std::min(next_due, due.value);
        return {};
    }
    return {w.state == EntryState::backoff  ? Found::due
            : w.state == EntryState::leased ? Found::lapsed_untouched
                                            : Found::lapsed,
            p, word};
}

bool SharedGroup::take_returned(const Returned& r, std::uint64_t deadline, bool hand_over, format::Word& pin,
                                Leased& out) {
    const LeaseWord w = format::unpack_lease(r.word);
    const std::uint32_t charged = hand_over ? std::min(w.attempts + 1, format::max_attempts) : w.attempts;
    const Seq p = r.position;
    // ORD(handle.borrow): release; as in take_new().
    // ORD(none): only this consumer writes its pin.
    if (pin.load(std::memory_order_relaxed) > p) pin.store(p, std::memory_order_release);
    std::uint64_t word = r.word;
    if (!lease_until(deadline, p, word, {w.lap1, hand_over ? EntryState::handed : EntryState::leased, me_, charged}))
        return false;
    out.position = p;
    out.word = word;
    out.due = deadline;
    if (read(p, out.record)) return true;
    (void)settle(out, format::Outcome::skipped);  // damaged since: nobody can read it any more
    advance_low_water();
    return false;
}

bool SharedGroup::take_at(Seq p, std::uint64_t& former, Leased& out) {
    if (!read(p, out.record)) return false;
    // ORD(lease.entry): acquire; pairs with change().
    former = entry(p).a.load(std::memory_order_acquire);
    const LeaseWord w = format::unpack_lease(former);
    const std::uint64_t lap1 = ring_.lap1(p);
    if (w.lap1 > lap1 || (w.lap1 == lap1 && w.state != EntryState::ready)) return false;
    const std::uint32_t attempts = w.lap1 == lap1 ? w.attempts : 0;
    out.position = p;
    out.word = former;
    if (!change(p, out.word, {lap1, EntryState::handed, me_, std::min(attempts + 1, format::max_attempts)}))
        return false;
    // What lies at the hint or behind it is untouched, by definition: it moves over this one.
    std::uint64_t steps = 0;
    for (Seq h = hint(); h <= p && steps < ring_.slots; h = hint(), ++steps) {
        ring::RecordView r{};
        // ORD(ring.claim): acquire; pairs with claim_at(). Somebody is writing the record at the hint.
        const auto claim = format::unpack_claim(ring_.claim(h).load(std::memory_order_acquire));
        const bool here = ring::peek(ring_, h, r) == ring::Peek::record;
        if (!here && (claim.lap1 != ring_.lap1(h) || claim.slots == 0)) break;
        move_hint(h, here ? r.head.slots : claim.slots);
    }
    return true;
}

bool SharedGroup::hand_over(Leased& lease, std::uint64_t deadline) {
    const LeaseWord w = format::unpack_lease(lease.word);
    const std::uint32_t charged = std::min(w.attempts + 1, format::max_attempts);
    lease.due = deadline;
    return lease_until(deadline, lease.position, lease.word, {w.lap1, EntryState::handed, w.owner, charged});
}

bool SharedGroup::distinct(const Leased& lease) const {
    if (lease.attempts() < format::max_attempts) return true;
    // ORD(none): a stray write by a slower rival makes a good lease look stale: a duplicate, never a loss.
    return format::unpack_due(entry(lease.position).b.load(std::memory_order_relaxed)).value == lease.due;
}

bool SharedGroup::settle(const Leased& lease, format::Outcome outcome) {
    if (!close(lease, outcome)) return false;
    if (lease.attempts() > 1) table_.free_note(lease.position);
    return true;
}

bool SharedGroup::close(const Leased& lease, format::Outcome outcome) {
    std::uint64_t word = lease.word;
    return change(lease.position, word,
                  {format::unpack_lease(word).lap1, EntryState::settled, 0, static_cast<std::uint32_t>(outcome)});
}

bool SharedGroup::give_back(const Leased& lease) {
    const LeaseWord w = format::unpack_lease(lease.word);
    std::uint64_t word = lease.word;
    if (!change(lease.position, word, {w.lap1, EntryState::ready, 0, w.attempts})) return false;
    note_return(lease.position);
    return true;
}

bool SharedGroup::extend(const Leased& lease, std::uint64_t deadline) {
    const LeaseWord w = format::unpack_lease(lease.word);
    auto& e = entry(lease.position);
    // ORD(lease.entry): acquire; pairs with change(). Another's deadline must not be touched.
    if (e.a.load(std::memory_order_acquire) != lease.word) return false;
    // ORD(none): advisory; a lease that is lost in between has another tag.
    e.b.store(format::pack_due({deadline, w.owner, w.attempts}), std::memory_order_relaxed);
    // ORD(lease.entry): acquire; pairs with change().
    return e.a.load(std::memory_order_acquire) == lease.word;
}

bool SharedGroup::begin_failing(Seq p, std::uint64_t& word, std::uint32_t owner) {
    const LeaseWord w = format::unpack_lease(word);
    return change(p, word, {w.lap1, EntryState::failing, owner, w.attempts});
}

void SharedGroup::end_failing(Seq p, std::uint64_t word, std::uint64_t now, std::uint64_t wait) {
    const LeaseWord w = format::unpack_lease(word);
    // Nobody owns it meanwhile: the owner's bits say how long it waits, should B be lost.
    const std::uint32_t code = format::encode_delay(wait);
    const std::uint64_t due = wait == 0 ? 0 : std::min(base::saturating_add(now, wait), format::max_due);
    // ORD(none): believed only with the tag that the CAS below sets.
    entry(p).b.store(format::pack_due({due, code, w.attempts}), std::memory_order_relaxed);
    change(p, word, {w.lap1, EntryState::backoff, code, w.attempts});
    note_return(p);
}

void SharedGroup::end_releasing(Seq p, std::uint64_t word) {
    const LeaseWord w = format::unpack_lease(word);
    change(p, word, {w.lap1, EntryState::ready, 0, w.attempts == 0 ? 0 : w.attempts - 1});
    note_return(p);
}

bool SharedGroup::begin_moving(Seq p, std::uint64_t& word, std::uint32_t owner) {
    const LeaseWord w = format::unpack_lease(word);
    return change(p, word, {w.lap1, EntryState::moving, owner, w.attempts});
}

void SharedGroup::end_moving(Seq p, std::uint64_t word, bool moved) {
    const LeaseWord w = format::unpack_lease(word);
    if (moved) {
        change(p, word, {w.lap1, EntryState::settled, 0, static_cast<std::uint32_t>(format::Outcome::dead_lettered)});
        table_.free_note(p);
    } else {
        change(p, word, {w.lap1, EntryState::dead_pending, 0, w.attempts});
    }
}

bool SharedGroup::advance_low_water() {
    bool moved = false;
    for (std::uint64_t steps = 0; steps < ring_.slots; ++steps) {
        Seq p = low_water();
        // ORD(lease.entry): acquire; pairs with change().
        const std::uint64_t word = entry(p).a.load(std::memory_order_acquire);
        const LeaseWord w = format::unpack_lease(word);
        if (w.lap1 != ring_.lap1(p)) {
            // Never leased. Padding and voids need nobody: settled here, they cannot hold up a quiet group.
            ring::RecordView r{};
            if (w.lap1 > ring_.lap1(p) || ring::peek(ring_, p, r) != ring::Peek::record ||
                r.head.type == ring::RecordType::message || !skip(p, word))
                return moved;
        } else if (w.state != EntryState::settled) {
            return moved;
        }
        const std::uint64_t k = slots_of(p);
        if (k == 0) {
            if (low_water() == p) return moved;
            continue;
        }
        // The hint first: low water must never pass it. A stale k is harmless: both words have moved on then.
        move_hint(p, k);
        // ORD(group.mark): acq_rel; pairs with settled_floor(): this group's reads below are over.
        if (group_->cursor.compare_exchange_strong(p, p + k, std::memory_order_acq_rel, std::memory_order_relaxed))
            moved = true;
    }
    return moved;
}

Seq SharedGroup::low_water() const {
    // ORD(group.mark): acquire; pairs with advance_low_water().
    return group_->cursor.load(std::memory_order_acquire);
}

Seq SharedGroup::hint() const {
    // ORD(group.hint): acquire; pairs with move_hint().
    return group_->hint.load(std::memory_order_acquire);
}

std::uint64_t SharedGroup::returns() const {
    // ORD(group.returns): acquire; pairs with note_return().
    return group_->returns.load(std::memory_order_acquire);
}

void SharedGroup::note_return(Seq p) {
    // ORD(group.returns): release; pairs with returns(): the entry's new state is visible to who sees the count.
    const std::uint64_t n = group_->returns.fetch_add(1, std::memory_order_release);
    // ORD(group.returned): release; pairs with returned_at().
    group_->returned[n % returns_kept].store(format::pack_returned(n, p), std::memory_order_release);
}

std::optional<Seq> SharedGroup::returned_at(std::uint64_t n) const {
    // ORD(group.returned): acquire; pairs with note_return().
    const std::uint64_t word = group_->returned[n % returns_kept].load(std::memory_order_acquire);
    const Seq p = format::returned_position(word);
    if (word != format::pack_returned(n, p)) return std::nullopt;
    return p;
}

bool SharedGroup::skip(Seq p, std::uint64_t word) {
    return change(p, word, {ring_.lap1(p), EntryState::settled, 0, static_cast<std::uint32_t>(format::Outcome::skipped)});
}

std::uint64_t SharedGroup::slots_of(Seq p) const {
    // ORD(none): the record is settled here, hence was read before; if it is recycled meanwhile the CAS fails.
    const auto head = format::unpack_head(ring_.head(p).load(std::memory_order_relaxed));
    if (format::plausible(head, p, ring_.slots)) return head.slots;
    return ring::extent_of_damage(ring_, p);
}

/// Only who won the entry writes its deadline. Until that store B must not carry the tag of an earlier lease that looks
/// like this one: without a tag that fits, an expirer starts the clock anew.
bool SharedGroup::lease_until(std::uint64_t deadline, Seq p, std::uint64_t& word, const LeaseWord& to) {
    auto& e = entry(p);
    // ORD(lease.deadline): acquire; pairs with itself: A is looked at after it.
    std::uint64_t b = e.b.load(std::memory_order_acquire);
    const auto left = format::unpack_due(b);
    if (left.owner == to.owner && left.attempts == to.attempts) {
        // ORD(lease.entry): acquire; pairs with change(). If it moved on, the deadline may be the winner's.
        if (e.a.load(std::memory_order_acquire) != word) return false;
        // ORD(none): from the old value only; the winner's is another.
        e.b.compare_exchange_strong(b, 0, std::memory_order_relaxed, std::memory_order_relaxed);
    }
    if (!change(p, word, to)) return false;
    // ORD(lease.deadline): release; as above. Believed only if its tag matches A.
    e.b.store(format::pack_due({deadline, to.owner, to.attempts}), std::memory_order_release);
    return true;
}

bool SharedGroup::change(Seq p, std::uint64_t& from, const LeaseWord& to) {
    const std::uint64_t next = format::pack_lease(to);
    std::uint64_t expected = from;  // `from` stays what the caller believed when it was wrong
    // ORD(lease.entry): acq_rel; pairs with the loads of A. Carries the note, B and the reads of the message.
    if (!entry(p).a.compare_exchange_strong(expected, next, std::memory_order_acq_rel, std::memory_order_acquire))
        return false;
    from = next;
    return true;
}

void SharedGroup::move_hint(Seq p, std::uint64_t k) {
    Seq expected = p;
    // ORD(group.hint): acq_rel; pairs with hint(). Failure means that somebody helped.
    group_->hint.compare_exchange_strong(expected, p + k, std::memory_order_acq_rel, std::memory_order_relaxed);
}

}  // namespace rondo::flow
