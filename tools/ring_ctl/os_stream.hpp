// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Standard input and output by the byte, and the signals that ask a command to stop.
// Threads: one; the process has no other when these are called.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace rondo::ctl {

inline constexpr int standard_input = 0;
inline constexpr int standard_output = 1;
inline constexpr int standard_error = 2;

/// A reader that went away shall be an error of write (EPIPE), not the end of this process.
void ignore_broken_pipes() noexcept;

/// From now on SIGINT and SIGTERM are counted instead of ending the process, also if they were ignored before.
void catch_stop_signals() noexcept;
/// How many of them came.
[[nodiscard]] int stop_signals() noexcept;

/// What a read or write came to: the bytes, or an errno.
struct Transfer {
    std::size_t bytes = 0;
    int sys_errno = 0;
};

/// Waits for at least one byte; 0 bytes and no errno: end of input. Signals do not end it.
[[nodiscard]] Transfer read_some(int fd, std::span<std::byte> buffer) noexcept;

/// Writes all parts. A second stop signal ends it (EINTR): the reader does not read, the user has had enough.
[[nodiscard]] Transfer write_all(int fd, std::initializer_list<std::span<const std::byte>> parts) noexcept;
[[nodiscard]] Transfer write_all(int fd, std::string_view text) noexcept;

}  // namespace rondo::ctl
