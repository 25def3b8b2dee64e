// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Two pinned processes that start together, and the page they share.
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
    alignas(128) std::uint64_t messages = 0, ns = 0, errors = 0;  // by the side that measures
    double quantiles_ns[4] = {};                                  // p50, p99, p99.9, max
};

/// One side of a pair: prepares (opens queues) unpinned, then says what to do once both sides are ready.
using Side = std::function<std::function<void(Control&)>()>;

/// Runs both sides as child processes on cpu 0 and cpu 1. False if one of them failed.
inline bool run_pair(Control& control, const Side& first, const Side& second) {
    new (&control) Control;
    const auto start = [&](const Side& side, unsigned cpu) {
        const pid_t child = fork();
        if (child != 0) return child;
        const auto body = side();
        pin(cpu);
        control.ready.fetch_add(1);
        while (control.ready.load(std::memory_order_acquire) < 2) sched_yield();
        body(control);
        _exit(0);
    };
    const pid_t children[] = {start(first, 0), start(second, 1)};
    bool ok = true;
    for (const pid_t child : children) {
        int status = 0;
        ok = child > 0 && waitpid(child, &status, 0) == child && status == 0 && ok;
    }
    return ok && control.errors == 0;
}

/// The messages of all measurements: {number, flags in the upper bits} in the first word, then a pattern.
inline constexpr std::uint64_t start_flag = std::uint64_t{1} << 62;  // the clock starts behind this one
inline constexpr std::uint64_t last_flag = std::uint64_t{1} << 63;   // and stops with this one
inline constexpr std::uint64_t number_mask = start_flag - 1;
inline constexpr std::uint64_t pattern = 0x5a5a5a5a5a5a5a5aU;

/// XOR of all whole words: every byte is read.
inline std::uint64_t xor_of(const void* data, std::size_t bytes) {
    const auto* word = static_cast<const std::uint64_t*>(data);
    std::uint64_t sums[4] = {};
    std::size_t i = 0;
    for (; i + 4 <= bytes / 8; i += 4)
        for (std::size_t j = 0; j < 4; ++j) sums[j] ^= word[i + j];
    for (; i < bytes / 8; ++i) sums[0] ^= word[i];
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}
/// xor_of() a message of `bytes` must be its first word with this.
inline std::uint64_t rest_of(std::size_t bytes) { return bytes / 8 % 2 == 0 ? pattern : 0; }

/// When the producer sends the flags: after a fifth of the time, and at the end. It asks the clock now and then only.
class Schedule {
public:
    Schedule(double seconds, std::size_t bytes)
        : every_(bytes <= 1024 ? 256 : 16), begin_(now_ns()), length_(static_cast<std::uint64_t>(seconds * 1e9)) {}
    /// The first word of message `number`.
    std::uint64_t head(std::uint64_t number) {
        if (++since_ < every_) return number;
        since_ = 0;
        const std::uint64_t t = now_ns() - begin_;
        if (!started_ && t > length_ / 5) {
            started_ = true;
            return number | start_flag;
        }
        if (started_ && t > length_ + length_ / 5) return number | last_flag;
        return number;
    }

private:
    unsigned every_, since_ = 0;
    std::uint64_t begin_, length_;
    bool started_ = false;
};

/// The consumer's side of it: checks each message, keeps the time.
class Tally {
public:
    explicit Tally(std::size_t bytes) : bytes_(bytes), rest_(rest_of(bytes)) {}
    void take(const void* data, std::size_t bytes) {
        const std::uint64_t head = *static_cast<const std::uint64_t*>(data);
        if ((head & number_mask) != expected_++ || bytes != bytes_ || xor_of(data, bytes) != (head ^ rest_)) ++errors_;
        if ((head & (start_flag | last_flag)) == 0) [[likely]]
            return;
        if ((head & start_flag) != 0) {
            begin_ = now_ns();
            first_ = expected_;
        } else {
            ns_ = now_ns() - begin_;
            done_ = true;
        }
    }
    bool done() const { return done_; }
    void report(Control& c) const {
        c.messages = expected_ - first_;
        c.ns = ns_;
        c.errors += errors_ + (done_ ? 0 : 1);
    }

private:
    std::size_t bytes_;
    std::uint64_t rest_, expected_ = 0, first_ = 0, begin_ = 0, ns_ = 0, errors_ = 0;
    bool done_ = false;
};

}  // namespace perf
