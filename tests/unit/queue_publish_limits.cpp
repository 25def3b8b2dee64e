// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What publish refuses: options out of their range, and messages larger than the largest, to the byte.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/record.hpp"
#include "unit/queue_publish.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("a publish with an option out of its range is refused and publishes nothing") {
    Line<ManyShared> line({.max_record_bytes = small / 8});
    const std::string long_key(256, 'k'), long_value(4096, 'v'), long_name(256, 'n');
    const std::vector<Header> many(33, Header{"n", "v"});
    const std::array<Header, 1> too_long = {Header{"n", long_value}};  // 4097 bytes
    const std::array<Header, 1> nameless = {Header{"", "v"}};
    const std::array<Header, 1> zero_in_name = {Header{std::string_view("a\0b", 3), "v"}};
    const std::array<Header, 1> long_named = {Header{long_name, "v"}};
    struct Case {
        const char* what;
        PublishOptions options;
        Errc code;
    };
    std::vector<Case> cases;
    const auto add = [&](const char* what, Errc code, auto&& change) {
        PublishOptions o;
        change(o);
        cases.push_back({what, o, code});
    };
    add("key", Errc::invalid_argument, [&](auto& o) { o.key = long_key; });
    add("headers", Errc::invalid_argument, [&](auto& o) { o.headers = many; });
    add("header bytes", Errc::invalid_argument, [&](auto& o) { o.headers = too_long; });
    add("header without a name", Errc::invalid_argument, [&](auto& o) { o.headers = nameless; });
    add("zero in a name", Errc::invalid_argument, [&](auto& o) { o.headers = zero_in_name; });
    add("long name", Errc::invalid_argument, [&](auto& o) { o.headers = long_named; });
    add("timeout", Errc::invalid_argument, [&](auto& o) { o.timeout = -1ns; });
    add("confirm none", Errc::invalid_argument, [&](auto& o) { o.confirm = Confirm::none; });
    add("negative delay", Errc::invalid_argument, [&](auto& o) { o.delay = -1ns; });
    add("confirm durable", Errc::not_supported, [&](auto& o) { o.confirm = Confirm::durable; });
    add("confirm settled", Errc::not_supported, [&](auto& o) { o.confirm = Confirm::settled; });
    add("dedup_key", Errc::not_supported, [&](auto& o) { o.dedup_key = "d"; });
    add("delay", Errc::not_supported, [&](auto& o) { o.delay = 1s; });
    add("expires_at", Errc::not_supported, [&](auto& o) { o.expires_at_ns = 1; });
    const auto before = line.queue.stats();
    for (const auto& c : cases) {
        CAPTURE(c.what);
        const std::array<Outgoing, 2> batch = {Outgoing{bytes("fine"), {}}, Outgoing{bytes("x"), c.options}};
        const auto published = line.producer.publish(bytes("x"), c.options);
        const auto tried = line.producer.try_publish(bytes("x"), c.options);
        const auto claimed = line.producer.claim(1, c.options);
        const auto batched = line.producer.publish_batch(batch);
        REQUIRE_FALSE(published);
        REQUIRE_FALSE(tried);
        REQUIRE_FALSE(claimed);
        REQUIRE_FALSE(batched);
        CHECK(published.error().code == c.code);
        CHECK(tried.error().code == c.code);
        CHECK(claimed.error().code == c.code);
        CHECK(batched.error().code == c.code);
        CHECK(std::string(published.error().what) != "");
    }
    CHECK(line.queue.stats().tail == before.tail);
    CHECK(line.empty());
    const std::string key(255, 'k'), value(4095, 'v');
    const std::array<Header, 1> most = {Header{"n", value}};
    PublishOptions o;
    o.key = key;
    o.headers = most;
    CHECK(line.producer.publish(bytes("x"), o));
}

TEST_CASE_TEMPLATE("a message of the largest size is accepted, one byte more is not", K, KINDS) {
    for (const std::uint64_t max_record : {std::uint64_t{0}, std::uint64_t{256}, std::uint64_t{1000}, small / 8}) {
        CAPTURE(max_record);
        Line<K> line({.max_record_bytes = max_record});
        const std::size_t most = line.producer.max_payload_bytes();
        CHECK(most == (max_record == 0 ? small / 64 : max_record) - format::header_bytes);
        CHECK(line.queue.max_payload_bytes() == most);
        for (const std::size_t n : {most - 1, most}) {
            const std::string payload(n, 'x');
            REQUIRE(line.producer.publish(bytes(payload)));
            Message m = line.next();
            CHECK((text(m.payload()) == payload));
            CHECK(m.ack());
            auto claim = line.producer.claim(n);
            REQUIRE(claim);
            std::fill(claim->payload().begin(), claim->payload().end(), std::byte{'y'});
            REQUIRE(claim->commit());
            m = line.next();
            CHECK((text(m.payload()) == std::string(n, 'y')));
            CHECK(m.ack());
        }
        const auto tail = line.queue.stats().tail;
        const std::string larger(most + 1, 'x');
        const Bytes absurd(bytes(larger).data(), SIZE_MAX), beyond_32_bits(bytes(larger).data(), (1ULL << 32) + 1);
        for (const Bytes b : {bytes(larger), beyond_32_bits, absurd}) {
            CAPTURE(b.size());
            const auto sent = line.producer.publish(b);
            const auto claim = line.producer.claim(b.size());
            const std::array<Outgoing, 1> batch = {Outgoing{b, {}}};
            const auto batched = line.producer.publish_batch(batch);
            REQUIRE_FALSE(sent);
            REQUIRE_FALSE(claim);
            REQUIRE_FALSE(batched);
            CHECK(sent.error().code == Errc::too_large);
            CHECK(claim.error().code == Errc::too_large);
            CHECK(batched.error().code == Errc::too_large);
        }
        CHECK(line.queue.stats().tail == tail);
    }
}

TEST_CASE("options count against the largest size, to the byte") {
    Line<ManyShared> line;
    const std::array<Header, 1> headers = {Header{"name", "value"}};
    PublishOptions o;
    o.key = "a key";
    o.type = 1;
    o.headers = headers;
    format::Extensions e;
    e.key = o.key;
    e.type = o.type;
    e.headers = headers;
    const std::size_t most = line.producer.max_payload_bytes() - format::extension_bytes(e);
    const std::string fits(most, 'x'), larger(most + 1, 'x');
    CHECK(line.producer.publish(bytes(fits), o));
    const auto refused = line.producer.publish(bytes(larger), o);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::too_large);
    Message m = line.next();
    CHECK((text(m.payload()) == fits));
    CHECK(m.header("name") == "value");
}

TEST_CASE("max_payload_bytes is exact whatever the queue adds to each message") {
    for (const auto timestamps : {Timestamps::off, Timestamps::coarse, Timestamps::exact}) {
        for (const auto checksum : {Checksum::none, Checksum::xxh3}) {
            CAPTURE(static_cast<int>(timestamps));
            CAPTURE(static_cast<int>(checksum));
            Line<ManyShared> line({.checksum = checksum, .timestamps = timestamps});
            const std::string fits(line.producer.max_payload_bytes(), 'x');
            const std::string larger = fits + "x";
            CHECK(line.queue.max_payload_bytes() == fits.size());
            CHECK(line.producer.publish(bytes(fits)));
            CHECK_FALSE(line.producer.publish(bytes(larger)));
        }
    }
}
