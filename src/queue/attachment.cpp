// SPDX-License-Identifier: MIT
// Opening a queue, joining it as a participant, leaving it.
#include "queue/attachment.hpp"

#include <algorithm>
#include <cstring>

#include "format/layout.hpp"
#include "format/validate.hpp"
#include "os/barrier.hpp"
#include "os/child_fds.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/lock.hpp"
#include "os/process.hpp"
#include "queue/create.hpp"
#include "queue/files.hpp"
#include "queue/pump.hpp"

namespace rondo::detail {

namespace {

template <std::size_t N>
void put_name(std::array<std::atomic<char>, N>& to, std::string_view text) {
    for (std::size_t i = 0; i < N; ++i) {
        // ORD(none): for people; published with the owner or state word.
        to[i].store(i < text.size() && i + 1 < N ? text[i] : '\0', std::memory_order_relaxed);
    }
}

void raise_to(format::Word& word, std::uint64_t value) {
    // ORD(none): a bound for scans; the entry itself is published by its own state.
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    // ORD(table.high): acq_rel; pairs with the scans' acquire.
    while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_acq_rel,
                                                       std::memory_order_relaxed)) {}
}

}  // namespace

std::uint64_t thread_token() {
    thread_local char here;
    return reinterpret_cast<std::uintptr_t>(&here);
}

Result<std::shared_ptr<Attachment>> Attachment::open(const std::string& directory, const OpenOptions& options) {
    std::shared_ptr<Attachment> a(new Attachment);
    a->options_ = options;
    // On one core spinning only delays the one who is waited for; whoever sets a value knows better.
    if (os::single_cpu() && options.spin == OpenOptions{}.spin) a->options_.spin = {};
    a->directory_ = directory;
    a->program_ = os::exe_name();
    a->pid_ = static_cast<std::uint32_t>(os::current_pid());
    if (auto ok = os::ensure_fork_tracking(); !ok) return tl::unexpected(ok.error());
    a->fork_generation_ = os::fork_generation();
    if (auto ok = a->open_files(directory); !ok) return tl::unexpected(ok.error());
    if (auto ok = a->attach(); !ok) return tl::unexpected(ok.error());
    queue::remove_leftovers(a->dir_.get(), false);
    a->housekeep_now();  // what others left when they died is there for this one's first call
    return a;
}

Result<void> Attachment::open_files(const std::string& directory) {
    auto dir = os::open_dir(directory);
    if (!dir) return tl::unexpected(dir.error());
    dir_ = std::move(*dir);
    if (auto ok = open_ring(main_, queue::main_name, format::RingKind::main, options_.prefault); !ok) return ok;
    if (auto ok = check_home(); !ok) return ok;
    auto others = open_beside_main();
    if (others) return {};
    // Destroy, and whoever goes on with one that was killed, takes the main ring's name away first. Gone or another's:
    // what failed here belongs to the destroyed queue or to its successor.
    if (file_gone()) return fail(Errc::not_found, "the queue was destroyed meanwhile");
    if (others.error().code == Errc::not_found) return fail(Errc::corrupt, "a file of the queue is missing");
    return others;
}

Result<void> Attachment::open_beside_main() {
    const auto other = [&](RingFile& ring, std::string_view name, format::RingKind kind) -> Result<void> {
        if (auto ok = open_ring(ring, name, kind, false); !ok) return ok;
        if (ring.super.queue_uuid != main_.super.queue_uuid)
            return fail(Errc::corrupt, "the files in this directory belong to different queues");
        return {};
    };
    if (auto ok = other(retry_, queue::retry_name, format::RingKind::retry); !ok) return ok;
    if (auto ok = other(dead_, queue::dead_name, format::RingKind::dead); !ok) return ok;
    return open_dead_table();
}

Result<void> Attachment::open_ring(RingFile& ring, std::string_view name, format::RingKind kind, bool prefault) {
    // The participants' locks belong to the main ring's description: no child of a fork may have it, whenever.
    auto fd = kind == format::RingKind::main ? os::open_file_uninherited(dir_.get(), name, os::Access::read_write)
                                             : os::open_file(dir_.get(), name, os::Access::read_write);
    if (!fd) return tl::unexpected(fd.error());
    ring.fd = std::move(*fd);
    auto info = os::info(ring.fd.get());
    if (!info) return tl::unexpected(info.error());
    std::array<std::byte, format::page_bytes> page{};
    auto read = os::read_all(ring.fd.get(), page, 0);
    if (!read) return tl::unexpected(read.error());
    auto super = format::validate_superblock(std::span(page).first(*read), info->size);
    if (!super) return tl::unexpected(super.error());
    if (super->kind != kind) return fail(Errc::corrupt, "a ring file of another kind stands under this name");
    ring.super = *super;
    auto mapping = os::map(ring.fd.get(), super->file_bytes, os::Access::read_write,
                           {.prefault = prefault, .lock_memory = options_.lock_memory});
    if (!mapping) return tl::unexpected(mapping.error());
    ring.mapping = std::move(*mapping);
    const auto& s = ring.super;
    ring.view = {reinterpret_cast<format::HotWords*>(ring.at(s.hot_offset)),
                 reinterpret_cast<format::Word*>(ring.at(s.claims_offset)), ring.at(s.slots_offset), s.slot_count,
                 s.salt, s.checksum == format::Checksum::xxh3};
    return {};
}

Result<void> Attachment::open_dead_table() {
    auto fd = os::open_file(dir_.get(), queue::dead_lease_name, os::Access::read_write);
    if (!fd) return tl::unexpected(fd.error());
    auto info = os::info(fd->get());
    if (!info) return tl::unexpected(info.error());
    const auto l = format::lease_layout_of(dead_.super.slot_count);
    auto mapping = os::map(fd->get(), l.file_bytes, os::Access::read_write, {.prefault = false});
    if (!mapping) return tl::unexpected(mapping.error());
    auto header = format::validate_lease_header(mapping->bytes().first(format::page_bytes), info->size);
    if (!header) return tl::unexpected(header.error());
    if (auto ok = format::check_lease_owner(*header, dead_.super, 0, 1); !ok) return ok;
    dead_lease_ = std::move(*mapping);
    dead_table_ = {{reinterpret_cast<format::Entry*>(dead_lease_.data() + l.entries), dead_.super.slot_count},
                   {reinterpret_cast<format::Note*>(dead_lease_.data() + l.notes), l.note_count}};
    return {};
}

/// Is this file the one that its creator made, on this boot, with clocks that mean the same here?
Result<void> Attachment::check_home() {
    auto info = os::info(main_.fd.get());
    if (!info) return tl::unexpected(info.error());
    if (info->nlink == 0) return fail(Errc::not_found, "the queue was destroyed meanwhile");
    const auto& s = main_.super;
    if (s.time_namespace != 0 && os::time_namespace() != 0 && s.time_namespace != os::time_namespace())
        return fail(Errc::not_supported, "this process lives in another time namespace: deadlines would not match");
    if (info->inode == s.inode && info->device == s.device) return {};
    for (const auto& p : participants()) {
        // ORD(none): a copy of a file; nobody writes it.
        if (p.state.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(format::ParticipantState::attached))
            return fail(Errc::busy, "this is a copy of a queue that was in use when it was copied");
    }
    return {};
}

// ---- participants --------------------------------------------------------------------------------------------

Result<void> Attachment::attach() {
    // ORD(queue.state): acquire; pairs with destroy's release.
    if (hot().state.load(std::memory_order_acquire) != static_cast<std::uint32_t>(format::RingState::open))
        return fail(Errc::closed, "the queue is being destroyed");
    for (std::uint32_t id = 1; id < format::max_participants; ++id) {
        auto taken = take_place(id);
        if (!taken) return tl::unexpected(taken.error());
        if (*taken) {
            auto& p = participants()[id];
            // ORD(none): published by the state below.
            p.incarnation.store(p.incarnation.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            // ORD(none): this participant's own.
            lease_base_ = std::uint64_t{id} << 54 |
                          std::uint64_t{p.incarnation.load(std::memory_order_relaxed) & 0x3fffU} << 40;
            // ORD(none): published by the state below.
            p.pid.store(pid_, std::memory_order_relaxed);
            p.uid.store(os::current_uid(), std::memory_order_relaxed);
            p.pid_namespace.store(os::pid_namespace(), std::memory_order_relaxed);
            // ORD(none): as above.
            p.start_ticks.store(os::process_start_ticks(static_cast<std::int32_t>(pid_)).value_or(0),
                                std::memory_order_relaxed);
            p.attached_ns.store(os::wall_ns(), std::memory_order_relaxed);  // ORD(none): as above.
            put_name(p.program, program_);
            raise_to(hot().participants_high, id + 1);
            // ORD(none): before this participant's first change.
            if (!os::register_publisher()) hot().fence_needed.store(1, std::memory_order_relaxed);
            // ORD(participant.state): release; pairs with the scans.
            p.state.store(static_cast<std::uint32_t>(format::ParticipantState::attached), std::memory_order_release);
            return {};
        }
    }
    return fail(Errc::too_many_participants, "1023 participants have this queue open");
}

/// Locks the place and finishes what a dead one left there. False: somebody lives there, or not all could be finished:
/// then the place stays as it was, for the next who looks.
Result<bool> Attachment::take_place(std::uint32_t id) {
    auto locked = os::try_lock(main_.fd.get(), id, os::Lock::exclusive);
    if (!locked || !*locked) return locked;
    id_ = id;  // whoever was here died; this process is it now, and what the repair claims is its own
    // ORD(participant.state): acquire; pairs with detach() and bury().
    if (participants()[id].state.load(std::memory_order_acquire) ==
            static_cast<std::uint32_t>(format::ParticipantState::free) ||
        scavenge(id))
        return true;
    id_ = 0;
    (void)os::unlock(main_.fd.get(), id);
    return false;
}

void Attachment::detach() {
    for (std::uint32_t i = 0; i < used_handles().size(); ++i) {
        // ORD(none): this participant's own handles.
        if (format::owner_participant(handles()[i].owner.load(std::memory_order_relaxed)) == id_) free_handle(i);
    }
    // ORD(participant.state): release; pairs with attach() and the scans.
    participants()[id_].state.store(static_cast<std::uint32_t>(format::ParticipantState::free),
                                    std::memory_order_release);
    (void)os::unlock(main_.fd.get(), id_);
}

Attachment::~Attachment() {
    if (detached()) {
        // A forked child: the lock's descriptor is closed already, the number may be somebody else's by now.
        (void)main_.fd.release();
        if (pump_) pump_.release();  // NOLINT: its thread does not exist here
        return;
    }
    pump_.reset();
    if (id_ != 0) detach();
    if (main_.fd) os::forget_child_fd(main_.fd.get());
}

bool Attachment::detached() const { return fork_generation_ != os::fork_generation(); }

bool Attachment::closed() const {
    // ORD(queue.closed): acquire; pairs with close().
    if (closed_.load(std::memory_order_acquire)) return true;
    // ORD(queue.state): acquire; pairs with destroy's release.
    return hot().state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(format::RingState::closed);
}

Result<void> Attachment::usable() const {
    if (detached()) return fail(Errc::detached, "this process was forked from the one that opened the queue");
    if (closed()) return fail(Errc::closed, "the queue is closed");
    return {};
}

void Attachment::close() {
    if (detached()) return;
    // ORD(queue.closed): release; pairs with closed().
    closed_.store(true, std::memory_order_release);
    data_event().notify_always();
    space_event().notify_always();
}

std::span<format::Participant> Attachment::participants() const {
    return {reinterpret_cast<format::Participant*>(main_.at(main_.super.participants_offset)),
            main_.super.participant_count};
}

std::span<format::Handle> Attachment::handles() const {
    return {reinterpret_cast<format::Handle*>(main_.at(main_.super.handles_offset)), main_.super.handle_count};
}

std::span<format::Handle> Attachment::used_handles() const {
    // ORD(table.high): acquire; pairs with raise_to().
    const std::uint64_t high = hot().handles_high.load(std::memory_order_acquire);
    return handles().first(std::min<std::uint64_t>(high, main_.super.handle_count));
}

// ---- handles -------------------------------------------------------------------------------------------------

/// A free place: among the first few the one left longest ago, so that the names of those who left stay readable for
/// dead letters; otherwise the first. As many as there are places if none is free.
std::uint32_t Attachment::free_place() const {
    constexpr std::uint32_t few = 16;  // whoever moves the limit looks at every place ever used
    const auto count = static_cast<std::uint32_t>(handles().size());
    std::uint32_t best = count;
    std::uint64_t best_left = 0;
    for (std::uint32_t i = 0; i < count && (i < few || best == count); ++i) {
        const auto& h = handles()[i];
        // ORD(none): looked at again by the CAS.
        if (h.owner.load(std::memory_order_relaxed) != 0) continue;
        const std::uint64_t left = h.waiting_since_ns.load(std::memory_order_relaxed);  // ORD(none): a preference
        if (best != count && left >= best_left) continue;
        best = i;
        best_left = left;
    }
    return best;
}

Result<std::uint32_t> Attachment::take_handle(format::HandleKind kind, std::string_view name,
                                              std::optional<GroupRef> group) {
    const auto claiming = format::pack_owner(id_, static_cast<std::uint32_t>(format::HandleKind::claiming));
    for (std::uint32_t i = free_place(); i < handles().size(); i = free_place()) {
        auto& h = handles()[i];
        std::uint64_t nobody = 0;
        raise_to(hot().handles_high, i + 1);  // first: a scavenger looks no further than this
        // ORD(handle.owner): acq_rel; pairs with free_handle(): its last words are seen, then overwritten.
        if (!h.owner.compare_exchange_strong(nobody, claiming, std::memory_order_acq_rel, std::memory_order_relaxed))
            continue;
        // ORD(none): published by the owner word below.
        h.group.store(group ? group->index : ~0U, std::memory_order_relaxed);
        h.group_life.store(group ? group->life : 0, std::memory_order_relaxed);
        h.waiting.store(0, std::memory_order_relaxed);
        h.serial.store(h.serial.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        // ORD(none): as above.
        h.in_flight.store(0, std::memory_order_relaxed);
        // ORD(none): as above.
        h.last_seq.store(format::nowhere, std::memory_order_relaxed);
        h.last_outcome_ns.store(0, std::memory_order_relaxed);
        put_name(h.name, name);
        // ORD(group.member): seq_cst; pairs with delete_group(): either the deleter sees this member, or the member
        // sees the state that the deleter set.
        h.owner.store(format::pack_owner(id_, static_cast<std::uint32_t>(kind)), std::memory_order_seq_cst);
        if (group && !group_alive(*group)) {
            free_handle(i);
            return fail(Errc::no_such_group, "the group was deleted");
        }
        return i;
    }
    return fail(Errc::too_many_participants, "2048 producers and consumers have this queue open");
}

void Attachment::free_handle(std::uint32_t index) {
    auto& h = handles()[index];
    // ORD(none): only the owner, or its scavenger under the lock, comes here.
    const std::uint32_t g = h.group.load(std::memory_order_relaxed);
    const auto take = [](format::Word& w) {
        // ORD(none): a counter.
        return w.exchange(0, std::memory_order_relaxed);
    };
    // ORD(none): as above.
    const bool consumer = format::owner_low(h.owner.load(std::memory_order_relaxed)) ==
                          static_cast<std::uint32_t>(format::HandleKind::consumer);
    if (consumer && g < groups().size()) {
        auto& t = groups()[g];
        const auto fold = [&](format::Word& to, format::Word& from) {
            // ORD(none): a counter. Killed in between, it loses what this handle counted, never twice.
            to.fetch_add(take(from), std::memory_order_relaxed);
        };
        fold(t.delivered, h.published);
        fold(t.acked, h.acked);
        fold(t.nacked, h.nacked);
        fold(t.rejected, h.rejected);
        fold(t.released, h.released);
        fold(t.stale, h.stale);
        fold(t.lapsed, h.lapsed);
    }
    for (auto* w : {&h.published, &h.acked, &h.nacked, &h.rejected, &h.released, &h.stale, &h.lapsed, &h.in_flight,
                    &h.handler_ns, &h.handler_samples, &h.blocked_ns})
        (void)take(*w);
    h.waiting_since_ns.store(os::mono_ns(), std::memory_order_relaxed);  // ORD(none): see free_place()
    // ORD(handle.borrow): release; pairs with settled_floor().
    h.borrow.store(format::nowhere, std::memory_order_release);
    // ORD(handle.owner): release; pairs with take_handle().
    h.owner.store(0, std::memory_order_release);
}

}  // namespace rondo::detail
