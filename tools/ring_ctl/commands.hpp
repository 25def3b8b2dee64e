// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The commands of ring-ctl: what each one takes, and the function that does it. main.cpp fills the structs from the
// command line; a function returns the exit code or throws Failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rondo/dead_letter.hpp"
#include "rondo/options.hpp"
#include "tools/ring_ctl/report.hpp"

namespace rondo::ctl {

struct GroupArgs {
    std::string directory;
    std::string group;
    GroupOptions options{.start = Start::earliest()};
};

struct CreateArgs {
    std::string directory;
    QueueOptions options;
    std::optional<GroupArgs> group;  // one group made with the queue
};
ExitCode create(const CreateArgs& args);

struct PublishArgs {
    std::string directory;
    std::string name = "ring-ctl";
    std::optional<std::string> key;
    std::optional<std::uint64_t> key_field;  // counted from 1
    std::optional<std::uint64_t> type;
    std::vector<std::string> headers;  // NAME=VALUE
    Confirm confirm = Confirm::accepted;
    Duration timeout = std::chrono::seconds(1);
    bool raw = false;
    bool report = false;
};
ExitCode publish(const PublishArgs& args);

struct ConsumeArgs {
    GroupArgs group;
    bool existing = false;  // do not make the group
    std::string name = "ring-ctl";
    std::optional<std::uint64_t> count;
    std::optional<Duration> idle_exit;
    std::optional<std::string> command;
};
ExitCode consume(const ConsumeArgs& args);

struct DeadArgs {
    std::string directory;
    DeadFilter filter;
    std::string because;  // discard only
    bool execute = false;
};
ExitCode redrive(const DeadArgs& args);
ExitCode discard(const DeadArgs& args);

struct RemoveArgs {
    std::string directory;
    std::string group;  // groups-delete only
    bool execute = false;
    bool force = false;
};
ExitCode destroy(const RemoveArgs& args);
ExitCode groups_create(const GroupArgs& args);
ExitCode groups_delete(const RemoveArgs& args);

struct FenceArgs {
    std::string directory;
    std::uint32_t participant = 0;
    bool execute = false;
};
ExitCode fence(const FenceArgs& args);

}  // namespace rondo::ctl
