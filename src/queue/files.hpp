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
    const auto ends = [&](std::string_view tail) {
        return name.size() >= tail.size() && name.substr(name.size() - tail.size()) == tail;
    };
    return name == main_name || name == retry_name || name == dead_name || name.starts_with(temp_prefix) ||
           (name.starts_with("lease-") && ends(".tab"));
}

// OFD locks on lane-00.ring. Byte i in 1..1023: participant i lives.
inline constexpr std::uint64_t admin_byte = 4096;  // groups are made or deleted

}  // namespace rondo::queue
