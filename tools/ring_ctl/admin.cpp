// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-ctl create, destroy, groups-create, groups-delete.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "os/file.hpp"
#include "queue/files.hpp"
#include "tools/common/format_text.hpp"
#include "tools/common/process_word.hpp"
#include "tools/ring_ctl/commands.hpp"
#include "tools/ring_ctl/ring_view.hpp"

namespace rondo::ctl {

namespace {

/// What lies in a queue's directory.
struct Content {
    std::uint64_t files = 0;  // the queue's own
    std::uint64_t bytes = 0;
    std::vector<std::string> foreign;
};

Content content_of(const std::string& directory, const os::UniqueFd& dir) {
    Content content;
    for (std::string& name : opened(directory, os::list(dir.get()))) {
        if (!queue::is_queue_file(name)) {
            content.foreign.push_back(std::move(name));
            continue;
        }
        const auto info = os::info_at(dir.get(), name);
        if (!info || !info->regular) continue;
        ++content.files;
        content.bytes += info->allocated;
    }
    return content;
}

/// "2 other files in it (a.txt, b.txt)".
std::string foreign_text(const std::vector<std::string>& names) {
    constexpr std::size_t shown_max = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), shown_max); ++i) {
        text += (i == 0 ? "" : ", ") + tools::printable(names[i]);
    }
    return fmt::format("{} other {} in it ({}{})", names.size(), names.size() == 1 ? "file" : "files", text,
                       names.size() > shown_max ? ", ..." : "");
}

/// A directory that outlives its queue is told, with the reason.
std::string what_stays(const std::string& directory) {
    const auto dir = os::open_dir(directory);
    if (!dir) return "";
    const Content content = content_of(directory, *dir);
    if (content.files != 0) return "";  // somebody made a new queue meanwhile
    if (content.foreign.empty()) return "; the directory stays: it is empty, but cannot be removed";
    return fmt::format("; the directory stays: there {} {}", content.foreign.size() == 1 ? "is" : "are",
                       foreign_text(content.foreign));
}

/// The queue was made, its group was not.
struct HalfMade {
    Failure failure;
};

const GroupStats* find(const Stats& stats, std::string_view name) {
    for (const GroupStats& group : stats.groups) {
        if (group.name == name) return &group;
    }
    return nullptr;
}

}  // namespace

ExitCode create(const CreateArgs& args) {
    try {
        Queue queue = opened(args.directory, Queue::create(args.directory, args.options, {.prefault = false}));
        if (args.group) {
            Result<void> made = queue.create_group(args.group->group, args.group->options);
            if (!made) throw HalfMade{failure_of(queue, made.error())};
        }
        fmt::print("created {}: capacity {} bytes, messages of up to {} bytes\n", args.directory, queue.capacity(),
                   queue.max_payload_bytes());
        return exit_ok;
    } catch (const HalfMade& half) {
        // A queue without its group was not asked for. It was made a moment ago and is closed again.
        static_cast<void>(Queue::destroy(args.directory));
        throw half.failure;
    }
}

ExitCode destroy(const RemoveArgs& args) {
    if (args.execute) {
        opened(args.directory, Queue::destroy(args.directory, args.force ? Force::yes : Force::no));
        fmt::print("destroyed {}{}\n", args.directory, what_stays(args.directory));
        return exit_ok;
    }
    const RingView view = opened(args.directory, RingView::open(args.directory));
    const Content content = content_of(args.directory, opened(args.directory, os::open_dir(args.directory)));
    fmt::print("would destroy {}: {} files, {} bytes\n", args.directory, content.files, content.bytes);
    if (!content.foreign.empty()) fmt::print("the directory would stay: {}\n", foreign_text(content.foreign));
    std::uint64_t alive = 0;
    for (const ParticipantStatus& status : view.participants()) {
        if (!status.alive) continue;
        ++alive;
        fmt::print("in use by participant {}: process {} ({}), uid {}, {}\n", status.info.id, status.info.pid,
                   tools::printable(status.info.program), status.info.uid,
                   tools::process_word(status.info, status.alive));
    }
    return dry_run("destroy", alive > 0 && !args.force ? "--execute --force" : "--execute");
}

ExitCode groups_create(const GroupArgs& args) {
    Queue queue = open_queue(args.directory);
    value_of(queue, queue.create_group(args.group, args.options));
    fmt::print("created group {}\n", args.group);
    return exit_ok;
}

ExitCode groups_delete(const RemoveArgs& args) {
    Queue queue = open_queue(args.directory);
    if (args.execute) {
        value_of(queue, queue.delete_group(args.group, args.force ? Force::yes : Force::no));
        fmt::print("deleted group {}\n", args.group);
        return exit_ok;
    }
    const Stats stats = queue.stats();
    const GroupStats* group = find(stats, args.group);
    if (group == nullptr) throw Failure{exit_not_found, fmt::format("no_such_group: there is no group {}", args.group)};
    fmt::print("would delete group {}: {} messages not settled, {} of them in flight, {} members\n", group->name,
               group->lag, group->in_flight, group->members);
    const bool busy = group->members > 0 || group->in_flight > 0;
    return dry_run("groups-delete", busy && !args.force ? "--execute --force" : "--execute");
}

}  // namespace rondo::ctl
