// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Extension blocks: what goes in comes out, and damaged ones are read without leaving their bytes. Blocks lie in
// vectors of exactly their size, so that the address sanitizer sees a step outside.
#include "format/record.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "samples.hpp"
#include "support/seed.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::ByteVector;

namespace {

using Reader = ExtensionReader;

std::vector<Header> headers_of(std::span<const std::byte> block) {
    std::vector<Header> out;
    Reader reader(block);
    while (const auto field = reader.next()) {
        if (field->tag == Tag::header) out.push_back(Reader::as_header(field->value));
    }
    return out;
}

// Reads everything that can be read, and holds each view to the block. Returns the number of fields.
std::size_t read_all(std::span<const std::byte> block) {
    std::size_t fields = 0;
    std::uint64_t sum = 0;
    Reader reader(block);
    while (const auto field = reader.next()) {
        ++fields;
        REQUIRE(field->value.data() >= block.data());
        REQUIRE(field->value.data() + field->value.size() <= block.data() + block.size());
        for (const std::byte b : field->value) sum += static_cast<std::uint64_t>(b);
        const Header header = Reader::as_header(field->value);
        REQUIRE(header.name.size() + header.value.size() <= field->value.size());
        for (const char c : header.name) sum += static_cast<unsigned char>(c);
        for (const char c : header.value) sum += static_cast<unsigned char>(c);
    }
    REQUIRE(fields <= block.size() / 4);
    for (std::uint16_t tag = 0; tag < 20; ++tag) {
        sum += Reader::find_text(block, static_cast<Tag>(tag)).size();
        sum += Reader::find_number(block, static_cast<Tag>(tag)).value_or(0);
    }
    if (const auto origin = Reader::find_origin(block)) sum += origin->seq;
    if (const auto only = find_only_group(block)) sum += only->group;
    REQUIRE(sum != 1);  // keeps the reads
    REQUIRE_FALSE(reader.next().has_value());
    return fields;
}

ByteVector block_of_fields(std::initializer_list<std::pair<std::uint16_t, std::string_view>> fields) {
    ByteVector out(8);
    for (const auto& [tag, value] : fields) {
        const std::uint16_t head[2] = {tag, static_cast<std::uint16_t>(value.size())};
        const auto bytes = std::as_bytes(std::span(head));
        out.insert(out.end(), bytes.begin(), bytes.end());
        for (const std::byte b : test::bytes_of(value)) out.push_back(b);
        while (out.size() % 4 != 0) out.push_back(std::byte{0});
    }
    while (out.size() % 16 != 0) out.push_back(std::byte{0});
    const std::uint32_t head[2] = {static_cast<std::uint32_t>(out.size()), static_cast<std::uint32_t>(fields.size())};
    std::memcpy(out.data(), head, sizeof head);
    return out;
}

}  // namespace

TEST_CASE("no extensions take no bytes") {
    CHECK(extension_bytes({}) == 0);
    encode_extensions({}, {});
    CHECK(read_all({}) == 0);
}

TEST_CASE("every extension comes back as it went in") {
    const Extensions e = test::full_extensions();
    const ByteVector block = test::encoded(e);
    CHECK(block.size() % 16 == 0);
    std::uint32_t head[2];
    std::memcpy(head, block.data(), sizeof head);
    CHECK(head[0] == block.size());
    CHECK(head[1] == read_all(block));

    CHECK(Reader::find_text(block, Tag::key) == e.key);
    CHECK(Reader::find_number(block, Tag::message_type) == e.type);
    CHECK(Reader::find_number(block, Tag::accepted_ns) == e.accepted_ns);
    const auto id = Reader::find(block, Tag::message_id);
    REQUIRE(id.has_value());
    REQUIRE(id->size() == 16);
    CHECK(std::memcmp(id->data(), e.message_id->data(), 16) == 0);
    const auto only = find_only_group(block);
    REQUIRE(only.has_value());
    CHECK(only->group == *e.only_group);
    CHECK(only->life == e.only_group_life);
    CHECK(Reader::find_number(block, Tag::redrive_count) == e.redrive_count);
    CHECK(Reader::find_origin(block) == e.origin);
    CHECK(Reader::find_text(block, Tag::first_reason) == e.first_reason);
    CHECK(Reader::find_number(block, Tag::first_dead_ns) == e.first_dead_ns);
    CHECK(Reader::find_number(block, Tag::original_seq) == e.original_seq);
    const auto headers = headers_of(block);
    REQUIRE(headers.size() == e.headers.size());
    for (std::size_t i = 0; i < headers.size(); ++i) {
        CHECK(headers[i].name == e.headers[i].name);
        CHECK(headers[i].value == e.headers[i].value);
    }
}

TEST_CASE("each extension alone, and a group or a type of zero, is not lost") {
    Extensions e;
    e.type = 0;
    CHECK(Reader::find_number(test::encoded(e), Tag::message_type) == 0);
    e = {};
    e.only_group = 0;
    CHECK(find_only_group(test::encoded(e)).value_or(OnlyGroup{9, 9}).group == 0);
    e = {};
    e.accepted_ns = 0;
    CHECK(Reader::find_number(test::encoded(e), Tag::accepted_ns) == 0);
    CHECK_FALSE(Reader::find_number(test::encoded(e), Tag::message_type).has_value());
    CHECK_FALSE(Reader::find_origin(test::encoded(e)).has_value());
    CHECK_FALSE(find_only_group(test::encoded(e)).has_value());
}

TEST_CASE("keys of every length, zero bytes included, come back and the padding is zero") {
    for (std::size_t n = 1; n <= max_key_bytes; ++n) {
        std::string key(n, 'k');
        key[n / 2] = '\0';
        Extensions e;
        e.key = key;
        const ByteVector block = test::encoded(e);
        REQUIRE(block.size() == (8 + 4 + n + 15) / 16 * 16);
        REQUIRE(Reader::find_text(block, Tag::key) == key);
        for (std::size_t i = 12 + n; i < block.size(); ++i) REQUIRE(block[i] == std::byte{0});
    }
}

TEST_CASE("the most and the longest headers come back") {
    const std::string name(96, 'n'), value(32, 'v'), long_name(255, 'n');
    const std::vector<Header> many(max_headers, Header{name, value});  // 4096 bytes
    Extensions e;
    e.headers = many;
    ByteVector block = test::encoded(e);
    auto got = headers_of(block);
    REQUIRE(got.size() == max_headers);
    for (const Header& header : got) {
        CHECK(header.name == name);
        CHECK(header.value == value);
    }

    const std::string long_value(4096 - 255, 'v');
    const std::vector<Header> one = {{long_name, long_value}};
    e.headers = one;
    block = test::encoded(e);
    got = headers_of(block);
    REQUIRE(got.size() == 1);
    CHECK(got[0].name == long_name);
    CHECK(got[0].value == long_value);
}

TEST_CASE("unknown tags are skipped, and order does not matter") {
    const ByteVector block = block_of_fields({{999, "unknown"}, {0xffff, ""}, {15, "why"}, {1, "key"}, {1, "second"}});
    CHECK(Reader::find_text(block, Tag::key) == "key");
    CHECK(Reader::find_text(block, Tag::first_reason) == "why");
    CHECK(read_all(block) == 5);
    CHECK(read_all(block_of_fields({{1, ""}, {2, ""}})) == 2);  // the last one ends with the block
}

TEST_CASE("a number or structure of the wrong size counts as absent") {
    const ByteVector block =
        block_of_fields({{2, "abc"}, {12, "twelve bytes"}, {8, "seven77"}, {13, "short origin"}, {16, "12345678"}});
    CHECK_FALSE(Reader::find_number(block, Tag::message_type).has_value());
    CHECK_FALSE(Reader::find_number(block, Tag::redrive_count).has_value());
    CHECK_FALSE(find_only_group(block).has_value());
    CHECK_FALSE(Reader::find_origin(block).has_value());
    CHECK(Reader::find_number(block, Tag::first_dead_ns) == 0x3837363534333231);
}

TEST_CASE("a field that reaches beyond the block ends it") {
    ByteVector block = block_of_fields({{1, "key"}, {15, "why"}});
    const std::uint16_t too_long = 13;  // the value begins 12 bytes before the end of the block
    std::memcpy(block.data() + 18, &too_long, 2);
    CHECK(Reader::find_text(block, Tag::key) == "key");
    CHECK(Reader::find_text(block, Tag::first_reason).empty());
    CHECK(read_all(block) == 1);
    const std::uint16_t longest = 0xffff;
    std::memcpy(block.data() + 10, &longest, 2);
    CHECK(read_all(block) == 0);
}

TEST_CASE("header values that are none give an empty name") {
    for (const std::string_view odd :
         {std::string_view(""), std::string_view("\0x", 2), std::string_view("\x05name"), std::string_view("\xff")}) {
        const Header header = Reader::as_header(test::bytes_of(odd));
        CHECK(header.name.empty());
        CHECK(header.value.empty());
    }
    const ByteVector no_value = test::bytes_of("\x04name");
    const Header exact = Reader::as_header(no_value);
    CHECK(exact.name == "name");
    CHECK(exact.value.empty());
}

TEST_CASE("the size of an extension block is believed only if it fits beside the payload") {
    const RecordHead head{5, 2, RecordType::message, flag_extensions};  // room for 96 bytes behind the header
    ByteVector body(96);
    const auto size_of = [&](std::uint32_t bytes, RecordHead h) {
        std::memcpy(body.data(), &bytes, sizeof bytes);
        return extension_block_bytes(h, body);
    };
    CHECK(size_of(16, head) == 16);
    CHECK(size_of(80, head) == 80);
    CHECK(size_of(80, {16, 2, RecordType::message, flag_extensions}) == 80);
    CHECK_FALSE(size_of(80, {17, 2, RecordType::message, flag_extensions}).has_value());
    for (const std::uint32_t bad : {0U, 8U, 15U, 17U, 24U, 96U, 112U, 0x80000000U, 0xfffffff0U, ~0U}) {
        CAPTURE(bad);
        CHECK_FALSE(size_of(bad, head).has_value());
    }
    RecordHead h = head;
    h.flags = 0;
    CHECK(size_of(~0U, h) == 0);
    h.payload_bytes = 96;
    CHECK(size_of(~0U, h) == 0);
    h.payload_bytes = 97;
    CHECK_FALSE(size_of(16, h).has_value());
    h = head;
    h.payload_bytes = ~0U;
    CHECK_FALSE(size_of(16, h).has_value());
    h = head;
    h.slots = 1;  // less than the body that is at hand: the record ends earlier
    CHECK(size_of(16, h) == 16);
    CHECK_FALSE(size_of(32, h).has_value());
    h.slots = 0;
    CHECK_FALSE(size_of(16, h).has_value());
    CHECK_FALSE(extension_block_bytes(head, std::span(body).first(7)).has_value());
    CHECK_FALSE(extension_block_bytes(head, {}).has_value());
    const ByteVector tiny(3);
    CHECK_FALSE(extension_block_bytes({0, 2, RecordType::message, flag_extensions}, tiny).has_value());
}

TEST_CASE("a header is plausible only if its record can lie there") {
    const std::uint64_t slots = 64;
    const auto ok = [&](std::uint32_t payload, std::uint64_t k, RecordType type, Seq position) {
        return plausible({payload, k, type, 0}, position, slots);
    };
    CHECK(ok(32, 1, RecordType::message, 0));
    CHECK_FALSE(ok(33, 1, RecordType::message, 0));
    CHECK(ok(0, 3, RecordType::message, 0));  // commit(used) may be shorter than the claim
    CHECK_FALSE(ok(0, 0, RecordType::message, 0));
    CHECK_FALSE(ok(0, 65, RecordType::pad, 0));
    CHECK(ok(0, 64, RecordType::pad, 64));
    CHECK_FALSE(ok(0, 2, RecordType::pad, 63));
    CHECK(ok(0, 1, RecordType::pad, 63));
    CHECK(ok(0, 1, RecordType::void_claim, 127));
    CHECK_FALSE(ok(~0U, 64, RecordType::message, 0));
    for (unsigned type = 0; type < 256; ++type) {
        CHECK(ok(0, 1, static_cast<RecordType>(type), 5) == (type >= 1 && type <= 3));
    }
}

TEST_CASE("damaged blocks are read without leaving them: every byte at every value that breaks sizes") {
    const ByteVector good = test::encoded(test::full_extensions());
    for (std::size_t i = 0; i < good.size(); ++i) {
        for (const unsigned value : {0U, 1U, 2U, 4U, 0x7fU, 0x80U, 0xffU}) {
            ByteVector block = good;
            block[i] = static_cast<std::byte>(value);
            read_all(block);
        }
    }
    for (std::size_t n = 0; n < good.size(); ++n) {
        const ByteVector block(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n));
        read_all(block);
    }
}

TEST_CASE("damaged blocks are read without leaving them: random changes, fixed seed") {
    test::Rng rng(20240117);
    const ByteVector good = test::encoded(test::full_extensions());
    for (int round = 0; round < 20000; ++round) {
        ByteVector block(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(rng.between(0, good.size())));
        if (rng.one_in(4)) rng.fill(block);
        for (std::uint64_t n = rng.below(6); n != 0 && !block.empty(); --n) {
            block[rng.below(block.size())] = static_cast<std::byte>(rng.below(256));
        }
        read_all(block);
        const RecordHead head{static_cast<std::uint32_t>(rng.below(600)), rng.below(12), RecordType::message,
                              static_cast<std::uint8_t>(rng.below(4))};
        if (const auto bytes = extension_block_bytes(head, block)) {
            REQUIRE(*bytes + head.payload_bytes <= block.size());
            REQUIRE(*bytes % 16 == 0);
            read_all(std::span(block).first(*bytes));
        }
    }
}
