// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// The sweep of a shared group: what it finds in each state, and which deadlines it believes.
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "unit/ring_shared_group.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("the sweep tells each state, and skips what belongs to somebody at work") {
    Bed b;
    std::vector<Seq> p;
    for (int i = 0; i < 11; ++i) p.push_back(b.put(static_cast<std::uint64_t>(i)));
    b.m.groups[0].hint.store(p[10]);
    b.set(p[0], EntryState::settled, 0, 1);
    b.set(p[1], EntryState::ready, 0, 2);
    b.set(p[2], EntryState::leased, 7, 0);
    b.set_b(p[2], 500, 7, 0);
    b.set(p[3], EntryState::handed, 7, 1);
    b.set_b(p[3], 600, 7, 1);
    b.set(p[4], EntryState::failing, 7, 1);
    b.set(p[5], EntryState::backoff, format::encode_delay(600), 1);
    b.set_b(p[5], 700, format::encode_delay(600), 1);
    b.set(p[6], EntryState::moving, 7, 3);
    b.set(p[7], EntryState::dead_pending, 0, 3);
    b.set(p[8], EntryState::settled, 0, 1);
    // p[9]: nobody has leased it in this lap. p[10]: beyond the hint.
    b.m.entries[p[9] & 63].a = format::pack_lease({b.m.view.lap1(p[9]) - 1, EntryState::handed, 7, 1});
    std::uint64_t due = 0;
    const auto early = b.sweep(499, &due);
    CHECK(early == std::map<Seq, Found_>{{p[1], Found_::ready}, {p[7], Found_::dead_pending}});
    CHECK(due == 500);
    const auto late = b.sweep(700, &due);
    CHECK(late == std::map<Seq, Found_>{{p[1], Found_::ready},
                                        {p[2], Found_::lapsed_untouched},
                                        {p[3], Found_::lapsed},
                                        {p[5], Found_::due},
                                        {p[7], Found_::dead_pending}});
    CHECK(due == ~std::uint64_t{0});
}

TEST_CASE("the sweep goes on where it stopped and ends at the hint") {
    Bed b;
    std::vector<Seq> p;
    for (int i = 0; i < 6; ++i) {
        p.push_back(b.put(static_cast<std::uint64_t>(i), 100));
        b.set(p.back(), EntryState::ready, 0, 1);
    }
    b.m.groups[0].hint.store(b.m.tail());
    auto g = b.member(5);
    Seq at = 0;
    std::uint64_t due = 0;
    for (const Seq expected : p) CHECK(g.sweep(at, 0, lease, due).position == expected);
    CHECK(g.sweep(at, 0, lease, due).found == Found_::nothing);
    CHECK(at == b.m.tail());
}

TEST_CASE("a deadline of a taker that was paused is not believed: the holder's lease runs anew") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    const Leased l = must_take(g, b.pin(5), true, 900'000);
    // Member 8 was about to take p long ago; it wakes, stores its old B, and its CAS fails.
    b.set_b(p, 10, 8, 1);
    std::uint64_t due = 0;
    CHECK(b.sweep(1000, &due).empty());
    CHECK(due == 1000 + lease);
    const auto mended = format::unpack_due(b.m.entries[p & 63].b.load());
    CHECK(mended.owner == 5);
    CHECK(mended.attempts == 1);
    CHECK(mended.value == due);
    CHECK(b.sweep(due - 1).empty());
    CHECK(b.sweep(due).at(p) == Found_::lapsed);
    CHECK(g.settle(l, Outcome::acked));  // the lease itself was never in danger
}

TEST_CASE("a deadline stored for an earlier hand-over is not believed for a later one") {
    Bed b;
    const Seq p = b.put(1);
    b.m.groups[0].hint.store(b.m.tail());
    b.set(p, EntryState::handed, 5, 2);
    b.set_b(p, 10, 5, 1);  // by the same participant, one attempt ago
    CHECK(b.sweep(1000).empty());
}

TEST_CASE("a wait that a paused taker overwrote begins anew as long as it was, not as long as a lease") {
    Bed b;
    const Seq p = b.put(1);
    b.m.groups[0].hint.store(b.m.tail());
    const std::uint32_t code = format::encode_delay(20'000);
    b.set(p, EntryState::backoff, code, 1);
    b.set_b(p, 10, 8, 2);
    std::uint64_t due = 0;
    CHECK(b.sweep(1000, &due).empty());
    CHECK(due == 1000 + format::decode_delay(code));
    CHECK(due >= 1000 + 20'000);
    CHECK(due < 1000 + 21'300);  // coded in 5 bits and an exponent, rounded up
    CHECK(b.sweep(due).at(p) == Found_::due);
}

TEST_CASE("extend moves the deadline of the lease that is there, and says so when it is gone") {
    Bed b;
    const Seq p = b.put(1);
    auto g = b.member(5);
    const Leased l = must_take(g, b.pin(5), true, 100);
    CHECK(g.extend(l, 5000));
    CHECK(b.sweep(4999).empty());
    CHECK(b.sweep(5000).at(p) == Found_::lapsed);
    CHECK(g.settle(l, Outcome::acked));
    CHECK_FALSE(g.extend(l, 9000));
}
