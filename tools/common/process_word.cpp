// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/common/process_word.hpp"

#include "os/process.hpp"

namespace rondo::tools {

std::string process_word(const format::ParticipantInfo& participant, bool holds_lock) {
    if (!holds_lock) return "dead";
    const auto pid = static_cast<std::int32_t>(participant.pid);
    switch (os::process_state(pid, participant.pid_namespace, participant.start_ticks)) {
        case os::ProcessState::running:
            return "running";
        case os::ProcessState::stopped:
            return "stopped";
        case os::ProcessState::dead:  // a child inherited the lock
        case os::ProcessState::unknown:
            break;
    }
    return "alive";
}

}  // namespace rondo::tools
