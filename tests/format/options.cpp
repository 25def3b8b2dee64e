// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Every option of a queue and of a publish at the ends of its range, and just outside; names.
#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/bits.hpp"
#include "format/layout.hpp"
#include "format/record.hpp"
#include "format/validate.hpp"

using namespace rondo;
using namespace rondo::format;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib, tib = 1024 * gib;

// What a refusal must look like: `code`, with `text` somewhere in its words.
template <class T>
void check_refused(const Result<T>& got, Errc code, std::string_view text) {
    REQUIRE_FALSE(got.has_value());
    INFO("what: ", got.error().what);
    CHECK(got.error().code == code);
    CHECK(std::string_view(got.error().what).find(text) != std::string_view::npos);
    CHECK(got.error().sys_errno == 0);
}

Geometry geometry_of(const QueueOptions& options) {
    const auto got = check_options(options);
    INFO("what: ", got ? "" : got.error().what);
    REQUIRE(got.has_value());
    return *got;
}

}  // namespace

TEST_CASE("the default queue") {
    const Geometry g = geometry_of({});
    CHECK(g.slots * slot_bytes == 64 * mib);
    CHECK(g.max_record_bytes == 1 * mib);
    CHECK(g.side_max_record_bytes == 1 * mib + 16 * kib);
    CHECK(g.retry_slots * slot_bytes == 16 * mib);
    CHECK(g.dead_slots * slot_bytes == 16 * mib);
    CHECK(g.groups == 16);
}

TEST_CASE("capacity is rounded up to a power of two, never down") {
    for (const auto& pair : std::vector<std::pair<std::uint64_t, std::uint64_t>>{{256 * kib, 256 * kib},
                                                                                 {256 * kib + 1, 512 * kib},
                                                                                 {1000000, mib},
                                                                                 {3 * mib, 4 * mib},
                                                                                 {64 * 1000 * 1000, 64 * mib},
                                                                                 {tib - 1, tib},
                                                                                 {tib, tib}}) {
        CAPTURE(pair.first);
        CHECK(geometry_of({.capacity_bytes = pair.first}).slots * slot_bytes == pair.second);
    }
}

TEST_CASE("each capacity gives rings that their own superblocks would pass") {
    for (std::uint64_t capacity = 256 * kib; capacity <= tib; capacity *= 2) {
        for (const std::uint64_t record :
             {std::uint64_t{0}, std::uint64_t{256}, std::min(capacity / 8, 2 * gib - 3 * mib)}) {
            CAPTURE(capacity);
            CAPTURE(record);
            const Geometry g = geometry_of({.capacity_bytes = capacity, .max_record_bytes = record});
            for (const std::uint64_t slots : {g.slots, g.retry_slots, g.dead_slots}) {
                CHECK(base::is_pow2(slots));
                CHECK(slots >= min_slots);
                CHECK(slots <= max_slots);
            }
            CHECK(g.max_record_bytes <= max_record_slots(g.slots) * slot_bytes);
            CHECK(g.side_max_record_bytes <= max_record_slots(g.dead_slots) * slot_bytes);
            CHECK(g.side_max_record_bytes <= max_record_slots(g.retry_slots) * slot_bytes);
            // The largest record of each can be claimed.
            CHECK(round_up_slots(slots_for(0, g.max_record_bytes - header_bytes)) <= max_record_slots(g.slots));
            CHECK(round_up_slots(slots_for(0, g.side_max_record_bytes - header_bytes)) <=
                  max_record_slots(g.dead_slots));
        }
    }
}

TEST_CASE("a queue of 256 MiB takes a payload of 16 MiB") {
    const Geometry g = geometry_of({.capacity_bytes = 256 * mib, .max_record_bytes = 32 * mib});
    CHECK(g.max_record_bytes >= 16 * mib + 8 * kib);
}

TEST_CASE("queue options out of range are refused, each by its name") {
    struct Case {
        const char* name;
        QueueOptions options;
        Errc code;
        const char* text;
    };
    constexpr Errc invalid = Errc::invalid_argument;
    const std::vector<Case> cases = {
        {"capacity 0", {.capacity_bytes = 0}, invalid, "capacity_bytes"},
        {"capacity 1", {.capacity_bytes = 1}, invalid, "capacity_bytes"},
        {"capacity just too small", {.capacity_bytes = 256 * kib - 1}, invalid, "at least 256 KiB"},
        {"capacity just too large", {.capacity_bytes = tib + 1}, invalid, "at most 1 TiB"},
        {"capacity 2^63", {.capacity_bytes = std::uint64_t{1} << 63}, invalid, "at most 1 TiB"},
        {"capacity -1", {.capacity_bytes = ~std::uint64_t{0}}, invalid, "at most 1 TiB"},
        {"record 1", {.max_record_bytes = 1}, invalid, "at least 256"},
        {"record 255", {.max_record_bytes = 255}, invalid, "at least 256"},
        {"record above capacity / 8", {.max_record_bytes = 8 * mib + 1}, invalid, "capacity / 8"},
        {"record 2^63", {.max_record_bytes = std::uint64_t{1} << 63}, invalid, "capacity / 8"},
        {"record -1", {.max_record_bytes = ~std::uint64_t{0}}, invalid, "capacity / 8"},
        {"record not codable", {.capacity_bytes = tib, .max_record_bytes = 2 * gib}, invalid, "2 GiB"},
        {"retry 1", {.retry_capacity_bytes = 1}, invalid, "retry_capacity_bytes"},
        {"retry just too small", {.retry_capacity_bytes = 8 * (mib + 16 * kib) - 1}, invalid, "retry_capacity_bytes"},
        {"retry too large", {.retry_capacity_bytes = tib + 1}, invalid, "retry_capacity_bytes"},
        {"dead 1", {.dead_capacity_bytes = 1}, invalid, "dead_capacity_bytes"},
        {"dead just too small", {.dead_capacity_bytes = 8 * (mib + 16 * kib) - 1}, invalid, "dead_capacity_bytes"},
        {"dead -1", {.dead_capacity_bytes = ~std::uint64_t{0}}, invalid, "dead_capacity_bytes"},
        {"groups 0", {.max_groups = 0}, invalid, "max_groups"},
        {"groups 65", {.max_groups = 65}, invalid, "max_groups"},
        {"producers", {.producers = Producers{0}}, invalid, "producers"},
        {"durability", {.durability = Durability{2}}, invalid, "durability"},
        {"checksum", {.checksum = Checksum{2}}, invalid, "checksum"},
        {"timestamps", {.timestamps = Timestamps{3}}, invalid, "timestamps"},
        {"overflow 0", {.overflow = Overflow{0}}, invalid, "overflow"},
        {"overflow 5", {.overflow = Overflow{5}}, invalid, "overflow"},
        {"mode 0", {.mode = 0}, invalid, "mode"},
        {"mode 0644", {.mode = 0644}, invalid, "mode"},
        {"mode 0666", {.mode = 0666}, invalid, "mode"},
        {"mode 04600", {.mode = 04600}, invalid, "mode"},
        {"group -1", {.group = ~std::uint32_t{0}}, invalid, "group"},
        {"durable", {.durability = Durability::durable}, Errc::not_supported, "durable"},
        {"drop_newest", {.overflow = Overflow::drop_newest}, Errc::not_supported, "drop_newest"},
        {"drop_oldest", {.overflow = Overflow::drop_oldest}, Errc::not_supported, "drop_oldest"},
        // A mistake is named before something that is merely not offered.
        {"durable and mode", {.durability = Durability::durable, .mode = 0777}, invalid, "mode"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        check_refused(check_options(c.options), c.code, c.text);
    }
}

TEST_CASE("queue options at the ends of their ranges are accepted") {
    const QueueOptions cases[] = {
        {.max_record_bytes = 256},
        {.max_record_bytes = 8 * mib},
        {.retry_capacity_bytes = 8 * (mib + 16 * kib)},
        {.dead_capacity_bytes = tib},
        {.max_groups = 1},
        {.max_groups = 64},
        {.producers = Producers::one, .checksum = Checksum::xxh3, .timestamps = Timestamps::off},
        {.timestamps = Timestamps::exact, .overflow = Overflow::fail, .mode = 0640, .group = 0},
        {.mode = 0660, .group = 1000},
    };
    for (const QueueOptions& options : cases) geometry_of(options);
    CHECK(geometry_of({.retry_capacity_bytes = 8 * (mib + 16 * kib)}).retry_slots * slot_bytes == 16 * mib);
    CHECK(geometry_of({.capacity_bytes = 256 * kib, .max_record_bytes = 256}).dead_slots == min_slots);
}

TEST_CASE("names are 1 to 63 of A-Z a-z 0-9 . _ -") {
    for (const std::string& good : {std::string("a"), std::string("Order.v1_retry-2"), std::string("..."),
                                    std::string(".hidden"), std::string("-"), std::string(63, 'x')}) {
        CAPTURE(good);
        CHECK(check_name(good).has_value());
    }
    const std::string bad[] = {"",
                               ".",
                               "..",
                               "a/b",
                               "/",
                               "a b",
                               "a\nb",
                               "caf\xc3\xa9",
                               std::string("a\0b", 3),
                               "a:b",
                               "*",
                               std::string(64, 'x'),
                               std::string(100000, 'x'),
                               "a\\b",
                               "~",
                               "\x7f"};
    for (const std::string& name : bad) {
        CAPTURE(name);
        check_refused(check_name(name), Errc::invalid_argument, "name");
    }
    // Each byte alone.
    for (int c = 0; c < 256; ++c) {
        const char text = static_cast<char>(c);
        const bool good =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
        CHECK(check_name({&text, 1}).has_value() == good);
    }
}

TEST_CASE("publish options out of range are refused, each by its name") {
    const std::string long_key(256, 'k'), long_name(256, 'n'), big(4096, 'v');
    const std::vector<Header> many(33, Header{"n", "v"}), unnamed = {{"", "v"}}, too_long_name = {{long_name, ""}},
                                                          too_big = {{"n", big}},
                                                          zero = {{std::string_view("n\0m", 3), ""}};
    struct Case {
        const char* name;
        PublishOptions options;
        Errc code;
        const char* text;
    };
    constexpr Errc invalid = Errc::invalid_argument;
    constexpr Errc unsupported = Errc::not_supported;
    const std::vector<Case> cases = {
        {"key", {.key = long_key}, invalid, "key"},
        {"33 headers", {.headers = many}, invalid, "at most 32"},
        {"unnamed header", {.headers = unnamed}, invalid, "header name"},
        {"long header name", {.headers = too_long_name}, invalid, "header name"},
        {"zero in a header name", {.headers = zero}, invalid, "zero byte"},
        {"4097 bytes of headers", {.headers = too_big}, invalid, "4 KiB"},
        {"timeout", {.timeout = -1ns}, invalid, "timeout"},
        {"timeout min", {.timeout = Duration::min()}, invalid, "timeout"},
        {"delay", {.delay = -1ns}, invalid, "delay"},
        {"confirm none", {.confirm = Confirm::none}, invalid, "staging"},
        {"confirm 4", {.confirm = Confirm{4}}, invalid, "confirm"},
        {"confirm durable", {.confirm = Confirm::durable}, unsupported, "durable"},
        {"confirm settled", {.confirm = Confirm::settled}, unsupported, "settled"},
        {"dedup", {.dedup_key = "d"}, unsupported, "dedup_key"},
        {"delay 0", {.delay = 0ns}, unsupported, "delay"},
        {"delay 1 s", {.delay = 1s}, unsupported, "delay"},
        {"expires", {.expires_at_ns = 1}, unsupported, "expires_at"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        check_refused(check_publish_options(c.options), c.code, c.text);
    }
    // Sizes that would wrap a sum; the bytes are never looked at.
    const std::vector<Header> absurd(2, Header{"n", std::string_view("v", ~std::size_t{0} / 2)});
    check_refused(check_publish_options({.headers = absurd}), invalid, "4 KiB");
}

TEST_CASE("publish options at the ends of their ranges are accepted") {
    CHECK(check_publish_options({}).has_value());
    const std::string key(255, 'k'), name(96, 'n'), value(32, 'v'), long_name(255, 'n'), rest(4096 - 255, '\0');
    const std::vector<Header> many(32, Header{name, value}), one = {{long_name, rest}};
    CHECK(check_publish_options({.key = key, .headers = many, .timeout = 0ns}).has_value());
    CHECK(check_publish_options({.headers = one, .timeout = forever}).has_value());
    CHECK(
        check_publish_options({.key = std::string_view("\0", 1), .type = 0, .confirm = Confirm::accepted}).has_value());
}
