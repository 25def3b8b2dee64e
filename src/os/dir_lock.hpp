// SPDX-License-Identifier: MIT
// A lock on a directory (flock): who creates or destroys a queue in it holds it. Freed by the kernel when the holder
// is gone. Needs no write access to the directory.
#pragma once

#include <rondo/result.hpp>

#include "os/fd.hpp"

namespace rondo::os {

/// Waits for the lock on the open file description of `directory`; held until that is closed.
[[nodiscard]] Result<void> lock_directory(int directory) noexcept;

/// Same, without waiting: false if another holds it.
[[nodiscard]] Result<bool> try_lock_directory(int directory) noexcept;

}  // namespace rondo::os
