// SPDX-License-Identifier: MIT
// Two pinned processes that start together, and the page they share. All figures come from the second one's clock.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>

namespace perf {

inline std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

inline void pin(unsigned cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

/// Memory of both processes.
inline void* shared_memory(std::size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    return p;
}

struct Control {
    alignas(128) std::atomic<int> ready{0};
    alignas(128) std::atomic<std::uint64_t> stop{0};
    alignas(128) std::uint64_t count = 0, ns = 0, errors = 0;
    std::uint64_t quantiles_ns[4] = {};  // p50, p99, p99.9, max
};

/// Runs `first` in this process on cpu 0 and `second` in a child on cpu 1; both are ready before either goes on.
inline const Control& run_pair(Control& control, const std::function<void(Control&)>& first,
                               const std::function<void(Control&)>& second) {
    new (&control) Control;
    const auto meet = [&](const std::function<void(Control&)>& body, unsigned cpu) {
        pin(cpu);
        control.ready.fetch_add(1);
        while (control.ready.load() < 2) sched_yield();
        body(control);
    };
    const pid_t child = fork();
    if (child == 0) {
        meet(second, 1);
        _exit(0);
    }
    meet(first, 0);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++control.errors;
    return control;
}

}  // namespace perf
