// SPDX-License-Identifier: MIT
#include "os/barrier.hpp"

#include <doctest/doctest.h>

#include <cerrno>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os_seccomp.hpp"
#include "support/child.hpp"

using namespace rondo;

namespace {

// What this kernel says it can do.
bool offered() {
    const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;
}

}  // namespace

TEST_CASE("publishers register and waiters reach them where the kernel offers it") {
    CHECK(os::register_publisher() == offered());
    CHECK(os::register_publisher() == offered());
    CHECK(os::barrier_all_publishers() == offered());
}

TEST_CASE("a process that may not use barriers is told so") {
    test::Child child([] {
        if (!test::deny_syscall(SYS_membarrier, EPERM)) return test::no_seccomp;
        return !os::register_publisher() && !os::barrier_all_publishers() ? 0 : 1;
    });
    const auto status = child.wait();
    CHECK((status.exited_with(0) || status.exited_with(test::no_seccomp)));
}
