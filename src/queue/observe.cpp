// SPDX-License-Identifier: MIT
// What an attachment says about the queue: statistics, whom somebody waits for, what an error means here. Also the
// few things that concern the other participants or this process's consumers as a whole.
#include <algorithm>

#include "format/snapshot.hpp"
#include "format/validate.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/lock.hpp"
#include "os/process.hpp"
#include "queue/attachment.hpp"
#include "queue/consumer_core.hpp"
#include "queue/files.hpp"
#include "queue/pump.hpp"
#include "rondo/queue.hpp"

namespace rondo::detail {

// ---- consumers of this process -------------------------------------------------------------------------------

void Attachment::enroll(ConsumerCore* consumer) {
    const std::lock_guard guard(consumers_mutex_);
    consumers_.push_back(consumer);
}

void Attachment::dismiss(ConsumerCore* consumer) {
    const std::lock_guard guard(consumers_mutex_);
    std::erase(consumers_, consumer);
}

bool Attachment::thread_holds_message() const {
    const std::lock_guard guard(consumers_mutex_);
    const std::uint64_t me = thread_token();
    return std::any_of(consumers_.begin(), consumers_.end(), [&](const auto* c) { return c->holds_message(me); });
}

Pump& Attachment::pump() {
    const std::lock_guard guard(pump_mutex_);
    if (!pump_) pump_ = std::make_unique<Pump>(*this);
    return *pump_;
}

std::optional<std::chrono::nanoseconds> Attachment::wake_consumers_with_messages() {
    const std::lock_guard guard(consumers_mutex_);
    std::optional<std::chrono::nanoseconds> first;
    for (auto* c : consumers_) {
        if (const auto due = c->wake_if_armed()) first = std::min(first.value_or(*due), *due);
    }
    return first;
}

// ---- other participants --------------------------------------------------------------------------------------

bool Attachment::others_alive() {
    // Twice, a tick apart: somebody else may be burying the last one.
    if (!others_attached()) return false;
    auto buried = space_event();
    const std::uint32_t key = buried.prepare();
    if (!others_attached()) return false;
    buried.sleep(key, flow::tick);
    return others_attached();
}

bool Attachment::others_attached() {
    scan_participants();
    for (std::uint32_t id = 1; id < participants().size(); ++id) {
        // ORD(participant.state): acquire; pairs with attach().
        if (id != id_ && participants()[id].state.load(std::memory_order_acquire) !=
                             static_cast<std::uint32_t>(format::ParticipantState::free))
            return true;
    }
    return false;
}

void Attachment::mark_closed() {
    for (const auto* ring : {&main_, &retry_, &dead_}) {
        // ORD(queue.state): release; pairs with closed().
        ring->view.hot->state.store(static_cast<std::uint32_t>(format::RingState::closed), std::memory_order_release);
    }
    data_event().notify_always();
    space_event().notify_always();
}

bool Attachment::file_gone() const {
    const auto info = os::info(main_.fd.get());
    if (!info || info->nlink == 0 || info->size < main_.super.file_bytes) return true;
    const auto named = os::info_at(dir_.get(), queue::main_name);
    return !named || named->inode != info->inode;
}

// ---- statistics ----------------------------------------------------------------------------------------------

Stats Attachment::stats() {
    const auto ring = format::ring_bytes(main_.mapping.bytes(), main_.super);
    const auto tables = lease_tables(ring);
    const auto seen = format::survey(ring, tables.bytes, {os::mono_ns(), os::wall_ns()});
    Stats s;
    s.capacity_slots = main_.super.slot_count;
    s.used_slots = seen.used_slots;
    s.credit_slots = seen.credit_slots;
    s.floor = seen.tail - seen.used_slots;
    s.tail = seen.tail;
    s.limit = s.floor + s.capacity_slots;
    s.participants = ring.participants().size();
    s.voids = seen.hot.void_total;
    s.corrupt = seen.hot.corrupt_total;
    s.closed = closed();
    s.prefaulted = main_.mapping.prefaulted();
    s.memory_locked = main_.mapping.locked();
    // ORD(none): set at attach.
    s.membarrier = hot().fence_needed.load(std::memory_order_relaxed) == 0;
    s.file_gone = file_gone();
    const auto handles = ring.handles();
    for (const auto& h : handles) {
        s.producers += h.kind == format::HandleKind::producer ? 1U : 0U;
        s.consumers += h.kind == format::HandleKind::consumer ? 1U : 0U;
    }
    for (std::size_t i = 0; i < seen.groups.size(); ++i) {
        const auto& g = seen.groups[i];
        if (g.state != format::GroupState::active) continue;
        const auto& c = seen.counts[i];
        GroupStats out;
        out.name = g.name;
        out.mode = g.mode;
        out.floor = g.cursor;
        out.lag = c.lag;
        out.ready = c.ready;
        out.scheduled = c.scheduled;
        out.in_flight = c.in_flight;
        out.dead_pending = c.dead_pending;
        out.delivered = g.delivered;
        out.redelivered = g.redelivered;
        out.acked = g.acked;
        out.nacked = g.nacked;
        out.rejected = g.rejected;
        out.released = g.released;
        out.stale = g.stale;
        out.lapsed = g.lapsed;
        out.owner_died = g.owner_died;
        out.dead_lettered = g.dead_lettered;
        out.skipped = g.skipped;
        for (const auto& h : handles) {
            if (h.kind != format::HandleKind::consumer || h.group != g.index || h.group_life != g.life) continue;
            ++out.members;
            out.delivered += h.published;
            out.acked += h.acked;
            out.nacked += h.nacked;
            out.rejected += h.rejected;
            out.released += h.released;
            out.stale += h.stale;
        }
        out.active_owner = g.owner != 0;
        s.groups.push_back(std::move(out));
    }
    const auto dead = format::ring_bytes(dead_.mapping.bytes(), dead_.super);
    std::vector<format::LeaseBytes> dead_tables;
    if (auto t = format::lease_bytes(dead_lease_.bytes(), dead)) dead_tables.push_back(*t);
    const auto dead_seen = format::survey(dead, dead_tables, {os::mono_ns(), os::wall_ns()});
    s.dead_capacity_slots = dead_.super.slot_count;
    s.dead_used_slots = dead_seen.used_slots;
    s.dead_open = dead_seen.counts.empty() ? 0 : dead_seen.counts[0].lag;
    return s;
}

// ---- explanations --------------------------------------------------------------------------------------------

namespace {

const char* word(os::ProcessState s) {
    switch (s) {
        case os::ProcessState::running: return "running";
        case os::ProcessState::stopped: return "stopped";
        case os::ProcessState::dead: return "dead";
        case os::ProcessState::unknown: return "in another PID namespace";
    }
    return "unknown";
}

std::string described(const format::RingBytes& ring, int fd, std::uint32_t participant, std::uint32_t me) {
    const auto p = ring.participant(participant);
    if (!p) return "nobody";
    std::string out = "process " + std::to_string(p->pid);
    if (!p->program.empty()) out += " (" + p->program + ")";
    out += ", ";
    if (participant == me) return out + "this one";
    const auto held = os::is_held(fd, participant);
    if (held && !*held) {
        out += "dead";
    } else {
        out += word(os::process_state(static_cast<std::int32_t>(p->pid), p->pid_namespace, p->start_ticks));
    }
    return out;
}

/// What holds the queue up, as the end of "held up at N ...". `group`: "group NAME", empty where none is concerned.
std::string cause(format::BlockKind k, const std::string& group) {
    switch (k) {
        case format::BlockKind::open_claim: return "by an uncommitted claim";
        case format::BlockKind::lease: return "by a message in the hands of a consumer of " + group;
        case format::BlockKind::exclusive_owner: return "by a message in the hands of the owner of " + group;
        case format::BlockKind::retry: return "by a message of " + group + " that waits for its next attempt";
        case format::BlockKind::dead_pending:
            return "by a message of " + group + " that finds no room among the dead letters";
        case format::BlockKind::no_members: return "by " + group + ", which has no members";
        case format::BlockKind::unconsumed: return "by " + group + ", which is behind";
        case format::BlockKind::borrow: return "by a consumer of " + group + " that still reads a settled message";
        case format::BlockKind::no_group: return "because there is no group: everything is kept";
    }
    return "by something unknown";
}

}  // namespace

std::string Attachment::explain(const Error& error) {
    std::string out = std::string(to_string(error.code)) + ": " + error.what + "; queue " + directory_;
    if (error.code != Errc::timeout && error.code != Errc::no_credit && error.code != Errc::would_deadlock &&
        error.code != Errc::role_taken)
        return out;
    if (detached()) return out;  // a forked child has no mapping to look at
    const auto ring = format::ring_bytes(main_.mapping.bytes(), main_.super);
    if (error.code == Errc::role_taken) {
        // ORD(none): for people.
        const std::uint64_t role = hot().producer_owner.load(std::memory_order_relaxed);
        return out + "; held by " + described(ring, main_.fd.get(), format::owner_participant(role), id_);
    }
    const auto tables = lease_tables(ring);
    const format::Now now{os::mono_ns(), os::wall_ns()};
    const auto seen = format::survey(ring, tables.bytes, now);
    const auto handles = ring.handles();
    for (const auto& b : format::who_blocks(ring, seen, handles, now)) {
        if (!b.holds_floor) continue;
        const std::string group = b.group ? "group " + group_name(*b.group) : "";
        out += "; held up at " + std::to_string(b.position) + " " + cause(b.kind, group);
        if (b.participant != 0) out += ", " + described(ring, main_.fd.get(), b.participant, id_);
        if (b.age_ns) out += ", for " + std::to_string(*b.age_ns / 1'000'000) + " ms";
    }
    return out;
}

std::string Attachment::described_others() const {
    const auto ring = format::ring_bytes(main_.mapping.bytes(), main_.super);
    std::string out;
    for (const auto& p : ring.participants())
        if (p.id != id_) out += "; open in " + described(ring, main_.fd.get(), p.id, id_);
    return out;
}

}  // namespace rondo::detail

namespace rondo {

std::string Queue::explain(const std::string& directory, const Error& error) {
    std::string out = std::string(to_string(error.code)) + ": " + error.what + "; " + directory;
    const auto show = [&](const os::FileInfo& i, std::string_view name) {
        constexpr char digits[] = "01234567";
        std::string mode;
        for (int shift = 9; shift >= 0; shift -= 3) mode += digits[i.mode >> shift & 7];
        out += "; " + std::string(name) + " has owner " + std::to_string(i.uid) + ", group " + std::to_string(i.gid) +
               ", mode " + mode;
    };
    // From the directory above: this one may be closed to us.
    const std::size_t slash = directory.find_last_not_of('/');
    const std::string path = slash == std::string::npos ? "/" : directory.substr(0, slash + 1);
    const std::size_t cut = path.rfind('/');
    const std::string above = cut == std::string::npos ? "." : cut == 0 ? "/" : path.substr(0, cut);
    const auto parent = os::open_dir(above);
    const auto itself = parent ? os::info_at(parent->get(), path.substr(cut == std::string::npos ? 0 : cut + 1))
                               : Result<os::FileInfo>(tl::unexpected(parent.error()));
    auto dir = os::open_dir(directory);
    if (error.code == Errc::permission) {
        if (itself) show(*itself, "the directory");
        if (dir) {
            if (auto i = os::info_at(dir->get(), queue::main_name)) show(*i, queue::main_name);
        }
        out += "; this process has uid " + std::to_string(os::current_uid());
    }
    if (error.code == Errc::no_space) {
        out += "; needed for one of its files: " + std::to_string(os::last_allocation()) + " bytes";
        if (const auto& there = dir ? dir : parent) {
            if (auto free = os::free_bytes(there->get())) out += ", free there: " + std::to_string(*free) + " bytes";
        }
    }
    if (!dir) return out;
    if (error.code == Errc::busy) {
        if (auto a = detail::Attachment::open(directory, {.prefault = false})) out += (*a)->described_others();
    }
    if (error.code == Errc::version_mismatch) {
        std::array<std::byte, format::page_bytes> page{};
        std::uint64_t version = 0;
        if (auto fd = os::open_file(dir->get(), queue::main_name, os::Access::read_only)) {
            if (auto n = os::read_all(fd->get(), page, 0))
                (void)format::validate_superblock(std::span(page).first(*n), ~std::uint64_t{0}, &version);
        }
        out += "; the file has format " + std::to_string(version) + ", this library " +
               std::to_string(format::version);
    }
    return out;
}

}  // namespace rondo
