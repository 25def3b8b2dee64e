// SPDX-License-Identifier: MIT
//
// Who this process is, and what can be seen of others. What is seen here is shown to people; whether a participant is
// dead is decided by its lock alone (lock.hpp). Nothing here signals another process.
// Threads: any, unless said otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <rondo/result.hpp>

namespace rondo::os {

enum class ProcessState : std::uint8_t {
    running,  // exists and is not stopped (asleep counts as running)
    stopped,  // by SIGSTOP or a debugger. A frozen cgroup is not visible here
    dead,     // gone, or a zombie
    unknown,  // another pid namespace, or the kernel does not say (hidepid)
};

[[nodiscard]] std::int32_t current_pid() noexcept;      // in this pid namespace
[[nodiscard]] std::uint32_t current_uid() noexcept;     // effective
[[nodiscard]] std::uint64_t pid_namespace() noexcept;   // inode of /proc/self/ns/pid; 0 when unknown
[[nodiscard]] std::uint64_t time_namespace() noexcept;  // inode of /proc/self/ns/time; 0 when unknown

// What became of `pid` in the pid namespace `ns_inode`. start_ticks (from process_start_ticks, 0 = do not compare)
// tells a new process with an old number: that is `dead`.
[[nodiscard]] ProcessState process_state(std::int32_t pid, std::uint64_t ns_inode,
                                         std::uint64_t start_ticks = 0) noexcept;

// When the process started, in clock ticks since boot. Gone or invisible: not_found.
[[nodiscard]] Result<std::uint64_t> process_start_ticks(std::int32_t pid) noexcept;

// True when this process may use one CPU only: spinning there only delays the one who is waited for. False when the
// kernel does not say.
[[nodiscard]] bool single_cpu() noexcept;

// The calling thread may run where the process could when it was loaded, whatever its creator was pinned to. If that
// set is no longer allowed, where the main thread may. Returns false when nothing changed.
bool reset_affinity_to_process() noexcept;

// Names the calling thread, cut to 15 bytes.
void name_thread(const char* name) noexcept;

// The kernel's random id of this boot.
[[nodiscard]] Result<std::array<std::byte, 16>> boot_id() noexcept;

// Random bytes from the kernel.
[[nodiscard]] Result<void> random_bytes(std::span<std::byte> out) noexcept;

// Last component of this process's executable; empty when the kernel does not say.
[[nodiscard]] std::string exe_name() noexcept;

// Runs `handler` in each child that this process makes with fork(), before fork() returns there; in the child only the
// forking thread exists, and only async-signal-safe functions may be called. The same handler twice counts once. At
// most 8 handlers (else no_memory); they cannot be removed. A raw clone() does not run them.
[[nodiscard]] Result<void> on_fork_child(void (*handler)()) noexcept;

// How many forks lie between the first process that looked and this one: two equal values mean the same process.
// Counts from load on; ensure_fork_tracking() says whether the system granted that.
[[nodiscard]] std::uint64_t fork_generation() noexcept;
[[nodiscard]] Result<void> ensure_fork_tracking() noexcept;

}  // namespace rondo::os
