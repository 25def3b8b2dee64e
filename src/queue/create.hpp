// SPDX-License-Identifier: MIT
// Making and removing the files of a queue. Everything happens under a lock on the directory; lane-00.ring gets its
// name last, so that a queue exists whole or not at all. Whoever creates next removes what a killed creator left.
#pragma once

#include <string>

#include "os/fd.hpp"
#include "rondo/format.hpp"
#include "rondo/options.hpp"
#include "rondo/result.hpp"

namespace rondo::queue {

/// exists, permission, no_space, invalid_argument, not_supported, system.
Result<void> create_files(const std::string& directory, const QueueOptions& options);

/// The main ring says that its queue is being destroyed.
bool is_closed(int directory);

/// Removes the temporary files of creators that were killed. All temporary files are made under the directory's
/// lock, so whoever holds it knows that what is there is left over. Does nothing if another holds it.
void remove_leftovers(int directory, bool locked);

/// The directory's lock must be held. Removes the main ring's name first.
Result<void> remove_files(int directory);

/// A lease table under its final name, all entries never used. The group's admin lock and the directory's are held.
Result<void> create_lease_file(int directory, const std::string& name, const format::Superblock& ring,
                               std::uint32_t group, std::uint32_t life);

}  // namespace rondo::queue
