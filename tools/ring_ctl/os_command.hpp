// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Runs a shell command with a message on its standard input and listens to its standard error.
// The command has a process group of its own, so that Ctrl-C at a terminal reaches ring-ctl alone, and it can be
// killed with everything it started. It gets the default signal mask and dispositions and no descriptor of ours but
// the three standard ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace rondo::ctl {

struct Command {
    std::string text;                      // for /bin/sh -c
    std::vector<std::string> environment;  // NAME=VALUE, added to ours
    std::span<const std::byte> input;
};

/// What happens while the command runs.
struct Watch {
    std::chrono::nanoseconds interval;  // how often beat() is called
    std::function<void()> beat;
    std::chrono::nanoseconds limit;  // then the command is killed
};

struct CommandResult {
    enum class End { exited, signalled, overrun, not_started };
    End end = End::not_started;
    int value = 0;           // exit code, signal, or errno
    std::string error_text;  // the first bytes of standard error, at least 1 KiB if there were as many
};

/// Returns when the command has ended. Its standard error is passed on to ours. A second stop signal (os_stream.hpp)
/// kills it.
[[nodiscard]] CommandResult run_command(const Command& command, const Watch& watch);

}  // namespace rondo::ctl
