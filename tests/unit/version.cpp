// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "rondo/version.hpp"

#include <doctest/doctest.h>

#include <string>

TEST_CASE("the version string spells the three numbers") {
    const std::string spelled = std::to_string(rondo::version_major) + "." + std::to_string(rondo::version_minor) +
                                "." + std::to_string(rondo::version_patch);
    CHECK(rondo::version_string == spelled);
}

TEST_CASE("headers and library of one build have one version") {
    CHECK(rondo::linked_version() == rondo::version_string);
}
