// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-ctl fence: ends a participant that is alive but does not go on (stopped, hanging), and has what it held given
// back. Only its death frees its lock, and only the free lock lets others take over; so this kills, waits for the
// lock, and opens the queue, which repairs it.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "os/process.hpp"
#include "tools/common/format_text.hpp"
#include "tools/common/process_word.hpp"
#include "tools/ring_ctl/commands.hpp"
#include "tools/ring_ctl/os_kill.hpp"
#include "tools/ring_ctl/ring_view.hpp"

namespace rondo::ctl {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A killed process holds its lock until its memory is torn down.
constexpr seconds death_max{30};
// Repair is promised within 100 ms.
constexpr seconds repair_max{5};

template <class Condition>
bool eventually(Condition condition, seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
}

std::string name_of(const ParticipantStatus& status) {
    const format::ParticipantInfo& info = status.info;
    return fmt::format("participant {}: process {} ({}), uid {}", info.id, info.pid,
                       info.program.empty() ? "unknown program" : tools::printable(info.program), info.uid);
}

class Fence {
public:
    explicit Fence(const FenceArgs& args)
        : args_(args), view_(opened(args.directory, RingView::open(args.directory))), target_(find()) {}

    ExitCode run() {
        fmt::print("{}, {}{}\n", name_of(target_), tools::process_word(target_.info, target_.alive),
                   target_.alive ? "" : ", not repaired yet");
        if (target_.alive) check_namespace();
        if (!args_.execute) {
            fmt::print("would {}open the queue to repair it\n", target_.alive ? "kill this process, and " : "");
            return dry_run("fence");
        }
        if (target_.alive) {
            kill();
            wait_for_death();
        }
        repair();
        return exit_ok;
    }

private:
    ParticipantStatus find() const {
        const auto status = view_.participant(args_.participant);
        if (!status || !(status->attached || status->alive)) {
            throw Failure{
                exit_not_found,
                fmt::format("not_found: the queue has no participant {} (ring-dump {} consumers, producers and the "
                            "overview show the numbers)",
                            args_.participant, args_.directory)};
        }
        return *status;
    }

    [[nodiscard]] std::int32_t pid() const { return static_cast<std::int32_t>(target_.info.pid); }

    void check_namespace() const {
        const format::ParticipantInfo& info = target_.info;
        const std::uint64_t here = os::pid_namespace();
        if (here != 0 && here == info.pid_namespace && info.pid > 1) {
            if (pid() == os::current_pid()) throw Failure{exit_refused, "that is this very process"};
            return;
        }
        throw Failure{
            exit_refused,
            fmt::format(
                "it lives in another pid namespace (pid:[{0}], this is pid:[{1}]) and cannot be killed from here.\n"
                "Find it on the host with `lsns -t pid` as {0}, kill process {2} of that namespace\n"
                "(kill -KILL, or stop its container), then run this command again to repair the queue",
                info.pid_namespace, here, info.pid)};
    }

    void kill() const {
        const format::ParticipantInfo& info = target_.info;
        const KillResult result = kill_process(pid(), info.start_ticks);
        switch (result.kill) {
            case Kill::sent:
                fmt::print("killed process {}\n", info.pid);
                return;
            case Kill::gone:
                fmt::print("process {} is gone already\n", info.pid);
                return;
            case Kill::other:
                throw Failure{exit_refused,
                              fmt::format("process {} is not the one that opened the queue; its lock is held by "
                                          "another process that inherited it. Nothing was killed",
                                          info.pid)};
            case Kill::not_permitted:
                throw Failure{exit_cannot_open,
                              fmt::format("permission: only uid {} or root may kill process {}", info.uid, info.pid)};
            case Kill::failed:
                break;
        }
        throw Failure{exit_cannot_open,
                      fmt::format("cannot kill process {}: {}", info.pid, std::strerror(result.sys_errno))};
    }

    /// The same life of the same participant; a new one may get the id at once.
    bool still_there(bool (*what)(const ParticipantStatus&)) const {
        const auto now = view_.participant(args_.participant);
        return now && now->info.incarnation == target_.info.incarnation && what(*now);
    }

    void wait_for_death() const {
        if (eventually([&] { return !still_there([](const ParticipantStatus& s) { return s.alive; }); }, death_max))
            return;
        throw Failure{exit_refused,
                      fmt::format("busy: the lock of participant {} is still held after {} s: the process cannot die "
                                  "yet, or a child inherited its files. Run this again later",
                                  args_.participant, death_max.count())};
    }

    void repair() const {
        const Queue queue = open_queue(args_.directory);
        if (eventually([&] { return !still_there([](const ParticipantStatus& s) { return s.attached && !s.alive; }); },
                       repair_max)) {
            fmt::print("repaired\n");
            return;
        }
        throw Failure{exit_partial, fmt::format("participant {} is dead, but was not cleaned up within {} s",
                                                args_.participant, repair_max.count())};
    }

    const FenceArgs& args_;
    RingView view_;
    ParticipantStatus target_;
};

}  // namespace

ExitCode fence(const FenceArgs& args) { return Fence(args).run(); }

}  // namespace rondo::ctl
