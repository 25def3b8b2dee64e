// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Claims, the messages that are written in place: commit, abort, and what one claim means for everybody else.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "unit/queue_publish.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE_TEMPLATE("a claim is written in place and becomes a message at commit", K, KINDS) {
    Line<K> line;
    PublishOptions o;
    o.key = "k";
    o.type = 3;
    for (const bool with_options : {false, true}) {
        auto claim = line.producer.claim(100, with_options ? o : PublishOptions{});
        REQUIRE(claim);
        REQUIRE(claim->payload().size() == 100);
        CHECK(reinterpret_cast<std::uintptr_t>(claim->payload().data()) % 16 == 0);
        CHECK(line.empty());
        std::fill(claim->payload().begin(), claim->payload().end(), std::byte{'c'});
        const auto sent = claim->commit();
        REQUIRE(sent);
        CHECK(claim->payload().empty());
        Message m = line.next();
        CHECK(m.seq() == sent->seq);
        CHECK(text(m.payload()) == std::string(100, 'c'));
        CHECK(m.key() == (with_options ? "k" : ""));
        CHECK(m.ack());
    }
}

TEST_CASE_TEMPLATE("a claim may be committed shorter, down to nothing", K, KINDS) {
    Line<K> line({.checksum = Checksum::xxh3});
    for (const std::size_t used : {100U, 99U, 33U, 32U, 1U, 0U}) {
        auto claim = line.producer.claim(100);
        REQUIRE(claim);
        std::fill(claim->payload().begin(), claim->payload().end(), std::byte{'c'});
        REQUIRE(claim->commit(used));
        Message m = line.next();
        CHECK(text(m.payload()) == std::string(used, 'c'));
        CHECK(m.ack());
    }
    auto nothing = line.producer.claim(0);
    REQUIRE(nothing);
    CHECK(nothing->payload().empty());
    CHECK(nothing->commit());
    CHECK(line.next().payload().empty());
}

TEST_CASE_TEMPLATE("a claim that uses more than it has stays open; a second commit finds nothing", K, KINDS) {
    Line<K> line;
    auto claim = line.producer.claim(10);
    REQUIRE(claim);
    for (const std::size_t used : {std::size_t{11}, SIZE_MAX}) {
        const auto refused = claim->commit(used);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == Errc::invalid_argument);
        CHECK(claim->payload().size() == 10);
    }
    CHECK(claim->commit(10));
    for (const auto& again : {claim->commit(), claim->commit(0)}) {
        REQUIRE_FALSE(again);
        CHECK(again.error().code == Errc::invalid_argument);
    }
    claim->abort();  // nothing left to abort
    CHECK(line.next().payload().size() == 10);
    CHECK(line.empty());
}

TEST_CASE_TEMPLATE("an aborted claim is stepped over and its room comes back", K, KINDS) {
    Line<K> line;
    REQUIRE(line.producer.publish(bytes("before")));
    {
        auto claim = line.producer.claim(1000);
        REQUIRE(claim);
        claim->abort();
        CHECK(claim->payload().empty());
        CHECK_FALSE(claim->commit());
    }
    { auto dropped = line.producer.claim(500); }
    REQUIRE(line.producer.publish(bytes("after")));
    for (const char* expected : {"before", "after"}) {
        Message m = line.next();
        CHECK(text(m.payload()) == expected);
        CHECK(m.ack());
    }
    CHECK(line.empty());
    const auto s = line.queue.stats();
    CHECK(s.voids == 2);
    CHECK(s.groups.at(0).lag == 0);
    CHECK(s.groups.at(0).floor == s.tail);
}

TEST_CASE_TEMPLATE("one open claim per producer: everything else waits for its end", K, KINDS) {
    Line<K> line;
    auto claim = line.producer.claim(8);
    REQUIRE(claim);
    const std::array<Outgoing, 1> batch = {Outgoing{bytes("x"), {}}};
    CHECK(line.producer.claim(8).error().code == Errc::claim_open);
    CHECK(line.producer.publish(bytes("x")).error().code == Errc::claim_open);
    CHECK(line.producer.try_publish(bytes("x")).error().code == Errc::claim_open);
    CHECK(line.producer.publish_batch(batch).error().code == Errc::claim_open);
    CHECK(claim->commit());
    CHECK(line.producer.publish(bytes("x")));
    CHECK(line.producer.claim(8));
}

TEST_CASE_TEMPLATE("a claim moves; what it was moved from is empty", K, KINDS) {
    Line<K> line;
    auto claim = line.producer.claim(4).value();
    Claim second(std::move(claim));
    CHECK(claim.payload().empty());  // NOLINT: the state after a move is part of the contract
    CHECK(claim.commit().error().code == Errc::invalid_argument);
    claim.abort();
    CHECK(second.payload().size() == 4);
    claim = std::move(second);
    CHECK(claim.payload().size() == 4);
    std::fill(claim.payload().begin(), claim.payload().end(), std::byte{'m'});
    CHECK(claim.commit());
    CHECK(text(line.next().payload()) == "mmmm");
}

TEST_CASE("a claim that another one is moved onto is aborted") {
    Line<ManyShared> line;
    auto other = line.queue.producer().value();
    auto first = line.producer.claim(4).value();
    auto second = other.claim(4).value();
    std::fill(second.payload().begin(), second.payload().end(), std::byte{'2'});
    first = std::move(second);
    CHECK(line.producer.publish(bytes("free again")));
    CHECK(first.commit());
    CHECK(text(line.next().payload()) == "2222");
    CHECK(text(line.next().payload()) == "free again");
}

TEST_CASE("consumers wait behind an open claim, then get everything in order") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Line<ManyShared> line;
        auto consumer = line.queue.consumer("other", {.mode = mode, .start = Start::earliest()}).value();
        auto other = line.queue.producer().value();
        auto claim = line.producer.claim(5).value();
        REQUIRE(other.publish(bytes("behind")));
        CHECK(consumer.try_receive().error().code == Errc::empty);
        std::fill(claim.payload().begin(), claim.payload().end(), std::byte{'1'});
        REQUIRE(claim.commit());
        Message first = consumer.try_receive().value();
        Message second = consumer.try_receive().value();
        CHECK(text(first.payload()) == "11111");
        CHECK(text(second.payload()) == "behind");
    }
}

TEST_CASE_TEMPLATE("a claim outlives its producer and its queue without harm", K, KINDS) {
    Line<K> line;
    auto queue = Queue::open(line.dir.str() + "/q").value();
    std::optional<Producer> producer;
    if (K::producers == Producers::many) {
        producer = queue.producer().value();
    } else {
        producer = std::move(line.producer);
    }
    std::optional<Claim> claim = producer->claim(8).value();
    producer.reset();
    { const Queue gone = std::move(queue); }
    std::fill(claim->payload().begin(), claim->payload().end(), std::byte{'z'});
    SUBCASE("committed") {
        const auto sent = claim->commit();
        // Whether the end of its producer has aborted it or not: what commit says is what the consumer sees.
        if (sent) {
            CHECK(text(line.next().payload()) == "zzzzzzzz");
        } else {
            CHECK(line.empty());
        }
    }
    SUBCASE("dropped") {
        claim.reset();
        CHECK(line.empty());
    }
    claim.reset();
    if (K::producers == Producers::one) line.producer = line.queue.producer().value();
    CHECK(line.producer.publish(bytes("next")));
}
