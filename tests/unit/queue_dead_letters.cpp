// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The story that a dead letter tells of its message and of each attempt, how letters are chosen, and that looking at
// them changes nothing.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/checksum.hpp"
#include "unit/queue_dead_letters.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::uint64_t grain = 30'000'000;  // of coarse clocks and 4 ms units, generously

}  // namespace

// ---- the story -----------------------------------------------------------------------------------------------

TEST_CASE("a dead letter tells everything: the message, who failed it, when, how often and why") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f({.timestamps = Timestamps::exact});
        auto o = Fixture::options(mode);
        o.max_deliveries = 3;
        auto a = f.consumer("billing", o, "worker-a");
        const std::string payload("bytes \0 and more", 16);
        const std::array<std::uint8_t, 16> id = {1, 2, 3, 0, 0, 6};
        const std::array<Header, 3> headers = {
            Header{"trace", "t"}, {"empty", ""}, {"trace", std::string_view("z\0", 2)}};
        PublishOptions p;
        p.key = "order-7";
        p.type = 99;
        p.message_id = id;
        p.headers = headers;
        f.publish("before");
        CHECK(next(a).ack());
        const std::uint64_t published_ns = wall_ns();
        const Seq seq = f.publish(payload, p);
        const std::uint64_t start_ns = wall_ns();
        CHECK(next(a).nack({.code = "first", .message = "try again"}, 2ms));
        CHECK(next(a).release());
        CHECK(next(a).nack({.code = "second"}, 0ns));
        std::optional<Message> last = next(a);
        CHECK(last->nack({.code = "code",
                          .type = "std::runtime_error",
                          .stage = "handle",
                          .message = "for people",
                          .detail = "line 1\nline 2"}));
        const std::uint64_t end_ns = wall_ns();

        const auto all = f.list();
        REQUIRE(all.size() == 1);
        const DeadLetter& d = all[0];
        CHECK(d.state == DeadState::open);
        CHECK(d.epoch == 0);
        CHECK(d.original_seq == seq);
        CHECK(d.lane == 0);
        CHECK(d.ring_uuid != format::Uuid{});
        CHECK(d.group == "billing");
        CHECK(d.key == "order-7");
        CHECK(d.type == 99);
        CHECK(d.message_id == id);
        REQUIRE(d.headers.size() == 3);
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(d.headers[i].first == headers[i].name);
            CHECK(d.headers[i].second == headers[i].value);
        }
        CHECK(text(d.payload) == payload);
        CHECK(d.payload_checksum == base::checksum32(bytes(payload), 0));
        CHECK_FALSE(d.payload_damaged);
        CHECK(d.accepted_ns >= published_ns);
        CHECK(d.accepted_ns <= start_ns);
        CHECK(d.first_delivered_ns + grain >= start_ns);
        CHECK(d.last_delivered_ns >= d.first_delivered_ns);
        CHECK(d.last_delivered_ns <= end_ns);
        CHECK(d.dead_ns + grain >= start_ns);
        CHECK(d.dead_ns <= end_ns);
        CHECK(d.reason == DeadReason::max_deliveries);
        CHECK(d.code == "code");
        CHECK(d.error_type == "std::runtime_error");
        CHECK(d.stage == "handle");
        CHECK(d.message == "for people");
        CHECK(d.detail == "line 1\nline 2");
        CHECK_FALSE(d.texts_cut);
        CHECK(d.delivery_count == 3);
        CHECK(d.release_count == 1);
        CHECK(d.max_deliveries == 3);
        REQUIRE(d.attempts.size() == 3);
        for (std::uint32_t i = 0; i < 3; ++i) {
            const auto& attempt = d.attempts[i];
            CHECK(attempt.number == i + 1);
            CHECK(attempt.outcome == format::Outcome::nacked);
            CHECK(attempt.pid == static_cast<std::uint32_t>(getpid()));
            CHECK(std::string(attempt.consumer.data()) == "worker-a");
            CHECK(attempt.started_ns + grain >= start_ns);
            CHECK(attempt.ended_ns + grain >= attempt.started_ns);
            CHECK(attempt.ended_ns <= end_ns);
        }
        CHECK(std::string(d.attempts[0].error_code.data()) == "first");
        CHECK(std::string(d.attempts[1].error_code.data()) == "second");
        CHECK(std::string(d.attempts[2].error_code.data()) == "code");
        CHECK(d.attempts[0].delay_ns == 2'000'000);
        CHECK(d.attempts[1].delay_ns == 0);
        CHECK(d.consumer == "worker-a");
        CHECK(d.consumer_pid == static_cast<std::uint32_t>(getpid()));
        CHECK(d.program == "unit_queue_dead_letters");
        CHECK(d.producer == "gateway");
        CHECK(d.redrive_count == 0);
        CHECK(d.first_reason == "max_deliveries");
        CHECK(d.first_dead_ns == d.dead_ns);
        CHECK(d.fingerprint != 0);
        CHECK(d.bytes >= payload.size());

        const auto shown = f.letters.show(d.id);
        REQUIRE(shown);
        CHECK(shown->original_seq == seq);
        CHECK(text(shown->payload) == payload);
        CHECK(f.letters.show(d.id + 1).error().code == Errc::not_found);
    }
}

TEST_CASE("a message without options dies without them, and an empty one stays empty") {
    Fixture f({.timestamps = Timestamps::off});
    auto c = f.consumer("g");
    REQUIRE(f.producer.publish({}));
    CHECK(next(c).reject({}));
    const auto all = f.list();
    REQUIRE(all.size() == 1);
    CHECK(all[0].payload.empty());
    CHECK(all[0].headers.empty());
    CHECK(all[0].key.empty());
    CHECK_FALSE(all[0].type);
    CHECK_FALSE(all[0].message_id);
    CHECK(all[0].accepted_ns == 0);
    CHECK(all[0].code.empty());
    CHECK(all[0].reason == DeadReason::rejected);
}

TEST_CASE("the largest message dies whole, with the longest story") {
    for (const std::uint64_t max_record : {std::uint64_t{0}, small / 8}) {
        CAPTURE(max_record);
        Fixture f({.max_record_bytes = max_record});
        auto o = Fixture::options();
        o.max_deliveries = 9;
        auto c = f.consumer(limited(63, 'g'), o, limited(63, 'c'));
        const std::string payload = limited(f.producer.max_payload_bytes(), 'p');
        f.publish(payload);
        const std::string code = limited(64), type = limited(128), stage = limited(32), message = limited(1024),
                          detail = limited(4096);
        for (int i = 0; i < 9; ++i)
            CHECK(
                next(c).nack({.code = code, .type = type, .stage = stage, .message = message, .detail = detail}, 0ns));
        const auto all = f.list();
        REQUIRE(all.size() == 1);
        CHECK((text(all[0].payload) == payload));
        CHECK(all[0].code == code);
        CHECK(all[0].error_type == type);
        CHECK(all[0].stage == stage);
        CHECK(all[0].message == message);
        CHECK((all[0].detail == detail));
        CHECK_FALSE(all[0].texts_cut);
        CHECK(all[0].group == limited(63, 'g'));
        CHECK(all[0].consumer == limited(63, 'c'));
        REQUIRE(all[0].attempts.size() == 8);  // the last eight
        CHECK(all[0].attempts.front().number == 2);
        CHECK(all[0].attempts.back().number == 9);
    }
}

TEST_CASE("texts that are too long are cut at a character's border, and flagged") {
    Fixture f;
    auto c = f.consumer("g");
    f.publish();
    std::string code = limited(63, 'a') + "\xc3\xa4";  // the last character does not fit whole
    const std::string detail = limited(5000, 'd');
    CHECK(next(c).reject({.code = code, .message = "short", .detail = detail}));
    const auto all = f.list();
    REQUIRE(all.size() == 1);
    CHECK(all[0].code == limited(63, 'a'));
    CHECK(all[0].message == "short");
    CHECK((all[0].detail == limited(4096, 'd')));
    CHECK(all[0].texts_cut);
}

TEST_CASE("an outcome's reason is copied: the caller's memory may go at once") {
    Fixture f;
    auto c = f.consumer("g");
    f.publish();
    Message m = next(c);
    {
        const std::string transient = "transient " + limited(100, 't');
        CHECK(m.reject({.message = transient}));
    }
    CHECK(f.list().at(0).message == "transient " + limited(100, 't'));
}

TEST_CASE("same cause, same fingerprint: numbers in the text do not matter, the code does") {
    Fixture f;
    auto c = f.consumer("g");
    const char* messages[] = {"order 17 failed", "order 4711 failed", "order 17 failed", "other"};
    const char* codes[] = {"a", "a", "b", "a"};
    for (int i = 0; i < 4; ++i) {
        f.publish();
        CHECK(next(c).reject({.code = codes[i], .message = messages[i]}));
    }
    const auto all = f.list();
    REQUIRE(all.size() == 4);
    CHECK(all[0].fingerprint == all[1].fingerprint);
    CHECK(all[0].fingerprint != all[2].fingerprint);
    CHECK(all[0].fingerprint != all[3].fingerprint);
}

TEST_CASE("the dead keep their story while the ring goes round") {
    Fixture f;
    auto c = f.consumer("g");
    std::vector<std::string> payloads;
    for (int i = 0; i < 100; ++i) {
        payloads.push_back(limited(static_cast<std::size_t>(i) * 3, static_cast<char>('a' + i % 26)));
        PublishOptions o;
        const std::string key = std::to_string(i);
        o.key = key;
        f.publish(payloads.back(), o);
        CHECK(next(c).reject({.code = "c"}));
    }
    for (int lap = 0; lap < 5; ++lap) {
        while (f.producer.try_publish(bytes(limited(1000)))) {
        }
        while (auto m = c.try_receive()) CHECK(m->ack());
    }
    const auto again = Queue::open(f.dir.str() + "/q").value().dead_letters().value().list().value();
    REQUIRE(again.size() == 100);
    for (std::size_t i = 0; i < 100; ++i) {
        CHECK(text(again[i].payload) == payloads[i]);
        CHECK(again[i].key == std::to_string(i));
        CHECK(again[i].attempts.size() == 1);
        CHECK(again[i].first_delivered_ns != 0);
    }
}

TEST_CASE("a hundred deaths behind one message in hand lose none of their story") {
    Fixture f;
    auto c = f.consumer("g");
    f.publish("in hand");
    Message held = next(c);
    for (int i = 0; i < 100; ++i) {
        f.publish();
        CHECK(next(c).reject({.code = "c"}));
    }
    const auto all = f.list();
    REQUIRE(all.size() == 100);
    for (const auto& d : all) {
        CHECK(d.attempts.size() == 1);
        CHECK(d.first_delivered_ns != 0);
    }
    CHECK(held.ack());
}

TEST_CASE("an attempt nobody noted leaves no other message's attempt in its place") {
    Fixture f;
    const auto o = Fixture::options(GroupMode::exclusive);
    {
        auto a = f.consumer("g", o);
        f.publish("first");
        CHECK(next(a).nack({.code = "old"}, 0ns));
        CHECK(next(a).reject({.code = "old"}));
        f.publish("second");
        Message m = next(a);
        CHECK(m.payload().size() == 6);
        // Its owner goes without an outcome.
        std::optional<Message> held = std::move(m);
        { const Consumer gone = std::move(a); }
    }
    auto b = f.consumer("g", o);
    Message m = next(b);
    CHECK(m.delivery_count() == 2);
    CHECK(m.reject({.code = "new"}));
    const auto all = f.list();
    REQUIRE(all.size() == 2);
    CHECK(all[1].delivery_count == 2);
    REQUIRE(!all[1].attempts.empty());
    for (const auto& attempt : all[1].attempts) CHECK(std::string(attempt.error_code.data()) != "old");
    CHECK(all[1].attempts.back().number == 2);
    CHECK(std::string(all[1].attempts.back().error_code.data()) == "new");
}

TEST_CASE("a lapsed attempt names the consumer that let it lapse") {
    Fixture f;
    auto o = Fixture::options();
    o.lease_timeout = 10ms;
    o.max_deliveries = 2;
    auto a = f.consumer("g", o, "first");
    auto b = f.consumer("g", o, "second");
    f.publish();
    Message held = next(b);
    CHECK(next(a).reject({.code = "c"}));
    const auto all = f.list();
    REQUIRE(all.size() == 1);
    REQUIRE(all[0].attempts.size() == 2);
    CHECK(all[0].attempts[0].outcome == format::Outcome::lease_expired);
    CHECK(std::string(all[0].attempts[0].consumer.data()) == "second");
    CHECK(std::string(all[0].attempts[1].consumer.data()) == "first");
}

// ---- looking -------------------------------------------------------------------------------------------------

TEST_CASE("filters pick by group, id, reason, code, key, fingerprint and number") {
    Fixture f;
    auto a = f.consumer("a"), b = f.consumer("b");
    for (int i = 0; i < 4; ++i) {
        PublishOptions o;
        o.key = i % 2 == 0 ? "even" : "odd";
        f.publish(std::to_string(i), o);
        CHECK(next(a).reject({.code = i < 2 ? "low" : "high"}));
        if (i == 3) {
            for (int n = 0; n < 4; ++n) {
                Message m = next(b);
                const auto done = n == 3 ? m.reject({.code = "low"}) : m.ack();
                CHECK(done);
            }
        }
    }
    const auto all = f.list();
    REQUIRE(all.size() == 5);
    const auto count = [&](auto&& set) {
        DeadFilter filter;
        set(filter);
        return f.list(filter).size();
    };
    CHECK(count([](auto& x) { x.group = "a"; }) == 4);
    CHECK(count([](auto& x) { x.group = "b"; }) == 1);
    CHECK(count([](auto& x) { x.group = "c"; }) == 0);
    CHECK(count([](auto& x) { x.code = "low"; }) == 3);
    CHECK(count([](auto& x) { x.code = "low", x.group = "b"; }) == 1);
    CHECK(count([](auto& x) { x.key = "odd"; }) == 3);
    CHECK(count([](auto& x) { x.reason = "rejected"; }) == 5);
    CHECK(count([](auto& x) { x.reason = "max_deliveries"; }) == 0);
    CHECK(count([&](auto& x) { x.id = all[2].id; }) == 1);
    CHECK(count([&](auto& x) { x.fingerprint = all[0].fingerprint; }) == 3);
    CHECK(count([](auto& x) { x.max = 2; }) == 2);
    CHECK(count([](auto& x) { x.max = 0; }) == 0);
}

TEST_CASE("looking at dead letters changes no byte") {
    Fixture f;
    auto c = f.consumer("g");
    for (int i = 0; i < 3; ++i) {
        f.publish();
        CHECK(next(c).reject({.code = "c"}));
    }
    const std::string before = f.files();
    const auto all = f.list();
    REQUIRE(all.size() == 3);
    CHECK(f.letters.show(all[1].id));
    CHECK(f.letters.redrive({}, false));
    CHECK(f.letters.discard({}, "r", false));
    CHECK((f.files() == before));
}
