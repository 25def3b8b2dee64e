// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Publish, receive, ack: what goes in comes out, alone and in batches, whatever the producers and the group are.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unit/queue_publish.hpp"

using namespace rondo;
using namespace rondo::test;

// ---- round trips ---------------------------------------------------------------------------------------------

TEST_CASE_TEMPLATE("a message arrives with everything that was given to it", K, KINDS) {
    Line<K> line;
    const std::array<std::uint8_t, 16> id = {0, 1, 2, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
    const std::array<Header, 3> headers = {Header{"trace", "abc"}, {"empty", ""}, {"trace", "second"}};
    PublishOptions o;
    o.key = "order-7";
    o.type = 42;
    o.message_id = id;
    o.headers = headers;
    const auto sent = line.producer.publish(bytes("payload"), o);
    REQUIRE(sent);
    CHECK_FALSE(sent->duplicate);

    Message m = line.next();
    CHECK(m.seq() == sent->seq);
    CHECK(m.epoch() == sent->epoch);
    CHECK(text(m.payload()) == "payload");
    CHECK(m.key() == "order-7");
    CHECK(m.type() == 42);
    CHECK(m.message_id() == id);
    REQUIRE(m.header_count() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(m.header(i).name == headers[i].name);
        CHECK(m.header(i).value == headers[i].value);
    }
    CHECK(m.header("trace") == "abc");
    CHECK(m.header("empty") == "");
    CHECK_FALSE(m.header("absent"));
    CHECK(m.header(3).name.empty());
    CHECK(m.delivery_count() == 1);
    CHECK(m.redrive_count() == 0);
    CHECK(m.ack());
    CHECK(line.empty());
}

TEST_CASE_TEMPLATE("a message without options carries none", K, KINDS) {
    Line<K> line;
    REQUIRE(line.producer.publish(bytes("x")));
    Message m = line.next();
    CHECK(m.key().empty());
    CHECK_FALSE(m.type());
    CHECK_FALSE(m.message_id());
    CHECK(m.header_count() == 0);
    CHECK_FALSE(m.header("x"));
    CHECK(m.header(0).name.empty());
}

TEST_CASE_TEMPLATE("empty messages, and zeros wherever bytes may stand, arrive", K, KINDS) {
    Line<K> line;
    const std::string zeros(100, '\0');
    const std::array<Header, 1> headers = {Header{"h", std::string_view(zeros).substr(0, 3)}};
    PublishOptions o;
    o.key = std::string_view(zeros).substr(0, 5);
    o.type = 0;
    o.message_id = std::array<std::uint8_t, 16>{};
    o.headers = headers;
    REQUIRE(line.producer.publish({}));
    REQUIRE(line.producer.publish({}, o));
    REQUIRE(line.producer.publish(bytes(zeros), o));

    Message first = line.next();
    CHECK(first.payload().empty());
    Message empty = line.next();
    CHECK(empty.payload().empty());
    Message full = line.next();
    CHECK(text(full.payload()) == zeros);
    for (const Message* m : {&empty, &full}) {
        CHECK(m->key() == o.key);
        CHECK(m->type() == 0);
        CHECK(m->message_id() == std::array<std::uint8_t, 16>{});
        CHECK(m->header("h") == headers[0].value);
    }
}

TEST_CASE_TEMPLATE("each payload size from nothing to several slots arrives whole", K, KINDS) {
    Line<K> line;
    for (std::size_t n = 0; n <= 300; ++n) {
        std::string payload(n, '\0');
        for (std::size_t i = 0; i < n; ++i) payload[i] = static_cast<char>(i * 7 + n);
        PublishOptions o;
        if (n % 3 == 1) o.key = "key";
        REQUIRE(line.producer.publish(bytes(payload), o));
        Message m = line.next();
        REQUIRE(text(m.payload()) == payload);
        REQUIRE(m.key() == o.key);
        REQUIRE(m.ack());
    }
}

TEST_CASE_TEMPLATE("messages come in the order in which they were published", K, KINDS) {
    Line<K> line;
    for (int i = 0; i < 100; ++i) REQUIRE(line.producer.publish(bytes(std::to_string(i))));
    Seq last = 0;
    for (int i = 0; i < 100; ++i) {
        Message m = line.next();
        REQUIRE(text(m.payload()) == std::to_string(i));
        CHECK((i == 0 || m.seq() > last));
        last = m.seq();
        REQUIRE(m.ack());
    }
}

TEST_CASE("32 headers of 4 KiB in all arrive, beside the longest key") {
    Line<ManyShared> line({.max_record_bytes = small / 8});
    std::vector<std::string> values;
    std::vector<Header> headers;
    for (int i = 0; i < 32; ++i) values.push_back(std::string(126, static_cast<char>('a' + i % 26)));
    std::vector<std::string> names;
    for (int i = 0; i < 32; ++i) names.push_back(std::string(1, 'n') + static_cast<char>('0' + i % 10));
    for (std::size_t i = 0; i < 32; ++i) headers.push_back({names[i], values[i]});
    const std::string key(255, 'k');
    PublishOptions o;
    o.key = key;
    o.headers = headers;
    REQUIRE(line.producer.publish(bytes("p"), o));
    Message m = line.next();
    CHECK(m.key() == key);
    REQUIRE(m.header_count() == 32);
    for (std::size_t i = 0; i < 32; ++i) {
        CHECK(m.header(i).name == names[i]);
        CHECK(m.header(i).value == values[i]);
    }
    CHECK(text(m.payload()) == "p");
}

TEST_CASE("timestamps: none, coarse or exact") {
    const auto wall = [] {
        return static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
                .count());
    };
    constexpr std::uint64_t grain = 20'000'000;  // a unit of 4 ms, and a coarse clock behind it
    for (const auto timestamps : {Timestamps::off, Timestamps::coarse, Timestamps::exact}) {
        CAPTURE(static_cast<int>(timestamps));
        Line<ManyShared> line({.timestamps = timestamps});
        const std::uint64_t before = wall();
        REQUIRE(line.producer.publish(bytes("x")));
        const std::uint64_t after = wall();
        Message m = line.next();
        REQUIRE(m.accepted_at_ns().has_value() == (timestamps != Timestamps::off));
        if (timestamps == Timestamps::off) continue;
        const std::uint64_t slack = timestamps == Timestamps::exact ? 0 : grain;
        CHECK(*m.accepted_at_ns() + slack >= before);
        CHECK(*m.accepted_at_ns() <= after + slack);
    }
}

// ---- batches -------------------------------------------------------------------------------------------------

TEST_CASE_TEMPLATE("a batch arrives whole and in order, each message with its own options", K, KINDS) {
    Line<K> line;
    REQUIRE(line.producer.publish(bytes("before")));
    std::vector<std::string> payloads;
    std::vector<Outgoing> batch;
    for (std::size_t i = 0; i < 20; ++i) payloads.push_back(std::string(i * 13, static_cast<char>('a' + i)));
    for (std::size_t i = 0; i < 20; ++i) {
        Outgoing o{bytes(payloads[i]), {}};
        if (i % 2 == 1) o.options.type = i;
        batch.push_back(o);
    }
    const auto sent = line.producer.publish_batch(batch);
    REQUIRE(sent);
    REQUIRE(line.producer.publish(bytes("after")));
    CHECK(line.next().ack());
    for (std::size_t i = 0; i < 20; ++i) {
        Message m = line.next();
        if (i == 0) CHECK(m.seq() == sent->seq);
        CHECK(text(m.payload()) == payloads[i]);
        CHECK(m.type().has_value() == (i % 2 == 1));
        CHECK(m.ack());
    }
    CHECK(text(line.next().payload()) == "after");
}

TEST_CASE_TEMPLATE("a batch is published as a whole or not at all", K, KINDS) {
    Line<K> line;
    const std::string key(256, 'k');
    const std::string larger(line.producer.max_payload_bytes() + 1, 'x');
    PublishOptions bad;
    bad.key = key;
    const auto tail = line.queue.stats().tail;
    const std::array<Outgoing, 2> bad_option = {Outgoing{bytes("a"), {}}, Outgoing{bytes("b"), bad}};
    const std::array<Outgoing, 2> bad_size = {Outgoing{bytes("a"), {}}, Outgoing{bytes(larger), {}}};
    CHECK(line.producer.publish_batch({}).error().code == Errc::invalid_argument);
    CHECK(line.producer.publish_batch(bad_option).error().code == Errc::invalid_argument);
    CHECK(line.producer.publish_batch(bad_size).error().code == Errc::too_large);
    CHECK(line.queue.stats().tail == tail);
    CHECK(line.empty());
}

TEST_CASE_TEMPLATE("a batch takes up to an eighth of the ring", K, KINDS) {
    Line<K> line;
    const std::uint64_t eighth = line.queue.stats().capacity_slots / 8;
    const std::vector<Outgoing> most(eighth, Outgoing{bytes("one slot"), {}});
    const std::vector<Outgoing> more(eighth + 1, Outgoing{bytes("one slot"), {}});
    const auto refused = line.producer.publish_batch(more);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::too_large);
    CHECK(line.empty());
    REQUIRE(line.producer.publish_batch(most));
    for (std::uint64_t i = 0; i < eighth; ++i) REQUIRE(line.next().ack());
    CHECK(line.empty());
    CHECK(line.queue.stats().tail == eighth);
}

TEST_CASE_TEMPLATE("a large batch may round up: what is left over is stepped over", K, KINDS) {
    Line<K> line({.capacity_bytes = 1 << 20});
    // 1025 slots are claimed as 1026.
    const std::vector<Outgoing> batch(1025, Outgoing{bytes("one slot"), {}});
    REQUIRE(line.producer.publish_batch(batch));
    REQUIRE(line.producer.publish(bytes("behind")));
    for (std::size_t i = 0; i < batch.size(); ++i) REQUIRE(line.next().ack());
    Message m = line.next();
    CHECK(text(m.payload()) == "behind");
    CHECK(m.seq() == 1026);
}
