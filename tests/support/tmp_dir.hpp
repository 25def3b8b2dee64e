// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A directory of its own under /dev/shm (or another base), removed with all its contents at the end of its scope, also
// when a REQUIRE throws, and by main.cpp when the test crashes or hangs. Only the process that made it removes it: a
// forked child that leaves the scope does not.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "support/registry.hpp"

namespace rondo::test {

class TmpDir {
public:
    explicit TmpDir(std::string_view base = "/dev/shm") : owner_(getpid()) {
        std::string name = std::string(base) + "/rondo-test-" + std::to_string(owner_) + "-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
        path_ = name;
        register_directory(name);
    }
    TmpDir(const TmpDir&) = delete;
    TmpDir& operator=(const TmpDir&) = delete;
    ~TmpDir() {
        if (getpid() != owner_) return;
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
        forget_directory(path_.native());
    }

    const std::filesystem::path& path() const { return path_; }
    std::string str() const { return path_.string(); }
    std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

private:
    pid_t owner_;
    std::filesystem::path path_;
};

}  // namespace rondo::test
