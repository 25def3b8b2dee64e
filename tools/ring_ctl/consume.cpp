// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-ctl consume: a group's messages to standard output, or each to a command. One message at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "tools/common/words.hpp"
#include "tools/ring_ctl/commands.hpp"
#include "tools/ring_ctl/os_command.hpp"
#include "tools/ring_ctl/os_stream.hpp"
#include "tools/ring_ctl/ring_view.hpp"

namespace rondo::ctl {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int exit_code_of_bad_data = 65;   // EX_DATAERR of sysexits.h
constexpr milliseconds receive_slice{100};  // how late a stop signal may be seen
constexpr int broken_in_a_row_max = 1000;

/// How long a command may run, and how often its lease must be renewed.
struct LeasePlan {
    Duration timeout;
    Duration interval;
    Duration limit;
};

LeasePlan plan_for(const std::string& directory, const std::string& group) {
    const auto view = RingView::open(directory);
    const auto info = view ? view->group(group) : std::nullopt;
    LeasePlan plan{std::chrono::seconds(30), {}, std::chrono::hours(12)};
    if (info) {
        plan.timeout = Duration(info->lease_timeout_ns);
        plan.limit = Duration(info->max_lease_total_ns);
        if (info->mode == format::GroupMode::exclusive) {  // its leases do not lapse
            plan.timeout = std::chrono::seconds(30);
            plan.limit = forever;
        }
    }
    plan.interval = std::clamp<Duration>(plan.timeout / 3, milliseconds(1), std::chrono::seconds(10));
    // A little early, so that the nack still finds its lease.
    plan.limit -= std::min<Duration>(plan.limit / 20, milliseconds(200));
    return plan;
}

/// A group that is new is told: its name may be a slip.
Consumer open_consumer(Queue& queue, const ConsumeArgs& args) {
    const ConsumerOptions options{.name = args.name};
    const GroupArgs& group = args.group;
    if (args.existing) return value_of(queue, queue.consumer(group.group, options));
    const auto view = RingView::open(group.directory);
    if (view && !view->group(group.group)) {
        const Result<void> made = queue.create_group(group.group, group.options);
        if (!made && made.error().code != Errc::exists) throw failure_of(queue, made.error());
        if (made) {
            const Start& start = group.options.start;
            fmt::print(stderr, "ring-ctl consume: created group {} at {}\n", group.group,
                       tools::start_text(start.kind(), start.value()));
        }
    }
    return value_of(queue, queue.consumer(group.group, group.options, options));
}

class Consuming {
public:
    explicit Consuming(const ConsumeArgs& args)
        : args_(args), queue_(open_queue(args.group.directory)), consumer_(open_consumer(queue_, args)) {
        if (args_.command) plan_ = plan_for(args.group.directory, args.group.group);
    }

    ExitCode run() {
        Clock::time_point idle_since = Clock::now();
        while (stop_signals() == 0 && !(args_.count && handled_ >= *args_.count)) {
            Duration wait = receive_slice;
            if (args_.idle_exit)
                wait = std::clamp<Duration>(*args_.idle_exit - (Clock::now() - idle_since), Duration(0), wait);
            Result<Message> message = consumer_.receive(wait);
            if (message) {
                ++handled_;
                broken_in_a_row_ = 0;
                if (args_.command) {
                    execute(*message);
                } else {
                    print(*message);
                }
                idle_since = Clock::now();
            } else if (message.error().code == Errc::timeout || message.error().code == Errc::empty) {
                if (args_.idle_exit && Clock::now() - idle_since >= *args_.idle_exit) break;
            } else {
                miss(message.error());
            }
        }
        return result_;
    }

private:
    /// Something is gone or damaged: say so and go on behind it. Everything else is the end.
    void miss(const Error& error) {
        const std::string text = describe(error, queue_.explain(error));
        const bool goes_on = error.code == Errc::gap || error.code == Errc::corrupt;
        if (!goes_on || ++broken_in_a_row_ > broken_in_a_row_max) {
            throw Failure{exit_code_of(error.code), fmt::format("{} ({} messages before)", text, handled_)};
        }
        const Result<Gap> gap = consumer_.last_gap();
        warn("consume",
             error.code == Errc::gap && gap ? fmt::format("{} (seq {} to {})", text, gap->first, gap->last) : text);
        if (result_ != exit_corrupt) result_ = exit_code_of(error.code);
    }

    void settled(const Message& message, const Result<void>& outcome) const {
        if (outcome) return;
        const std::string text = describe(outcome.error(), queue_.explain(outcome.error()));
        if (outcome.error().code != Errc::stale_lease) throw Failure{exit_code_of(outcome.error().code), text};
        warn("consume", fmt::format("seq {}: {}", message.seq(), text));
    }

    /// Acked once it is written, and only then.
    void print(Message& message) {
        constexpr std::byte newline{'\n'};
        const Transfer written = write_all(standard_output, {message.payload(), std::span(&newline, 1)});
        if (written.sys_errno == 0) return settled(message, message.ack());
        const Seq seq = message.seq();
        message.release();
        const char* why = written.sys_errno == EINTR ? "told to stop twice, while nobody reads the output"
                                                     : std::strerror(written.sys_errno);
        throw Failure{exit_cannot_open,
                      fmt::format("cannot write: {} (seq {} is not acknowledged; {} of its bytes are written)", why,
                                  seq, written.bytes)};
    }

    void execute(Message& message) {
        Command command{*args_.command, environment_of(message), message.payload()};
        bool lost = false;
        Watch watch{plan_.interval,
                    [&] {
                        if (lost || message.extend(plan_.timeout)) return;
                        lost = true;
                        warn("consume",
                             fmt::format("seq {}: the lease was lost while the command runs", message.seq()));
                    },
                    plan_.limit};
        const CommandResult result = run_command(command, watch);
        settle(message, result);
    }

    void settle(Message& message, const CommandResult& result) {
        using End = CommandResult::End;
        std::string code = fmt::format("{}_{}", result.end == End::exited ? "exit" : "signal", result.value);
        Reason reason{.code = code, .stage = "exec", .message = result.error_text};
        switch (result.end) {
            case End::not_started:
                message.release();
                throw Failure{exit_cannot_open, fmt::format("cannot run /bin/sh: {}", std::strerror(result.value))};
            case End::exited:
                if (result.value == 0) return settled(message, message.ack());
                if (result.value == exit_code_of_bad_data) return settled(message, message.reject(reason));
                return settled(message, message.nack(reason));
            case End::signalled:
                return settled(message, message.nack(reason));
            case End::overrun:
                reason.type = "max_lease_total";
                if (result.error_text.empty()) reason.message = "ran for max_lease_total and was killed";
                return settled(message, message.nack(reason));
        }
    }

    [[nodiscard]] std::vector<std::string> environment_of(const Message& message) const {
        std::vector<std::string> result{fmt::format("RONDO_GROUP={}", args_.group.group),
                                        fmt::format("RONDO_SEQ={}", message.seq()),
                                        fmt::format("RONDO_DELIVERY_COUNT={}", message.delivery_count()),
                                        fmt::format("RONDO_REDRIVE_COUNT={}", message.redrive_count())};
        // A key with a NUL cannot be a variable.
        if (message.key().find('\0') == std::string_view::npos)
            result.push_back(fmt::format("RONDO_KEY={}", message.key()));
        return result;
    }

    const ConsumeArgs& args_;
    Queue queue_;
    Consumer consumer_;
    LeasePlan plan_{};
    std::uint64_t handled_ = 0;
    int broken_in_a_row_ = 0;
    ExitCode result_ = exit_ok;
};

}  // namespace

ExitCode consume(const ConsumeArgs& args) {
    catch_stop_signals();
    return Consuming(args).run();
}

}  // namespace rondo::ctl
