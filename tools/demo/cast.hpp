// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The processes of the demo: started, killed, restarted and counted by the parent, which takes no part in the queue
// while they run. Whatever happens, none of them outlives it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/demo/roles.hpp"

namespace rondo::demo {

struct Life {
    pid_t pid;
    std::string end;  // "still running", "left", "killed by signal 9"
};

struct Actor {
    std::string name;
    int (*role)(const Scene&, std::size_t number);
    std::size_t number;
    bool restarts;
    std::vector<Life> lives;
    bool running = false;
};

class Cast {
public:
    explicit Cast(const Scene& scene);
    Cast(const Cast&) = delete;
    Cast& operator=(const Cast&) = delete;
    ~Cast();

    /// Watches over the processes until done() is true: restarts workers that died, kills the one that asks for it.
    /// Throws std::runtime_error when a process fails, when it takes too long, and at SIGINT or SIGTERM.
    template <class Done>
    void play(Done done) {
        do {
            look_after();
        } while (!done());
    }

    [[nodiscard]] bool running(std::string_view name) const;
    [[nodiscard]] std::size_t running_count() const;
    [[nodiscard]] const std::vector<Actor>& actors() const { return actors_; }
    [[nodiscard]] std::uint64_t kills() const { return kills_; }
    [[nodiscard]] std::uint64_t crashes() const { return crashes_; }

private:
    void start(Actor& actor);
    void reap();
    void look_after();

    const Scene& scene_;
    std::vector<Actor> actors_;
    std::uint64_t deadline_ns_;
    std::uint64_t kills_ = 0;
    std::uint64_t crashes_ = 0;
};

/// From now on SIGINT and SIGTERM end play() instead of the process, and SIGPIPE nothing, so that the parent can clear
/// up whatever comes.
void catch_signals();

}  // namespace rondo::demo
