// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The bytes that this version writes are those in tests/format/golden, and it reads those. A change here is a change of
// the format: see docs/format.md on versions. RONDO_REGENERATE=1 writes the files anew.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "format/dead_entry.hpp"
#include "format/record.hpp"
#include "format/validate.hpp"
#include "samples.hpp"
#include "support/paths.hpp"

using namespace rondo;
using namespace rondo::format;
using rondo::test::ByteVector;

namespace {

constexpr Seq golden_position = 4099;

std::string path_of(const std::string& name) { return test::source_directory() + "/tests/format/golden/" + name; }

bool regenerate() {
    const char* text = std::getenv("RONDO_REGENERATE");
    return text != nullptr && std::string_view(text) == "1";
}

ByteVector load(const std::string& name) {
    std::ifstream file(path_of(name), std::ios::binary);
    INFO("file: ", path_of(name));
    REQUIRE(file.good());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return test::bytes_of(text);
}

void check_golden(const std::string& name, const ByteVector& bytes) {
    if (regenerate()) {
        std::ofstream file(path_of(name), std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        file.close();
        INFO("file: ", path_of(name));
        REQUIRE(file.good());
    }
    const ByteVector kept = load(name);
    const auto differ = std::mismatch(kept.begin(), kept.end(), bytes.begin(), bytes.end());
    INFO(name, ": first difference at byte ", differ.first - kept.begin());
    const bool same = differ.first == kept.end() && differ.second == bytes.end();
    CHECK(same);
}

}  // namespace

TEST_CASE("a superblock is written as it always was, and read") {
    check_golden("superblock.bin", test::page_of(test::sample_superblock()));
    const ByteVector page = load("superblock.bin");
    const auto got = validate_superblock(page, std::uint64_t{1} << 40);
    REQUIRE(got.has_value());
    CHECK(got->slot_count == 1 << 14);
    CHECK(got->salt == test::sample_salt);
    CHECK(got->inode == 4711);
    CHECK(got->queue_uuid == test::uuid_from(0x10));
}

TEST_CASE("a record with all extensions is written as it always was, and read") {
    check_golden("record.bin", test::record_bytes(golden_position, test::full_extensions(), "the payload", 2500, 3));
    const ByteVector record = load("record.bin");
    std::uint64_t stamp = 0, head_word = 0;
    std::memcpy(&stamp, record.data(), 8);
    std::memcpy(&head_word, record.data() + 8, 8);
    CHECK(stamp == stamp_of(golden_position, test::sample_salt));
    const RecordHead head = unpack_head(head_word);
    REQUIRE(plausible(head, golden_position, 1 << 14));
    CHECK(head.slots * slot_bytes == record.size());
    const auto body = std::span<const std::byte>(record).subspan(header_bytes);
    const auto block_bytes = extension_block_bytes(head, body);
    REQUIRE(block_bytes.has_value());
    const auto block = body.first(*block_bytes);
    CHECK(ExtensionReader::find_text(block, Tag::key) == "order-17");
    CHECK(ExtensionReader::find_origin(block) == Origin{test::uuid_from(0x40), 1, 77});
    CHECK(test::text_of(body.subspan(*block_bytes, head.payload_bytes)) == "the payload");
}

TEST_CASE("a dead entry is written as it always was, and read") {
    check_golden("dead_entry.bin", test::encoded(test::full_dead_entry()));
    const auto got = decode_dead_entry(load("dead_entry.bin"));
    REQUIRE(got.has_value());
    CHECK(got->group == "billing");
    CHECK(got->reason == DeadReason::max_deliveries);
    CHECK(got->key == "order-17");
    CHECK(got->headers.size() == 3);
    CHECK(got->attempts.size() == 3);
    CHECK(got->fingerprint == fingerprint_of(got->reason, got->error_type, got->code, got->stage, got->message));
}
