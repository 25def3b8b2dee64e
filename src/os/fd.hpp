// SPDX-License-Identifier: MIT
//
// UniqueFd: the owner of one file descriptor.
//
// - Ownership: move-only; the destructor closes. A moved-from one is empty (-1).
// - Every descriptor is CLOEXEC, and never 0, 1 or 2: a program that runs with its standard streams closed would
//   otherwise print into a ring. adopt() moves such a number up with F_DUPFD_CLOEXEC, which keeps the open file
//   description, and with it the locks that belong to it.
// - Closing one of several descriptors of an open file description keeps its OFD locks; so does closing the last one
//   while a mapping made through it lives (the mapping holds the description). See lock.hpp.
// - Threads: like an int.
#pragma once

#include <cstdint>
#include <utility>

#include <rondo/result.hpp>

namespace rondo::os {

// What a file is opened, or mapped, for.
enum class Access : std::uint8_t { read_only, read_write };

class UniqueFd {
public:
    constexpr UniqueFd() noexcept = default;
    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    ~UniqueFd() { reset(); }

    // Takes ownership of an open descriptor, also on failure (it is closed then). Sets CLOEXEC when it was missing.
    [[nodiscard]] static Result<UniqueFd> adopt(int fd) noexcept;

    // A second descriptor of the same open file description (same offset, same OFD locks).
    [[nodiscard]] Result<UniqueFd> duplicate() const noexcept;

    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
    // Gives the descriptor away; the caller closes it.
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
    // Closes now. Errors of close() are not reported: on Linux the descriptor is gone in every case.
    void reset() noexcept;

private:
    explicit UniqueFd(int fd) noexcept : fd_(fd) {}

    int fd_ = -1;
};

}  // namespace rondo::os
