// SPDX-License-Identifier: MIT
// Consumer, Batch and Message: how messages come out of a queue, and the four outcomes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "rondo/options.hpp"
#include "rondo/result.hpp"
#include "rondo/types.hpp"

namespace rondo {

namespace detail {
class ConsumerCore;
struct InFlight;
}  // namespace detail

/// One message handed over. Move-only; one thread at a time, any thread. Its destructor without an outcome nacks
/// with code handler_dropped; it never acks. payload(), key() and headers point into the ring: they end with the
/// outcome (in an exclusive group also with the ack of a later message).
class Message {
public:
    Message(Message&& other) noexcept;
    Message& operator=(Message&& other) noexcept;
    Message(const Message&) = delete;
    ~Message();

    [[nodiscard]] Bytes payload() const noexcept;
    [[nodiscard]] std::string_view key() const noexcept;
    [[nodiscard]] std::optional<std::uint64_t> type() const noexcept;
    [[nodiscard]] std::optional<std::array<std::uint8_t, 16>> message_id() const noexcept;
    /// Value of the first header of that name.
    [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const noexcept;
    [[nodiscard]] std::size_t header_count() const noexcept;
    [[nodiscard]] Header header(std::size_t index) const noexcept;

    [[nodiscard]] Seq seq() const noexcept { return seq_; }
    [[nodiscard]] Epoch epoch() const noexcept { return epoch_; }
    /// Attempts so far, this one included: hand-overs without those that ended in release().
    [[nodiscard]] std::uint32_t delivery_count() const noexcept { return attempts_; }
    /// How often it came back from the dead-letter ring.
    [[nodiscard]] std::uint32_t redrive_count() const noexcept;
    /// Wall clock ns at which it was accepted; nothing when the queue keeps no timestamps.
    [[nodiscard]] std::optional<std::uint64_t> accepted_at_ns() const noexcept;
    /// Fencing token of this hand-over: no other hand-over of this queue has it.
    [[nodiscard]] std::uint64_t lease_id() const noexcept { return lease_id_; }

    // Outcomes. stale_lease: the message is not this lease's any more, nothing changed. In an exclusive group nack,
    // reject and release of any but the first unsettled message are not_first, nothing changed.
    /// Done. Exclusive group: this message and all before it.
    Result<void> ack() noexcept;
    /// Failed; comes again after the group's backoff, or after `delay` (zero is explicit). The last of
    /// max_deliveries goes to the dead-letter ring.
    Result<void> nack(const Reason& reason = {}, std::optional<Duration> delay = {}) noexcept;
    /// Failed for good: dead letter now.
    Result<void> reject(const Reason& reason) noexcept;
    /// Not tried: comes again at once, not counted.
    Result<void> release() noexcept;
    /// New deadline = now + by, capped by max_lease_total since the hand-over. Exclusive group: ok, no effect.
    [[nodiscard]] Result<void> extend(Duration by) noexcept;

private:
    friend class detail::ConsumerCore;
    friend class Consumer;
    friend class Batch;
    Message() noexcept = default;
    void drop() noexcept;

    detail::ConsumerCore* core_ = nullptr;
    std::uint32_t slot_ = 0;       // index of the core's in-flight record
    std::uint32_t attempts_ = 0;
    Seq seq_ = 0;
    std::uint64_t session_ = 0;    // exclusive groups: which hand-over round of the core
    std::uint64_t lease_id_ = 0;
    const std::byte* payload_ = nullptr;
    std::uint32_t payload_bytes_ = 0;
    std::uint32_t extension_bytes_ = 0;  // before the payload
    std::uint32_t accepted_ = 0;
    Epoch epoch_ = 0;
};

/// Messages leased together. next() hands one over (and charges it); what was not handed over is released,
/// uncharged, by the destructor. Consumer's thread only.
class Batch {
public:
    Batch(Batch&& other) noexcept;
    Batch& operator=(Batch&& other) noexcept;
    Batch(const Batch&) = delete;
    ~Batch();

    /// The next message, valid until the following next() or the end of the batch unless moved out; nullptr at the
    /// end. May skip messages whose lease lapsed meanwhile.
    [[nodiscard]] Message* next() noexcept;
    /// Messages leased, handed over or not. Exclusive group: how many it may become, at most.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    friend class detail::ConsumerCore;
    friend class Consumer;
    Batch() noexcept = default;
    detail::ConsumerCore* core_ = nullptr;
    std::uint32_t first_ = 0;  // chain of in-flight records; exclusive: the one that is here already
    std::size_t size_ = 0;
    std::size_t handed_ = 0;
    std::optional<Message> current_;
};

/// Messages that a consumer will never see: overwritten, damaged, or skipped by an operator.
struct Gap {
    Seq first;
    Seq last;
    std::uint64_t total;  // since the consumer was opened
};

/// A member of a group. Move-only, one thread at a time. Closing it releases what it had leased and not handed over;
/// messages that the program still holds stay valid until dropped.
class Consumer {
public:
    Consumer(Consumer&&) noexcept;
    Consumer& operator=(Consumer&&) noexcept;
    ~Consumer();

    /// The next message, handed over and charged on return. timeout: none came (or, exclusive: another member is
    /// active, or a message handed over before a failure has no outcome yet). gap: once, see last_gap().
    /// closed, no_such_group, detached. corrupt: a message made no sense and was stepped over; told once.
    [[nodiscard]] Result<Message> receive(Duration timeout) noexcept;
    /// Same, never waits: empty.
    [[nodiscard]] Result<Message> try_receive() noexcept;
    /// Up to `max` messages leased in one go; waits for the first only. Damage ends the batch early; the next receive
    /// tells it.
    [[nodiscard]] Result<Batch> receive_batch(std::size_t max, Duration timeout) noexcept;

    /// Exclusive groups: settles everything up to and including `message`. invalid_argument: a shared group, or
    /// another group's message.
    Result<void> ack_through(Message& message) noexcept;
    /// Acks each; stale_lease if any was (the others are acked).
    Result<void> ack(std::span<Message> messages) noexcept;

    /// Exclusive group: this member is the one that receives. Shared: true.
    [[nodiscard]] bool active() const noexcept;
    /// The range of the last gap; not_found when there was none.
    [[nodiscard]] Result<Gap> last_gap() const noexcept;
    /// A descriptor for poll/epoll, readable while a message may be waiting: after it fires, receive without a
    /// timeout until empty, which clears it. A retry makes it readable when it is due. Level-triggered, owned by the consumer. The first call starts one thread for the process's queue.
    [[nodiscard]] Result<int> wait_fd() noexcept;

private:
    friend class Queue;
    struct Closer {
        void operator()(detail::ConsumerCore*) const noexcept;
    };
    explicit Consumer(detail::ConsumerCore* core) noexcept : core_(core) {}
    std::unique_ptr<detail::ConsumerCore, Closer> core_;
};

}  // namespace rondo
