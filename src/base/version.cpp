// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "rondo/version.hpp"

namespace rondo {

namespace {

// True if text is "major.minor.patch" written out in decimal.
consteval bool spells_version(std::string_view text) {
    const int parts[] = {version_major, version_minor, version_patch};
    std::size_t at = 0;
    for (int part = 0; part < 3; ++part) {
        if (part > 0 && (at >= text.size() || text[at++] != '.')) return false;
        int value = 0;
        const std::size_t first = at;
        while (at < text.size() && text[at] >= '0' && text[at] <= '9') value = value * 10 + (text[at++] - '0');
        if (at == first || value != parts[part]) return false;
    }
    return at == text.size();
}

static_assert(spells_version(version_string), "version_string does not match the three numbers in version.hpp");

}  // namespace

std::string_view linked_version() noexcept { return version_string; }

}  // namespace rondo
