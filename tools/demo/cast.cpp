// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/demo/cast.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace rondo::demo {

namespace {

constexpr std::uint64_t time_max_ns = 50'000'000'000;

volatile sig_atomic_t interrupted = 0;
extern "C" void on_signal(int) { interrupted = 1; }

int produce_role(const Scene& scene, std::size_t) { return produce(scene); }
int audit_role(const Scene& scene, std::size_t) { return audit(scene); }

/// The child's whole life. Nothing of the parent's is destroyed here.
[[noreturn]] void live(const Scene& scene, const Actor& actor, pid_t parent) {
    for (const int number : {SIGINT, SIGTERM}) signal(number, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = 125;
    if (getppid() == parent) {
        try {
            code = actor.role(scene, actor.number);
        } catch (const std::exception& error) {
            fmt::print(stderr, "{}: {}\n", actor.name, error.what());
        }
    }
    std::fflush(nullptr);
    _exit(code);
}

}  // namespace

Cast::Cast(const Scene& scene) : scene_(scene), deadline_ns_(now_ns() + time_max_ns) {
    actors_.push_back({"auditor", audit_role, 0, false, {}});
    for (std::size_t number = 0; number < worker_count; ++number) {
        actors_.push_back({fmt::format("worker-{}", number + 1), work, number, true, {}});
    }
    actors_.push_back({"producer", produce_role, 0, false, {}});
    for (Actor& actor : actors_) start(actor);
}

Cast::~Cast() {
    for (const Actor& actor : actors_) {
        if (!actor.running) continue;
        kill(actor.lives.back().pid, SIGKILL);
        while (waitpid(actor.lives.back().pid, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
}

bool Cast::running(std::string_view name) const {
    return std::any_of(actors_.begin(), actors_.end(), [&](const Actor& a) { return a.name == name && a.running; });
}

std::size_t Cast::running_count() const {
    return static_cast<std::size_t>(
        std::count_if(actors_.begin(), actors_.end(), [](const Actor& a) { return a.running; }));
}

void Cast::start(Actor& actor) {
    std::fflush(nullptr);  // or the child would print our text once more
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid == 0) live(scene_, actor, parent);
    actor.lives.push_back({pid, "still running"});
    actor.running = true;
}

void Cast::reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        const auto actor = std::find_if(actors_.begin(), actors_.end(),
                                        [&](const Actor& a) { return a.running && a.lives.back().pid == pid; });
        if (actor == actors_.end()) continue;
        actor->running = false;
        const bool killed = WIFSIGNALED(status);
        if (!killed && WEXITSTATUS(status) == 0) {
            actor->lives.back().end = "left";
            continue;
        }
        actor->lives.back().end = killed ? fmt::format("died of signal {}", WTERMSIG(status))
                                         : fmt::format("failed with {}", WEXITSTATUS(status));
        if (!killed || !actor->restarts)
            throw std::runtime_error(fmt::format("{} {}", actor->name, actor->lives.back().end));
        if (WTERMSIG(status) == SIGKILL) {
            ++kills_;
        } else {
            ++crashes_;
        }
        if (!scene_.books.shared.stop.load()) start(*actor);
    }
}

void Cast::look_after() {
    reap();
    if (const pid_t victim = scene_.books.shared.victim.exchange(0)) {
        scene_.books.shared.killed_ns.store(now_ns());
        kill(victim, SIGKILL);
    }
    if (interrupted != 0) throw std::runtime_error("interrupted");
    if (now_ns() > deadline_ns_)
        throw std::runtime_error(fmt::format("not finished after {} s", time_max_ns / 1'000'000'000));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void catch_signals() {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    signal(SIGPIPE, SIG_IGN);
}

}  // namespace rondo::demo
