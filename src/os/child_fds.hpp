// SPDX-License-Identifier: MIT
// Descriptors that a forked child must not keep: an inherited one would hold the parent's locks after its death.
// The child's copies are closed before fork() returns there. Threads: any. At most 1024 at a time.
// A raw clone() or _Fork() runs no handlers: its child keeps everything.
#pragma once

#include <string_view>

#include <rondo/result.hpp>

#include "os/event.hpp"
#include "os/fd.hpp"

namespace rondo::os {

/// As long as it lives no fork() of any thread of this process makes its copy: for the moments in which a descriptor
/// or a mapping exists and is not kept from children yet. Short; no other lock is taken inside. Signals wait as well:
/// a handler that forks would wait for its own thread.
class [[nodiscard]] NoFork {
public:
    NoFork() noexcept;
    ~NoFork();
    NoFork(const NoFork&) = delete;
    NoFork& operator=(const NoFork&) = delete;

private:
    SignalBlock signals_;
};

/// As open_file(). From its first moment until forget_child_fd(), fork() closes the descriptor in the child.
/// no_memory: too many.
[[nodiscard]] Result<UniqueFd> open_file_uninherited(int dir, std::string_view name, Access access) noexcept;
/// Before it is closed.
void forget_child_fd(int fd) noexcept;

}  // namespace rondo::os
