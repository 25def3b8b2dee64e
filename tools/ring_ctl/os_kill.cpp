// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_ctl/os_kill.hpp"

#include <signal.h>

#include <cerrno>

extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 forgets that C++ exists
}

#include "os/fd.hpp"
#include "os/process.hpp"

namespace rondo::ctl {

KillResult kill_process(std::int32_t pid, std::uint64_t start_ticks) noexcept {
    const int fd = pidfd_open(pid, 0);
    if (fd < 0) return {errno == ESRCH ? Kill::gone : Kill::failed, errno};
    const auto process = os::UniqueFd::adopt(fd);
    if (!process) return {Kill::failed, process.error().sys_errno};
    if (start_ticks != 0) {
        const auto started = os::process_start_ticks(pid);
        if (!started) return {Kill::gone, started.error().sys_errno};
        if (*started != start_ticks) return {Kill::other, 0};
    }
    if (pidfd_send_signal(process->get(), SIGKILL, nullptr, 0) == 0) return {Kill::sent, 0};
    if (errno == ESRCH) return {Kill::gone, errno};
    return {errno == EPERM ? Kill::not_permitted : Kill::failed, errno};
}

}  // namespace rondo::ctl
