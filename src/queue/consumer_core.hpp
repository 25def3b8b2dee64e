// SPDX-License-Identifier: MIT
// What stands behind a Consumer, its Batches and Messages. Lives as long as any of them.
// Threads: the consumer's thread receives; any thread settles the messages. `lock_` covers what they share; it is
// never held while waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/spin_lock.hpp"
#include "flow/exclusive_group.hpp"
#include "flow/shared_failure.hpp"
#include "os/event.hpp"
#include "queue/attachment.hpp"
#include "rondo/consumer.hpp"

namespace rondo::detail {

/// A message in this process's hands: leased, or handed over and not yet dropped.
struct InFlight {
    enum class State : std::uint8_t { free, leased, handed, settled };  // settled: the bytes may still be borrowed
    State state = State::free;
    std::uint32_t next = 0;           // free list, or the batch's chain
    std::uint32_t before = 0, after = 0;  // by position, of those in use
    Seq position = 0;
    std::uint64_t word = 0;        // shared: the lease; exclusive: the session
    std::uint64_t due = 0;         // shared: its deadline
    std::uint64_t started_ns = 0;  // wall clock
    std::uint64_t handed_mono_ns = 0;
    std::uint64_t thread = 0;      // who holds it, for would_deadlock
    ring::RecordView record{};
};

class ConsumerCore {
public:
    static Result<ConsumerCore*> create(std::shared_ptr<Attachment> a, const GroupRef& group,
                                        const ConsumerOptions& options);

    Result<Message> receive(Duration timeout);
    Result<Batch> receive_batch(std::size_t max, Duration timeout);
    Message* batch_next(Batch& batch);
    void batch_end(Batch& batch);

    Result<void> ack(Message& m);
    Result<void> ack_through(Message& m);
    Result<void> nack(Message& m, const Reason& reason, std::optional<Duration> delay);
    Result<void> reject(Message& m, const Reason& reason);
    Result<void> release(Message& m);
    Result<void> extend(Message& m, Duration by);
    void drop(Message& m);
    void holder_changed(Message& m);

    bool active() const;
    Result<Gap> last_gap() const;
    Result<int> wait_fd();
    void close();  // by the Consumer's destructor

    /// Of the pump. If the descriptor waits: makes it readable when a message may be there. When to look again, if it
    /// still waits.
    std::optional<std::chrono::nanoseconds> wake_if_armed();
    bool holds_message(std::uint64_t thread) const;
    const format::Superblock& super() const { return a_->main().super; }

private:
    ConsumerCore(std::shared_ptr<Attachment> a, const GroupRef& group, std::uint32_t handle, std::string name,
                 std::string group_name);
    ~ConsumerCore() = default;
    void unref();

    enum class Got { message, nothing, error };
    void arm();
    bool may_have_message();
    bool something_returned(bool full);
    bool exclusive_may_go_on() const;
    Got first_attempt(bool hand_over, std::uint32_t& slot, std::uint32_t& attempts, Error& error);
    Got attempt(bool hand_over, std::uint32_t& slot, std::uint32_t& attempts, Error& error);
    Got attempt_once(std::uint64_t now, bool hand_over, std::uint32_t& slot, std::uint32_t& attempts, Error& error);
    Seq next_position() const;
    Got attempt_shared(std::uint64_t mono_ns, bool hand_over, std::uint32_t& slot, std::uint32_t& attempts, Error& error);
    Got attempt_exclusive(std::uint64_t mono_ns, std::uint32_t& slot, std::uint32_t& attempts, Error& error);
    Got sweep(std::uint64_t now, bool take, bool hand_over, std::uint32_t& slot, std::uint32_t& attempts);
    Got corrupt_at(Seq position, Error& error);
    void found(std::uint32_t slot, const flow::Leased& lease, bool hand_over);
    std::uint64_t next_lease_id();
    std::uint64_t story_clock() const;
    Message message_of(std::uint32_t slot, std::uint32_t attempts);
    std::optional<std::uint32_t> take_slot();
    void free_slot(std::uint32_t slot);
    void link(std::uint32_t slot);
    void unlink(std::uint32_t slot);
    void lower_pin();
    bool group_full() const;
    std::uint64_t held_by_members() const;
    bool take_told(std::uint64_t now, bool full, bool hand_over, std::uint32_t& slot, std::uint32_t& attempts);
    bool take_one(const flow::SharedGroup::Returned& r, std::uint64_t now, bool hand_over, std::uint32_t& slot,
                  std::uint32_t& attempts);
    void start_pass(std::uint64_t now);
    bool finish_message(Message& m);
    bool mine(const Message& m) const;
    flow::Leased lease_of(const InFlight& s) const { return {s.position, s.word, s.record, s.due}; }
    Result<void> outcome(Message& m, format::Outcome kind, const Reason& reason, std::optional<Duration> delay,
                         format::Word* counter);
    format::Word* handle_counter(format::Word format::Handle::*which) const { return &(handle().*which); }
    std::string holder_name(std::uint32_t owner, Seq position) const;
    void lapse(const flow::SharedGroup::Returned& r);
    flow::Failure failure_of(const InFlight& slot, format::Outcome kind, const Reason& reason,
                             std::optional<Duration> delay) const;
    flow::FailureContext failure_context();
    flow::Handler handler() const { return {name_, a_->program(), a_->pid()}; }
    std::uint64_t lease_deadline(std::uint64_t now) const;
    std::uint64_t lease_clock(std::uint64_t coarse_ns) const;
    std::chrono::nanoseconds due_in() const;
    void after_settling(bool came_back);
    format::Handle& handle() const { return a_->handles()[handle_]; }

    std::shared_ptr<Attachment> a_;
    GroupRef group_;
    std::uint32_t handle_;
    std::string name_, group_name_;
    flow::GroupPolicy policy_;
    base::BackoffRng rng_;
    flow::DeadRing dead_;
    std::shared_ptr<const LeaseFile> leases_file_;  // what shared_ works on
    std::optional<flow::SharedGroup> shared_;
    std::optional<flow::ExclusiveGroup> exclusive_;

    mutable base::SpinLock lock_;
    std::vector<InFlight> slots_;
    static constexpr std::uint32_t no_slot = ~0U;
    std::uint32_t free_ = 0;
    std::uint32_t lowest_ = no_slot, highest_ = no_slot;  // by position
    std::size_t in_use_ = 0, used_high_ = 0;
    static constexpr std::uint64_t lease_block = 1024;
    std::uint64_t leases_ = 0;
    // Sweep for what came back (shared).
    Seq sweep_at_ = format::nowhere;  // nowhere: no sweep under way
    std::uint64_t seen_returns_ = ~std::uint64_t{0};
    std::uint64_t next_due_ = 0, swept_at_ = 0, pass_due_ = 0;  // in due ticks
    std::uint64_t pending_found_ = 0, dead_pending_ = 0;

    std::optional<Gap> gap_;
    std::uint64_t gap_total_ = 0;
    os::Event event_;
    std::atomic<std::uint64_t> armed_at_ns_{0};
    std::atomic<bool> armed_{false}, has_event_{false};
    std::atomic<std::size_t> refs_{1};
    bool closed_ = false;
    bool blocked_ = false;  // the last attempt found something that it could not hand over
    std::optional<Error> untold_;  // found in between; the next call begins with it
    std::uint64_t restamp_due_ = 0;
};

}  // namespace rondo::detail
