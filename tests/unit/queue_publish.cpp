// SPDX-License-Identifier: MIT
// Publish, receive, ack: what goes in comes out, whatever the producers and the group are. The same cases run over
// the ring of one and of many producers, and over shared and exclusive groups.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/record.hpp"
#include "rondo/rondo.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace std::chrono_literals;
using test::TmpDir;

namespace {

constexpr std::uint64_t small = 256 << 10;

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

template <Producers P, GroupMode M>
struct Kind {
    static constexpr Producers producers = P;
    static constexpr GroupMode mode = M;
};
using OneShared = Kind<Producers::one, GroupMode::shared>;
using OneExclusive = Kind<Producers::one, GroupMode::exclusive>;
using ManyShared = Kind<Producers::many, GroupMode::shared>;
using ManyExclusive = Kind<Producers::many, GroupMode::exclusive>;
#define KINDS OneShared, OneExclusive, ManyShared, ManyExclusive

/// A queue with one group, one producer, one consumer.
template <class K>
struct Line {
    TmpDir dir;
    Queue queue;
    Producer producer;
    Consumer consumer;

    explicit Line(QueueOptions o = {}) : Line(std::move(o), std::string("producer")) {}
    Line(QueueOptions o, const std::string& producer_name)
        : queue(make(dir, o)),
          producer(queue.producer({.name = producer_name}).value()),
          consumer(queue.consumer("group", {.mode = K::mode, .start = Start::earliest()}).value()) {}

    static Queue make(const TmpDir& dir, QueueOptions o) {
        if (o.capacity_bytes == QueueOptions{}.capacity_bytes) o.capacity_bytes = small;
        o.producers = K::producers;
        return Queue::create(dir.str() + "/q", o).value();
    }
    Message next() { return consumer.try_receive().value(); }
    bool empty() {
        auto m = consumer.try_receive();
        return !m && m.error().code == Errc::empty;
    }
};

}  // namespace

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

// ---- sizes ---------------------------------------------------------------------------------------------------

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

TEST_CASE("timestamps: none, coarse or exact") {
    const auto wall = [] {
        return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                              std::chrono::system_clock::now().time_since_epoch())
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

// ---- zero copy -----------------------------------------------------------------------------------------------

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

// ---- names, roles, moved-from objects ------------------------------------------------------------------------

TEST_CASE("names of producers and consumers are checked") {
    Line<ManyShared> line;
    const std::string longest(63, 'n'), longer(64, 'n');
    for (const std::string& good : {std::string("a"), std::string("A-z_0.9"), longest}) {
        CHECK(line.queue.producer({.name = good}));
        CHECK(line.queue.consumer("group", ConsumerOptions{.name = good}));
    }
    for (const std::string& bad : {longer, std::string("."), std::string(".."), std::string("a/b"), std::string("a b"),
                                   std::string("\xc3\xa4"), std::string("a\0b", 3), std::string("a\n")}) {
        CAPTURE(bad);
        CHECK(line.queue.producer({.name = bad}).error().code == Errc::invalid_argument);
        CHECK(line.queue.consumer("group", ConsumerOptions{.name = bad}).error().code == Errc::invalid_argument);
    }
    CHECK(line.queue.stats().producers == 1);
    CHECK(line.queue.stats().consumers == 1);
}

TEST_CASE("a queue of one producer refuses a second one until the first is gone") {
    TmpDir dir;
    auto queue = Queue::create(dir.str() + "/q", {.capacity_bytes = small, .producers = Producers::one}).value();
    auto again = Queue::open(dir.str() + "/q").value();
    auto consumer = queue.consumer("group", {.start = Start::earliest()}).value();
    for (int turn = 0; turn < 3; ++turn) {
        auto first = queue.producer({.name = "first"});
        REQUIRE(first);
        for (Queue* q : {&queue, &again}) {
            const auto second = q->producer();
            REQUIRE_FALSE(second);
            CHECK(second.error().code == Errc::role_taken);
            CHECK(q->explain(second.error()).find(std::string("process ").append(std::to_string(getpid()))) != std::string::npos);
        }
        REQUIRE(first->publish(bytes("x")));
        CHECK(consumer.try_receive().value().ack());
    }
    // A producer that takes over goes on where the last one stopped, also right behind a batch.
    {
        auto first = queue.producer().value();
        const std::array<Outgoing, 3> batch = {Outgoing{bytes("1"), {}}, {bytes("2"), {}}, {bytes("3"), {}}};
        REQUIRE(first.publish_batch(batch));
    }
    REQUIRE(again.producer().value().publish(bytes("4")));
    for (const char* expected : {"1", "2", "3", "4"}) {
        Message m = consumer.try_receive().value();
        CHECK(text(m.payload()) == expected);
        CHECK(m.ack());
    }
}

TEST_CASE("2048 producers and consumers fit, the next one is refused, and one that ends makes room") {
    TmpDir dir;
    auto queue = Queue::create(dir.str() + "/q", {.capacity_bytes = small}).value();
    std::vector<Producer> producers;
    for (int i = 0; i < 2048; ++i) producers.push_back(queue.producer().value());
    const auto more = queue.producer();
    REQUIRE_FALSE(more);
    CHECK(more.error().code == Errc::too_many_participants);
    producers.erase(producers.begin() + 77);
    CHECK(queue.producer());
    CHECK(producers[1000].publish(bytes("x")));
}

TEST_CASE("a producer that was moved from only says so") {
    Line<ManyShared> line;
    Producer here(std::move(line.producer));
    const std::array<Outgoing, 1> batch = {Outgoing{bytes("x"), {}}};
    CHECK(line.producer.publish(bytes("x")).error().code == Errc::invalid_argument);
    CHECK(line.producer.try_publish(bytes("x")).error().code == Errc::invalid_argument);
    CHECK(line.producer.claim(1).error().code == Errc::invalid_argument);
    CHECK(line.producer.publish_batch(batch).error().code == Errc::invalid_argument);
    CHECK(line.producer.max_payload_bytes() == 0);
    CHECK(here.publish(bytes("x")));
    line.producer = std::move(here);
    CHECK(line.producer.publish(bytes("y")));
}
