// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What a user's first program does: include, link, run. FOUND_VERSION is what the build system found.
#include <rondo/version.hpp>

#include <iostream>

int main() {
    if (rondo::version_string != FOUND_VERSION || rondo::linked_version() != rondo::version_string) {
        std::cerr << "headers " << rondo::version_string << ", library " << rondo::linked_version() << ", package "
                  << FOUND_VERSION << '\n';
        return 1;
    }
    std::cout << "rondo " << rondo::linked_version() << '\n';
    return 0;
}
