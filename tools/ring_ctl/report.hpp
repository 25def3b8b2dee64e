// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// How ring-ctl says what went wrong: its exit codes, and the one exception that ends a command.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "rondo/queue.hpp"
#include "rondo/result.hpp"

namespace rondo::ctl {

enum ExitCode : int {
    exit_ok = 0,
    exit_usage = 1,         // bad arguments or input, also what this version does not support
    exit_not_found = 2,     // no such queue, group, participant or dead letter
    exit_cannot_open = 3,   // the queue cannot be opened, or the output cannot be written
    exit_corrupt = 4,       // damaged bytes were met
    exit_refused = 5,       // busy, exists, differs; needs --execute or --force
    exit_partial = 6,       // some of it was done, the rest was not
    exit_nothing_done = 7,  // not published, or the queue was closed
};

inline constexpr const char* exit_codes_help =
    "Exit codes: 0 done, 1 bad arguments or input, 2 not found, 3 cannot open (or write the output), 4 corruption,\n"
    "5 refused (busy, exists, needs --execute or --force), 6 only partly done, 7 not published or queue closed.";

[[nodiscard]] ExitCode exit_code_of(Errc code) noexcept;

/// Thrown by a command, printed once by main() as "ring-ctl COMMAND: text".
struct Failure {
    ExitCode code;
    std::string text;
};

/// "no_credit: text". `explanation` may already begin with the name of the error.
[[nodiscard]] std::string describe(const Error& error, std::string_view explanation);

/// The value of a call that a queue of `directory` made before it was open (create, open, destroy).
/// Throws Failure with what Queue::explain says.
template <class T>
T opened(const std::string& directory, Result<T>&& result) {
    if (!result)
        throw Failure{exit_code_of(result.error().code),
                      describe(result.error(), Queue::explain(directory, result.error()))};
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

[[nodiscard]] Failure failure_of(const Queue& queue, const Error& error);

/// The value of a call on an open queue.
template <class T>
T value_of(const Queue& queue, Result<T>&& result) {
    if (!result) throw failure_of(queue, result.error());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Opens without touching every page: a tool uses few of them.
[[nodiscard]] Queue open_queue(const std::string& directory);

/// "ring-ctl COMMAND: warning: text" on standard error.
void warn(std::string_view command, std::string_view text);

/// The last word of a dry run: standard error says that nothing was changed; the exit code is that of a refusal.
[[nodiscard]] ExitCode dry_run(std::string_view command, std::string_view needed = "--execute");

}  // namespace rondo::ctl
