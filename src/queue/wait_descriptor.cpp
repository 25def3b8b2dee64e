// SPDX-License-Identifier: MIT
// A consumer's descriptor for event loops. A receive that finds nothing drains and arms it; the pump's thread makes it
// readable when a message may be there. It should be right nearly always: a program that is woken for nothing loops.
#include "os/clock.hpp"
#include "queue/consumer_core.hpp"
#include "queue/pump.hpp"

namespace rondo::detail {

namespace {

constexpr auto tick_ns = static_cast<std::uint64_t>(flow::tick.count());

}  // namespace

Result<int> ConsumerCore::wait_fd() {
    if (auto ok = a_->usable(); !ok) return tl::unexpected(ok.error());
    if (!event_) {
        auto event = os::Event::create();
        if (!event) return tl::unexpected(event.error());
        event_ = std::move(*event);
        event_.signal();  // something may be here already
        // ORD(core.event): release; pairs with wake_if_armed().
        has_event_.store(true, std::memory_order_release);
    }
    (void)a_->pump();
    return event_.fd();
}

void ConsumerCore::arm() {
    event_.drain();
    // ORD(none): a time to wait from; being off by one attempt costs a tick.
    armed_at_ns_.store(os::mono_ns(), std::memory_order_relaxed);
    // ORD(core.armed): release; pairs with wake_if_armed().
    armed_.store(true, std::memory_order_release);
    a_->pump().arm();
}

std::optional<std::chrono::nanoseconds> ConsumerCore::wake_if_armed() {
    // ORD(core.event): acquire; pairs with wait_fd().
    if (!has_event_.load(std::memory_order_acquire)) return std::nullopt;
    // ORD(core.armed): acquire; pairs with arm().
    if (!armed_.load(std::memory_order_acquire)) return std::nullopt;
    if (!may_have_message()) return due_in();
    // ORD(core.armed): acq_rel; pairs with arm().
    if (armed_.exchange(false, std::memory_order_acq_rel)) event_.signal();
    return std::nullopt;
}

/// May a receive find something now? Yes, if in doubt.
bool ConsumerCore::may_have_message() {
    if (!a_->usable() || !a_->group_alive(group_)) return true;  // the call has something to tell
    const std::lock_guard guard(lock_);
    const bool full = shared_ && (in_use_ == slots_.size() || group_full());
    if (shared_ ? something_returned(full) : exclusive_may_go_on()) return true;
    if (shared_ ? full || dead_pending_ >= policy_.dead_pending_max : !exclusive_->active() || blocked_) return false;
    const Seq p = next_position();
    ring::RecordView r{};
    return ring::peek(a_->main().view, p, r) != ring::Peek::absent || a_->restamp(p);
}

/// Shared: is there something in [low water, hint) for a receive to do? Looked for no more often than a receive would.
bool ConsumerCore::something_returned(bool full) {
    if (sweep_at_ != format::nowhere || (!full && seen_returns_ != shared_->returns())) return true;
    const std::uint64_t now = lease_clock(os::mono_coarse_ns());
    if (now >= next_due_) return true;
    if (now < swept_at_ + flow::due_of(tick_ns)) return false;
    Seq at = shared_->low_water();
    std::uint64_t due = ~std::uint64_t{0};
    // What is found is left to the receive, which sweeps again.
    if (shared_->sweep(at, now, flow::due_of(policy_.lease_ns), due).found != flow::SharedGroup::Found::nothing)
        return true;
    next_due_ = due;
    swept_at_ = now;
    return false;
}

/// Exclusive: is what blocked the last attempt over?
bool ConsumerCore::exclusive_may_go_on() const {
    const auto& group = a_->groups()[group_.index];
    // ORD(group.owner): acquire; pairs with give_up() and the scavenger.
    if (!exclusive_->active()) return group.owner.load(std::memory_order_acquire) == 0;
    if (!blocked_ || exclusive_->in_hand() != 0) return false;  // in hand: an outcome of this program's comes first
    const std::uint64_t now = os::mono_ns();
    if (exclusive_->due_ns() > now) return false;
    // ORD(none): this owner's. Only a receive can try dead.ring again.
    return group.dead_pending.load(std::memory_order_relaxed) == 0 ||
           // ORD(none): written by a receive of this process.
           now >= armed_at_ns_.load(std::memory_order_relaxed) + tick_ns;
}

/// Where the group's next new message is, or will be.
Seq ConsumerCore::next_position() const {
    if (shared_) return shared_->hint();
    // ORD(group.mark): acquire; pairs with set_cursor().
    return exclusive_->active() ? exclusive_->position()
                                : a_->groups()[group_.index].cursor.load(std::memory_order_acquire);
}

}  // namespace rondo::detail
