// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What a test process must not leave behind when it dies: child processes and directories in /dev/shm. child.hpp and
// tmp_dir.hpp enter them here and take them out again; main.cpp clears what is left at the end of the run, after a
// crash and when the watchdog strikes. All functions may be called from any thread; clean_up() also from a signal
// handler. A forked child starts with an empty registry: what its parent started is not its business.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace rondo::test {

// Terminates the process with a message if the registry is full (256 children, 64 directories alive at once).
void register_child(pid_t pid) noexcept;
void forget_child(pid_t pid) noexcept;
void register_directory(std::string_view path) noexcept;
void forget_directory(std::string_view path) noexcept;

// Forgets everything without touching it; called in a child right after fork.
void reset_registry_after_fork() noexcept;

// Kills every registered child that is not reaped yet, removes every registered directory. Returns how many children
// there were.
int clean_up() noexcept;

}  // namespace rondo::test
