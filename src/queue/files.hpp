// SPDX-License-Identifier: MIT
// The names in a queue's directory, and the bytes of lane-00.ring that are lock names, not data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::queue {

inline constexpr std::string_view main_name = "lane-00.ring";  // linked last: it makes the queue
inline constexpr std::string_view retry_name = "retry.ring";
inline constexpr std::string_view dead_name = "dead.ring";
inline constexpr std::string_view dead_lease_name = "lease-dead.tab";
inline constexpr std::string_view temp_prefix = ".rondo-new-";

inline std::string lease_name(std::uint32_t group, std::uint32_t life) {
    return "lease-" + std::to_string(group) + "-" + std::to_string(life) + ".tab";
}

/// Is it a name that only rondo makes?
inline bool is_queue_file(std::string_view name) {
    if (name == main_name || name == retry_name || name == dead_name || name == dead_lease_name) return true;
    if (name.starts_with(temp_prefix)) return true;
    // lease-<digits>-<digits>.tab
    if (!name.starts_with("lease-") || !name.ends_with(".tab")) return false;
    name.remove_prefix(6);
    name.remove_suffix(4);
    const auto dash = name.find('-');
    const auto digits = [](std::string_view text) {
        return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    return dash != std::string_view::npos && digits(name.substr(0, dash)) && digits(name.substr(dash + 1));
}

// OFD locks on lane-00.ring. Byte i in 1..1023: participant i lives.
inline constexpr std::uint64_t admin_byte = 4096;  // groups are made or deleted

}  // namespace rondo::queue
