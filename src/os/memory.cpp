// SPDX-License-Identifier: MIT
#include "os/memory.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <string_view>

#include "base/bits.hpp"
#include "os/text_file.hpp"

namespace rondo::os {

namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

// The two generations of the memory controller: where it is mounted and what its files are called.
struct CgroupFiles {
    const char* mount;
    const char* limit;
    const char* usage;
    const char* reclaimable;  // key in memory.stat: file pages that go when memory is asked for
};
constexpr CgroupFiles cgroup_v1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file "};
constexpr CgroupFiles cgroup_v2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};

std::uint64_t read_number(const char* directory, const char* name) noexcept {
    std::array<char, 4352> path;
    std::array<char, 64> text;
    std::snprintf(path.data(), path.size(), "%s/%s", directory, name);
    return parse_number(read_text(path.data(), text));
}

std::uint64_t left_in_cgroup(const CgroupFiles& files, const char* directory) noexcept {
    const std::uint64_t limit = read_number(directory, files.limit);
    const std::uint64_t usage = read_number(directory, files.usage);
    if (limit == unlimited || usage == unlimited) return unlimited;  // "max", the root group, or not mounted
    std::array<char, 4352> path;
    std::array<char, 8192> text;
    std::snprintf(path.data(), path.size(), "%s/memory.stat", directory);
    const std::uint64_t reclaimable = number_after(read_text(path.data(), text), files.reclaimable, 0);
    return base::saturating_sub(limit, base::saturating_sub(usage, reclaimable));
}

// The group at `path` and all above it. In a cgroup namespace or container the path may not exist below the mount:
// then the groups nearer to the root that do exist are what can be seen.
std::uint64_t left_in_hierarchy(const CgroupFiles& files, std::string_view path) noexcept {
    std::uint64_t left = unlimited;
    for (int depth = 0; depth < 64; ++depth) {
        while (path.ends_with('/')) path.remove_suffix(1);
        std::array<char, 4224> directory;
        std::snprintf(directory.data(), directory.size(), "%s%.*s", files.mount, static_cast<int>(path.size()),
                      path.data());
        left = std::min(left, left_in_cgroup(files, directory.data()));
        if (path.empty()) break;
        path = path.substr(0, path.rfind('/'));
    }
    return left;
}

// Lines of /proc/self/cgroup: "4:memory:/path" (version 1) and "0::/path" (version 2).
std::uint64_t left_in_cgroups() noexcept {
    std::array<char, 8192> buffer;
    std::string_view text = read_text("/proc/self/cgroup", buffer);
    std::uint64_t left = unlimited;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (first == std::string_view::npos || second == std::string_view::npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const std::string_view path = line.substr(second + 1, 4096);
        if (controllers.empty()) left = std::min(left, left_in_hierarchy(cgroup_v2, path));
        if (controllers == "memory") left = std::min(left, left_in_hierarchy(cgroup_v1, path));
    }
    return left;
}

}  // namespace

std::uint64_t available_memory() noexcept {
    std::array<char, 8192> buffer;
    const std::string_view meminfo = read_text("/proc/meminfo", buffer);
    const std::uint64_t available_kib = number_after(meminfo, "MemAvailable:", unlimited);
    const std::uint64_t swap_kib = number_after(meminfo, "SwapFree:", 0);
    const std::uint64_t machine = base::saturating_mul(base::saturating_add(available_kib, swap_kib), 1024);
    return std::min(machine, left_in_cgroups());
}

std::uint64_t available_huge_memory(std::uint64_t page_size) noexcept {
    std::array<char, 128> directory;
    std::snprintf(directory.data(), directory.size(), "/sys/kernel/mm/hugepages/hugepages-%llukB",
                  static_cast<unsigned long long>(page_size / 1024));
    const std::uint64_t pages = read_number(directory.data(), "free_hugepages");
    return pages == unlimited ? unlimited : base::saturating_mul(pages, page_size);
}

}  // namespace rondo::os
