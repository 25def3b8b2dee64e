// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// Notes of failing messages in a shared group's lease table.
#include "flow/lease_table.hpp"

#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "base/mix.hpp"
#include "unit/ring_memory.hpp"

using namespace rondo;
using namespace rondo::test;
using flow::LeaseTable;

TEST_CASE("a note is made once and found again") {
    RingMemory m(64);
    const auto t = m.table();
    CHECK(t.find_note(77) == nullptr);
    auto* note = t.note_for(77, 70);
    REQUIRE(note != nullptr);
    CHECK(t.find_note(77) == note);
    CHECK(t.note_for(77, 70) == note);
    CHECK(note->attempt_count == 0);
    note->attempt_count = 3;
    CHECK(t.note_for(77, 70)->attempt_count == 3);
    CHECK(t.find_note(78) == nullptr);
}

TEST_CASE("the message at position 0 has a note like every other") {
    RingMemory m(64);
    const auto t = m.table();
    CHECK(t.find_note(0) == nullptr);
    auto* note = t.note_for(0, 0);
    REQUIRE(note != nullptr);
    CHECK(t.find_note(0) == note);
    CHECK(t.note_for(0, 0) == note);
}

TEST_CASE("a note whose emptying was cut short is nobody's, until its message's next owner empties it") {
    RingMemory m(64);
    const auto t = m.table();
    auto* note = t.note_for(77, 70);
    REQUIRE(note != nullptr);
    note->attempt_count = 7;
    note->first_delivered_ns = 1;
    Seq next = 78;  // whose search begins at the same place
    while (base::mix64(next) % t.notes.size() != base::mix64(77) % t.notes.size()) ++next;
    // Killed in begin_note(): the position is another's already, the story still the former one's.
    note->position.store(next << 1 | 1 | flow::note_emptied);
    CHECK(t.find_note(77) == nullptr);
    CHECK(t.find_note(next) == nullptr);
    for (Seq p = next + 1; p < 1000; ++p) CHECK(t.note_for(p, 70) != note);
    CHECK(t.note_for(next, 70) == note);
    CHECK(note->position.load() == (next << 1 | 1));
    CHECK(note->attempt_count == 0);
    CHECK(note->first_delivered_ns == 0);
}

TEST_CASE("notes of settled messages are used again and come back empty, those of unsettled ones never") {
    RingMemory m(64);
    const auto t = m.table();
    std::set<format::Note*> all;
    std::set<Seq> have;
    // 64 notes: take them all for positions 1000 .. , some neighbourhoods fill up earlier.
    for (Seq p = 1000; p < 1400; ++p) {
        auto* n = t.note_for(p, 1000);
        if (n == nullptr) continue;
        n->attempt_count = 7;
        n->reason = 2;
        CHECK(all.insert(n).second);
        have.insert(p);
    }
    CHECK(all.size() == 64);
    for (const Seq p : have) REQUIRE(t.find_note(p) != nullptr);
    CHECK(t.note_for(5000, 1000) == nullptr);  // nothing below the floor
    // Everything below 1400 is settled now.
    auto* n = t.note_for(5000, 1400);
    REQUIRE(n != nullptr);
    CHECK(n->attempt_count == 0);
    CHECK(n->reason == 0);
    std::uint64_t left = 0;
    for (const Seq p : have) left += t.find_note(p) != nullptr ? 1 : 0;
    CHECK(left == 63);
}

TEST_CASE("a table without notes has none") {
    const LeaseTable t{};
    CHECK_FALSE(t);
    CHECK(t.find_note(3) == nullptr);
    CHECK(t.note_for(3, 0) == nullptr);
}

TEST_CASE("attempts are kept in a ring of eight, and repeating the last one replaces it") {
    RingMemory m(64);
    auto* note = m.table().note_for(9, 0);
    for (std::uint32_t i = 1; i <= 11; ++i) {
        flow::Failure f;
        f.outcome = format::Outcome::nacked;
        const std::string code = "code-" + std::to_string(i);
        f.reason.code = code;
        f.started_ns = 100 + i;
        flow::note_attempt(*note, i, f, i * 10);
        flow::note_attempt(*note, i, f, i * 10);
    }
    CHECK(note->attempt_count == 11);
    CHECK(note->first_delivered_ns == 101);
    CHECK(note->last_delivered_ns == 111);
    for (std::uint32_t i = 4; i <= 11; ++i) {
        const auto& a = note->attempts[(i - 1) % format::attempts_kept];
        CHECK(a.number == i);
        CHECK(a.delay_ns == i * 10);
    }
    CHECK(flow::noted_reason(*note).code == "code-11");
}

TEST_CASE("texts are cut at a border of characters and flagged") {
    RingMemory m(64);
    auto* note = m.table().note_for(9, 0);
    flow::Failure f;
    std::string message(791, 'x');
    message += "\u00e9\u00e9";  // two bytes each: the first does not fit any more
    f.reason.message = message;
    f.reason.detail = "a stack trace";
    flow::note_attempt(*note, 1, f, 0);
    CHECK(note->message_size == 791);
    CHECK((note->flags & format::note_message_cut) != 0);
    CHECK((note->flags & format::note_detail_lost) != 0);
    CHECK(flow::noted_reason(*note).message == std::string(791, 'x'));
}

TEST_CASE("members that make notes for different messages at once get different ones") {
    for (int round = 0; round < 20; ++round) {
        RingMemory m(64);
        const auto t = m.table();
        std::array<format::Note*, 32> got{};
        const auto take = [&](std::size_t from) {
            for (std::size_t i = from; i < 32; i += 2) got[i] = t.note_for(100 + i, 100);
        };
        std::thread other([&] { take(1); });
        take(0);
        other.join();
        std::set<format::Note*> all;
        for (std::size_t i = 0; i < 32; ++i) {
            if (got[i] == nullptr) continue;
            CHECK(all.insert(got[i]).second);
            CHECK(t.find_note(100 + i) == got[i]);
        }
        CHECK(all.size() >= 16);
    }
}
