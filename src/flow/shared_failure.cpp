// SPDX-License-Identifier: MIT
#include "flow/shared_failure.hpp"

namespace rondo::flow {

using format::EntryState;
using format::Outcome;

namespace {

DeadReason reason_of(Outcome last) {
    switch (last) {
        case Outcome::rejected:
            return DeadReason::rejected;
        case Outcome::lease_expired:
            return DeadReason::lease_expired_limit;
        case Outcome::owner_died:
            return DeadReason::owner_died_limit;
        case Outcome::released:
            return DeadReason::retry_timeout;
        default:
            return DeadReason::max_deliveries;
    }
}

bool too_old(const FailureContext& c, const format::Note* note) {
    return note != nullptr && age_of(*note, c.mono_ns) >= c.policy.retry_max_age_ns;
}

Fate settle_moved(const FailureContext& c, Seq position, std::uint64_t word, format::Word& counter) {
    counter.fetch_add(1, std::memory_order_relaxed);  // ORD(none): a counter
    c.group.end_moving(position, word, true);
    c.group.advance_low_water();
    return Fate::dead_lettered;
}

/// The entry is `moving` and ours: copy, settle. Not again if a dead mover's copy is there.
Fate copy_and_settle(const FailureContext& c, Seq position, std::uint64_t word, bool look_first, const Reason& texts,
                     const Handler& handler) {
    Death d;
    // Damaged since it was taken: nothing is left to keep.
    if (!c.group.read(position, d.record)) return settle_moved(c, position, word, c.group.group().skipped);
    const auto* note = c.group.table().find_note(position);
    const std::uint32_t attempts = format::unpack_lease(word).attempts;
    d.position = position;
    d.group = c.group.index();
    d.life = c.group.life();
    d.group_name = c.group_name;
    d.reason = note != nullptr && note->reason != 0 ? static_cast<DeadReason>(note->reason)
               : c.policy.spent(attempts)           ? DeadReason::max_deliveries
                                                    : DeadReason::rejected;
    d.texts = texts;
    d.note = note;
    d.delivery_count = attempts;
    d.max_deliveries = c.policy.max_deliveries;
    d.handler = handler;
    d.now_ns = c.wall_ns;
    const bool there = look_first && c.dead.contains(identity_of(c.super, d), 0);
    if (!there && c.dead.append(c.group.ring(), c.super, d) != DeadRing::Append::done) {
        c.group.end_moving(position, word, false);
        return Fate::dead_pending;
    }
    return settle_moved(c, position, word, c.group.group().dead_lettered);
}

Fate move_away(const FailureContext& c, Seq position, std::uint64_t word, std::uint32_t owner, const Reason& texts,
               const Handler& handler) {
    if (!c.group.begin_moving(position, word, owner)) return Fate::stale;
    return copy_and_settle(c, position, word, false, texts, handler);
}

/// First failure after death: again at once, the process is gone and nothing says that the message is to blame.
std::uint64_t wait_after(const FailureContext& c, const Failure& f, std::uint32_t attempts) {
    if (f.delay_ns) return *f.delay_ns;
    if (f.outcome == Outcome::owner_died) return attempts <= 1 ? 0 : c.policy.backoff_after(attempts - 1, c.rng);
    return c.policy.backoff_after(attempts == 0 ? 1 : attempts, c.rng);
}

/// The entry is `failing` and ours: note, decide.
Fate decide(const FailureContext& c, Seq position, std::uint64_t word, std::uint32_t owner, const Failure& f) {
    const std::uint32_t attempts = format::unpack_lease(word).attempts;
    auto* note = c.group.table().note_for(position, c.group.low_water());
    const bool last = f.outcome == Outcome::rejected || c.policy.spent(attempts);
    const std::uint64_t wait = last ? 0 : wait_after(c, f, attempts);
    if (note != nullptr) note_attempt(*note, attempts == 0 ? 1 : attempts, f, wait);
    const bool old = too_old(c, note);
    if (last || old) {
        if (note != nullptr)
            note->reason = static_cast<std::uint32_t>(f.damaged ? DeadReason::corrupt
                                                      : last    ? reason_of(f.outcome)
                                                                : DeadReason::retry_timeout);
        return move_away(c, position, word, owner, f.reason, f.handler);
    }
    c.group.end_failing(position, word, due_of(c.mono_ns), due_of(wait));
    return Fate::scheduled;
}

}  // namespace

Fate fail_message(const FailureContext& c, Seq position, std::uint64_t word, std::uint32_t owner, const Failure& f) {
    if (!c.group.begin_failing(position, word, owner)) return Fate::stale;
    return decide(c, position, word, owner, f);
}

Fate release_message(const FailureContext& c, Seq position, std::uint64_t word, std::uint32_t owner, const Failure& f) {
    if (!c.group.begin_failing(position, word, owner)) return Fate::stale;
    auto* note = c.group.table().note_for(position, c.group.low_water());
    if (note != nullptr) {
        ++note->release_count;
        note_hand_over(*note, f);
        if (too_old(c, note)) {
            note->reason = static_cast<std::uint32_t>(DeadReason::retry_timeout);
            return move_away(c, position, word, owner, f.reason, f.handler);
        }
    }
    c.group.end_releasing(position, word);
    return Fate::given_back;
}

Fate retry_move(const FailureContext& c, Seq position, std::uint64_t word, std::uint32_t owner) {
    const auto* note = c.group.table().find_note(position);
    return move_away(c, position, word, owner, note == nullptr ? Reason{} : noted_reason(*note), {});
}

void put_hand_over(const FailureContext& c, Seq position, std::uint64_t word, Failure& f) {
    const auto w = format::unpack_lease(word);
    // ORD(none): believed only with the tag of `word`.
    const auto due = format::unpack_due(c.group.entry(position).b.load(std::memory_order_relaxed));
    const std::uint64_t deadline = due.value * format::due_tick_ns;
    if (due.owner != w.owner || due.attempts != w.attempts || deadline < c.policy.lease_ns) return;
    f.started_mono_ns = std::min(deadline - c.policy.lease_ns, c.mono_ns);
    f.started_ns = c.wall_ns - std::min(c.mono_ns - f.started_mono_ns, c.wall_ns);
}

std::uint64_t repair_leases(const FailureContext& c, std::uint32_t owner, const Handler& handler) {
    std::uint64_t repaired = 0;
    const auto& ring = c.group.ring();
    const Seq low = c.group.low_water();
    for (std::uint64_t s = 0; s < ring.slots; ++s) {
        // ORD(lease.entry): acquire; pairs with change().
        std::uint64_t word = c.group.table().entries[s].a.load(std::memory_order_acquire);
        const auto w = format::unpack_lease(word);
        if (w.owner != owner || w.state == EntryState::settled || w.lap1 == 0) continue;
        const Seq p = (w.lap1 - 1) * ring.slots + s;
        if (p < low) continue;
        ++repaired;
        Failure f;
        f.outcome = Outcome::owner_died;
        f.reason.code = "owner_died";
        f.reason.message = "the consumer's process ended while it had the message";
        f.handler = handler;
        f.ended_ns = c.wall_ns;
        put_hand_over(c, p, word, f);
        switch (w.state) {
            case EntryState::leased:
                c.group.give_back({p, word, {}, 0});
                break;
            case EntryState::handed:
                fail_message(c, p, word, owner, f);
                break;
            case EntryState::failing:
                decide(c, p, word, owner, f);
                break;
            case EntryState::moving: {
                const auto* note = c.group.table().find_note(p);
                copy_and_settle(c, p, word, true, note == nullptr ? Reason{} : noted_reason(*note), handler);
                break;
            }
            default:
                --repaired;
        }
    }
    return repaired;
}

}  // namespace rondo::flow
