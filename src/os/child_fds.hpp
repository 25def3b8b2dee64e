// SPDX-License-Identifier: MIT
// Descriptors that a forked child must not keep: an inherited one would hold the parent's locks after its death.
// The child's copies are closed before fork() returns there. Threads: any. At most 1024 at a time.
#pragma once

#include <rondo/result.hpp>

namespace rondo::os {

/// From now until forget_child_fd(), fork() closes `fd` in the child. no_memory: too many.
[[nodiscard]] Result<void> close_in_child(int fd) noexcept;
void forget_child_fd(int fd) noexcept;

}  // namespace rondo::os
