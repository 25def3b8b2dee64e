// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// A shared group over long random histories of several members.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "support/seed.hpp"
#include "unit/ring_shared_group.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("after any history of three members each message is settled once and its charge is exact") {
    for (const Seq from : start_positions(64)) {
        CAPTURE(from);
        auto random = rng(from + 3);
        Bed b(from);
        struct Held {
            Leased l;
            std::uint32_t owner;
            bool handed;
        };
        std::vector<Held> held;
        std::map<Seq, std::uint32_t> charged;  // of unsettled messages
        std::uint64_t published = 0, settled = 0, now = 1;
        std::vector<SharedGroup> members;
        for (std::uint32_t i = 1; i <= 3; ++i) members.push_back(b.member(i));
        const auto repin = [&](std::uint32_t owner) {
            Seq low = format::nowhere;
            for (const auto& h : held)
                if (h.owner == owner) low = std::min(low, h.l.position);
            b.pin(owner) = low;
        };
        const auto taken = [&](const Leased& l, std::uint32_t owner, bool hand_over) {
            held.push_back({l, owner, hand_over});
            if (hand_over) ++charged[l.position];
            REQUIRE(l.attempts() == charged[l.position]);
        };
        for (int turn = 0; turn < 6000; ++turn) {
            now += random.below(4);
            const auto owner = static_cast<std::uint32_t>(1 + random.below(3));
            auto& g = members[owner - 1];
            switch (random.below(8)) {
                case 0:
                case 1: {
                    if (random.one_in(6)) {
                        b.put_void(1 + random.below(4));
                    } else if (const Seq p = b.put(published, random.below(300)); p != format::nowhere) {
                        charged[p] = 0;
                        ++published;
                    }
                    break;
                }
                case 2:
                case 3: {
                    const bool hand_over = random.one_in(2);
                    Leased l;
                    if (g.take_new(now + 1 + random.below(200), hand_over, b.pin(owner), l) == Take::taken)
                        taken(l, owner, hand_over);
                    break;
                }
                case 4: {
                    Seq at = 0;
                    std::uint64_t due = ~std::uint64_t{0};
                    const auto r = g.sweep(at, now, lease, due);
                    if (r.found == Found_::ready || r.found == Found_::due) {
                        const bool hand_over = random.one_in(2);
                        Leased l;
                        REQUIRE(g.take_returned(r, now + 50, hand_over, b.pin(owner), l));
                        taken(l, owner, hand_over);
                    } else if (r.found == Found_::lapsed_untouched) {
                        REQUIRE(g.give_back({r.position, r.word, {}}));
                    } else if (r.found == Found_::lapsed) {
                        std::uint64_t word = r.word;
                        REQUIRE(g.begin_failing(r.position, word, owner));
                        g.end_failing(r.position, word, now, random.below(20));
                    }
                    break;
                }
                default: {
                    if (held.empty()) break;
                    const std::size_t i = random.below(held.size());
                    Held h = held[i];
                    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
                    auto& mine = members[h.owner - 1];
                    const bool valid = b.m.entries[h.l.position & 63].a.load() == h.l.word;
                    if (!h.handed) {
                        const bool ok = random.one_in(2) ? mine.give_back(h.l) : mine.hand_over(h.l, later);
                        REQUIRE(ok == valid);
                        if (ok && format::unpack_lease(h.l.word).state == EntryState::handed) {
                            h.handed = true;
                            ++charged[h.l.position];
                            held.push_back(h);
                        }
                    } else if (random.one_in(4)) {
                        std::uint64_t word = h.l.word;
                        REQUIRE(mine.begin_failing(h.l.position, word, h.owner) == valid);
                        if (valid && random.one_in(2)) {
                            mine.end_releasing(h.l.position, word);
                            --charged[h.l.position];
                        } else if (valid) {
                            mine.end_failing(h.l.position, word, now, random.below(20));
                        }
                    } else {
                        REQUIRE(mine.settle(h.l, Outcome::acked) == valid);
                        if (valid) {
                            ++settled;
                            charged.erase(h.l.position);
                            mine.advance_low_water();
                        }
                    }
                    repin(h.owner);
                }
            }
            REQUIRE(b.low() <= b.hint());
            REQUIRE(b.hint() <= b.m.tail());
            if (!charged.empty()) REQUIRE(charged.begin()->first >= b.low());
        }
        CHECK(b.m.tail() > from + 3 * 64);  // the slots were used again
        CHECK(settled + charged.size() == published);
    }
}
