// SPDX-License-Identifier: MIT
// Producer and Claim: how messages get into a queue.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "rondo/options.hpp"
#include "rondo/result.hpp"
#include "rondo/types.hpp"

namespace rondo {

namespace detail {
class ProducerCore;
}

/// Where a message was put. (epoch, seq) is never used twice; seq alone is, after a power loss.
struct Published {
    Seq seq;
    Epoch epoch;
    bool duplicate;
};

/// Room for one message inside the ring. Fill payload(), then commit(). Consumers wait behind an open claim: do not
/// block in between. Move-only; used by its producer's thread; the destructor aborts.
class Claim {
public:
    Claim(Claim&& other) noexcept;
    Claim& operator=(Claim&& other) noexcept;
    Claim(const Claim&) = delete;
    ~Claim();

    /// The claimed bytes, 16-byte aligned, content undefined. Empty after commit, abort, or a move.
    [[nodiscard]] std::span<std::byte> payload() noexcept;

    /// Makes the message visible, whole or (used <= claimed) its first `used` bytes.
    /// invalid_argument: used too large, or nothing is claimed any more. closed: the queue was destroyed.
    [[nodiscard]] Result<Published> commit() noexcept;
    [[nodiscard]] Result<Published> commit(std::size_t used) noexcept;

    /// Gives the room back as a void record that consumers step over.
    void abort() noexcept;

private:
    friend class detail::ProducerCore;
    friend class Producer;
    Claim(detail::ProducerCore* core, std::span<std::byte> payload) noexcept : core_(core), payload_(payload) {}
    detail::ProducerCore* core_ = nullptr;
    std::span<std::byte> payload_;
};

/// Publishes into one queue. Move-only, one thread at a time; keeps the queue's mapping alive. Allocates nothing and
/// makes no system call unless it waits for credit, wakes a sleeper or does the 50 ms housekeeping.
class Producer {
public:
    Producer(Producer&&) noexcept;
    Producer& operator=(Producer&&) noexcept;
    ~Producer();

    /// Copies `payload` into the ring and makes it visible. Waits up to options.timeout for credit when the queue's
    /// overflow is `block`. Errors, nothing published: timeout, no_credit (overflow = fail), too_large,
    /// invalid_argument, not_supported, claim_open, would_deadlock (this thread holds a message of the same full
    /// queue), closed, detached (after fork), exhausted (positions used up).
    [[nodiscard]] Result<Published> publish(Bytes payload, const PublishOptions& options = {}) noexcept;

    /// Same, never waits: no_credit.
    [[nodiscard]] Result<Published> try_publish(Bytes payload, const PublishOptions& options = {}) noexcept;

    /// All visible at once or none; at most 1/8 of the ring in all (too_large). An empty batch is invalid_argument.
    /// Returns the first message's position.
    [[nodiscard]] Result<Published> publish_batch(std::span<const Outgoing> messages) noexcept;

    /// Room for `bytes` of payload. One open claim per producer (claim_open). Errors as of publish.
    [[nodiscard]] Result<Claim> claim(std::size_t bytes, const PublishOptions& options = {}) noexcept;

    /// Largest payload a publish without options takes.
    [[nodiscard]] std::size_t max_payload_bytes() const noexcept;

private:
    friend class Queue;
    struct Closer {
        void operator()(detail::ProducerCore*) const noexcept;
    };
    explicit Producer(detail::ProducerCore* core) noexcept : core_(core) {}
    std::unique_ptr<detail::ProducerCore, Closer> core_;
};

}  // namespace rondo
