// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The exit codes of ring-dump, and the one exception that ends it.
#pragma once

#include <string>

namespace rondo::dump {

enum ExitCode : int {
    exit_ok = 0,
    exit_usage = 1,
    exit_not_found = 2,    // no such file, queue, group or dead letter
    exit_cannot_open = 3,  // permission, not a ring, another version; or the output cannot be written
    exit_corrupt = 4,      // damage was found; what could be read was shown
};

/// Printed once by main() as "ring-dump: text".
struct Failure {
    ExitCode code;
    std::string text;
    bool damage = false;  // the file is damaged, as opposed to forbidden, foreign or absent
};

}  // namespace rondo::dump
