// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_ctl/os_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 forgets that C++ exists
}

#include "os/fd.hpp"
#include "tools/ring_ctl/os_stream.hpp"

namespace rondo::ctl {

namespace {

using Clock = std::chrono::steady_clock;
using os::UniqueFd;
using std::chrono::milliseconds;

constexpr std::size_t error_text_bytes = 1024 + 4;  // the library cuts at the character
constexpr milliseconds poll_max{100};               // a second stop signal may come at any moment

struct Pipe {
    UniqueFd reader;
    UniqueFd writer;
};

// Both ends CLOEXEC; the ends that stay here do not block.
int make_pipe(Pipe& result) {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
    Result<UniqueFd> reader = UniqueFd::adopt(ends[0]);
    Result<UniqueFd> writer = UniqueFd::adopt(ends[1]);
    if (!reader) return reader.error().sys_errno;
    if (!writer) return writer.error().sys_errno;
    result = {std::move(*reader), std::move(*writer)};
    return 0;
}

void set_nonblocking(const UniqueFd& fd) { fcntl(fd.get(), F_SETFL, O_NONBLOCK); }

struct SpawnSettings {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;

    SpawnSettings(int input, int error) {
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, input, standard_input);
        posix_spawn_file_actions_adddup2(&actions, error, standard_error);
        posix_spawnattr_init(&attributes);
        sigset_t all;
        sigset_t none;
        sigfillset(&all);
        sigemptyset(&none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;
    ~SpawnSettings() {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
};

class Running {
public:
    // Returns an errno.
    int start(const Command& command) {
        Pipe input;
        Pipe error;
        if (const int failed = make_pipe(input)) return failed;
        if (const int failed = make_pipe(error)) return failed;
        const SpawnSettings settings(input.reader.get(), error.writer.get());

        std::string shell = "sh";
        std::string option = "-c";
        std::string text = command.text;
        const std::array<char*, 4> arguments{shell.data(), option.data(), text.data(), nullptr};
        std::vector<std::string> added = command.environment;
        std::vector<char*> environment;
        environment.reserve(added.size());
        for (std::string& variable : added) environment.push_back(variable.data());  // getenv finds the first
        for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
        environment.push_back(nullptr);
        if (const int failed = posix_spawn(&pid_, "/bin/sh", &settings.actions, &settings.attributes, arguments.data(),
                                           environment.data())) {
            return failed;
        }
        // A child of ours that is not reaped: the number cannot be another's yet.
        if (Result<UniqueFd> fd = UniqueFd::adopt(pidfd_open(pid_, 0))) pidfd_ = std::move(*fd);
        input_ = std::move(input.writer);
        error_ = std::move(error.reader);
        set_nonblocking(input_);
        set_nonblocking(error_);
        unwritten_ = command.input;
        feed();
        return 0;
    }

    // Works on the pipes for at most `time`; true once the command has ended.
    bool step(std::chrono::nanoseconds time) {
        std::array<pollfd, 3> wanted{pollfd{input_ ? input_.get() : -1, POLLOUT, 0},
                                     pollfd{error_ ? error_.get() : -1, POLLIN, 0},
                                     pollfd{pidfd_ ? pidfd_.get() : -1, POLLIN, 0}};
        const milliseconds most = pidfd_ ? poll_max : milliseconds(5);
        const auto wait = std::min(std::chrono::ceil<milliseconds>(time), most);
        poll(wanted.data(), wanted.size(), static_cast<int>(wait.count()));
        if (wanted[0].revents != 0) feed();
        if (wanted[1].revents != 0) listen();
        pid_t ended = 0;
        while ((ended = waitpid(pid_, &status_, WNOHANG)) < 0 && errno == EINTR) {
        }
        if (ended == 0) return false;
        listen();  // what is in the pipe; who still holds it open is not waited for
        return true;
    }

    void kill_all() const { kill(-pid_, SIGKILL); }

    [[nodiscard]] int status() const { return status_; }
    [[nodiscard]] std::string take_error_text() { return std::move(error_text_); }

private:
    // A command that does not read its input, or not all of it, is no error.
    void feed() {
        while (!unwritten_.empty()) {
            const ssize_t put = write(input_.get(), unwritten_.data(), unwritten_.size());
            if (put < 0 && errno == EINTR) continue;
            if (put < 0 && errno == EAGAIN) return;
            if (put < 0) break;
            unwritten_ = unwritten_.subspan(static_cast<std::size_t>(put));
        }
        input_.reset();
    }

    void listen() {
        std::array<char, 4096> buffer{};
        for (int reads = 0; error_ && reads < 16; ++reads) {
            const ssize_t got = read(error_.get(), buffer.data(), buffer.size());
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && errno == EAGAIN) return;
            if (got <= 0) {
                error_.reset();
                return;
            }
            const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
            error_text_ += text.substr(0, error_text_bytes - error_text_.size());
            static_cast<void>(write_all(standard_error, text));  // a closed standard error is no reason to stop
        }
    }

    pid_t pid_ = 0;
    int status_ = 0;
    UniqueFd pidfd_;
    UniqueFd input_;
    UniqueFd error_;
    std::span<const std::byte> unwritten_;
    std::string error_text_;
};

}  // namespace

CommandResult run_command(const Command& command, const Watch& watch) {
    Running running;
    if (const int failed = running.start(command)) return {CommandResult::End::not_started, failed, {}};

    const Clock::time_point start = Clock::now();
    Clock::time_point beat = start + watch.interval;
    bool overrun = false;
    bool killed = false;
    while (true) {
        const Clock::time_point now = Clock::now();
        std::chrono::nanoseconds time = overrun ? poll_max : beat - now;
        if (!overrun) time = std::min(time, watch.limit - (now - start));
        if (running.step(std::max(time, std::chrono::nanoseconds(0)))) break;
        // The first one only means: stop after this message. Killed, because a stopped command hears nothing else.
        if (!killed && stop_signals() > 1) {
            killed = true;
            running.kill_all();
        }
        if (!overrun && Clock::now() - start >= watch.limit) {
            overrun = true;
            running.kill_all();
        }
        if (!overrun && Clock::now() >= beat) {
            watch.beat();
            beat = Clock::now() + watch.interval;
        }
    }
    const int status = running.status();
    CommandResult result{CommandResult::End::exited, 0, running.take_error_text()};
    if (overrun) {
        result.end = CommandResult::End::overrun;
        result.value = SIGKILL;
    } else if (WIFSIGNALED(status)) {
        result.end = CommandResult::End::signalled;
        result.value = WTERMSIG(status);
    } else {
        result.value = WEXITSTATUS(status);
    }
    return result;
}

}  // namespace rondo::ctl
