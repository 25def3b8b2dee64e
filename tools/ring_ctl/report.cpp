// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_ctl/report.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace rondo::ctl {

ExitCode exit_code_of(Errc code) noexcept {
    switch (code) {
        case Errc::too_large:
        case Errc::invalid_argument:
        case Errc::not_supported:
        case Errc::claim_open:
        case Errc::not_first:
        case Errc::would_deadlock:
            return exit_usage;

        case Errc::not_found:
        case Errc::no_such_group:
            return exit_not_found;

        case Errc::version_mismatch:
        case Errc::permission:
        case Errc::no_space:
        case Errc::no_memory:
        case Errc::too_many_participants:
        case Errc::system:
        case Errc::detached:
            return exit_cannot_open;

        case Errc::corrupt:
            return exit_corrupt;

        case Errc::exists:
        case Errc::option_mismatch:
        case Errc::role_taken:
        case Errc::busy:
        case Errc::live_elsewhere:
        case Errc::fenced:
        case Errc::stale_lease:
            return exit_refused;

        case Errc::gap:
        case Errc::durability_lost:
        case Errc::unknown:
            return exit_partial;

        case Errc::empty:
        case Errc::timeout:
        case Errc::no_credit:
        case Errc::closed:
        case Errc::paused:
        case Errc::exhausted:
            return exit_nothing_done;
    }
    return exit_cannot_open;
}

std::string describe(const Error& error, std::string_view explanation) {
    const std::string_view name = to_string(error.code);
    if (explanation.empty()) explanation = error.what;
    if (explanation.substr(0, name.size()) == name) return std::string(explanation);
    return fmt::format("{}: {}", name, explanation);
}

Failure failure_of(const Queue& queue, const Error& error) {
    return {exit_code_of(error.code), describe(error, queue.explain(error))};
}

Queue open_queue(const std::string& directory) {
    Result<Queue> queue = Queue::open(directory, {.prefault = false});
    // A path of the wrong kind is a caller's mistake for create, but "cannot open" here.
    if (!queue && queue.error().code == Errc::invalid_argument) {
        throw Failure{exit_cannot_open, describe(queue.error(), Queue::explain(directory, queue.error()))};
    }
    return opened(directory, std::move(queue));
}

void warn(std::string_view command, std::string_view text) {
    fmt::print(stderr, "ring-ctl {}: warning: {}\n", command, text);
}

ExitCode dry_run(std::string_view command, std::string_view needed) {
    fmt::print(stderr, "ring-ctl {}: nothing was changed; to do it, repeat with {}\n", command, needed);
    return exit_refused;
}

}  // namespace rondo::ctl
