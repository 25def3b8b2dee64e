// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-ctl: everything that changes the state of a queue from the command line. This file turns the command line into
// the structs of commands.hpp; nothing here touches a queue.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "tools/common/cli.hpp"
#include "tools/ring_ctl/commands.hpp"
#include "tools/ring_ctl/os_stream.hpp"
#include "tools/ring_ctl/parse.hpp"

namespace rondo::ctl {

namespace {

using tools::choice;
using tools::option;

/// The command that was chosen, ready to run.
using Action = std::function<ExitCode()>;

/// An option that exists in the design but not in this version: refused, never ignored.
void refuse_option(CLI::App& app, const std::string& flag, const char* type, const std::string& help) {
    const auto store = [flag](const std::string& text) {
        throw CLI::ValidationError(flag, refuse(text, "not_supported: this version does not offer it").value());
    };
    app.add_option_function<std::string>(flag, store, help + " (not supported yet)")->type_name(type);
}

constexpr const char* group_heading = "Group options, stored when the group is made and compared when it exists";

/// As a filter an empty text would choose everything.
Parsed<std::string> parse_not_empty(std::string_view text) {
    if (text.empty()) return refuse(text, "must not be empty");
    return std::string(text);
}

/// The library's word for a reason of death.
Parsed<std::string> parse_reason(std::string_view text) {
    std::string known;
    for (std::uint32_t number = 1; number <= static_cast<std::uint32_t>(DeadReason::operator_request); ++number) {
        const std::string_view word = to_string(static_cast<DeadReason>(number));
        if (word == text) return std::string(text);
        known += (known.empty() ? "" : ", ") + std::string(word);
    }
    return refuse(text, "expected one of " + known);
}

void directory_argument(CLI::App& app, std::string& target) {
    app.add_option("DIR", target, "the queue's directory")->required()->type_name("");
}

void group_flags(CLI::App& app, GroupOptions& options) {
    const auto in_group = [&](CLI::Option* made) { made->group(group_heading); };
    in_group(choice(app, "--mode", options.mode, tools::group_modes, "default shared"));
    in_group(option(app, "--start", "WHERE", options.start, parse_start,
                    "where a new group begins: earliest (default), latest, seq:N, time:T; never applied again"));
    in_group(choice(app, "--kind", options.kind, tools::group_kinds, "default durable"));
    in_group(
        option(app, "--lease-timeout", "TIME", options.lease_timeout, parse_duration, "shared groups; default 30s"));
    in_group(option(app, "--max-lease-total", "TIME", options.max_lease_total, parse_duration, "default 12h"));
    in_group(option(app, "--max-deliveries", "N", options.max_deliveries, parse_max_deliveries,
                    "hand-overs before a message is a dead letter; default 5, -1: no limit"));
    in_group(option(app, "--backoff-initial", "TIME", options.backoff_initial, parse_duration, "default 1s"));
    in_group(option(app, "--backoff-multiplier", "X", options.backoff_multiplier, parse_factor, "default 2"));
    in_group(option(app, "--backoff-max", "TIME", options.backoff_max, parse_duration, "default 60s"));
    in_group(choice(app, "--jitter", options.jitter, tools::jitters, "default equal"));
    in_group(option(app, "--retry-max-age", "TIME", options.retry_max_age, parse_duration, "default 24h"));
    in_group(option(app, "--max-in-flight", "N", options.max_in_flight, parse_count32, "per consumer; default 1024"));
    in_group(option(app, "--max-in-flight-group", "N", options.max_in_flight_group, parse_count32, "default 65536"));
    in_group(option(app, "--max-dead-pending", "N", options.max_dead_pending, parse_count32, "default 1000"));
}

CLI::Option* group_option(CLI::App& app, std::string& target, const char* help) {
    return app.add_option("-g,--group", target, help)->type_name("NAME");
}

void group_name(CLI::App& app, std::string& target) { group_option(app, target, "name of the group")->required(); }

void execute_flag(CLI::App& app, bool& target) {
    app.add_flag("--execute", target,
                 "do it; without this nothing is changed, and the exit code is 5 if there is something to do");
}

void add_create(CLI::App& root, CreateArgs& args, Action& action) {
    CLI::App& app = *root.add_subcommand("create", "Make a queue, and with --group a group in it");
    QueueOptions& options = args.options;
    directory_argument(app, args.directory);
    option(app, "--capacity", "SIZE", options.capacity_bytes, parse_bytes,
           "of messages; default 64MiB, rounded up to a power of two");
    choice(app, "--producers", options.producers, tools::producer_counts, "default many");
    option(app, "--max-record", "SIZE", options.max_record_bytes, parse_bytes_above_0,
           "largest message with its header; default capacity/64");
    option(app, "--retry-capacity", "SIZE", options.retry_capacity_bytes, parse_bytes_above_0,
           "of retry.ring; default capacity/4 or more");
    option(app, "--dead-capacity", "SIZE", options.dead_capacity_bytes, parse_bytes_above_0,
           "of dead.ring; default capacity/4 or more");
    option(app, "--max-groups", "N", options.max_groups, parse_count32, "default 16");
    choice(app, "--checksum", options.checksum, tools::checksums, "of each message; default none");
    choice(app, "--timestamps", options.timestamps, tools::timestamp_kinds, "default coarse");
    choice(app, "--overflow", options.overflow, tools::overflows, "what a full queue does; default block");
    option(app, "--file-mode", "OCTAL", options.mode, parse_octal_mode, "0600 (default), 0640 or 0660");
    option(app, "--gid", "GID", options.group, parse_count32, "group that owns the files; default the caller's");
    choice(app, "--durability", options.durability, tools::durabilities, "default none");
    refuse_option(app, "--ring-dir", "PATH", "where a durable queue's rings live");
    args.group.emplace();
    CLI::Option* group = group_option(app, args.group->group, "make this group too");
    group_flags(app, args.group->options);
    app.callback([&args, &action, &app, group] {
        if (group->count() == 0) {
            for (const CLI::Option* given : app.parse_order()) {
                if (given->get_group() != group_heading) continue;
                throw CLI::ValidationError(given->get_name(),
                                           "an option of a group: name the group that is to be made with --group, or "
                                           "give it to consume or groups-create");
            }
            args.group.reset();
        }
        action = [&args] { return create(args); };
    });
}

void add_publish(CLI::App& root, PublishArgs& args, Action& action) {
    CLI::App& app = *root.add_subcommand("publish", "Publish standard input, one message per line");
    directory_argument(app, args.directory);
    CLI::Option* key = app.add_option("--key", args.key, "key of every message")->type_name("KEY");
    CLI::Option* field = option(app, "--key-field", "N", args.key_field, parse_count_above_0,
                                "key of a line is its N-th field, between runs of spaces and tabs; counted from 1");
    CLI::Option* raw = app.add_flag("--raw", args.raw, "all of standard input is one message");
    field->excludes(key)->excludes(raw);
    option(app, "--type", "N", args.type, parse_count, "the application's message type");
    app.add_option("--header", args.headers, "a header of every message; may be repeated")
        ->type_name("NAME=VALUE")
        ->take_all()
        ->allow_extra_args(false);
    choice(app, "--confirm", args.confirm, tools::confirms, "what to wait for; default accepted");
    refuse_option(app, "--delay", "TIME", "when to deliver");
    option(app, "--timeout", "TIME", args.timeout, parse_duration,
           "how long to wait while the queue is full; default 1s");
    app.add_flag("--report", args.report, "print each message's seq once it is published");
    app.add_option("--name", args.name, "name of the producer")->type_name("NAME")->capture_default_str();
    app.footer(
        std::string(
            "A line ends at LF: a CR stays, a NUL is data, an empty line is an empty message, a last line without LF\n"
            "counts. The first failure ends it: exit code 6 if something was published before, else 7 or 1.\n") +
        exit_codes_help);
    app.callback([&args, &action] { action = [&args] { return publish(args); }; });
}

void add_consume(CLI::App& root, ConsumeArgs& args, Action& action) {
    CLI::App& app = *root.add_subcommand("consume", "Print the messages of a group, or give each to a command");
    directory_argument(app, args.group.directory);
    group_name(app, args.group.group);
    option(app, "--count", "N", args.count, parse_count, "end after N messages; 0 only makes the group");
    option(app, "--idle-exit", "SECONDS", args.idle_exit, parse_seconds,
           "end when no message came for so long: 2, 0.5, or a time such as 500ms");
    app.add_option("--exec", args.command, "run CMD by /bin/sh -c for each message, which is its standard input")
        ->type_name("CMD");
    app.add_option("--name", args.name, "name of the consumer")->type_name("NAME")->capture_default_str();
    CLI::Option* existing =
        app.add_flag("--existing", args.existing, "the group must exist: a name that is not there is an error");
    group_flags(app, args.group.options);
    for (CLI::Option* made : app.get_options([](const CLI::Option* o) { return o->get_group() == group_heading; })) {
        existing->excludes(made);
    }
    app.footer(
        std::string(
            "Without --exec each message and a newline are printed, then acknowledged. With --exec: exit code 0 "
            "acknowledges,\n"
            "65 rejects (dead letter at once), any other and death by a signal try again later (nack exit_N, "
            "signal_N); standard\n"
            "error becomes the message of the failure. CMD finds RONDO_SEQ, RONDO_KEY, RONDO_GROUP, "
            "RONDO_DELIVERY_COUNT and\n"
            "RONDO_REDRIVE_COUNT in its environment, and is killed after max-lease-total. SIGINT and SIGTERM end it "
            "after the\n"
            "message in hand. A second one does not wait for it: CMD is killed (nack signal_9), and a message that "
            "nobody reads is\n"
            "given back (exit code 3). A group that is not there is made, and that is told; it begins at the earliest "
            "message.\n") +
        exit_codes_help);
    app.callback([&args, &action] { action = [&args] { return consume(args); }; });
}

void dead_flags(CLI::App& app, DeadArgs& args) {
    DeadFilter& filter = args.filter;
    directory_argument(app, args.directory);
    option(app, "--id", "ID", filter.id, parse_count, "this dead letter only");
    option(app, "-g,--group", "NAME", filter.group, parse_not_empty, "of this group, also one that is deleted by now");
    option(app, "--reason", "WORD", filter.reason, parse_reason, "that died for this reason");
    option(app, "--code", "CODE", filter.code, parse_not_empty, "with this error code");
    option(app, "--key", "KEY", filter.key, parse_not_empty, "with this key");
    option(app, "--fingerprint", "HEX", filter.fingerprint, parse_hex64, "with the same cause");
    option(app, "--max", "N", filter.max, parse_count, "at most so many, oldest first");
    execute_flag(app, args.execute);
    app.footer(std::string("An ID or a group that is not there is an error (exit code 2). Other filters may match "
                           "nothing: that is no error,\nand there is nothing to do.\n") +
               exit_codes_help);
}

void add_dead(CLI::App& root, DeadArgs& args, Action& action) {
    CLI::App& again = *root.add_subcommand("redrive", "Publish dead letters again, each to the group that failed");
    dead_flags(again, args);
    again.callback([&args, &action] { action = [&args] { return redrive(args); }; });

    CLI::App& drop = *root.add_subcommand("discard", "Close dead letters for good");
    dead_flags(drop, args);
    option(drop, "--because", "TEXT", args.because, parse_not_empty, "why, for those who look later")->required();
    drop.callback([&args, &action] { action = [&args] { return discard(args); }; });
}

void add_destroy(CLI::App& root, RemoveArgs& args, Action& action) {
    CLI::App& app = *root.add_subcommand("destroy", "Remove a queue with all its messages");
    directory_argument(app, args.directory);
    execute_flag(app, args.execute);
    app.add_flag("--force", args.force, "also while processes have it open; their calls then return closed");
    app.callback([&args, &action] { action = [&args] { return destroy(args); }; });
}

void add_groups(CLI::App& root, GroupArgs& made, RemoveArgs& removed, Action& action) {
    CLI::App& make = *root.add_subcommand("groups-create", "Make a group");
    directory_argument(make, made.directory);
    group_name(make, made.group);
    group_flags(make, made.options);
    make.callback([&made, &action] { action = [&made] { return groups_create(made); }; });

    CLI::App& remove = *root.add_subcommand("groups-delete", "Delete a group; what it has not settled is lost to it");
    directory_argument(remove, removed.directory);
    group_name(remove, removed.group);
    execute_flag(remove, removed.execute);
    remove.add_flag("--force", removed.force, "also with members or messages in flight; those become stale");
    remove.callback([&removed, &action] { action = [&removed] { return groups_delete(removed); }; });
}

void add_fence(CLI::App& root, FenceArgs& args, Action& action) {
    CLI::App& app = *root.add_subcommand("fence", "Kill a participant that hangs, and repair what it held");
    directory_argument(app, args.directory);
    option(app, "--participant", "N", args.participant, parse_count32, "its number: column PARTICIPANT of ring-dump")
        ->required();
    execute_flag(app, args.execute);
    app.footer(std::string("The process must live in the same pid namespace; otherwise this prints what to do.\n") +
               exit_codes_help);
    app.callback([&args, &action] { action = [&args] { return fence(args); }; });
}

int run(int argc, char** argv) {
    CLI::App app(
        "ring-ctl: change the state of a rondo queue. Sizes: 4096, 64KiB, 8MiB, 1GiB. Times: 20us, 100ms, 5s, 2m, 1h.");
    tools::set_up(app, "ring-ctl");
    app.require_subcommand(1);
    app.footer(exit_codes_help);

    Action action;
    CreateArgs create_args;
    PublishArgs publish_args;
    ConsumeArgs consume_args;
    DeadArgs dead_args;
    RemoveArgs remove_args;
    GroupArgs group_args;
    FenceArgs fence_args;
    add_create(app, create_args, action);
    add_publish(app, publish_args, action);
    add_consume(app, consume_args, action);
    add_dead(app, dead_args, action);
    add_destroy(app, remove_args, action);
    add_groups(app, group_args, remove_args, action);
    add_fence(app, fence_args, action);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? exit_ok : exit_usage;
    }

    const std::string command = app.get_subcommands().front()->get_name();
    try {
        ExitCode code = action();
        if (std::fflush(stdout) != 0 && code == exit_ok) code = exit_cannot_open;
        return code;
    } catch (const Failure& failure) {
        std::fflush(stdout);
        fmt::print(stderr, "ring-ctl {}: {}\n", command, failure.text);
        return failure.code;
    }
}

}  // namespace

}  // namespace rondo::ctl

int main(int argc, char** argv) {
    try {
        rondo::ctl::ignore_broken_pipes();
        return rondo::ctl::run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "ring-ctl: {}\n", error.what());
        return rondo::ctl::exit_cannot_open;
    }
}
