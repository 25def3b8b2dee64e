// SPDX-License-Identifier: MIT
//
// The parts of process.hpp that concern threads: processors and names.
#include <array>
#include <bit>
#include <cstring>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "os/process.hpp"

namespace rondo::os {

namespace {

// A set of processors, 8192 of them: cpu_set_t ends at 1024 and the call then fails on larger machines.
struct CpuMask {
    std::array<unsigned long, 128> words{};
    bool known = false;

    [[nodiscard]] static CpuMask of_thread(pid_t thread) noexcept {
        CpuMask mask;
        mask.known = ::sched_getaffinity(thread, sizeof mask.words, mask.native()) == 0;
        return mask;
    }
    [[nodiscard]] bool apply_to_caller() noexcept {
        return known && ::sched_setaffinity(0, sizeof words, native()) == 0;
    }
    [[nodiscard]] int count() const noexcept {
        int sum = 0;
        for (const unsigned long word : words) sum += std::popcount(word);
        return sum;
    }

private:
    cpu_set_t* native() noexcept { return reinterpret_cast<cpu_set_t*>(words.data()); }
};

// What the process was given (taskset, cpuset), before the program pins its threads, the main one often included.
const CpuMask at_load = CpuMask::of_thread(0);

}  // namespace

bool single_cpu() noexcept {
    const CpuMask mask = CpuMask::of_thread(::getpid());
    return mask.known && mask.count() == 1;
}

bool reset_affinity_to_process() noexcept {
    CpuMask mask = at_load;
    if (mask.apply_to_caller()) return true;
    mask = CpuMask::of_thread(::getpid());
    return mask.apply_to_caller();
}

void name_thread(const char* name) noexcept {
    std::array<char, 16> cut{};
    std::strncpy(cut.data(), name, cut.size() - 1);
    pthread_setname_np(pthread_self(), cut.data());
}

}  // namespace rondo::os
