// SPDX-License-Identifier: MIT
// What stands behind a Producer and its Claim: sizes, options, credit, and the ring of one or of many producers.
// Threads: the producer's.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "queue/attachment.hpp"
#include "ring/mpmc_ring.hpp"
#include "ring/spsc_ring.hpp"
#include "rondo/producer.hpp"

namespace rondo::detail {

class ProducerCore {
public:
    static Result<ProducerCore*> create(std::shared_ptr<Attachment> a, const ProducerOptions& options);

    Result<Published> publish(Bytes payload, const PublishOptions& options, bool wait);
    Result<Published> publish_batch(std::span<const Outgoing> messages);
    Result<Claim> claim(std::size_t bytes, const PublishOptions& options);
    Result<Published> commit(std::size_t used);
    void abort();
    /// A record with extensions of the library's own making (redrive). Never waits.
    Result<Published> publish_extended(const format::Extensions& extensions, Bytes payload);
    std::size_t max_payload_bytes() const;
    static std::size_t max_payload_bytes(const format::Superblock& super);

    void close();  // by the Producer's destructor; lives on while a claim is open

private:
    ProducerCore(std::shared_ptr<Attachment> a, std::uint32_t handle);
    ~ProducerCore() = default;
    static Result<void> take_role(Attachment& a, std::uint32_t handle);
    void end();

    /// The parts of one record, before it has a place.
    struct Record {
        format::Extensions extensions;
        std::size_t extension_bytes = 0;
        std::uint64_t slots = 0;
    };
    Result<Record> plan_extended(const format::Extensions& extensions, std::size_t payload_bytes) const;
    Result<Record> plan(std::size_t payload_bytes, const PublishOptions& options) const;
    Result<ring::Claimed> room(std::uint64_t slots, const PublishOptions& options, bool wait);
    ring::ClaimStatus try_room(std::uint64_t slots, ring::Claimed& out);
    Result<ring::Claimed> wait_for_room(std::uint64_t slots, Duration timeout);
    void write(Seq at, std::uint64_t slots, const Record& r, Bytes payload, std::uint8_t flags);
    void stamped(const ring::Claimed& c);
    Published put(const ring::Claimed& place, const Record& r, Bytes payload);
    Published done(Seq seq, std::uint64_t messages);
    std::uint32_t accepted_now() const;
    Error refused(Error e);
    format::Handle& handle() const { return a_->handles()[handle_]; }
    const ring::RingView& view() const { return a_->main().view; }

    std::shared_ptr<Attachment> a_;
    std::uint32_t handle_;
    std::uint16_t tag_;  // in each record: which producer
    std::variant<ring::MpmcRing<>, ring::SpscRing<>> ring_;
    std::uint64_t operations_ = 0;

    struct OpenClaim {
        ring::Claimed place;
        std::size_t extension_bytes = 0;
        std::size_t payload_bytes = 0;
        std::uint32_t accepted = 0;
    };
    std::optional<OpenClaim> open_;
    bool closed_ = false;
};

}  // namespace rondo::detail
