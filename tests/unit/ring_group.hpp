// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A main ring, a dead-letter ring and a policy in private memory, for tests of the groups without any file.
#pragma once

#include "flow/dead_letters.hpp"
#include "flow/exclusive_group.hpp"
#include "flow/shared_failure.hpp"
#include "flow/shared_group.hpp"
#include "format/dead_entry.hpp"
#include "unit/ring_memory.hpp"

namespace rondo::test {

inline flow::GroupPolicy policy_of(format::GroupMode mode) {
    flow::GroupPolicy p;
    p.mode = mode;
    p.lease_ns = 30'000'000'000;
    p.lease_total_ns = 60'000'000'000;
    p.max_deliveries = 3;
    p.backoff_initial_ns = 1'000'000'000;
    p.backoff_max_ns = 60'000'000'000;
    p.jitter = format::Jitter::none;
    p.retry_max_age_ns = 86'400'000'000'000;
    return p;
}

/// A queue of one group, index 0, life 1.
struct GroupBed {
    static constexpr std::uint32_t life = 1;

    explicit GroupBed(Seq start, std::uint64_t slots = 64, std::uint64_t dead_slots = 4096)
        : m(slots, start), dead(dead_slots), producer(m.view, 1000) {
        m.start_group(0, start);
        dead.start_group(0, 0);
        super.ring_uuid = {1, 2, 3};
        super.slot_count = slots;
        super.timestamps = format::Timestamps::coarse;
        super.salt = RingMemory::salt;
    }

    /// One message; its first slot. Advances the limit when there is no room.
    Seq put(std::uint64_t id, std::size_t size = 20) {
        ring::Claimed c;
        if (!publish(producer, message_bytes(id, size), &c)) {
            m.advance();
            if (!publish(producer, message_bytes(id, size), &c)) return format::nowhere;
        }
        return c.position;
    }
    /// One message that only group `group` in life `group_life` shall see.
    Seq put_only(std::uint32_t group, std::uint32_t group_life) {
        format::Extensions e;
        e.only_group = group;
        e.only_group_life = group_life;
        std::vector<std::byte> block(format::extension_bytes(e));
        format::encode_extensions(e, block);
        ring::Claimed c;
        const std::uint64_t k = format::slots_for(block.size(), 8);
        if (producer.claim(k, c) != ring::ClaimStatus::ok) return format::nowhere;
        write_message(m.view, c.position, k, message_bytes(1, 8), 0, block);
        ring::put_stamp(m.view, c.position);
        return c.position;
    }
    Seq put_void(std::uint64_t k, ring::RecordType type = ring::RecordType::void_claim) {
        ring::Claimed c;
        if (producer.claim(k, c) != ring::ClaimStatus::ok) return format::nowhere;
        ring::write_void(m.view, c.position, k, type);
        return c.position;
    }
    flow::DeadRing dead_ring(std::uint32_t participant = 1) const {
        return {dead.view, dead.groups.all(), m.handles.all(), participant};
    }
    /// What lies in the dead-letter ring, oldest first.
    std::vector<DeadLetter> dead_letters() const {
        std::vector<DeadLetter> all;
        for (const auto& f : read_from(dead.view, 0)) {
            if (f.record.head.type != ring::RecordType::message) continue;
            auto letter = format::decode_dead_entry(f.payload);
            if (letter) all.push_back(std::move(*letter));
        }
        return all;
    }
    /// Fills the dead-letter ring, so that nothing more fits.
    void fill_dead() const {
        ring::MpmcRing<> filler(dead.view, 1001);
        ring::Claimed c;
        while (filler.claim(64, c) == ring::ClaimStatus::ok)
            ring::write_void(dead.view, c.position, 64, ring::RecordType::void_claim);
        while (filler.claim(1, c) == ring::ClaimStatus::ok)
            ring::write_void(dead.view, c.position, 1, ring::RecordType::void_claim);
    }
    /// The operator has dealt with everything that is there.
    void empty_dead() const {
        dead.groups[0].cursor.store(dead.tail());
        dead.advance();
    }

    RingMemory m, dead;
    ring::MpmcRing<> producer;
    format::Superblock super{};
};

}  // namespace rondo::test
