// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-ctl redrive and discard: what becomes of dead letters.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tools/common/format_text.hpp"
#include "tools/ring_ctl/commands.hpp"

namespace rondo::ctl {

namespace {

struct Words {
    std::string_view command;
    std::string_view would;
    std::string_view did;
};

/// What is named and is not there is an error, as everywhere. A dead letter may outlive its group, so a name that only
/// the dead letters know will do.
void check_names(const Queue& queue, const DeadLetters& letters, const DeadFilter& filter) {
    if (filter.id) static_cast<void>(value_of(queue, letters.show(*filter.id)));
    if (filter.group.empty()) return;
    const Stats stats = queue.stats();
    const auto named = [&](const GroupStats& group) { return group.name == filter.group; };
    if (std::any_of(stats.groups.begin(), stats.groups.end(), named)) return;
    DeadFilter of_group;
    of_group.group = filter.group;
    of_group.max = 1;
    if (!value_of(queue, letters.list(of_group)).empty()) return;
    throw Failure{exit_not_found, fmt::format("no_such_group: there is no group {}, and no dead letter of one",
                                              tools::printable(filter.group))};
}

ExitCode run(const DeadArgs& args, const Words& words, Result<Redriven> (*act)(DeadLetters&, const DeadArgs&)) {
    Queue queue = open_queue(args.directory);
    DeadLetters letters = value_of(queue, queue.dead_letters());
    check_names(queue, letters, args.filter);
    const Redriven result = value_of(queue, act(letters, args));
    fmt::print("{} {} {}, {} bytes\n", args.execute ? words.did : words.would, result.count,
               result.count == 1 ? "message" : "messages", result.bytes);
    if (result.skipped > 0) {
        fmt::print(
            "{} skipped: their group is gone, there is no credit, another operator has them, or they are damaged\n",
            result.skipped);
    }
    if (!args.execute) return result.count > 0 ? dry_run(words.command) : exit_ok;
    return result.skipped > 0 ? exit_partial : exit_ok;
}

}  // namespace

ExitCode redrive(const DeadArgs& args) {
    return run(args, {"redrive", "would redrive", "redrove"},
               [](DeadLetters& letters, const DeadArgs& a) { return letters.redrive(a.filter, a.execute); });
}

ExitCode discard(const DeadArgs& args) {
    return run(args, {"discard", "would discard", "discarded"},
               [](DeadLetters& letters, const DeadArgs& a) { return letters.discard(a.filter, a.because, a.execute); });
}

}  // namespace rondo::ctl
