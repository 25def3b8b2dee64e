// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What can be said of a participant's process.
#pragma once

#include <string>

#include "format/snapshot_words.hpp"

namespace rondo::tools {

/// running, stopped, dead (its lock is free), or alive: the lock is held, more cannot be seen from here.
[[nodiscard]] std::string process_word(const format::ParticipantInfo& participant, bool holds_lock);

}  // namespace rondo::tools
