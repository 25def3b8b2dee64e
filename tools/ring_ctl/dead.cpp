// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-ctl redrive and discard: what becomes of dead letters.
#include <fmt/format.h>

#include <string_view>

#include "tools/ring_ctl/commands.hpp"

namespace rondo::ctl {

namespace {

struct Words {
    std::string_view command;
    std::string_view would;
    std::string_view did;
};

ExitCode run(const DeadArgs& args, const Words& words, Result<Redriven> (*act)(DeadLetters&, const DeadArgs&)) {
    Queue queue = open_queue(args.directory);
    DeadLetters letters = value_of(queue, queue.dead_letters());
    if (args.filter.id)
        static_cast<void>(value_of(queue, letters.show(*args.filter.id)));  // a wrong id shall not be "0 messages"
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
