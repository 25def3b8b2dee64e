// SPDX-License-Identifier: MIT
#include "base/utf8.hpp"

#include <doctest/doctest.h>

#include <string>

using rondo::base::cut_utf8;

TEST_CASE("text within the limit is left alone") {
    CHECK(cut_utf8("abc", 3).text == "abc");
    CHECK_FALSE(cut_utf8("abc", 3).cut);
    CHECK_FALSE(cut_utf8("", 0).cut);
}

TEST_CASE("text above the limit is cut and says so") {
    CHECK(cut_utf8("abcd", 3).text == "abc");
    CHECK(cut_utf8("abcd", 3).cut);
    CHECK(cut_utf8("abcd", 0).text.empty());
    CHECK(cut_utf8("abcd", 0).cut);
}

TEST_CASE("a cut never splits a character") {
    // 1, 2, 3 and 4 bytes: 'a', e acute, euro sign, an emoji.
    const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    const std::size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (std::size_t limit = 0; limit <= text.size(); ++limit) {
        CAPTURE(limit);
        const auto result = cut_utf8(text, limit);
        CHECK(result.text.size() == expected[limit]);
        CHECK(result.cut == (limit < text.size()));
    }
}

TEST_CASE("bytes that are not UTF-8 are cut at the limit") {
    const std::string garbage(20, '\x80');
    CHECK(cut_utf8(garbage, 10).text.size() == 10);
    CHECK(cut_utf8(garbage, 2).text.size() == 2);
}
