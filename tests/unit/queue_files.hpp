// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A small queue and its files, for tests of creating, opening and destroying.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "format/validate.hpp"
#include "unit/queue_basics.hpp"

namespace rondo::test {

inline constexpr QueueOptions small_queue{.capacity_bytes = small};

/// Names of the files in a directory, sorted.
inline std::vector<std::string> names(const std::filesystem::path& directory) {
    std::vector<std::string> out;
    for (const auto& f : std::filesystem::directory_iterator(directory)) out.push_back(f.path().filename());
    std::sort(out.begin(), out.end());
    return out;
}

/// Files of a queue without groups.
inline const std::vector<std::string> all_files = {"dead.ring", "lane-00.ring", "lease-dead.tab", "retry.ring"};

/// Changes a superblock and seals it anew.
template <class Change>
void change_superblock(const std::filesystem::path& file, Change&& change) {
    std::fstream f(file, std::ios::binary | std::ios::in | std::ios::out);
    format::Superblock s;
    std::string raw(sizeof s, '\0');
    f.read(raw.data(), sizeof s);
    std::memcpy(&s, raw.data(), sizeof s);
    change(s);
    format::seal_superblock(s);
    std::memcpy(raw.data(), &s, sizeof s);
    f.seekp(0);
    f.write(raw.data(), sizeof s);
    REQUIRE(f.good());
}

inline bool root() { return geteuid() == 0; }

}  // namespace rondo::test
