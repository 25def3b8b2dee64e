// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_dump/bus_guard.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "tools/ring_dump/failure.hpp"

namespace rondo::dump {

namespace {

struct Named {
    const std::byte* begin;
    const std::byte* end;
    std::array<char, 256> name;
};
std::array<Named, 128> mappings;  // NOLINT: read by the handler
std::size_t mapping_count = 0;    // NOLINT

// The fault is one of our own loads, in the only thread, never one inside stdio: so stdio may be used here.
void on_bus_error(int, siginfo_t* info, void*) {
    const auto* address = static_cast<const std::byte*>(info->si_addr);
    const char* name = "a file";
    for (std::size_t i = 0; i < mapping_count; ++i) {
        if (mappings[i].begin <= address && address < mappings[i].end) name = mappings[i].name.data();
    }
    std::fprintf(stderr, "ring-dump: %s: the file became shorter while it was read (or its memory cannot be had)\n",
                 name);
    std::_Exit(exit_cannot_open);
}

}  // namespace

void install_bus_guard() {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
}

void name_mapping(std::span<const std::byte> mapping, std::string_view name) {
    if (mapping_count == mappings.size()) return;
    constexpr std::size_t page = 4096;
    Named& entry = mappings[mapping_count++];
    entry.begin = mapping.data();
    entry.end = mapping.data() + (mapping.size() + page - 1) / page * page;
    entry.name.fill('\0');
    const auto text = name.substr(0, entry.name.size() - 1);
    std::copy(text.begin(), text.end(), entry.name.begin());
}

}  // namespace rondo::dump
