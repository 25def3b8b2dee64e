// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: TIMEOUT 120
//
// The ring classes and the groups over 64 and 4096 slots of private memory, with real threads, at positions around
// 2^32, in the middle and at the end of the laps.
#include <doctest/doctest.h>

#include <deque>
#include <thread>

#include "flow/exclusive_group.hpp"
#include "flow/shared_group.hpp"
#include "stress/traffic.hpp"
#include "unit/ring_group.hpp"

using namespace rondo;
using namespace rondo::test;
using ring::Claimed;
using ring::ClaimStatus;
using ring::MpmcRing;
using ring::RecordType;
using ring::RecordView;
using ring::SpscRing;

namespace {

constexpr std::uint32_t threads = 4;

/// Publishes `count` messages of producer `id`: whole, in batches, or given up as voids in between.
template <class Ring>
void produce(RingMemory& m, Ring ring, std::uint32_t id, std::uint64_t count, std::atomic<bool>& failed) {
    auto random = rng(id + 100);
    const std::size_t largest = m.view.slots / 8 * format::slot_bytes - format::header_bytes;
    std::vector<std::byte> buffer(largest);
    const auto claim = [&](std::uint64_t k, Claimed& c) {
        for (;;) {
            switch (ring.claim(k, c)) {
                case ClaimStatus::ok:
                    return true;
                case ClaimStatus::full:
                    if (!m.advance()) std::this_thread::yield();
                    break;
                default:
                    failed.store(true);
                    return false;
            }
            if (failed.load(std::memory_order_relaxed)) return false;
        }
    };
    const auto commit = [&](const Claimed& c) {
        ring::put_stamp(m.view, c.position);
        if constexpr (requires { ring.committed(c); }) ring.committed(c);
    };
    for (std::uint64_t sequence = 0; sequence < count;) {
        Claimed c;
        if (random.one_in(50)) {
            if (!claim(1 + random.below(4), c)) return;
            ring::write_header(m.view, c.position, {0, c.slots, RecordType::void_claim, 0}, {}, 0);
            commit(c);
            continue;
        }
        if (random.one_in(10)) {
            // A batch of two slots each, stamped from the last to the first.
            const std::uint64_t n = 1 + random.below(std::min<std::uint64_t>({m.view.slots / 16, 8, count - sequence}));
            if (!claim(2 * n, c)) return;
            for (std::uint64_t i = 0; i < n; ++i) {
                const auto bytes = std::span(buffer).first(min_message_bytes + random.below(72));
                write_message_into(bytes, id, sequence + i);
                write_message(m.view, c.position + 2 * i, 2, bytes, i + 1 < n ? format::flag_batch_more : 0);
            }
            for (std::uint64_t i = n; i-- > 1;) ring::put_stamp(m.view, c.position + 2 * i);
            commit(c);
            sequence += n;
            continue;
        }
        const auto bytes = std::span(buffer).first(random_size(random, largest));
        const std::uint64_t k = slots_of_payload(bytes.size());
        if (!claim(k, c)) return;
        write_message_into(bytes, id, sequence++);
        write_message(m.view, c.position, k, bytes);
        commit(c);
    }
}

void check(const Books& books, const RingMemory& m, const std::atomic<bool>& failed) {
    CHECK_FALSE(failed.load());
    CHECK(books.arrived_count() == books.expected());
    CHECK(books.corrupt() == 0);
    CHECK(books.disordered() == 0);
    CHECK(books.lost() == 0);
    CHECK(books.repeated() == 0);
    CHECK(m.tail() <= m.limit());
}

/// Starts, with room for all laps that the run needs.
std::vector<Seq> starts(std::uint64_t slots) {
    const Seq end = format::end_of_positions(slots);
    return {0, (Seq{1} << 32) - 10, (Seq{1} << 39) * slots - 10, end - (std::uint64_t{1} << 24) - 10};
}

}  // namespace

TEST_CASE_TEMPLATE("one reader gets what all producers published, whole and in order", Ring, SpscRing<>, MpmcRing<>) {
    constexpr bool many = std::is_same_v<Ring, MpmcRing<>>;
    constexpr std::uint32_t producers = many ? threads : 1;
    for (const std::uint64_t slots : {std::uint64_t{64}, std::uint64_t{4096}}) {
        for (const Seq start : starts(slots)) {
            CAPTURE(slots);
            CAPTURE(start);
            GroupBed bed(start, slots);
            auto& m = bed.m;
            const std::uint64_t each = scaled(40000) / producers;
            Books books(producers, each);
            std::atomic<bool> failed{false};
            std::vector<std::thread> all;
            for (std::uint32_t i = 0; i < producers; ++i) {
                if constexpr (many) {
                    all.emplace_back([&, i] { produce(m, MpmcRing<>(m.view, i + 1), i, each, failed); });
                } else {
                    all.emplace_back([&, i] {
                        SpscRing<> ring(m.view);
                        ring.take_over();
                        produce(m, ring, i, each, failed);
                    });
                }
            }
            const auto policy = policy_of(format::GroupMode::exclusive);
            flow::ExclusiveGroup group(m.view, m.groups[0], 0, GroupBed::life, "g", format::pack_owner(9, 1), policy,
                                       bed.dead_ring(), bed.super, 64);
            auto reader = books.reader();
            auto random = rng(1);
            std::uint64_t held = 0;
            flow::ExclusiveGroup::Handed h, last;
            while (!books.over() && !failed.load()) {
                const auto next = group.next({1, 1}, {}, h);
                if (next == flow::ExclusiveGroup::Next::handed) {
                    const auto body = ring::body_of(m.view, h.position, h.record);
                    books.arrived(reader, *body);
                    last = h;
                    ++held;
                }
                const bool idle = next != flow::ExclusiveGroup::Next::handed;
                if (held != 0 && (idle || random.one_in(8))) {
                    if (group.ack(last.position, last.session) != flow::ExclusiveGroup::Settled::ok) failed = true;
                    held = 0;
                }
                if (idle) std::this_thread::yield();
            }
            if (!books.complete()) failed = true;
            for (auto& t : all) t.join();
            check(books, m, failed);
        }
    }
}

TEST_CASE("four members of a shared group get what four producers published, each message once") {
    for (const std::uint64_t slots : {std::uint64_t{64}, std::uint64_t{4096}}) {
        for (const Seq start : starts(slots)) {
            CAPTURE(slots);
            CAPTURE(start);
            GroupBed bed(start, slots);
            auto& m = bed.m;
            const std::uint64_t each = scaled(40000) / threads;
            Books books(threads, each);
            std::atomic<bool> failed{false};
            std::vector<std::thread> all;
            for (std::uint32_t i = 0; i < threads; ++i)
                all.emplace_back([&, i] { produce(m, MpmcRing<>(m.view, i + 1), i, each, failed); });
            for (std::uint32_t i = 0; i < threads; ++i) {
                all.emplace_back([&, i] {
                    flow::SharedGroup group(m.view, m.groups[0], 0, GroupBed::life, m.table(), 10 + i);
                    auto& pin = m.handles[i].borrow;
                    auto reader = books.reader();
                    auto random = rng(200 + i);
                    std::vector<flow::Leased> held;
                    const auto settle = [&](flow::Leased& l) {
                        if (format::unpack_lease(l.word).state == format::EntryState::leased &&
                            !group.hand_over(l, 1U << 30))
                            failed = true;
                        const auto body = ring::body_of(m.view, l.position, l.record);
                        if (body) books.arrived(reader, *body);
                        if (!group.settle(l, format::Outcome::acked)) failed = true;
                        group.advance_low_water();
                    };
                    while (!books.over() && !failed.load(std::memory_order_relaxed)) {
                        flow::Leased l;
                        const auto took = group.take_new(1U << 30, random.one_in(2), pin, l);
                        if (took == flow::Take::taken) held.push_back(l);
                        if (took == flow::Take::corrupt) failed = true;
                        if (held.size() > random.below(6) || took == flow::Take::empty) {
                            for (auto& x : held) settle(x);
                            held.clear();
                            pin.store(format::nowhere, std::memory_order_release);
                        }
                        if (took == flow::Take::empty) std::this_thread::yield();
                    }
                    if (!books.complete()) failed = true;
                });
            }
            for (auto& t : all) t.join();
            check(books, m, failed);
            flow::SharedGroup group(m.view, m.groups[0], 0, GroupBed::life, m.table(), 1);
            flow::Leased none;
            while (group.take_new(1, true, m.handles[0].borrow, none) == flow::Take::taken) FAIL("a message too many");
            group.advance_low_water();
            CHECK(group.low_water() == m.tail());
            CHECK(group.hint() == m.tail());
        }
    }
}

TEST_CASE("members that give back, fail and let leases lapse settle each message once all the same") {
    for (const Seq start : starts(64)) {
        CAPTURE(start);
        GroupBed bed(start, 64);
        auto& m = bed.m;
        const std::uint64_t each = scaled(20000) / threads;
        Books books(threads, each);
        std::atomic<bool> failed{false};
        std::atomic<std::uint64_t> clock{1000};
        std::vector<std::thread> all;
        for (std::uint32_t i = 0; i < threads; ++i)
            all.emplace_back([&, i] { produce(m, MpmcRing<>(m.view, i + 1), i, each, failed); });
        for (std::uint32_t i = 0; i < threads; ++i) {
            all.emplace_back([&, i] {
                flow::SharedGroup group(m.view, m.groups[0], 0, GroupBed::life, m.table(), 10 + i);
                auto& pin = m.handles[i].borrow;
                auto reader = books.reader();
                auto random = rng(300 + i);
                Seq at = 0;
                std::deque<std::pair<flow::Leased, std::vector<std::byte>>> late;
                while (!books.over() && !failed.load(std::memory_order_relaxed)) {
                    const std::uint64_t now = clock.fetch_add(1, std::memory_order_relaxed);
                    flow::Leased l;
                    bool have = false;
                    if (random.one_in(2)) {
                        std::uint64_t due = ~std::uint64_t{0};
                        if (at >= group.hint()) at = group.low_water();
                        const auto r = group.sweep(at, now, 50, due);
                        switch (r.found) {
                            case flow::SharedGroup::Found::ready:
                            case flow::SharedGroup::Found::due:
                                have = group.take_returned(r, now + 50, true, pin, l);
                                break;
                            case flow::SharedGroup::Found::lapsed_untouched:
                                (void)group.give_back({r.position, r.word, {}});
                                break;
                            case flow::SharedGroup::Found::lapsed: {
                                std::uint64_t word = r.word;
                                if (group.begin_failing(r.position, word, 10 + i))
                                    group.end_failing(r.position, word, now, random.below(10));
                                break;
                            }
                            default:
                                break;
                        }
                    }
                    if (!have) have = group.take_new(now + 50, true, pin, l) == flow::Take::taken;
                    if (!have) {
                        pin.store(format::nowhere, std::memory_order_release);
                        std::this_thread::yield();
                        continue;
                    }
                    // Copied now: the lease may lapse at any time, and whoever settles the message counts it.
                    const auto body = ring::body_of(m.view, l.position, l.record);
                    std::vector<std::byte> copy(body->begin(), body->end());
                    std::uint64_t word = l.word;
                    switch (random.below(6)) {
                        case 0:  // too slow: lapses, and is settled too late, or just in time
                            late.push_back({l, std::move(copy)});
                            break;
                        case 1:
                            if (group.begin_failing(l.position, word, 10 + i)) group.end_releasing(l.position, word);
                            break;
                        case 2:
                            if (group.begin_failing(l.position, word, 10 + i))
                                group.end_failing(l.position, word, now, random.below(10));
                            break;
                        default: {
                            if (group.settle(l, format::Outcome::acked)) {
                                books.arrived(reader, copy, false);
                                group.advance_low_water();
                            }
                        }
                    }
                    if (!late.empty() && random.one_in(4)) {
                        if (group.settle(late.front().first, format::Outcome::acked)) {
                            books.arrived(reader, late.front().second, false);
                            group.advance_low_water();
                        }
                        late.pop_front();
                    }
                    pin.store(format::nowhere, std::memory_order_release);
                }
                if (!books.complete()) failed = true;
            });
        }
        for (auto& t : all) t.join();
        check(books, m, failed);
    }
}
