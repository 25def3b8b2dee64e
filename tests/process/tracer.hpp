// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A child under ptrace: it prepares itself, stops at mark(), does the thing under test, stops at mark() again. The
// test lets it run from the first mark by instructions or by system calls, then kills it, or leaves it paused, or lets
// it go on to the end.
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "support/child.hpp"

namespace rondo::test {

/// Of the traced child: begin and end of what is under test.
inline void mark() { raise(SIGSTOP); }

class Traced {
public:
    /// Runs `body` in a child up to its first mark().
    explicit Traced(const std::function<int()>& body)
        : child_([&] {
              if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 77;
              return body();
          }) {
        next_stop("before its first mark");
        if (stop_signal_ != SIGSTOP)
            throw std::runtime_error("the traced child stopped by signal " + std::to_string(stop_signal_) +
                                     " before its first mark");
    }

    /// Executes up to n instructions. False: the second mark was reached before.
    bool instructions(std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            resume(PTRACE_SINGLESTEP);
            if (stop_signal_ == SIGSTOP) return false;
        }
        return true;
    }

    /// Runs up to the n-th stop at the entry or exit of a system call (each call has both). False: as above.
    bool system_call_stops(std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            resume(PTRACE_SYSCALL);
            if (stop_signal_ == SIGSTOP) return false;
        }
        return true;
    }

    /// Runs from a stop to the second mark.
    void finish() {
        while (stop_signal_ != SIGSTOP || !resumed_) resume(PTRACE_CONT);
    }

    /// From the second mark to the child's end.
    ChildStatus end() {
        if (ptrace(PTRACE_CONT, child_.pid(), nullptr, nullptr) != 0)
            throw std::system_error(errno, std::generic_category(), "ptrace");
        return child_.wait();
    }

    void kill() {
        child_.kill();
        if (const auto status = child_.wait(); !status.killed_by(SIGKILL))
            throw std::runtime_error("the traced child " + status.text());
    }

    pid_t pid() const { return child_.pid(); }

private:
    void resume(decltype(PTRACE_CONT) how) {
        if (ptrace(how, child_.pid(), nullptr, nullptr) != 0)
            throw std::system_error(errno, std::generic_category(), "ptrace");
        next_stop("under test");
        resumed_ = true;
    }

    void next_stop(const char* when) {
        // Looks first: an end must be left for the Child to reap.
        siginfo_t seen{};
        while (waitid(P_PID, static_cast<id_t>(child_.pid()), &seen, WEXITED | WSTOPPED | WNOWAIT) != 0) {
            if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitid");
        }
        if (seen.si_code != CLD_TRAPPED && seen.si_code != CLD_STOPPED)
            throw std::runtime_error(std::string("the traced child ended ") + when + ", status " +
                                     std::to_string(seen.si_status));
        int status = 0;
        while (waitpid(child_.pid(), &status, 0) < 0 && errno == EINTR) {
        }
        stop_signal_ = WSTOPSIG(status);
        if (stop_signal_ != SIGSTOP && stop_signal_ != SIGTRAP)
            throw std::runtime_error("the traced child got signal " + std::to_string(stop_signal_) + " " + when);
    }

    Child child_;
    int stop_signal_ = 0;
    bool resumed_ = false;
};

}  // namespace rondo::test
