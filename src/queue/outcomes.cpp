// SPDX-License-Identifier: MIT
// What a program says of a message: ack, nack, reject, release, extend, or nothing.
#include <algorithm>

#include "os/clock.hpp"
#include "queue/consumer_core.hpp"

namespace rondo::detail {

namespace {

void add(format::Word& counter) {
    // ORD(none): a counter with one writer at a time.
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

Error stale_error() { return {Errc::stale_lease, 0, "the message is not this lease's any more"}; }

}  // namespace

/// Does the message still have its in-flight record?
bool ConsumerCore::mine(const Message& m) const {
    return m.slot_ != no_slot && slots_[m.slot_].state == InFlight::State::handed;
}

/// The message is over for this process, whatever the outcome was: its bytes are given back. True if a receive may
/// have waited for the room.
bool ConsumerCore::finish_message(Message& m) {
    const bool was_full = in_use_ == slots_.size() ||
                          (shared_ && shared_->hint() - shared_->low_water() >= policy_.in_flight_group);
    free_slot(m.slot_);
    blocked_ = false;  // whatever a receive could not do before, it may now
    m.slot_ = no_slot;
    m.payload_ = nullptr;
    m.payload_bytes_ = m.extension_bytes_ = 0;
    return was_full;
}

/// `came_back`: there may be something to receive that was not there before.
void ConsumerCore::after_settling(bool came_back) {
    a_->space_event().notify();
    if (came_back) a_->data_event().notify();
}

flow::FailureContext ConsumerCore::failure_context() {
    return {*shared_, policy_, dead_, a_->main().super, rng_, group_name_, os::mono_ns(), os::wall_ns()};
}

flow::Failure ConsumerCore::failure_of(const InFlight& s, format::Outcome kind, const Reason& reason,
                                       std::optional<Duration> delay) const {
    flow::Failure f;
    f.outcome = kind;
    f.reason = reason;
    if (delay) f.delay_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(delay->count(), 0));
    f.started_ns = s.started_ns;
    f.started_mono_ns = s.handed_mono_ns;
    f.ended_ns = os::wall_ns();
    f.handler = handler();
    return f;
}

Result<void> ConsumerCore::ack(Message& m) {
    if (a_->detached()) return fail(Errc::detached, "this process was forked from the one that holds the message");
    bool done = false, made_room = false;
    {
        const std::lock_guard guard(lock_);
        auto& h = handle();
        if (!mine(m)) {
            add(h.stale);
            return tl::unexpected(stale_error());
        }
        bool ok = false;
        if (shared_) {
            const auto& s = slots_[m.slot_];
            const auto lease = lease_of(s);
            ok = a_->group_alive(group_) && shared_->distinct(lease) && shared_->settle(lease, format::Outcome::acked);
            if (ok) shared_->advance_low_water();
        } else {
            ok = a_->group_alive(group_) &&
                 exclusive_->ack(m.seq_, m.session_) == flow::ExclusiveGroup::Settled::ok;
            if (ok && exclusive_->has_dropped()) exclusive_->settle_dropped({os::mono_ns(), os::wall_ns()});
        }
        add(ok ? h.acked : h.stale);
        // ORD(none): for people.
        h.last_outcome_ns.store(os::wall_coarse_ns(), std::memory_order_relaxed);
        made_room = finish_message(m);
        done = ok;
    }
    after_settling(made_room);
    if (!done) return tl::unexpected(stale_error());
    return {};
}

Result<void> ConsumerCore::ack_through(Message& m) {
    if (m.core_ != this || !exclusive_)
        return fail(Errc::invalid_argument, "ack_through takes a message of this consumer's exclusive group");
    return ack(m);
}

Result<void> ConsumerCore::nack(Message& m, const Reason& reason, std::optional<Duration> delay) {
    if (delay && delay->count() < 0) return fail(Errc::invalid_argument, "a delay cannot be negative");
    return outcome(m, format::Outcome::nacked, reason, delay, handle_counter(&format::Handle::nacked));
}

Result<void> ConsumerCore::reject(Message& m, const Reason& reason) {
    return outcome(m, format::Outcome::rejected, reason, {}, handle_counter(&format::Handle::rejected));
}

Result<void> ConsumerCore::release(Message& m) {
    return outcome(m, format::Outcome::released, {}, {}, handle_counter(&format::Handle::released));
}

Result<void> ConsumerCore::outcome(Message& m, format::Outcome kind, const Reason& reason,
                                   std::optional<Duration> delay, format::Word* counter) {
    if (a_->detached()) return fail(Errc::detached, "this process was forked from the one that holds the message");
    bool done = false;
    {
        const std::lock_guard guard(lock_);
        if (!mine(m)) {
            add(handle().stale);
            return tl::unexpected(stale_error());
        }
        const InFlight& s = slots_[m.slot_];
        const auto f = failure_of(s, kind, reason, delay);
        bool ok = a_->group_alive(group_) && (!shared_ || shared_->distinct(lease_of(s)));
        if (ok && shared_) {
            const auto c = failure_context();
            const auto fate = kind == format::Outcome::released
                                  ? flow::release_message(c, s.position, s.word, a_->id(), f)
                                  : flow::fail_message(c, s.position, s.word, a_->id(), f);
            ok = fate != flow::Fate::stale;
            dead_pending_ += fate == flow::Fate::dead_pending ? 1U : 0U;
        } else if (ok) {
            const flow::ExclusiveGroup::Clock now{os::mono_ns(), os::wall_ns()};
            const auto settled = kind == format::Outcome::released
                                     ? exclusive_->release(m.seq_, m.session_, f, now)
                                     : exclusive_->fail(m.seq_, m.session_, f, now);
            if (settled == flow::ExclusiveGroup::Settled::not_first)
                return fail(Errc::not_first, "an earlier message of this exclusive group has no outcome yet");
            ok = settled == flow::ExclusiveGroup::Settled::ok;
        }
        add(ok ? *counter : handle().stale);
        // ORD(none): for people.
        handle().last_outcome_ns.store(f.ended_ns, std::memory_order_relaxed);
        (void)finish_message(m);
        done = ok;
    }
    after_settling(true);
    if (!done) return tl::unexpected(stale_error());
    return {};
}

Result<void> ConsumerCore::extend(Message& m, Duration by) {
    if (a_->detached()) return fail(Errc::detached, "this process was forked from the one that holds the message");
    if (by.count() <= 0) return fail(Errc::invalid_argument, "a lease is extended by more than nothing");
    const std::lock_guard guard(lock_);
    if (!mine(m) || !a_->group_alive(group_)) return tl::unexpected(stale_error());
    if (exclusive_) {
        if (exclusive_->owns(m.seq_, m.session_)) return {};
        return tl::unexpected(stale_error());
    }
    auto& s = slots_[m.slot_];
    const std::uint64_t now = os::mono_ns();
    const std::uint64_t wanted = base::saturating_add(now, static_cast<std::uint64_t>(by.count()));
    const std::uint64_t cap = base::saturating_add(s.handed_mono_ns, policy_.lease_total_ns);
    if (cap <= now) return fail(Errc::stale_lease, "the lease has reached max_lease_total and cannot be extended");
    const std::uint64_t due = flow::due_of(std::min(wanted, cap));
    if (shared_->distinct(lease_of(s)) && shared_->extend(lease_of(s), due)) {
        s.due = due;
        return {};
    }
    add(handle().stale);
    return tl::unexpected(stale_error());
}

void ConsumerCore::drop(Message& m) {
    if (!a_->detached() && m.slot_ != no_slot) {
        bool came_back = false;
        {
            const std::lock_guard guard(lock_);
            if (mine(m)) {
                const InFlight& s = slots_[m.slot_];
                const auto f = failure_of(s, format::Outcome::nacked,
                                          {"handler_dropped", {}, {}, "the message was dropped without an outcome", {}},
                                          {});
                bool ok = a_->group_alive(group_) && (!shared_ || shared_->distinct(lease_of(s)));
                if (ok && shared_) {
                    const auto fate = flow::fail_message(failure_context(), s.position, s.word, a_->id(), f);
                    ok = fate != flow::Fate::stale;
                    dead_pending_ += fate == flow::Fate::dead_pending ? 1U : 0U;
                } else if (ok) {
                    ok = exclusive_->drop(m.seq_, m.session_, f, {os::mono_ns(), os::wall_ns()});
                }
                add(ok ? handle().nacked : handle().stale);
                (void)finish_message(m);
                came_back = true;
            }
        }
        after_settling(came_back);
    }
    unref();
}

void ConsumerCore::holder_changed(Message& m) {
    if (m.slot_ == no_slot || a_->detached()) return;
    const std::uint64_t me = thread_token();
    // Only this message's holder writes it; read under the lock by a publisher that is about to wait.
    if (slots_[m.slot_].thread == me) return;
    const std::lock_guard guard(lock_);
    slots_[m.slot_].thread = me;
}

}  // namespace rondo::detail
