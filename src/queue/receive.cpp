// SPDX-License-Identifier: MIT
// Receiving: one attempt at a shared or an exclusive group; with waits; in batches.
#include "queue/consumer_core.hpp"

#include <algorithm>

#include "os/clock.hpp"
#include "queue/pump.hpp"
#include "queue/waiting.hpp"

namespace rondo::detail {

namespace {

constexpr std::uint64_t exact_below_ns = 1'000'000'000;  // shorter leases are timed by the exact clock
// The coarse clock's step, and 10 ms for a tick that comes late.
const std::uint64_t coarse_error = (os::coarse_step_ns() + 10'000'000) / format::due_tick_ns + 1;
const std::uint64_t tick_due = flow::due_of(static_cast<std::uint64_t>(flow::tick.count()));

}  // namespace

// ---- one attempt ---------------------------------------------------------------------------------------------

ConsumerCore::Got ConsumerCore::attempt(bool hand_over, std::uint32_t& slot, std::uint32_t& attempts, Error& error) {
    if (auto ok = a_->usable(); !ok) {
        error = ok.error();
        return Got::error;
    }
    if (untold_) {
        error = *untold_;
        untold_.reset();
        return Got::error;
    }
    if (!a_->group_alive(group_)) {
        error = {Errc::no_such_group, 0, "the group was deleted"};
        return Got::error;
    }
    const std::uint64_t now = os::mono_coarse_ns();
    a_->housekeep(now);
    const Got got = attempt_once(now, hand_over, slot, attempts, error);
    if (got == Got::message && !a_->group_alive(group_)) {
        // Deleted under the hand: without the group nothing kept the bytes.
        const std::lock_guard guard(lock_);
        free_slot(slot);
        error = {Errc::no_such_group, 0, "the group was deleted"};
        return Got::error;
    }
    // Not at each empty look: it reads the producers' line.
    if (got != Got::nothing || now < restamp_due_) return got;
    restamp_due_ = now + static_cast<std::uint64_t>(flow::tick.count());
    Seq p = 0;
    {
        const std::lock_guard guard(lock_);
        p = next_position();
    }
    return a_->restamp(p) ? attempt_once(now, hand_over, slot, attempts, error) : got;
}

ConsumerCore::Got ConsumerCore::attempt_once(std::uint64_t now, bool hand_over, std::uint32_t& slot,
                                             std::uint32_t& attempts, Error& error) {
    return shared_ ? attempt_shared(now, hand_over, slot, attempts, error)
                   : attempt_exclusive(now, slot, attempts, error);
}

/// Now, in due ticks, rounded down: nothing is ever due early. Exact when something falls due within the coarse
/// clock's error, or whoever slept until then would find it not due yet.
std::uint64_t ConsumerCore::lease_clock(std::uint64_t coarse_ns) const {
    const std::uint64_t coarse = coarse_ns / format::due_tick_ns;
    const bool exact = policy_.lease_ns < exact_below_ns || (next_due_ > coarse && next_due_ - coarse < coarse_error);
    return exact ? os::mono_ns() / format::due_tick_ns : coarse;
}

std::uint64_t ConsumerCore::lease_deadline(std::uint64_t now) const {
    // Others may look with the exact clock.
    const std::uint64_t behind = policy_.lease_ns < exact_below_ns ? 0 : coarse_error;
    return now + flow::due_of(policy_.lease_ns) + 1 + behind;
}

/// What the members hold by their own count: lapsed leases of the silent among them included, so never too low but for
/// who is taking one right now.
std::uint64_t ConsumerCore::held_by_members() const {
    std::uint64_t held = 0;
    for (const auto& h : a_->used_handles()) {
        // ORD(none): an estimate; a handle of an earlier owner counts as nothing.
        if (h.group.load(std::memory_order_relaxed) == group_.index) held += h.in_flight.load(std::memory_order_relaxed);
    }
    return held;
}

/// max_in_flight of the group. The window [low water, hint) in slots bounds the count, and so does what the members
/// say; only beyond both is it counted exactly.
bool ConsumerCore::group_full() const {
    const Seq low = shared_->low_water();
    const Seq hint = std::min(shared_->hint(), low + a_->main().view.slots);
    if (hint - low < policy_.in_flight_group || held_by_members() < policy_.in_flight_group) return false;
    std::uint64_t held = 0;
    for (Seq p = low; p < hint; ++p) {
        // ORD(lease.entry): acquire; pairs with change().
        const auto w = format::unpack_lease(shared_->entry(p).a.load(std::memory_order_acquire));
        if (w.lap1 == a_->main().view.lap1(p) &&
            (w.state == format::EntryState::leased || w.state == format::EntryState::handed))
            ++held;
    }
    return held >= policy_.in_flight_group;
}

void ConsumerCore::start_pass(std::uint64_t now) {
    seen_returns_ = shared_->returns();
    sweep_at_ = shared_->low_water();
    pass_due_ = ~std::uint64_t{0};
    pending_found_ = 0;
    swept_at_ = now;
}

ConsumerCore::Got ConsumerCore::attempt_shared(std::uint64_t mono_ns, bool hand_over, std::uint32_t& slot,
                                               std::uint32_t& attempts, Error& error) {
    const std::lock_guard guard(lock_);
    const std::uint64_t now = lease_clock(mono_ns);
    const bool full = in_use_ == slots_.size() || group_full();
    // Twice: what came back behind a pass that was left in the middle is found by the next one, in this attempt.
    if (take_told(now, full, hand_over, slot, attempts)) return Got::message;
    for (int pass = 0; pass < 2; ++pass) {
        // At the limit what came back waits, and is not looked for again and again.
        const bool due = now >= next_due_ || now >= swept_at_ + tick_due ||
                         (!full && seen_returns_ != shared_->returns());
        if (sweep_at_ == format::nowhere && due) start_pass(now);
        if (sweep_at_ == format::nowhere) break;
        const auto got = sweep(now, !full, hand_over, slot, attempts);
        if (got != Got::nothing) return got;
    }
    blocked_ = full || dead_pending_ >= policy_.dead_pending_max;
    if (blocked_) return Got::nothing;
    flow::Leased lease;
    switch (shared_->take_new(lease_deadline(now), hand_over, handle().borrow, lease)) {
        case flow::Take::empty:
            lower_pin();
            return Got::nothing;
        case flow::Take::corrupt:
            (void)shared_->skip_corrupt(lease.position);
            return corrupt_at(lease.position, error);
        case flow::Take::taken:
            break;
    }
    const auto body = ring::body_of(a_->main().view, lease.position, lease.record);
    if (!body || !ring::intact(a_->main().view, lease.position, lease.record, *body)) {
        // Damaged, and nobody can process it: a dead letter that says so, whatever the lease's state.
        if (!hand_over) (void)shared_->hand_over(lease, lease_deadline(now));
        flow::Failure f;
        f.outcome = format::Outcome::rejected;
        f.damaged = true;
        f.reason.code = "corrupt";
        f.reason.message = "the message's bytes do not match its checksum or lengths";
        f.handler = handler();
        (void)flow::fail_message(failure_context(), lease.position, lease.word, a_->id(), f);
        return corrupt_at(lease.position, error);
    }
    slot = *take_slot();
    found(slot, lease, hand_over);
    attempts = lease.attempts();
    return Got::message;
}

/// Takes one of what came back since the last look, where the members told it: no need to sweep for it then.
bool ConsumerCore::take_told(std::uint64_t now, bool full, bool hand_over, std::uint32_t& slot,
                             std::uint32_t& attempts) {
    using Found = flow::SharedGroup::Found;
    const std::uint64_t returns = shared_->returns();
    if (full || sweep_at_ != format::nowhere || returns - seen_returns_ > flow::SharedGroup::returns_kept) return false;
    while (seen_returns_ != returns) {
        const auto p = shared_->returned_at(seen_returns_);
        if (!p) return false;  // sweeps
        const auto r = shared_->look(*p, now, flow::due_of(policy_.lease_ns), next_due_);
        ++seen_returns_;
        if (r.found == Found::lapsed || r.found == Found::lapsed_untouched) next_due_ = now;
        if ((r.found == Found::ready || r.found == Found::due) && take_one(r, now, hand_over, slot, attempts)) return true;
    }
    return false;
}

bool ConsumerCore::take_one(const flow::SharedGroup::Returned& r, std::uint64_t now, bool hand_over, std::uint32_t& slot,
                        std::uint32_t& attempts) {
    flow::Leased lease;
    if (!shared_->take_returned(r, lease_deadline(now), hand_over, handle().borrow, lease)) return false;
    slot = *take_slot();
    found(slot, lease, hand_over);
    attempts = lease.attempts();
    return true;
}

/// Goes on with the pass over [low water, hint): takes what came back, ends what lapsed.
ConsumerCore::Got ConsumerCore::sweep(std::uint64_t now, bool take, bool hand_over, std::uint32_t& slot,
                                      std::uint32_t& attempts) {
    using Found = flow::SharedGroup::Found;
    for (;;) {
        const auto r = shared_->sweep(sweep_at_, now, flow::due_of(policy_.lease_ns), pass_due_);
        switch (r.found) {
            case Found::nothing:
                sweep_at_ = format::nowhere;
                next_due_ = pass_due_;
                dead_pending_ = pending_found_;
                return Got::nothing;
            case Found::ready:
            case Found::due:
                if (!take) break;  // at the limit; what lapsed is ended all the same, or the limit would stand for ever
                if (take_one(r, now, hand_over, slot, attempts)) return Got::message;
                break;
            case Found::lapsed_untouched:
                if (shared_->give_back({r.position, r.word, {}, 0})) --sweep_at_;
                break;
            case Found::lapsed:
                lapse(r);
                break;
            case Found::dead_pending:
                if (flow::retry_move(failure_context(), r.position, r.word, a_->id()) == flow::Fate::dead_pending)
                    ++pending_found_;
                break;
        }
    }
}

/// Which consumer of `owner` had the message: the one that took it last, or its only one in this group. A wrong name
/// would be worse than none.
std::string ConsumerCore::holder_name(std::uint32_t owner, Seq position) const {
    const format::Handle* found = nullptr;
    bool sure = false;
    for (const auto& h : a_->used_handles()) {
        // ORD(handle.owner): acquire; pairs with take_handle().
        if (format::owner_participant(h.owner.load(std::memory_order_acquire)) != owner) continue;
        // ORD(none): for people, like the name.
        if (h.group.load(std::memory_order_relaxed) != group_.index) continue;
        if (h.last_seq.load(std::memory_order_relaxed) == position) {  // ORD(none): for people
            found = &h;
            sure = true;
            break;
        }
        sure = found == nullptr;
        found = &h;
    }
    std::string name;
    for (std::size_t i = 0; sure && i < found->name.size(); ++i) {
        const char ch = found->name[i].load(std::memory_order_relaxed);  // ORD(none): for people
        if (ch == '\0') break;
        name += ch;
    }
    return name;
}

void ConsumerCore::lapse(const flow::SharedGroup::Returned& r) {
    const std::uint32_t owner = format::unpack_lease(r.word).owner;
    const std::string consumer = holder_name(owner, r.position);
    flow::Failure f;
    f.outcome = format::Outcome::lease_expired;
    f.reason.code = "lease_expired";
    f.reason.message = "no outcome within the lease";
    const auto context = failure_context();
    f.ended_ns = context.wall_ns;
    flow::put_hand_over(context, r.position, r.word, f);
    // ORD(none): for people.
    f.handler = {consumer, {}, a_->participants()[owner].pid.load(std::memory_order_relaxed)};
    if (flow::fail_message(context, r.position, r.word, a_->id(), f) == flow::Fate::stale) return;
    // ORD(none): a counter.
    a_->groups()[group_.index].lapsed.fetch_add(1, std::memory_order_relaxed);
}

ConsumerCore::Got ConsumerCore::attempt_exclusive(std::uint64_t mono_ns, std::uint32_t& slot, std::uint32_t& attempts,
                                                  Error& error) {
    const std::lock_guard guard(lock_);
    if (in_use_ == slots_.size()) return Got::nothing;
    flow::ExclusiveGroup::Handed h;
    // A retry is timed exactly, as in lease_clock().
    const flow::ExclusiveGroup::Clock now{exclusive_->due_ns() > mono_ns ? os::mono_ns() : mono_ns, story_clock()};
    const std::uint64_t before = exclusive_->cursor();
    const auto next = exclusive_->next(now, handler(), h);
    if (exclusive_->cursor() != before) a_->space_event().notify();
    using Next = flow::ExclusiveGroup::Next;
    if (next == Next::corrupt) return corrupt_at(h.position, error);
    blocked_ = next != Next::handed && next != Next::empty;
    if (next != Next::handed) return Got::nothing;
    const auto body = ring::body_of(a_->main().view, h.position, h.record);
    if (!body || !ring::intact(a_->main().view, h.position, h.record, *body)) {
        flow::Failure f;
        f.outcome = format::Outcome::rejected;
        f.damaged = true;
        f.reason.code = "corrupt";
        f.reason.message = "the message's bytes do not match its checksum or lengths";
        f.handler = handler();
        (void)exclusive_->drop(h.position, h.session, f, now);  // dead letter once it is first
        return corrupt_at(h.position, error);
    }
    slot = *take_slot();
    auto& s = slots_[slot];
    s.state = InFlight::State::handed;
    s.position = h.position;
    link(slot);
    s.started_ns = now.wall_ns;
    // The cursor holds the bytes as long as the group and this ownership last; the borrow also beyond.
    // ORD(handle.borrow): release; pairs with settled_floor().
    // ORD(none): only this consumer writes it.
    if (handle().borrow.load(std::memory_order_relaxed) > h.position)
        handle().borrow.store(h.position, std::memory_order_release);
    s.word = h.session;
    s.record = h.record;
    attempts = h.attempts;
    return Got::message;
}

ConsumerCore::Got ConsumerCore::corrupt_at(Seq position, Error& error) {
    gap_ = Gap{position, position, ++gap_total_};
    // ORD(none): a counter.
    a_->hot().corrupt_total.fetch_add(1, std::memory_order_relaxed);
    a_->groups()[group_.index].skipped.fetch_add(1, std::memory_order_relaxed);
    error = {Errc::corrupt, 0, "a message's bytes make no sense; it was skipped"};
    return Got::error;
}

// ---- receive -------------------------------------------------------------------------------------------------

std::chrono::nanoseconds ConsumerCore::due_in() const {
    const std::lock_guard guard(lock_);
    std::uint64_t ns = static_cast<std::uint64_t>(flow::tick.count());
    if (shared_) {
        const std::uint64_t now = os::mono_ns() / format::due_tick_ns;
        const std::uint64_t due = next_due_ > now ? next_due_ - now : 0;
        ns = std::min(ns, base::saturating_mul(base::saturating_add(due, 1), format::due_tick_ns));
    } else if (exclusive_->due_ns() > os::mono_ns()) {
        ns = std::min(ns, exclusive_->due_ns() - os::mono_ns() + format::due_tick_ns);
    }
    return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
}

/// An attempt that arms the descriptor, if there is one, when it finds nothing.
ConsumerCore::Got ConsumerCore::first_attempt(bool hand_over, std::uint32_t& slot, std::uint32_t& attempts,
                                              Error& error) {
    Got got = attempt(hand_over, slot, attempts, error);
    // ORD(none): set by wait_fd() on this very thread.
    if (got != Got::nothing || !has_event_.load(std::memory_order_relaxed)) return got;
    arm();
    got = attempt(hand_over, slot, attempts, error);
    if (got != Got::nothing) event_.signal();
    return got;
}

Result<Message> ConsumerCore::receive(Duration timeout) {
    if (timeout.count() < 0) return fail(Errc::invalid_argument, "a timeout cannot be negative");
    std::uint32_t slot = no_slot, attempts = 0;
    Error error{};
    Got got = first_attempt(true, slot, attempts, error);
    if (got == Got::nothing && timeout.count() != 0) {
        const Deadline deadline(timeout);
        wait_until(
            *a_, a_->data_event(), deadline, handle(),
            active() ? format::Waiting::for_message : format::Waiting::standby,
            [&] { return (got = attempt(true, slot, attempts, error)) != Got::nothing; }, [&] { return due_in(); });
    }
    if (got == Got::error) return tl::unexpected(error);
    if (got == Got::nothing) {
        return timeout.count() == 0 ? fail(Errc::empty, "no message is ready")
                                    : fail(Errc::timeout, "no message came in time");
    }
    const std::lock_guard guard(lock_);
    return message_of(slot, attempts);
}

Result<Batch> ConsumerCore::receive_batch(std::size_t max, Duration timeout) {
    if (max == 0 || timeout.count() < 0) return fail(Errc::invalid_argument, "a batch takes at least one message");
    std::uint32_t slot = no_slot, attempts = 0;
    Error error{};
    const bool hand_over = exclusive_.has_value();
    Got got = first_attempt(hand_over, slot, attempts, error);
    if (got == Got::nothing && timeout.count() != 0) {
        const Deadline deadline(timeout);
        wait_until(
            *a_, a_->data_event(), deadline, handle(),
            active() ? format::Waiting::for_message : format::Waiting::standby,
            [&] { return (got = attempt(hand_over, slot, attempts, error)) != Got::nothing; },
            [&] { return due_in(); });
    }
    if (got == Got::error) return tl::unexpected(error);
    if (got == Got::nothing) {
        return timeout.count() == 0 ? fail(Errc::empty, "no message is ready")
                                    : fail(Errc::timeout, "no message came in time");
    }
    Batch b;
    b.core_ = this;
    b.first_ = slot;
    slots_[slot].next = no_slot;
    // ORD(none): a count; the batch cannot end before it exists.
    refs_.fetch_add(1, std::memory_order_relaxed);
    b.size_ = exclusive_ ? max : 1;
    for (std::uint32_t last = slot; shared_ && b.size_ < max; ++b.size_) {
        const Got more = attempt(false, slot, attempts, error);
        if (more == Got::error) untold_ = error;
        if (more != Got::message) break;
        slots_[slot].next = no_slot;
        slots_[last].next = slot;
        last = slot;
    }
    return b;
}

Message* ConsumerCore::batch_next(Batch& b) {
    b.current_.reset();
    if (a_->detached() || closed_ || !a_->group_alive(group_)) return nullptr;
    if (exclusive_) {
        if (b.handed_ == b.size_) return nullptr;
        std::uint32_t slot = b.first_, attempts = 0;
        Error error{};
        if (slot == no_slot) {
            const Got more = attempt(true, slot, attempts, error);
            if (more == Got::error) untold_ = error;
            if (more != Got::message) return nullptr;
        }
        const std::lock_guard guard(lock_);
        attempts = exclusive_->attempts_handed(slots_[slot].position);
        b.first_ = no_slot;
        ++b.handed_;
        b.current_ = message_of(slot, attempts);
        return &*b.current_;
    }
    while (b.first_ != no_slot) {
        const std::lock_guard guard(lock_);
        const std::uint32_t slot = b.first_;
        auto& s = slots_[slot];
        b.first_ = s.next;
        flow::Leased lease = lease_of(s);
        if (s.state != InFlight::State::leased ||
            !shared_->hand_over(lease, lease_deadline(lease_clock(os::mono_coarse_ns())))) {
            free_slot(slot);
            continue;
        }
        s.word = lease.word;
        s.due = lease.due;
        s.state = InFlight::State::handed;
        ++b.handed_;
        b.current_ = message_of(slot, lease.attempts());
        return &*b.current_;
    }
    return nullptr;
}

void ConsumerCore::batch_end(Batch& b) {
    b.current_.reset();
    if (!a_->detached()) {
        bool back = false;
        {
            const std::lock_guard guard(lock_);
            while (b.first_ != no_slot) {
                const std::uint32_t slot = b.first_;
                auto& s = slots_[slot];
                b.first_ = exclusive_ ? no_slot : s.next;
                if (exclusive_) {
                    const flow::ExclusiveGroup::Clock now{os::mono_ns(), os::wall_ns()};
                    (void)exclusive_->drop(s.position, s.word, failure_of(s, format::Outcome::released, {}, {}), now);
                } else if (s.state == InFlight::State::leased) {
                    (void)shared_->give_back(lease_of(s));
                }
                free_slot(slot);
                back = true;
            }
        }
        if (back) {
            a_->data_event().notify();
            a_->space_event().notify();
        }
    }
    unref();
}

}  // namespace rondo::detail
