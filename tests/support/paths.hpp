// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Where a test finds the built programs and its own data, however it is started.
#pragma once

#include <string>

namespace rondo::test {

// The directory of ring-dump and ring-ctl. RONDO_BIN, set by ctest, or the directory of this build.
std::string bin_directory();

// The root of the source tree, for golden files. RONDO_SOURCE, set by ctest, or the tree this was built from.
std::string source_directory();

}  // namespace rondo::test
