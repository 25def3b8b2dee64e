// SPDX-License-Identifier: MIT
// Dead letters: the whole story of a message that failed, what a full dead ring means, redrive and discard.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/checksum.hpp"
#include "rondo/rondo.hpp"
#include "support/eventually.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace std::chrono_literals;
using test::eventually;
using test::TmpDir;

namespace {

constexpr std::uint64_t small = 256 << 10;
constexpr Duration long_wait = 20s;  // bounds a failing test only

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

std::uint64_t wall_ns() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
}
constexpr std::uint64_t grain = 30'000'000;  // of coarse clocks and 4 ms units, generously

struct Fixture {
    TmpDir dir;
    Queue queue;
    Producer producer;
    DeadLetters letters;

    explicit Fixture(QueueOptions o = {})
        : queue(make(dir, o)), producer(queue.producer({.name = "gateway"}).value()),
          letters(queue.dead_letters().value()) {}
    static Queue make(const TmpDir& dir, QueueOptions o) {
        o.capacity_bytes = small;
        return Queue::create(dir.str() + "/q", o).value();
    }
    static GroupOptions options(GroupMode mode = GroupMode::shared) {
        GroupOptions o{.mode = mode, .start = Start::earliest()};
        o.backoff_initial = 0ns;
        return o;
    }
    Consumer consumer(std::string_view group, const GroupOptions& o = options(), std::string_view name = "consumer") {
        return queue.consumer(group, o, ConsumerOptions{name}).value();
    }
    Seq publish(std::string_view payload = "x", const PublishOptions& o = {}) {
        return producer.publish(bytes(payload), o).value().seq;
    }
    const GroupStats stats(std::string_view name) const {
        for (auto& g : queue.stats().groups)
            if (g.name == name) return g;
        return {};
    }
    std::vector<DeadLetter> list(const DeadFilter& filter = {}) const { return letters.list(filter).value(); }
    std::string files() const {
        std::string all;
        for (const char* name : {"lane-00.ring", "dead.ring", "retry.ring", "lease-dead.tab", "lease-0-1.tab"}) {
            std::ifstream in(dir.str() + "/q/" + name, std::ios::binary);
            all.append(std::istreambuf_iterator<char>(in), {});
        }
        return all;
    }
};

bool empty(Consumer& c) {
    const auto m = c.try_receive();
    return !m && m.error().code == Errc::empty;
}
Message next(Consumer& c) { return c.receive(long_wait).value(); }

std::string limited(std::size_t n, char c = 'x') { return std::string(n, c); }

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
        const std::array<Header, 3> headers = {Header{"trace", "t"}, {"empty", ""}, {"trace", std::string_view("z\0", 2)}};
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
        CHECK(last->nack({.code = "code", .type = "std::runtime_error", .stage = "handle", .message = "for people",
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
            CHECK(next(c).nack({.code = code, .type = type, .stage = stage, .message = message, .detail = detail}, 0ns));
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
    // What is done stays listed, with its state, as long as something older is open.
    for (const auto& d : f.list()) {
        const bool redriven = text(d.payload) == "2";
        CHECK(d.state == (redriven ? DeadState::redriven : DeadState::open));
    }
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

// ---- a full dead ring ----------------------------------------------------------------------------------------

namespace {

const std::string heavy = limited(4000, 'h');

/// Rejects messages until dead.ring has no room. Returns how many letters it holds.
std::size_t fill_dead_ring(Fixture& f, Consumer& c) {
    std::size_t n = 0;
    while (f.stats("g").dead_pending == 0) {
        f.publish(heavy);
        CHECK(next(c).reject({.code = "full", .detail = heavy}));
        ++n;
    }
    return n - 1;
}

}  // namespace

TEST_CASE("with a full dead ring a shared group keeps the message, serves the others, and drains once there is room") {
    Fixture f;
    auto c = f.consumer("g");
    auto other = f.consumer("other");
    const std::size_t dead = fill_dead_ring(f, c);
    CHECK(dead > 10);
    CHECK(f.list().size() == dead);
    CHECK(f.stats("g").lag == 1);
    CHECK(f.stats("g").dead_lettered == dead);
    for (int i = 0; i < 3; ++i) {
        f.publish(std::to_string(i));
        Message m = next(c);
        CHECK(text(m.payload()) == std::to_string(i));
        CHECK(m.ack());
    }
    while (auto m = other.try_receive()) CHECK(m->ack());
    CHECK(f.stats("g").dead_pending == 1);
    CHECK(f.queue.explain({Errc::timeout, 0, ""}).find("finds no room among the dead letters") != std::string::npos);

    DeadFilter oldest;
    oldest.max = 2;
    CHECK(f.letters.discard(oldest, "make room", true).value().count == 2);
    eventually([&] { return empty(c) && f.stats("g").dead_pending == 0; });
    CHECK(f.stats("g").lag == 0);
    const auto all = f.list();
    REQUIRE(!all.empty());
    CHECK((text(all.back().payload) == heavy));
    CHECK(all.back().code == "full");
    CHECK(all.back().reason == DeadReason::rejected);
    CHECK(all.back().delivery_count == 1);
    CHECK(all.back().attempts.size() == 1);
    CHECK(all.back().texts_cut);  // its detail did not wait for the room
    CHECK(f.stats("g").dead_lettered == dead + 1);
    CHECK(f.queue.stats().dead_open == dead - 1);
}

TEST_CASE("with a full dead ring an exclusive group waits at the message, and goes on once there is room") {
    Fixture f;
    auto c = f.consumer("g", Fixture::options(GroupMode::exclusive));
    auto other = f.consumer("other");
    const std::size_t dead = fill_dead_ring(f, c);
    f.publish("behind");
    CHECK(empty(c));
    CHECK(c.receive(1ms).error().code == Errc::timeout);
    CHECK(f.stats("g").dead_pending == 1);
    CHECK(f.stats("g").ready == 1);
    int unrelated = 0;
    while (auto m = other.try_receive()) {
        CHECK(m->ack());
        ++unrelated;
    }
    CHECK(unrelated == static_cast<int>(dead) + 2);
    DeadFilter oldest;
    oldest.max = 2;
    CHECK(f.letters.discard(oldest, "make room", true).value().count == 2);
    Message m = next(c);
    CHECK(text(m.payload()) == "behind");
    CHECK(m.ack());
    CHECK(f.stats("g").lag == 0);
    const auto all = f.list();
    CHECK((text(all.back().payload) == heavy));
    CHECK(all.back().code == "full");
    CHECK(all.back().reason == DeadReason::rejected);
    CHECK(all.back().delivery_count == 1);
}

TEST_CASE("no more than max_dead_pending messages wait for a full dead ring: then the group stops") {
    Fixture f;
    auto o = Fixture::options();
    o.max_dead_pending = 3;
    auto c = f.consumer("g", o);
    const std::size_t dead = fill_dead_ring(f, c);
    for (int i = 0; i < 6; ++i) f.publish(heavy);
    for (int i = 0; i < 2; ++i) CHECK(c.try_receive().value().reject({.code = "more"}));
    CHECK(f.stats("g").dead_pending == 3);
    CHECK(empty(c));
    CHECK(c.receive(60ms).error().code == Errc::timeout);
    CHECK(f.stats("g").ready == 4);
    CHECK(f.letters.discard({}, "make room", true).value().count == dead);
    for (int i = 0; i < 4; ++i) CHECK(next(c).ack());
    CHECK(f.stats("g").dead_pending == 0);
    CHECK(f.list().size() >= 3);
}

TEST_CASE("a full dead ring takes again all that a discard of everything frees, lap after lap") {
    Fixture f;
    auto c = f.consumer("g");
    std::size_t total = 0;
    for (int lap = 0; lap < 5; ++lap) {
        const std::size_t n = fill_dead_ring(f, c);
        CHECK(n > 10);
        total += n;
        CHECK(f.letters.discard({}, "lap", true).value().count >= n);
        eventually([&] { return empty(c) && f.stats("g").lag == 0; });
    }
    CHECK(f.stats("g").dead_lettered == total + 5);
    CHECK(f.stats("g").rejected == total + 5);
}

// ---- damaged messages ----------------------------------------------------------------------------------------

TEST_CASE("a message whose bytes do not match its checksum is told once, dead with that reason, and stepped over") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f({.checksum = Checksum::xxh3});
        auto c = f.consumer("g", Fixture::options(mode));
        const std::string marked = "DAMAGE-ME-" + limited(100, 'd');
        f.publish(marked);
        f.publish("sound");
        {
            std::fstream file(f.dir.str() + "/q/lane-00.ring", std::ios::binary | std::ios::in | std::ios::out);
            const std::string all((std::istreambuf_iterator<char>(file)), {});
            const auto at = all.find(marked);
            REQUIRE(at != std::string::npos);
            file.seekp(static_cast<std::streamoff>(at));
            file.write("BROKEN", 6);
        }
        const auto told = c.try_receive();
        REQUIRE_FALSE(told);
        CHECK(told.error().code == Errc::corrupt);
        REQUIRE(c.last_gap());
        CHECK(c.last_gap()->first == 0);
        CHECK(c.last_gap()->total == 1);
        Message m = next(c);
        CHECK(text(m.payload()) == "sound");
        CHECK(m.ack());
        CHECK(f.queue.stats().corrupt == 1);
        CHECK(f.stats("g").lag == 0);
        const auto all = f.list();
        REQUIRE(all.size() == 1);
        CHECK(all[0].reason == DeadReason::corrupt);
        CHECK(all[0].payload_damaged);
        CHECK(text(all[0].payload).starts_with("BROKEN"));
        CHECK(f.letters.redrive({}, true).value().skipped == 1);
    }
}
