// SPDX-License-Identifier: MIT
#include "os/process.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/fd.hpp"
#include "os/sys_error.hpp"
#include "os/text_file.hpp"

namespace rondo::os {

namespace {

// The fields of /proc/<pid>/stat that are used here; `state` is 0 when the file could not be read.
struct ProcessStat {
    char state = 0;
    std::uint64_t threads = 0;
    std::uint64_t start_ticks = 0;
};

// "pid (comm) S ppid ..."; comm may contain anything, blanks and brackets included.
ProcessStat read_process_stat(std::int32_t pid) noexcept {
    std::array<char, 64> path;
    std::array<char, 2048> buffer;
    std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
    std::string_view text = read_text(path.data(), buffer);
    const std::size_t comm_end = text.rfind(')');
    if (comm_end == std::string_view::npos || comm_end + 2 >= text.size()) return {};
    text.remove_prefix(comm_end + 2);
    ProcessStat result;
    result.state = text.front();
    constexpr int field_state = 3;
    constexpr int field_threads = 20;
    constexpr int field_start = 22;
    for (int field = field_state; field <= field_start; ++field) {
        if (field == field_threads) result.threads = parse_number(text, 0);
        if (field == field_start) result.start_ticks = parse_number(text, 0);
        const std::size_t blank = text.find(' ');
        if (blank == std::string_view::npos) break;
        text.remove_prefix(blank + 1);
    }
    return result;
}

// /proc may hide a process of another user (hidepid) or not be mounted. A pidfd needs no right over the process and
// sends it nothing; only ESRCH says that there is none.
ProcessState ask_kernel(std::int32_t pid) noexcept {
    const auto raw = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    const bool gone = raw < 0 && errno == ESRCH;
    if (raw >= 0) (void)UniqueFd::adopt(raw);
    return gone ? ProcessState::dead : ProcessState::unknown;
}

}  // namespace

std::int32_t current_pid() noexcept { return ::getpid(); }

std::uint32_t current_uid() noexcept { return ::geteuid(); }

std::uint64_t pid_namespace() noexcept {
    struct stat status;
    return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::uint64_t time_namespace() noexcept {
    struct stat status;
    return ::stat("/proc/self/ns/time", &status) == 0 ? status.st_ino : 0;
}

ProcessState process_state(std::int32_t pid, std::uint64_t ns_inode, std::uint64_t start_ticks) noexcept {
    const std::uint64_t own_namespace = pid_namespace();
    if (pid <= 0 || own_namespace == 0 || own_namespace != ns_inode) return ProcessState::unknown;
    const ProcessStat found = read_process_stat(pid);
    if (found.state != 0 && start_ticks != 0 && found.start_ticks != start_ticks) return ProcessState::dead;
    switch (found.state) {
        case 0:
            return ask_kernel(pid);
        case 'X':
        case 'x':
            return ProcessState::dead;
        // A main thread that has ended while others run looks like a zombie.
        case 'Z':
            return found.threads > 1 ? ProcessState::running : ProcessState::dead;
        case 'T':
        case 't':
            return ProcessState::stopped;
        default:
            return ProcessState::running;
    }
}

Result<std::uint64_t> process_start_ticks(std::int32_t pid) noexcept {
    const ProcessStat found = read_process_stat(pid);
    if (found.state == 0) return fail(Errc::not_found, "no such process", ESRCH);
    return found.start_ticks;
}

Result<std::array<std::byte, 16>> boot_id() noexcept {
    std::array<char, 64> buffer;
    const std::string_view text = read_text("/proc/sys/kernel/random/boot_id", buffer);
    if (text.empty()) return fail_errno("cannot read the boot id");
    std::array<std::byte, 16> id{};
    std::size_t digits = 0;
    for (const char c : text) {
        unsigned value = 0;
        if (c >= '0' && c <= '9') {
            value = static_cast<unsigned>(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = static_cast<unsigned>(c - 'a') + 10U;
        } else {
            continue;
        }
        if (digits == 32) break;
        id[digits / 2] |= static_cast<std::byte>(digits % 2 == 0 ? value << 4U : value);
        ++digits;
    }
    if (digits != 32) return fail(Errc::system, "the boot id is not a uuid");
    return id;
}

Result<void> random_bytes(std::span<std::byte> out) noexcept {
    while (!out.empty()) {
        const ssize_t got = ::getrandom(out.data(), out.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("the kernel gives no random bytes");
        out = out.subspan(static_cast<std::size_t>(got));
    }
    return {};
}

std::string exe_name() noexcept {
    std::array<char, 4096> target;
    const ssize_t length = ::readlink("/proc/self/exe", target.data(), target.size());
    if (length <= 0) return {};
    std::string_view name(target.data(), static_cast<std::size_t>(length));
    constexpr std::string_view deleted = " (deleted)";
    if (name.ends_with(deleted)) name.remove_suffix(deleted.size());
    name.remove_prefix(name.rfind('/') + 1);
    try {
        return std::string(name);
    } catch (const std::bad_alloc&) {
        return {};
    }
}

}  // namespace rondo::os
