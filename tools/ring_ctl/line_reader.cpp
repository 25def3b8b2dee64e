// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_ctl/line_reader.hpp"

#include <algorithm>
#include <cstring>

#include "tools/ring_ctl/os_stream.hpp"

namespace rondo::ctl {

namespace {
constexpr std::size_t step_bytes = std::size_t{64} << 10;
}

LineReader::Status LineReader::next() {
    std::size_t searched = 0;
    while (true) {
        const std::span<const std::byte> unread(buffer_.data() + begin_, end_ - begin_);
        const auto found =
            std::find(unread.begin() + static_cast<std::ptrdiff_t>(searched), unread.end(), std::byte{'\n'});
        const auto length = static_cast<std::size_t>(found - unread.begin());
        if (length > bytes_max_) return Status::too_long;
        if (found != unread.end()) {
            line_ = unread.first(length);
            begin_ += length + 1;
            return Status::line;
        }
        searched = unread.size();
        if (at_end_) {
            if (unread.empty()) return Status::end;
            line_ = unread;
            begin_ = end_;
            return Status::line;
        }
        if (!fill()) return Status::failed;
    }
}

LineReader::Status LineReader::rest() {
    while (!at_end_) {
        if (!fill()) return Status::failed;
        if (end_ - begin_ > bytes_max_) return Status::too_long;
    }
    line_ = std::span<const std::byte>(buffer_.data() + begin_, end_ - begin_);
    begin_ = end_;
    return Status::line;
}

// Reads once, behind what is already there.
bool LineReader::fill() {
    if (begin_ != 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (buffer_.size() - end_ < step_bytes) buffer_.resize(std::max(buffer_.size() * 2, end_ + step_bytes));
    const Transfer got = read_some(fd_, std::span(buffer_).subspan(end_));
    sys_errno_ = got.sys_errno;
    at_end_ = got.bytes == 0;
    end_ += got.bytes;
    return sys_errno_ == 0;
}

}  // namespace rondo::ctl
