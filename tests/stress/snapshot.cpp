// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Observers beside a ring that moves at full speed: what they count stays within bounds, what they copy is whole.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "../format/hand_ring.hpp"
#include "flow/credit.hpp"
#include "format/snapshot.hpp"
#include "ring/mpmc_ring.hpp"
#include "support/seed.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::HandRing;

TEST_CASE("counts of a moving ring are bounded, and no copy is torn") {
    HandRing r;
    auto& group = r.make_group(0, GroupMode::exclusive);
    r.make_handle(0, 2, HandleKind::consumer, 0);
    // Its last_seq decides whether a claim can still be open: an observer must not take one that is for damage.
    r.make_handle(1, 1, HandleKind::producer);
    r.handles[0].in_flight.store(1);
    group.owner.store(pack_owner(2, 1));
    std::atomic<bool> stop{false};

    // Payloads of 8-byte words that all say the same: a torn copy is seen.
    std::thread producer([&] {
        ring::MpmcRing<> ring(r.view, 1);
        auto random = test::rng(1);
        std::uint64_t n = 0;
        while (!stop.load(std::memory_order_relaxed)) {
            const std::uint64_t words = random.between(1, 40);
            const std::uint64_t k = slots_for(0, words * 8);
            ring::Claimed claimed;
            if (ring.claim(k, claimed) != ring::ClaimStatus::ok) {
                flow::advance_limit(r.view, r.groups, r.handles);
                std::this_thread::yield();
                continue;
            }
            const std::vector<std::uint64_t> payload(words, ++n);
            const auto bytes = std::as_bytes(std::span(payload));
            ring::write_body(r.view, claimed.position, {}, bytes);
            ring::write_header(r.view, claimed.position,
                               {static_cast<std::uint32_t>(bytes.size()), k, RecordType::message, 0}, {1, 0},
                               bytes.size());
            ring::put_stamp(r.view, claimed.position);
            r.handles[1].last_seq.store(claimed.position, std::memory_order_release);
        }
    });
    std::thread consumer([&] {
        Seq at = 0;
        while (!stop.load(std::memory_order_relaxed)) {
            ring::RecordView record{};
            if (ring::peek(r.view, at, record) != ring::Peek::record) {
                std::this_thread::yield();
                continue;
            }
            at += record.head.slots;
            group.handed.store(at, std::memory_order_release);
            group.cursor.store(at, std::memory_order_release);
        }
    });

    std::uint64_t copies = 0;
    std::uint64_t torn = 0;
    std::uint64_t unbounded = 0;
    std::uint64_t damaged = 0;
    for (int round = 0; round < 20'000; ++round) {
        const auto s = survey(r.ring, {}, {1, 1});
        for (const auto& c : s.counts) {
            if (c.lag > HandRing::slots || c.lag != c.ready + c.in_flight + c.scheduled + c.dead_pending) ++unbounded;
        }
        if (s.used_slots > HandRing::slots || s.used_slots + s.credit_slots != HandRing::slots) ++unbounded;
        damaged += s.damaged;
        RecordWalk walk(r.ring, s.floor, s.tail);
        while (const auto record = walk.next()) {
            if (record->state != RecordState::message) continue;
            const auto copy = copy_record(r.ring, *record);
            if (!copy) continue;
            const auto parts = parts_of(record->head, *copy);
            if (!parts || parts->payload.size() % 8 != 0) {
                ++torn;
                continue;
            }
            ++copies;
            for (std::size_t i = 8; i < parts->payload.size(); i += 8) {
                if (std::memcmp(parts->payload.data(), parts->payload.data() + i, 8) != 0) {
                    ++torn;
                    break;
                }
            }
        }
        if (walk.end() != WalkEnd::reached) ++damaged;
    }
    stop.store(true, std::memory_order_relaxed);
    producer.join();
    consumer.join();
    CHECK(copies > 0);
    CHECK(torn == 0);
    CHECK(unbounded == 0);
    CHECK(damaged == 0);
}
