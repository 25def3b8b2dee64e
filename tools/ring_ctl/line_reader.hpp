// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Standard input as messages: a line each, or all of it as one. A line ends at LF and is handed on as soon as it is
// complete; a CR stays, a NUL is data, a last line without LF counts. Memory is bounded by the longest message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rondo::ctl {

class LineReader {
public:
    enum class Status { line, end, too_long, failed };

    /// bytes_max: of one line, without its LF.
    LineReader(int fd, std::size_t bytes_max) : fd_(fd), bytes_max_(bytes_max) {}

    /// The next line; line() is valid until the next call. too_long and failed end the input.
    Status next();
    /// All that is left as one line; end only if reading went well and it is not too long.
    Status rest();

    [[nodiscard]] std::span<const std::byte> line() const { return line_; }
    [[nodiscard]] int sys_errno() const { return sys_errno_; }

private:
    bool fill();

    int fd_;
    std::size_t bytes_max_;
    std::vector<std::byte> buffer_;
    std::size_t begin_ = 0;  // of what is not handed on yet
    std::size_t end_ = 0;
    std::span<const std::byte> line_;
    bool at_end_ = false;
    int sys_errno_ = 0;
};

}  // namespace rondo::ctl
