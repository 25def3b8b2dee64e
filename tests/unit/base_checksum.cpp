// SPDX-License-Identifier: MIT
#include "base/checksum.hpp"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "support/seed.hpp"

using rondo::base::checksum32;
using rondo::base::hash64;

namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

TEST_CASE("the checksum is XXH3 with a seed, low half") {
    // Values of the reference implementation: `xxhsum -H3` for seed 0 and the empty input.
    CHECK(hash64({}, 0) == 0x2d06800538d394c2U);
    CHECK(hash64(as_bytes("a"), 0) == 0xe6c632b61e964e1fU);
    CHECK(hash64(as_bytes("abc"), 0) == 0x78af5f94892f3950U);
    CHECK(checksum32(as_bytes("abc"), 0) == 0x892f3950U);
    CHECK(checksum32(as_bytes("abc"), 1) != checksum32(as_bytes("abc"), 0));
}

TEST_CASE("a checksum over two parts equals that over the whole, wherever it is cut") {
    auto rng = rondo::test::rng();
    for (const int length : {0, 1, 16, 17, 240, 241, 511, 512, 513, 1024, 5000}) {
        const auto size = static_cast<std::size_t>(length);
        std::vector<std::byte> data(size);
        rng.fill(data);
        const std::span<const std::byte> all(data);
        const std::uint64_t seed = rng();
        for (int i = 0; i < 20; ++i) {
            const std::size_t cut = rng.below(size + 1);
            REQUIRE(checksum32(all.first(cut), all.subspan(cut), seed) == checksum32(all, seed));
        }
    }
}

TEST_CASE("any flipped bit changes the checksum of a record") {
    std::vector<std::byte> data(256);
    rondo::test::rng(1).fill(data);
    const auto before = checksum32(data, 42);
    for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
        data[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
        REQUIRE(checksum32(data, 42) != before);
        data[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    }
}
