// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// See seed.hpp and paths.hpp.
#include "support/seed.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "support/paths.hpp"

namespace rondo::test {

namespace {

std::uint64_t choose_seed() {
    if (const char* text = std::getenv("RONDO_SEED")) {
        char* end = nullptr;
        const std::uint64_t value = std::strtoull(text, &end, 0);
        if (end == text || *end != '\0') {
            std::fprintf(stderr, "RONDO_SEED: \"%s\" is not a number\n", text);
            std::exit(2);
        }
        return value;
    }
    std::random_device device;
    return device();  // 32 bits are enough, and short to type
}

std::atomic<const char*> reason_to_skip{nullptr};

std::string environment_or(const char* name, const char* otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? text : otherwise;
}

}  // namespace

std::uint64_t seed() {
    static const std::uint64_t value = choose_seed();
    return value;
}

void skip(const char* reason) { reason_to_skip.store(reason); }
const char* skip_reason() { return reason_to_skip.load(); }

std::string bin_directory() { return environment_or("RONDO_BIN", RONDO_TEST_DEFAULT_BIN); }
std::string source_directory() { return environment_or("RONDO_SOURCE", RONDO_TEST_DEFAULT_SOURCE); }

}  // namespace rondo::test
