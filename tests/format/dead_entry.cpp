// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A dead letter comes back as it was put in, or not at all.
#include "format/dead_entry.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "samples.hpp"
#include "support/seed.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::ByteVector;

namespace {

DeadLetter decoded(const ByteVector& bytes) {
    auto got = decode_dead_entry(bytes);
    INFO("what: ", got ? "" : got.error().what);
    REQUIRE(got.has_value());
    return *std::move(got);
}

}  // namespace

TEST_CASE("every field of a dead entry comes back as it went in") {
    const DeadEntry e = test::full_dead_entry();
    const Extensions x = test::full_extensions();
    const ByteVector bytes = test::encoded(e);
    REQUIRE(bytes.size() == dead_entry_bytes(e));
    const DeadLetter d = decoded(bytes);
    CHECK(d.ring_uuid == e.ring_uuid);
    CHECK(d.epoch == e.epoch);
    CHECK(d.seq == e.seq);
    CHECK(d.original_seq == x.original_seq);
    CHECK(d.lane == e.lane);
    CHECK(d.group == e.group_name);
    CHECK(d.key == x.key);
    CHECK(d.type == x.type);
    CHECK(d.message_id == x.message_id);
    REQUIRE(d.headers.size() == x.headers.size());
    for (std::size_t i = 0; i < d.headers.size(); ++i) {
        CHECK(d.headers[i].first == x.headers[i].name);
        CHECK(d.headers[i].second == x.headers[i].value);
    }
    CHECK(std::equal(d.payload.begin(), d.payload.end(), e.payload.begin(), e.payload.end()));
    CHECK(d.payload_checksum == base::checksum32(e.payload, 0));
    CHECK_FALSE(d.payload_damaged);
    CHECK(d.accepted_ns == e.accepted_ns);
    CHECK(d.first_delivered_ns == e.first_delivered_ns);
    CHECK(d.last_delivered_ns == e.last_delivered_ns);
    CHECK(d.dead_ns == e.dead_ns);
    CHECK(d.reason == e.reason);
    CHECK(d.code == e.code);
    CHECK(d.error_type == e.type);
    CHECK(d.stage == e.stage);
    CHECK(d.message == e.message);
    CHECK(d.detail == e.detail);
    CHECK_FALSE(d.texts_cut);
    CHECK(d.delivery_count == e.delivery_count);
    CHECK(d.release_count == e.release_count);
    CHECK(d.max_deliveries == e.max_deliveries);
    REQUIRE(d.attempts.size() == e.attempts.size());
    for (std::size_t i = 0; i < d.attempts.size(); ++i) {
        CHECK(std::memcmp(&d.attempts[i], &e.attempts[i], sizeof(Attempt)) == 0);
    }
    CHECK(d.consumer == e.consumer);
    CHECK(d.program == e.program);
    CHECK(d.producer == e.producer);
    CHECK(d.consumer_pid == e.consumer_pid);
    CHECK(d.redrive_count == e.redrive_count);
    CHECK(d.first_reason == e.first_reason);
    CHECK(d.first_dead_ns == e.first_dead_ns);
    CHECK(d.fingerprint == fingerprint_of(e.reason, e.type, e.code, e.stage, e.message));
    CHECK(d.bytes == header_bytes + e.extensions.size() + e.payload.size());
    CHECK(d.id == 0);
    CHECK(d.state == DeadState::open);
}

TEST_CASE("extension block and payload stand in the entry byte for byte, whatever they are") {
    test::Rng rng(3);
    for (const std::size_t extension_bytes : {0U, 1U, 16U, 17U, 500U}) {
        for (const std::size_t payload_bytes : {0U, 1U, 15U, 16U, 17U, 5000U}) {
            ByteVector extensions(extension_bytes), payload(payload_bytes);
            rng.fill(extensions);
            rng.fill(payload);
            DeadEntry e = test::full_dead_entry();
            e.extensions = extensions;
            e.payload = payload;
            e.payload_damaged = true;
            const ByteVector bytes = test::encoded(e);
            CHECK(test::text_of(bytes).find(test::text_of(extensions)) != std::string_view::npos);
            CHECK(std::equal(payload.rbegin(), payload.rend(), bytes.rbegin()));
            const DeadLetter d = decoded(bytes);
            CHECK(d.payload == payload);
            CHECK(d.payload_damaged);
            CHECK_FALSE(d.texts_cut);
        }
    }
}

TEST_CASE("the emptiest entry is an entry too, and its first death is this one") {
    DeadEntry e;
    e.reason = DeadReason::operator_request;
    e.dead_ns = 77;
    const ByteVector bytes = test::encoded(e);
    CHECK(bytes.size() <= 256);
    const DeadLetter d = decoded(bytes);
    CHECK(d.first_reason == "operator");
    CHECK(d.first_dead_ns == 77);
    CHECK(d.payload.empty());
    CHECK(d.key.empty());
    CHECK_FALSE(d.type.has_value());
    CHECK_FALSE(d.message_id.has_value());
    CHECK(d.attempts.empty());
    CHECK(d.original_seq == d.seq);
}

TEST_CASE("the last epoch and every outcome come back; a message id of another size is none") {
    std::vector<Attempt> attempts;
    for (std::uint32_t i = 4; i <= 10; ++i) attempts.push_back(test::sample_attempt(i, static_cast<Outcome>(i)));
    Extensions x;
    x.message_id = test::uuid_from(1);
    ByteVector block = test::encoded(x);
    DeadEntry e = test::full_dead_entry();
    e.epoch = 0xffff;
    e.attempts = attempts;
    e.extensions = block;
    DeadLetter d = decoded(test::encoded(e));
    CHECK(d.epoch == 0xffff);
    REQUIRE(d.attempts.size() == attempts.size());
    for (std::size_t i = 0; i < attempts.size(); ++i) CHECK(d.attempts[i].outcome == attempts[i].outcome);
    CHECK(d.message_id == x.message_id);
    block[10] = std::byte{15};  // the field's size
    d = decoded(test::encoded(e));
    CHECK_FALSE(d.message_id.has_value());
}

TEST_CASE("texts are cut to their limits at a character's border, and flagged") {
    const std::string long_text(10000, 'x');
    std::string euros;
    for (int i = 0; i < 2000; ++i) euros += "\xe2\x82\xac";
    struct Case {
        std::string_view DeadEntry::*in;
        std::string DeadLetter::*out;
        std::size_t most;
        DeadText text;
    };
    const Case cases[] = {
        {&DeadEntry::code, &DeadLetter::code, 64, DeadText::code},
        {&DeadEntry::type, &DeadLetter::error_type, 128, DeadText::type},
        {&DeadEntry::stage, &DeadLetter::stage, 32, DeadText::stage},
        {&DeadEntry::message, &DeadLetter::message, 1024, DeadText::message},
        {&DeadEntry::detail, &DeadLetter::detail, 4096, DeadText::detail},
        {&DeadEntry::group_name, &DeadLetter::group, 63, DeadText::group},
        {&DeadEntry::consumer, &DeadLetter::consumer, 63, DeadText::consumer},
        {&DeadEntry::program, &DeadLetter::program, 63, DeadText::program},
        {&DeadEntry::producer, &DeadLetter::producer, 63, DeadText::producer},
        {&DeadEntry::first_reason, &DeadLetter::first_reason, 32, DeadText::first_reason},
    };
    for (const Case& c : cases) {
        CAPTURE(c.most);
        DeadEntry e = test::full_dead_entry();
        e.*c.in = std::string_view(long_text).substr(0, c.most);
        DeadLetter d = decoded(test::encoded(e));
        CHECK((d.*c.out).size() == c.most);
        CHECK_FALSE(d.texts_cut);

        e.*c.in = std::string_view(long_text).substr(0, c.most + 1);
        ByteVector bytes = test::encoded(e);
        d = decoded(bytes);
        CHECK((d.*c.out).size() == c.most);
        CHECK(d.texts_cut);
        CHECK(test::head_of(bytes).flags == dead_flag_cut(c.text));

        e.*c.in = euros;
        d = decoded(test::encoded(e));
        CHECK((d.*c.out).size() == c.most / 3 * 3);
        CHECK(d.texts_cut);
    }
    DeadEntry e = test::full_dead_entry();
    e.message_cut = true;
    CHECK(decoded(test::encoded(e)).texts_cut);
    e.message_cut = false;
    e.detail_cut = true;
    CHECK(decoded(test::encoded(e)).texts_cut);
}

TEST_CASE("of more than eight attempts the last eight are kept, oldest first") {
    std::vector<Attempt> attempts;
    for (std::uint32_t n = 1; n <= 11; ++n) attempts.push_back(test::sample_attempt(n, Outcome::nacked));
    DeadEntry e = test::full_dead_entry();
    e.attempts = attempts;
    const DeadLetter d = decoded(test::encoded(e));
    REQUIRE(d.attempts.size() == attempts_kept);
    for (std::uint32_t i = 0; i < attempts_kept; ++i) CHECK(d.attempts[i].number == i + 4);
}

TEST_CASE("an attempt that was damaged in shared memory does not make the entry unreadable") {
    std::vector<Attempt> attempts(1, test::sample_attempt(1, Outcome{4711}));
    attempts[0].reserved0 = 1;
    attempts[0].consumer.fill('\xff');
    DeadEntry e = test::full_dead_entry();
    e.attempts = attempts;
    const DeadLetter d = decoded(test::encoded(e));
    REQUIRE(d.attempts.size() == 1);
    CHECK(d.attempts[0].outcome == Outcome::none);
    CHECK(d.attempts[0].reserved0 == 0);
    CHECK(d.attempts[0].number == 1);
}

TEST_CASE("the longest story stays below its share of a record of dead.ring") {
    const std::string text(10000, 'x');
    const std::vector<Attempt> attempts(20, test::sample_attempt(1, Outcome::nacked));
    const ByteVector extensions(17), payload(1000);
    DeadEntry e;
    e.group_name = e.code = e.type = e.stage = e.message = e.detail = e.consumer = e.program = e.producer =
        e.first_reason = text;
    e.attempts = attempts;
    e.extensions = extensions;
    e.payload = payload;
    const std::size_t overhead = dead_entry_bytes(e) - extensions.size() - payload.size();
    CHECK(overhead <= max_dead_overhead_bytes);
    CHECK(overhead + header_bytes < story_bytes);
    decoded(test::encoded(e));
}

TEST_CASE("a place of another size is refused and left alone") {
    const DeadEntry e = test::full_dead_entry();
    const std::size_t n = dead_entry_bytes(e);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, n - 1, n + 1}) {
        ByteVector out(size, std::byte{0xee});
        CHECK_FALSE(encode_dead_entry(e, out));
        CHECK(std::all_of(out.begin(), out.end(), [](std::byte b) { return b == std::byte{0xee}; }));
    }
}

TEST_CASE("the identity is that of the message and the group, and nothing else") {
    const DeadEntry e = test::full_dead_entry();
    const auto identity = dead_entry_identity(test::encoded(e));
    REQUIRE(identity.has_value());
    CHECK(identity->origin == Origin{e.ring_uuid, e.epoch, e.seq});
    CHECK(identity->group == e.group);
    CHECK(identity->group_life == e.group_life);

    DeadEntry same = e;
    same.reason = DeadReason::corrupt;
    same.payload = {};
    same.attempts = {};
    same.dead_ns += 1;
    CHECK(dead_entry_identity(test::encoded(same)) == identity);
    const std::vector<std::function<void(DeadEntry&)>> changes = {
        [](DeadEntry& o) { o.ring_uuid[15] ^= 1; }, [](DeadEntry& o) { o.epoch += 1; },
        [](DeadEntry& o) { o.seq += 1; },           [](DeadEntry& o) { o.group += 1; },
        [](DeadEntry& o) { o.group_life += 1; },
    };
    for (const auto& change : changes) {
        DeadEntry other = e;
        change(other);
        CHECK(dead_entry_identity(test::encoded(other)) != identity);
    }
    CHECK_FALSE(dead_entry_identity({}).has_value());
    ByteVector bytes = test::encoded(e);
    bytes[4] = std::byte{2};
    CHECK_FALSE(dead_entry_identity(bytes).has_value());
    bytes[4] = std::byte{1};
    bytes.resize(sizeof(DeadEntryHead));
    CHECK(dead_entry_identity(bytes) == identity);
    bytes.resize(sizeof(DeadEntryHead) - 1);
    CHECK_FALSE(dead_entry_identity(bytes).has_value());
    CHECK_FALSE(dead_entry_identity(ByteVector(4096)).has_value());
}
