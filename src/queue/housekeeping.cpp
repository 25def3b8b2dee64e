// SPDX-License-Identifier: MIT
// What every participant does for all: bury dead ones, finish what they left, move the limit. No daemon: whoever
// waits, and every 256th operation of a busy handle, comes by here.
#include <algorithm>
#include <exception>

#include "flow/exclusive_group.hpp"
#include "flow/shared_failure.hpp"
#include "os/clock.hpp"
#include "os/lock.hpp"
#include "queue/attachment.hpp"
#include "ring/mend.hpp"

namespace rondo::detail {

namespace {

constexpr auto tick_ns = static_cast<std::uint64_t>(flow::tick.count());

std::string text_of(std::span<const std::atomic<char>> chars) {
    std::string out;
    for (const auto& c : chars) {
        // ORD(none): for people.
        const char ch = c.load(std::memory_order_relaxed);
        if (ch == '\0') break;
        out += ch;
    }
    return out;
}

}  // namespace

void Attachment::housekeep() { housekeep(os::mono_coarse_ns()); }

void Attachment::housekeep(std::uint64_t now) {
    // Of this process alone: nobody else does it.
    // ORD(none): only rate-limits.
    if (now - forgot_at_ns_.load(std::memory_order_relaxed) >= tick_ns) {
        forgot_at_ns_.store(now, std::memory_order_relaxed);  // ORD(none): as above.
        forget_deleted_groups();
    }
    // ORD(none): only rate-limits; a lost race means that somebody else just did it.
    std::uint64_t last = hot().last_scan.load(std::memory_order_relaxed);
    if (now < last + tick_ns && now >= last) return;
    // ORD(none): as above.
    if (!hot().last_scan.compare_exchange_strong(last, now, std::memory_order_relaxed, std::memory_order_relaxed))
        return;
    housekeep_now();
}

void Attachment::housekeep_now() {
    scan_participants();
    try {
        repair_groups();
    } catch (const std::exception&) {
        // No memory here: the next who looks goes on.
    }
    advance_credit();
    // dead.ring's limit moves only when a dead letter needs the room: until then closed ones stay readable.
}

bool Attachment::advance_credit() {
    if (!flow::advance_limit(main_.view, groups(), handles())) return false;
    space_event().notify();
    return true;
}

/// A participant's claim at p is open only while one of its producers may hold it: each claims one after another, and
/// a handle that published p or more has ended all before. True also if nobody is left there.
bool Attachment::claim_ended(std::uint32_t owner, Seq p) const {
    for (const auto& h : used_handles()) {
        // ORD(handle.owner): acquire; pairs with take_handle() and free_handle().
        const std::uint64_t word = h.owner.load(std::memory_order_acquire);
        if (format::owner_participant(word) != owner ||
            format::owner_low(word) == static_cast<std::uint32_t>(format::HandleKind::consumer))
            continue;
        // ORD(handle.last_seq): acquire; pairs with ProducerCore::done().
        const Seq last = h.last_seq.load(std::memory_order_acquire);
        if (last == format::nowhere || last < p) return false;
    }
    return true;
}

/// For a reader that finds no record at p. True if it should look again: a lost stamp was put back.
bool Attachment::restamp(Seq p) {
    if (!ring::restamp(main_.view, p, main_.super.producers == format::Producers::one,
                       [this](std::uint32_t owner, Seq at) { return claim_ended(owner, at); }))
        return false;
    // ORD(none): a counter.
    hot().corrupt_total.fetch_add(1, std::memory_order_relaxed);
    data_event().notify_always();
    return true;
}

void Attachment::scan_participants() {
    const std::unique_lock guard(scan_mutex_, std::try_to_lock);
    if (!guard) return;
    // ORD(table.high): acquire; pairs with attach().
    const auto high = std::min<std::uint64_t>(hot().participants_high.load(std::memory_order_acquire),
                                              participants().size());
    for (std::uint32_t id = 1; id < high; ++id) {
        if (id == id_) continue;
        auto& p = participants()[id];
        // ORD(participant.state): acquire; pairs with attach(), detach(), bury().
        if (p.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(format::ParticipantState::free))
            continue;
        const auto locked = os::try_lock(main_.fd.get(), id, os::Lock::exclusive);
        if (!locked || !*locked) continue;
        bury(id);  // throws nothing
        (void)os::unlock(main_.fd.get(), id);
    }
}

/// The lock of `id` is held: it is dead, or never finished attaching, or was buried a moment ago.
void Attachment::bury(std::uint32_t id) noexcept {
    auto& p = participants()[id];
    // ORD(participant.state): acquire; pairs with bury() by another process.
    if (p.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(format::ParticipantState::free)) return;
    if (!scavenge(id)) return;
    // ORD(participant.state): release; pairs with the scans and attach(). Last: whoever is killed before it leaves
    // all of this to the next.
    p.state.store(static_cast<std::uint32_t>(format::ParticipantState::free), std::memory_order_release);
}

/// Ends everything the dead participant had begun. Its lock is held; every step can be repeated. False: not all of it,
/// for want of memory or descriptors. Then its handles stay, which say what is left, and it must not be `free`: the
/// next who looks, here or in a process that has more, goes on.
bool Attachment::scavenge(std::uint32_t dead) noexcept {
    try {
        return end_work_of(dead);
    } catch (const std::exception&) {
        return false;
    }
}

bool Attachment::end_work_of(std::uint32_t dead) {
    std::uint64_t voids = 0;
    if (main_.super.producers == format::Producers::many) voids += ring::finish_claims(main_.view, dead);
    voids += ring::finish_claims(dead_.view, dead);
    voids += ring::finish_claims(retry_.view, dead);
    // ORD(none): a counter.
    if (voids != 0) hot().void_total.fetch_add(voids, std::memory_order_relaxed);
    // Groups first, handles last: a handle says where the dead one may hold something.
    const auto used = used_handles();
    bool finished = true;
    for (std::uint32_t i = 0; i < used.size(); ++i) {
        // ORD(handle.owner): acquire; pairs with take_handle().
        const std::uint64_t owner = used[i].owner.load(std::memory_order_acquire);
        if (format::owner_participant(owner) != dead) continue;
        if (format::owner_low(owner) != static_cast<std::uint32_t>(format::HandleKind::consumer)) continue;
        // ORD(none): published by the owner word.
        const GroupRef g{used[i].group.load(std::memory_order_relaxed),
                         used[i].group_life.load(std::memory_order_relaxed)};
        if (g.index < groups().size()) finished = scavenge_group(g, dead, i) && finished;
    }
    reopen_dead_letters(dead);
    // ORD(producer.role): acquire; pairs with the claim of the role.
    std::uint64_t role = hot().producer_owner.load(std::memory_order_acquire);
    if (format::owner_participant(role) == dead) {
        // ORD(producer.role): acq_rel; pairs with the next producer's claim of the role.
        hot().producer_owner.compare_exchange_strong(role, 0, std::memory_order_acq_rel, std::memory_order_relaxed);
    }
    for (std::uint32_t i = 0; finished && i < used.size(); ++i) {
        // ORD(handle.owner): acquire; pairs with take_handle().
        if (format::owner_participant(used[i].owner.load(std::memory_order_acquire)) == dead) free_handle(i);
    }
    data_event().notify_always();
    space_event().notify_always();
    return finished;
}

/// Dead letters that the dead one was redriving or discarding are open again. What it noted stays: the next redrive
/// of such an entry looks first whether the copy is there.
void Attachment::reopen_dead_letters(std::uint32_t dead) {
    for (auto& e : dead_table_.entries) {
        // ORD(lease.entry): acquire; pairs with change().
        std::uint64_t word = e.a.load(std::memory_order_acquire);
        auto w = format::unpack_lease(word);
        if (w.owner != dead || w.state != format::EntryState::handed) continue;
        w.state = format::EntryState::ready;
        w.owner = 0;
        // ORD(lease.entry): acq_rel; pairs with take_at().
        e.a.compare_exchange_strong(word, format::pack_lease(w), std::memory_order_acq_rel, std::memory_order_relaxed);
    }
}

/// False: the lease table cannot be had, though the group is there.
bool Attachment::scavenge_group(const GroupRef& g, std::uint32_t dead, std::uint32_t handle) {
    if (!group_alive(g)) return true;
    auto& group = groups()[g.index];
    const auto& h = handles()[handle];
    const std::string consumer = text_of(h.name);
    const std::string program = text_of(participants()[dead].program);
    // ORD(none): for people.
    const flow::Handler who{consumer, program, participants()[dead].pid.load(std::memory_order_relaxed)};
    const auto policy = flow::GroupPolicy::read(group);
    if (policy.mode == format::GroupMode::exclusive) {
        std::uint64_t owner = format::pack_owner(dead, handle + 1);
        // ORD(group.owner): acquire; pairs with acquire().
        if (group.owner.load(std::memory_order_acquire) != owner) return true;
        flow::note_owner_death(main_.view, group, g.index, g.life, who, os::wall_ns());
        // ORD(none): a counter.
        group.owner_died.fetch_add(1, std::memory_order_relaxed);
        // ORD(group.owner): acq_rel; pairs with acquire(). Passes on the marks that the dead owner wrote.
        group.owner.compare_exchange_strong(owner, 0, std::memory_order_acq_rel, std::memory_order_relaxed);
        return true;
    }
    const auto leases = lease_file(g);
    if (!leases) return !group_alive(g);
    flow::SharedGroup shared(main_.view, group, g.index, g.life, (*leases)->table, dead);
    auto dead_letters = dead_ring();
    base::BackoffRng rng(os::mono_ns() ^ main_.super.salt);
    const std::string name = group_name(g.index);
    const flow::FailureContext c{shared, policy, dead_letters, main_.super, rng, name, os::mono_ns(), os::wall_ns()};
    const std::uint64_t repaired = flow::repair_leases(c, dead, who);
    // ORD(none): a counter.
    group.owner_died.fetch_add(repaired, std::memory_order_relaxed);
    shared.advance_low_water();
    return true;
}

}  // namespace rondo::detail
