// SPDX-License-Identifier: MIT
//
// Makes one system call fail in the calling process, as a kernel without it or a container's filter would. For use in
// a forked child only: it cannot be undone.
#pragma once

#include <cstddef>
#include <cstdint>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

namespace rondo::test {

// From now on `number` fails with `sys_errno`; if `third` is given, only when its third argument has that value.
// false: this machine does not allow filters.
inline bool deny_syscall(long number, int sys_errno, std::int64_t third = -1) {
    const auto load = static_cast<std::uint16_t>(BPF_LD | BPF_W | BPF_ABS);
    const auto equals = static_cast<std::uint16_t>(BPF_JMP | BPF_JEQ | BPF_K);
    const auto answer = static_cast<std::uint16_t>(BPF_RET | BPF_K);
    const auto failure = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(sys_errno);
    sock_filter code[] = {
        {load, 0, 0, offsetof(seccomp_data, nr)},
        {equals, 0, 3, static_cast<std::uint32_t>(number)},
        {load, 0, 0, offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t)},
        {equals, 0, static_cast<std::uint8_t>(third < 0 ? 0 : 1), static_cast<std::uint32_t>(third < 0 ? 0 : third)},
        {answer, 0, 0, failure},
        {answer, 0, 0, SECCOMP_RET_ALLOW},
    };
    sock_fprog program{sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

// What a child returns when deny_syscall() said false; the parent then has nothing to check.
inline constexpr int no_seccomp = 77;

}  // namespace rondo::test
