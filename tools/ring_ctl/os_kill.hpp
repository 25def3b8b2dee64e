// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Killing exactly the process that was meant, although its number may be another's by now.
#pragma once

#include <cstdint>

namespace rondo::ctl {

enum class Kill {
    sent,   // SIGKILL is on its way
    gone,   // no such process any more
    other,  // the number belongs to a process that started at another time
    not_permitted,
    failed,  // see sys_errno
};

struct KillResult {
    Kill kill;
    int sys_errno = 0;
};

/// Sends SIGKILL to `pid` of this pid namespace if it is the process that started at start_ticks (0: not compared).
/// The process is held by a descriptor while it is compared, so the signal cannot reach another one.
[[nodiscard]] KillResult kill_process(std::int32_t pid, std::uint64_t start_ticks) noexcept;

}  // namespace rondo::ctl
