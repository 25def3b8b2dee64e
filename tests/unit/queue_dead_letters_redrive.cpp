// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Redrive and discard: who gets a dead message again, how often, in what order, and what closes a dead letter.
#include <doctest/doctest.h>

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "queue/attachment.hpp"
#include "ring/mpmc_ring.hpp"
#include "unit/queue_dead_letters.hpp"

using namespace rondo;
using namespace rondo::test;

// ---- redrive -------------------------------------------------------------------------------------------------

TEST_CASE("redrive brings a message back to the group that failed, to no other") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f;
        auto c = f.consumer("failing", Fixture::options(mode));
        auto shared = f.consumer("shared");
        auto exclusive = f.consumer("exclusive", Fixture::options(GroupMode::exclusive));
        const std::array<Header, 2> headers = {Header{"h", "1"}, {"h", "2"}};
        const std::array<std::uint8_t, 16> id = {9, 9};
        PublishOptions p;
        p.key = "k";
        p.type = 5;
        p.message_id = id;
        p.headers = headers;
        const Seq seq = f.publish("payload", p);
        CHECK(next(c).nack({}, 0ns));
        CHECK(next(c).reject({.code = "c"}));
        for (auto* other : {&shared, &exclusive}) CHECK(next(*other).ack());
        const auto dry = f.letters.redrive({}, false);
        REQUIRE(dry);
        CHECK(dry->count == 1);
        CHECK(dry->bytes == 7);
        CHECK(dry->skipped == 0);
        CHECK(empty(c));

        const auto done = f.letters.redrive({}, true);
        REQUIRE(done);
        CHECK(done->count == 1);
        CHECK(done->bytes == 7);
        f.publish("after");
        Message m = next(c);
        CHECK(m.seq() > seq);
        CHECK(text(m.payload()) == "payload");
        CHECK(m.key() == "k");
        CHECK(m.type() == 5);
        CHECK(m.message_id() == id);
        REQUIRE(m.header_count() == 2);
        CHECK(m.header(1).value == "2");
        CHECK(m.redrive_count() == 1);
        CHECK(m.delivery_count() == 1);
        CHECK(m.ack());
        CHECK(text(next(c).payload()) == "after");
        for (auto* other : {&shared, &exclusive}) {
            Message after = next(*other);
            CHECK(text(after.payload()) == "after");
            CHECK(after.ack());
        }
        CHECK(f.stats("shared").lag == 0);
        CHECK(f.stats("exclusive").lag == 0);
        CHECK(f.stats("shared").skipped == 0);  // not this group's business, not counted
        CHECK(f.stats("shared").delivered == 2);

        const auto again = f.letters.redrive({}, true);
        REQUIRE(again);
        CHECK(again->count == 0);
        CHECK(f.queue.stats().dead_open == 0);
    }
}

TEST_CASE("first and last cause are both kept over a redrive and a second death") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f;
        auto o = Fixture::options(mode);
        o.max_deliveries = 2;
        auto c = f.consumer("g", o);
        const Seq seq = f.publish("m");
        CHECK(next(c).reject({.code = "one"}));
        const auto first = f.list().at(0);
        for (std::uint32_t n = 1; n <= 3; ++n) {
            DeadFilter newest;
            newest.id = f.list().back().id;
            CHECK(f.letters.redrive(newest, true).value().count == 1);
            Message m = next(c);
            CHECK(m.redrive_count() == n);
            CHECK(m.nack({.code = "two"}, 0ns));
            CHECK(next(c).nack({.code = "three"}, 0ns));
            const auto last = f.list().back();
            CHECK(last.state == DeadState::open);
            CHECK(last.redrive_count == n);
            CHECK(last.reason == DeadReason::max_deliveries);
            CHECK(last.code == "three");
            CHECK(last.first_reason == "rejected");
            CHECK(last.first_dead_ns == first.dead_ns);
            CHECK(last.dead_ns >= first.dead_ns);
            CHECK(last.delivery_count == 2);
            CHECK(last.original_seq == seq);
            CHECK(text(last.payload) == "m");
        }
        CHECK(f.queue.stats().dead_open == 1);
    }
}

TEST_CASE("the largest message can be redriven") {
    for (const std::uint64_t max_record : {std::uint64_t{0}, small / 8}) {
        for (const auto producers : {Producers::one, Producers::many}) {
            CAPTURE(max_record);
            Fixture f({.producers = producers, .max_record_bytes = max_record});
            auto c = f.consumer("g");
            const std::string key = limited(255, 'k');
            PublishOptions o;
            o.key = key;
            std::string payload = limited(f.producer.max_payload_bytes(), 'p');
            f.publish(payload);
            CHECK(next(c).reject({.code = "c"}));
            while (!f.producer.publish(bytes(payload), o)) payload.pop_back();
            CHECK(next(c).reject({.code = "c"}));
            { const Producer gone = std::move(f.producer); }
            const auto done = f.letters.redrive({}, true);
            REQUIRE(done);
            CHECK(done->count == 2);
            CHECK(done->skipped == 0);
            Message first = next(c), second = next(c);
            CHECK(first.payload().size() == f.queue.max_payload_bytes());
            CHECK((text(second.payload()) == payload));
            CHECK((second.key() == key));
        }
    }
}

TEST_CASE("redrive stops at the first lack of room and tells how many are left") {
    Fixture f;
    auto c = f.consumer("g");
    for (int i = 0; i < 5; ++i) {
        f.publish(std::to_string(i));
        CHECK(next(c).reject({.code = "c"}));
    }
    while (f.producer.try_publish(bytes("one slot"))) {
    }
    for (int i = 0; i < 2; ++i) {
        const auto done = f.letters.redrive({}, true);
        REQUIRE(done);
        CHECK(done->count == 0);
        CHECK(done->skipped == 5);
        CHECK(f.queue.stats().dead_open == 5);
    }
    std::vector<Message> taken;
    for (int i = 0; i < 10; ++i) CHECK(next(c).ack());
    auto done = f.letters.redrive({}, true).value();
    CHECK(done.count > 0);
    CHECK(done.count + done.skipped == 5);
    while (auto m = c.try_receive()) CHECK(m->ack());
    if (done.skipped > 0) done.count += f.letters.redrive({}, true).value().count;
    CHECK(done.count == 5);
    CHECK(f.queue.stats().dead_open == 0);
}

TEST_CASE("a redrive keeps its filter's choice, oldest first") {
    Fixture f;
    auto c = f.consumer("g");
    for (int i = 0; i < 6; ++i) {
        f.publish(std::to_string(i));
        CHECK(next(c).reject({.code = i % 2 == 0 ? "even" : "odd"}));
    }
    DeadFilter even;
    even.code = "even";
    even.max = 2;
    CHECK(f.letters.redrive(even, true).value().count == 2);
    for (const char* expected : {"0", "2"}) {
        Message m = next(c);
        CHECK(text(m.payload()) == expected);
        CHECK(m.ack());
    }
    CHECK(empty(c));
    CHECK(f.queue.stats().dead_open == 4);
    // What is done stays listed, with its state, as long as its space is not needed.
    CHECK(f.list().size() == 6);
    for (const auto& d : f.list()) {
        const bool redriven = text(d.payload) == "0" || text(d.payload) == "2";
        CHECK(d.state == (redriven ? DeadState::redriven : DeadState::open));
    }
    CHECK(f.letters.list({.state = DeadState::redriven}).value().size() == 2);
}

TEST_CASE("a dead letter of a group that is gone is skipped, also by a dry run") {
    Fixture f;
    {
        auto c = f.consumer("gone");
        f.publish();
        CHECK(next(c).reject({.code = "c"}));
    }
    REQUIRE(f.queue.delete_group("gone"));
    const auto tail = f.queue.stats().tail;
    for (const bool execute : {false, true}) {
        const auto r = f.letters.redrive({}, execute);
        REQUIRE(r);
        CHECK(r->count == 0);
        CHECK(r->skipped == 1);
    }
    CHECK(f.queue.stats().tail == tail);
    CHECK(f.queue.stats().dead_open == 1);
    CHECK(f.letters.discard({}, "nobody needs it", true).value().count == 1);
}

TEST_CASE("with one producer a redrive needs the role, and gives it back") {
    Fixture f({.producers = Producers::one});
    auto c = f.consumer("g");
    f.publish("m");
    CHECK(next(c).reject({.code = "c"}));
    const auto refused = f.letters.redrive({}, true);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::role_taken);
    CHECK(f.queue.stats().dead_open == 1);
    { const Producer gone = std::move(f.producer); }
    CHECK(f.letters.redrive({}, true).value().count == 1);
    auto next_producer = f.queue.producer();
    REQUIRE(next_producer);
    CHECK(next_producer->publish(bytes("x")));
    CHECK(text(next(c).payload()) == "m");
}

TEST_CASE("two operators redrive each letter once") {
    Fixture f;
    auto c = f.consumer("g");
    for (int i = 0; i < 20; ++i) {
        f.publish(std::to_string(i));
        CHECK(next(c).reject({.code = "c"}));
    }
    auto other = Queue::open(f.dir.str() + "/q").value();
    auto second = other.dead_letters().value();
    DeadFilter five;
    five.max = 5;
    std::uint64_t done = f.letters.redrive(five, true).value().count;
    done += second.redrive({}, true).value().count;
    done += f.letters.redrive({}, true).value().count;
    CHECK(done == 20);
    std::vector<int> seen(20, 0);
    while (auto m = c.try_receive()) {
        ++seen[static_cast<std::size_t>(std::stoi(text(m->payload())))];
        CHECK(m->ack());
    }
    for (const int n : seen) CHECK(n == 1);
}

// ---- discard -------------------------------------------------------------------------------------------------

TEST_CASE("who closed a dead letter, when and why can be read, also when nothing older is open") {
    Fixture f;
    auto c = f.consumer("g");
    for (const char* code : {"first", "second"}) {
        f.publish(code);
        CHECK(next(c).reject({.code = code}));
    }
    DeadFilter of;
    of.code = "first";
    const auto before = wall_ns();
    CHECK(f.letters.discard(of, "known since Monday", true).value().count == 1);
    of.code = "second";
    CHECK(f.letters.redrive(of, true).value().count == 1);
    CHECK(next(c).ack());
    const auto all = f.list();
    REQUIRE(all.size() == 2);
    for (const auto& d : all) {
        const bool discarded = d.code == "first";
        CHECK(d.state == (discarded ? DeadState::discarded : DeadState::redriven));
        CHECK(d.state_note == (discarded ? "known since Monday" : ""));
        CHECK(d.state_by == "unit_queue_dead_letters_redrive");
        CHECK(d.state_pid == static_cast<std::uint32_t>(getpid()));
        CHECK(d.state_ns >= before);
        CHECK(d.state_ns <= wall_ns());
    }
    CHECK(f.letters.show(all[0].id).value().state_note == "known since Monday");
    // Closed ones take no room: the ring can be filled again to the last slot.
    CHECK(f.queue.stats().dead_used_slots == 0);
}

TEST_CASE("an open dead letter was closed by nobody") {
    Fixture f;
    auto c = f.consumer("g");
    f.publish();
    CHECK(next(c).reject({.code = "c"}));
    const auto d = f.list().at(0);
    CHECK(d.state == DeadState::open);
    CHECK(d.state_by.empty());
    CHECK(d.state_ns == 0);
}

TEST_CASE("a discard needs a reason, and closes what it chose") {
    Fixture f;
    auto c = f.consumer("g");
    for (int i = 0; i < 3; ++i) {
        f.publish(std::to_string(i));
        CHECK(next(c).reject({.code = std::to_string(i)}));
    }
    for (const bool execute : {false, true})
        CHECK(f.letters.discard({}, "", execute).error().code == Errc::invalid_argument);
    DeadFilter one;
    one.code = "1";
    CHECK(f.letters.discard(one, "known", false).value().count == 1);
    CHECK(f.queue.stats().dead_open == 3);
    CHECK(f.letters.discard(one, "known", true).value().count == 1);
    CHECK(f.queue.stats().dead_open == 2);
    CHECK(f.list().at(1).state == DeadState::discarded);
    CHECK(f.letters.discard(one, "known", true).value().count == 0);
    CHECK(f.letters.redrive(one, true).value().count == 0);
    CHECK(f.letters.discard({}, "all", true).value().count == 2);
    CHECK(f.queue.stats().dead_open == 0);
    CHECK(empty(c));
}

TEST_CASE("a dead letter with more headers than a message may have is skipped, not published") {
    Fixture f({.max_record_bytes = small / 8});
    auto c = f.consumer("g");
    // What no publish of this library writes, but its readers take: a record with 60 long headers.
    const auto a = detail::Attachment::open(f.dir.str() + "/q", {}).value();
    const std::string value(200, 'v');
    const std::vector<Header> headers(60, Header{"name", value});
    format::Extensions e;
    e.headers = headers;
    std::vector<std::byte> block(format::extension_bytes(e));
    format::encode_extensions(e, block);
    const auto& v = a->main().view;
    ring::MpmcRing<> ring(v, a->id());
    ring::Claimed place;
    const std::uint64_t k = format::round_up_slots(format::slots_for(block.size(), 1));
    REQUIRE(ring.claim(k, place) == ring::ClaimStatus::ok);
    ring::write_body(v, place.position, block, bytes("x"));
    ring::write_header(v, place.position, {1, place.slots, ring::RecordType::message, format::flag_extensions}, {1, 0},
                       block.size() + 1);
    ring::put_stamp(v, place.position);
    Message m = next(c);
    CHECK(m.header_count() == 60);
    CHECK(m.reject({.code = "c"}));
    const auto done = f.letters.redrive({}, true);
    REQUIRE(done);
    CHECK(done->count == 0);
    CHECK(done->skipped == 1);
    CHECK(f.list().at(0).state == DeadState::open);
}
