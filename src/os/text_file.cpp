// SPDX-License-Identifier: MIT
#include "os/text_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "base/bits.hpp"
#include "os/fd.hpp"

namespace rondo::os {

std::string_view read_text(const char* path, std::span<char> buffer) noexcept {
    auto file = UniqueFd::adopt(::open(path, O_RDONLY | O_CLOEXEC));
    if (!file) return {};
    std::size_t filled = 0;
    while (filled < buffer.size()) {
        const ssize_t got = ::read(file->get(), buffer.data() + filled, buffer.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return {};
        if (got == 0) break;
        filled += static_cast<std::size_t>(got);
    }
    return {buffer.data(), filled};
}

std::uint64_t parse_number(std::string_view text, std::uint64_t otherwise) noexcept {
    std::size_t at = text.find_first_not_of(" \t");
    if (at == std::string_view::npos || text[at] < '0' || text[at] > '9') return otherwise;
    std::uint64_t number = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        number = base::saturating_add(base::saturating_mul(number, 10), static_cast<std::uint64_t>(text[at] - '0'));
    }
    return number;
}

std::uint64_t number_after(std::string_view text, std::string_view key, std::uint64_t otherwise) noexcept {
    for (std::size_t at = 0; at < text.size();) {
        const std::string_view rest = text.substr(at);
        if (rest.starts_with(key)) return parse_number(rest.substr(key.size()), otherwise);
        const std::size_t line_end = rest.find('\n');
        if (line_end == std::string_view::npos) break;
        at += line_end + 1;
    }
    return otherwise;
}

}  // namespace rondo::os
