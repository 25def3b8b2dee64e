// SPDX-License-Identifier: MIT
// A consumer's life, its in-flight records and what they pin.
#include "queue/consumer_core.hpp"

#include <algorithm>

#include "format/validate.hpp"
#include "os/clock.hpp"

namespace rondo::detail {

namespace {

void add(format::Word& counter, std::uint64_t n = 1) {
    // ORD(none): a counter with one writer at a time.
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

Result<ConsumerCore*> ConsumerCore::create(std::shared_ptr<Attachment> a, const GroupRef& group,
                                           const ConsumerOptions& options) {
    const std::string_view name = options.name.empty() ? std::string_view("consumer") : options.name;
    if (auto ok = format::check_name(name); !ok) return tl::unexpected(ok.error());
    auto handle = a->take_handle(format::HandleKind::consumer, name, group);
    if (!handle) return tl::unexpected(handle.error());
    TakenHandle place(*a, *handle);
    const auto unref = [](ConsumerCore* c) { c->unref(); };
    std::unique_ptr<ConsumerCore, decltype(unref)> core(
        new ConsumerCore(a, group, *handle, std::string(name), a->group_name(group.index)));
    place.keep();  // the core frees it
    if (core->policy_.mode == format::GroupMode::shared) {
        auto file = a->lease_file(group);
        if (!file) {
            // Gone because the queue or the group is going, or damaged, or out of reach?
            if (auto ok = a->usable(); !ok) return tl::unexpected(ok.error());
            if (!a->group_alive(group)) return fail(Errc::no_such_group, "the group was deleted");
            if (file.error().code != Errc::not_found) return tl::unexpected(file.error());
            return fail(Errc::corrupt, "the group's lease table is missing");
        }
        core->leases_file_ = std::move(*file);
        core->shared_.emplace(a->main().view, a->groups()[group.index], group.index, group.life,
                              core->leases_file_->table, a->id());
    } else {
        core->exclusive_.emplace(a->main().view, a->groups()[group.index], group.index, group.life,
                                 core->group_name_, format::pack_owner(a->id(), *handle + 1), core->policy_,
                                 a->dead_ring(), a->main().super, core->slots_.size());
    }
    a->enroll(core.get());
    return core.release();
}

ConsumerCore::ConsumerCore(std::shared_ptr<Attachment> a, const GroupRef& group, std::uint32_t handle,
                           std::string name, std::string group_name)
    : a_(std::move(a)), group_(group), handle_(handle), name_(std::move(name)), group_name_(std::move(group_name)),
      policy_(flow::GroupPolicy::read(a_->groups()[group.index])),
      rng_(os::mono_ns() ^ (std::uint64_t{a_->id()} << 32) ^ handle), dead_(a_->dead_ring()),
      slots_(std::max<std::uint64_t>(policy_.in_flight_consumer, 1)) {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) slots_[i].next = i + 1;
    // Started before its first kept message: say so once. Only the first member to come can know.
    const auto& g = a_->groups()[group.index];
    const auto get = [](const format::Word& w) {
        // ORD(none): written before the group became active, or a hint that nobody acts on.
        return w.load(std::memory_order_relaxed);
    };
    const Seq first = get(g.first), wanted = get(g.start_value);
    // ORD(none): as above.
    const bool by_seq = g.start_kind.load(std::memory_order_relaxed) ==
                        static_cast<std::uint32_t>(format::StartKind::seq);
    if (by_seq && wanted < first && get(g.hint) == get(g.handed) && get(g.cursor) == get(g.handed)) {
        untold_ = Error{Errc::gap, 0, "the group's start position was no longer kept; it began at the oldest message"};
        gap_ = Gap{wanted, first - 1, ++gap_total_};
    }
}

/// No other hand-over of this queue has it: participant, incarnation, and a count of this participant's hand-overs.
std::uint64_t ConsumerCore::next_lease_id() {
    if (leases_ % lease_block == 0) leases_ = a_->take_lease_block(lease_block);
    return a_->lease_base() | leases_++;
}

void ConsumerCore::unref() {
    // ORD(core.refs): acq_rel; pairs with itself: the last one sees what the others did.
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (!a_->detached()) {
        a_->free_handle(handle_);
        a_->space_event().notify();
    }
    delete this;
}

void ConsumerCore::close() {
    if (!a_->detached()) {
        a_->dismiss(this);
        {
            const std::lock_guard guard(lock_);
            closed_ = true;
            if (exclusive_) exclusive_->give_up();
            for (std::size_t i = 0; i < used_high_; ++i) {
                auto& s = slots_[i];
                if (s.state != InFlight::State::leased) continue;
                (void)shared_->give_back(lease_of(s));
                unlink(static_cast<std::uint32_t>(i));
                s.state = InFlight::State::settled;
            }
            lower_pin();
        }
        a_->data_event().notify();
    }
    unref();
}

// ---- in-flight records ---------------------------------------------------------------------------------------

std::optional<std::uint32_t> ConsumerCore::take_slot() {
    if (in_use_ == slots_.size()) return std::nullopt;
    const std::uint32_t i = free_;
    free_ = slots_[i].next;
    ++in_use_;
    used_high_ = std::max<std::size_t>(used_high_, i + 1);
    // ORD(none): for people.
    handle().in_flight.store(in_use_, std::memory_order_relaxed);
    return i;
}

void ConsumerCore::free_slot(std::uint32_t i) {
    if (slots_[i].state != InFlight::State::settled) unlink(i);
    slots_[i].state = InFlight::State::free;
    slots_[i].next = free_;
    free_ = i;
    --in_use_;
    if (in_use_ == 0) used_high_ = 0;
    // ORD(none): for people.
    handle().in_flight.store(in_use_, std::memory_order_relaxed);
    lower_pin();
}

/// New messages go to the chain's end; what came back is mostly older than all, otherwise looked for from the end.
void ConsumerCore::link(std::uint32_t i) {
    auto& s = slots_[i];
    std::uint32_t left = highest_;
    if (lowest_ != no_slot && slots_[lowest_].position > s.position) left = no_slot;
    while (left != no_slot && slots_[left].position > s.position) left = slots_[left].before;
    s.before = left;
    s.after = left == no_slot ? lowest_ : slots_[left].after;
    (s.before == no_slot ? lowest_ : slots_[s.before].after) = i;
    (s.after == no_slot ? highest_ : slots_[s.after].before) = i;
}

void ConsumerCore::unlink(std::uint32_t i) {
    const auto& s = slots_[i];
    (s.before == no_slot ? lowest_ : slots_[s.before].after) = s.after;
    (s.after == no_slot ? highest_ : slots_[s.after].before) = s.before;
}

/// The borrow word = the lowest position that this consumer may still read.
void ConsumerCore::lower_pin() {
    // ORD(handle.borrow): release; pairs with settled_floor(): reads below are over.
    handle().borrow.store(lowest_ == no_slot ? format::nowhere : slots_[lowest_].position, std::memory_order_release);
}

void ConsumerCore::found(std::uint32_t slot, const flow::Leased& lease, bool hand_over) {
    auto& s = slots_[slot];
    s.state = hand_over ? InFlight::State::handed : InFlight::State::leased;
    s.position = lease.position;
    s.word = lease.word;
    s.due = lease.due;
    s.record = lease.record;
    link(slot);
}

/// Wall clock, as exact as the queue's own times.
std::uint64_t ConsumerCore::story_clock() const {
    return a_->main().super.timestamps == format::Timestamps::exact ? os::wall_ns() : os::wall_coarse_ns();
}

Message ConsumerCore::message_of(std::uint32_t slot, std::uint32_t attempts) {
    auto& s = slots_[slot];
    s.thread = thread_token();
    s.started_ns = story_clock();
    s.handed_mono_ns = os::mono_coarse_ns();
    const auto body = ring::body_of(a_->main().view, s.position, s.record);
    Message m;
    m.core_ = this;
    m.slot_ = slot;
    m.attempts_ = attempts;
    m.seq_ = s.position;
    m.session_ = exclusive_ ? s.word : 0;
    m.lease_id_ = next_lease_id();
    if (body) {  // otherwise damaged since it was leased: an empty message, which its dead letter will show
        m.payload_bytes_ = s.record.head.payload_bytes;
        m.extension_bytes_ = static_cast<std::uint32_t>(body->size() - m.payload_bytes_);
        m.payload_ = body->data() + m.extension_bytes_;
    }
    m.accepted_ = s.record.accepted;
    m.epoch_ = s.record.epoch;
    auto& h = handle();
    add(h.published);
    // ORD(none): for people.
    h.last_seq.store(s.position, std::memory_order_relaxed);
    // ORD(none): a counter.
    if (attempts > 1) a_->groups()[group_.index].redelivered.fetch_add(1, std::memory_order_relaxed);
    // ORD(none): a count; the message cannot be dropped before it exists.
    refs_.fetch_add(1, std::memory_order_relaxed);
    return m;
}

bool ConsumerCore::active() const {
    if (a_->detached()) return false;
    return !exclusive_ || exclusive_->active();
}

Result<Gap> ConsumerCore::last_gap() const {
    if (!gap_) return fail(Errc::not_found, "nothing was skipped");
    return *gap_;
}

bool ConsumerCore::holds_message(std::uint64_t thread) const {
    const std::lock_guard guard(lock_);
    for (std::size_t i = 0; i < used_high_; ++i)
        if (slots_[i].state == InFlight::State::handed && slots_[i].thread == thread) return true;
    return false;
}

}  // namespace rondo::detail
