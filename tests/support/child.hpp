// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A child process that runs a callable and ends with the int it returns; an exception is printed and ends it with 125.
// The child must not use CHECK or REQUIRE: it says what it found by its exit code or in a SharedBlock.
//
//     Child child([&] { return work(queue) ? 0 : 1; });
//     CHECK(child.wait().exited_with(0));
//
// The destructor kills and reaps what still lives. The kernel kills the child if the test process dies (unless it was
// forked by another than the main thread: then main.cpp's clean-up has to do). Not thread-safe; never copied or moved.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <system_error>

#include "support/registry.hpp"

namespace rondo::test {

// How a child ended.
class ChildStatus {
public:
    explicit ChildStatus(int raw) : raw_(raw) {}

    bool exited_with(int code) const { return WIFEXITED(raw_) && WEXITSTATUS(raw_) == code; }
    bool killed_by(int signal_number) const { return WIFSIGNALED(raw_) && WTERMSIG(raw_) == signal_number; }
    int raw() const { return raw_; }

    // "exited with 3", "killed by signal 9": for INFO and failure messages.
    std::string text() const {
        if (WIFEXITED(raw_)) return "exited with " + std::to_string(WEXITSTATUS(raw_));
        return "killed by signal " + std::to_string(WTERMSIG(raw_));
    }

private:
    int raw_;
};

class Child {
public:
    explicit Child(const std::function<int()>& body) {
        std::fflush(nullptr);  // or the child would print the parent's unwritten text once more
        const bool from_main_thread = syscall(SYS_gettid) == getpid();
        const pid_t parent = getpid();
        pid_ = fork();
        if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
        if (pid_ == 0) run(body, parent, from_main_thread);
        register_child(pid_);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (status_) return;
        ::kill(pid_, SIGKILL);
        while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
        forget_child(pid_);
    }

    pid_t pid() const { return pid_; }

    // No effect on a child that is reaped already: its number may be another process's by now.
    void kill(int signal_number = SIGKILL) {
        if (!status_ && ::kill(pid_, signal_number) != 0)
            throw std::system_error(errno, std::generic_category(), "kill");
    }

    // Returns when the child is stopped, or has ended.
    void stop() {
        kill(SIGSTOP);
        reap(WUNTRACED);
    }

    // Returns when the child is running again, or has ended.
    void cont() {
        kill(SIGCONT);
        reap(WCONTINUED);
    }

    // Waits until the child has ended; the watchdog bounds it. May be called again.
    ChildStatus wait() {
        while (!status_) reap(0);
        return *status_;
    }

    // False once the child has ended, also if nobody has waited for it yet.
    bool alive() {
        if (!status_) reap(WNOHANG);
        return !status_;
    }

private:
    [[noreturn]] static void run(const std::function<int()>& body, pid_t parent, bool from_main_thread) {
        reset_registry_after_fork();
        for (const int number : {SIGINT, SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGTERM, SIGABRT}) signal(number, SIG_DFL);
        if (from_main_thread) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(126);  // it died before the line above
        }
        int code = 125;
        try {
            code = body();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "child %d: %s\n", static_cast<int>(getpid()), error.what());
        } catch (...) {
            std::fprintf(stderr, "child %d: unknown exception\n", static_cast<int>(getpid()));
        }
        std::fflush(nullptr);
        _exit(code);
    }

    void reap(int options) {
        if (status_) return;
        int raw = 0;
        pid_t got = 0;
        while ((got = waitpid(pid_, &raw, options)) < 0 && errno == EINTR) {
        }
        if (got < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
        if (got == pid_ && (WIFEXITED(raw) || WIFSIGNALED(raw))) {
            status_.emplace(raw);
            forget_child(pid_);
        }
    }

    pid_t pid_ = 0;
    std::optional<ChildStatus> status_;
};

}  // namespace rondo::test
