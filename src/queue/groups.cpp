// SPDX-License-Identifier: MIT
// Groups: found by name, made, deleted, repaired when their maker or deleter was killed.
//
// Definition and state are changed under the admin byte of lane-00.ring. A group that is `creating` or `deleting`
// while that byte is free was left by a dead process: whoever comes by finishes it.
#include <algorithm>
#include <cmath>

#include "flow/exclusive_group.hpp"
#include "flow/shared_group.hpp"
#include "format/layout.hpp"
#include "format/snapshot.hpp"
#include "format/validate.hpp"
#include "os/clock.hpp"
#include "os/dir_lock.hpp"
#include "os/file.hpp"
#include "os/lock.hpp"
#include "queue/attachment.hpp"
#include "queue/create.hpp"
#include "queue/files.hpp"
#include "queue/waiting.hpp"

namespace rondo::detail {

namespace {

using format::GroupState;

GroupState state_of(const format::Group& g) {
    // ORD(group.state): seq_cst; pairs with set_state(), and as the second half of the member handshake with
    // take_handle().
    return static_cast<GroupState>(g.state.load(std::memory_order_seq_cst));
}

void set_state(format::Group& g, GroupState s) {
    // ORD(group.state): seq_cst; pairs with state_of(). Releases the definition, the marks and the lease table.
    g.state.store(static_cast<std::uint32_t>(s), std::memory_order_seq_cst);
}

std::uint32_t life_of(const format::Group& g) {
    // ORD(none): read between two looks at the state, or under the admin lock.
    return g.life.load(std::memory_order_relaxed);
}

std::string name_of(const format::Group& g) {
    std::string out;
    for (const auto& c : g.name) {
        // ORD(none): published by the state.
        const char ch = c.load(std::memory_order_relaxed);
        if (ch == '\0') break;
        out += ch;
    }
    return out;
}

template <class W, class V>
void put(W& word, V value) {
    // ORD(none): published by set_state().
    word.store(value, std::memory_order_relaxed);
}

void define(format::Group& g, std::string_view name, const format::ResolvedGroup& r) {
    put(g.mode, static_cast<std::uint32_t>(r.mode));
    put(g.kind, static_cast<std::uint32_t>(r.kind));
    put(g.start_kind, static_cast<std::uint32_t>(r.start_kind));
    put(g.jitter, static_cast<std::uint32_t>(r.jitter));
    put(g.start_value, r.start_value);
    put(g.lease_timeout_ns, r.lease_timeout_ns);
    put(g.max_lease_total_ns, r.max_lease_total_ns);
    put(g.max_deliveries, r.max_deliveries);
    put(g.backoff_multiplier_milli, r.backoff_multiplier_milli);
    put(g.backoff_initial_ns, r.backoff_initial_ns);
    put(g.backoff_max_ns, r.backoff_max_ns);
    put(g.retry_max_age_ns, r.retry_max_age_ns);
    put(g.max_in_flight_consumer, r.max_in_flight_consumer);
    put(g.max_in_flight_group, r.max_in_flight_group);
    put(g.max_dead_pending, r.max_dead_pending);
    put(g.created_ns, os::wall_ns());
    for (std::size_t i = 0; i < format::name_bytes; ++i) put(g.name[i], i < name.size() ? name[i] : '\0');
}

format::ResolvedGroup stored(const format::Group& g) {
    const auto get = [](const auto& w) {
        // ORD(none): published by the state.
        return w.load(std::memory_order_relaxed);
    };
    format::ResolvedGroup r{};
    r.mode = static_cast<format::GroupMode>(get(g.mode));
    r.kind = static_cast<format::GroupKind>(get(g.kind));
    r.jitter = static_cast<format::Jitter>(get(g.jitter));
    r.start_kind = static_cast<format::StartKind>(get(g.start_kind));
    r.start_value = get(g.start_value);
    r.lease_timeout_ns = get(g.lease_timeout_ns);
    r.max_lease_total_ns = get(g.max_lease_total_ns);
    r.max_deliveries = get(g.max_deliveries);
    r.backoff_multiplier_milli = get(g.backoff_multiplier_milli);
    r.backoff_initial_ns = get(g.backoff_initial_ns);
    r.backoff_max_ns = get(g.backoff_max_ns);
    r.retry_max_age_ns = get(g.retry_max_age_ns);
    r.max_in_flight_consumer = get(g.max_in_flight_consumer);
    r.max_in_flight_group = get(g.max_in_flight_group);
    r.max_dead_pending = get(g.max_dead_pending);
    return r;
}

/// Marks of a group that begins at `start`, all but the cursor.
void reset_marks(format::Group& g, Seq start) {
    put(g.hint, start);
    put(g.owner, std::uint64_t{0});
    put(g.handed, start);
    put(g.retry, std::uint64_t{0});
    put(g.not_before, std::uint64_t{0});
    put(g.move, std::uint64_t{0});
    put(g.move_tail, std::uint64_t{0});
    put(g.dead_pending, std::uint64_t{0});
    put(g.note.position, std::uint64_t{0});
    for (auto* c : {&static_cast<format::Word&>(g.delivered), &g.acked, &g.nacked, &g.rejected, &g.released, &g.stale,
                    &g.lapsed, &g.owner_died, &g.dead_lettered, &g.redelivered, &g.skipped})
        put(*c, std::uint64_t{0});
}

/// How long the maker or deleter of a group waits for another one: as long as one takes for the table of a ring of
/// several GiB.
constexpr Duration patience = std::chrono::seconds(5);
constexpr const char* admin_taken = "another process is changing the queue's groups, or was stopped while it did";

/// The admin byte: one maker or deleter at a time, in all processes. Freed by the kernel with its holder. That may be
/// stopped, too: nobody waits for it without a bound.
class AdminLock {
public:
    AdminLock(int fd, std::mutex& mutex) : fd_(fd), guard_(mutex, std::defer_lock) {}
    AdminLock(const AdminLock&) = delete;
    AdminLock& operator=(const AdminLock&) = delete;
    ~AdminLock() {
        if (held_) (void)os::unlock(fd_, queue::admin_byte);
    }
    /// Never waits. False: another thread or process has it.
    Result<bool> take() {
        if (!guard_.try_lock()) return false;
        auto ok = os::try_lock(fd_, queue::admin_byte, os::Lock::exclusive);
        held_ = ok && *ok;
        if (!held_) guard_.unlock();
        return ok;
    }

private:
    int fd_;
    std::unique_lock<std::mutex> guard_;
    bool held_ = false;
};

}  // namespace

Result<GroupRef> Attachment::find_group(std::string_view name) const {
    for (std::uint32_t i = 0; i < groups().size(); ++i) {
        const auto& g = groups()[i];
        if (state_of(g) != GroupState::active) continue;
        const GroupRef ref{i, life_of(g)};
        if (name_of(g) == name && group_alive(ref)) return ref;
    }
    return fail(Errc::no_such_group, "no group of that name");
}

bool Attachment::group_alive(const GroupRef& ref) const {
    const auto& g = groups()[ref.index];
    return state_of(g) == GroupState::active && life_of(g) == ref.life;
}

std::string Attachment::group_name(std::uint32_t index) const { return name_of(groups()[index]); }

/// Tries until it works, is refused, the queue is closed, or `patience` is over.
Result<void> Attachment::insist(const std::function<Result<bool>()>& attempt, const char* otherwise) {
    const Deadline deadline(patience);
    for (std::chrono::nanoseconds pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, flow::tick)) {
        if (auto ok = usable(); !ok) return ok;
        auto done = attempt();
        if (!done) return tl::unexpected(done.error());
        if (*done) return {};
        if (deadline.over()) return fail(Errc::busy, otherwise);
        auto closing = space_event();
        const std::uint32_t key = closing.prepare();
        if (!closed()) closing.sleep(key, pause);
    }
}

/// What the maker of a group is told that is there already. Takes no lock.
std::optional<Error> Attachment::clash(std::string_view name, const GroupOptions& options) const {
    const auto there = find_group(name);
    if (!there) return std::nullopt;
    const auto same = format::check_same_group(options, stored(groups()[there->index]));
    if (!group_alive(*there)) return std::nullopt;  // deleted meanwhile: the options may be those of the next one
    return same ? Error{Errc::exists, 0, "a group of that name exists"} : same.error();
}

Result<GroupRef> Attachment::create_group(std::string_view name, const GroupOptions& options) {
    if (auto ok = format::check_name(name); !ok) return tl::unexpected(ok.error());
    if (auto ok = format::check_group_options(options, main_.view.slots); !ok) return tl::unexpected(ok.error());
    if (auto there = clash(name, options)) return tl::unexpected(*there);  // every start but the first ends here
    AdminLock admin(main_.fd.get(), admin_mutex_);
    if (auto ok = insist([&] { return admin.take(); }, admin_taken); !ok) return tl::unexpected(ok.error());
    if (auto there = clash(name, options)) return tl::unexpected(*there);
    for (std::uint32_t i = 0; i < groups().size(); ++i) {
        const GroupState s = state_of(groups()[i]);
        if (s == GroupState::creating || s == GroupState::deleting) finish_delete(i);
        if (state_of(groups()[i]) == GroupState::free) return make_group(i, name, options);
    }
    return fail(Errc::busy, "all groups of this queue are in use");
}

/// Under the admin lock, in a free block.
Result<GroupRef> Attachment::make_group(std::uint32_t index, std::string_view name, const GroupOptions& options) {
    auto& g = groups()[index];
    const auto& v = main_.view;
    // Before the pin: where the limit moves, its join generations begin anew.
    // ORD(none): looked at again by the join's CAS.
    if (format::limit_generation(v.limit().load(std::memory_order_relaxed)) + 2 >= format::join_generations)
        advance_credit();
    const GroupRef ref{index, life_of(g) + 1};
    put(g.life, ref.life);
    set_state(g, GroupState::creating);  // killed from here on: repair_groups() frees it again
    const auto undo = [&](const Error& e) {
        finish_delete(index);
        return tl::unexpected(e);
    };
    const auto resolved = format::resolve(options, v.slots);
    define(g, name, resolved);
    if (resolved.mode == format::GroupMode::shared) {
        if (auto ok = make_lease_file(ref); !ok) {
            auto still = usable();  // a destroy under way takes the directory away
            return undo(still ? ok.error() : still.error());
        }
    }
    // Pin, then raise the limit's generation: an advance that did not see the pin fails.
    // ORD(group.mark): seq_cst; pairs with settled_floor().
    g.cursor.store(flow::floor_of(v), std::memory_order_seq_cst);
    // ORD(credit.limit): acquire; pairs with advance_limit().
    std::uint64_t word = v.limit().load(std::memory_order_acquire);
    do {
        if (format::limit_generation(word) + 1 == format::join_generations)
            return undo({Errc::busy, 0, "4095 groups were made while the ring stood still"});
        // ORD(credit.limit): acq_rel; pairs with advance_limit().
    } while (!v.limit().compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire));
    const Seq floor = format::limit_position(word) - v.slots;
    auto start = start_position(options, floor);
    if (!start) return undo(start.error());
    reset_marks(g, *start);
    const bool by_seq = options.start.kind() == format::StartKind::seq;
    // A position that is still kept but lies inside a record moves to the next one: nothing is missed by that.
    put(g.first, by_seq && options.start.value() >= floor ? options.start.value() : *start);
    // ORD(group.mark): release; pairs with settled_floor().
    g.cursor.store(*start, std::memory_order_release);
    set_state(g, GroupState::active);
    // ORD(credit.keep): release; pairs with settled_floor(). The group holds the ring now.
    hot().keep_from.store(format::nowhere, std::memory_order_release);
    return ref;
}

/// Under the admin lock; takes the directory's as well, on a description of its own, as all makers of files do.
Result<void> Attachment::make_lease_file(const GroupRef& ref) {
    auto dir = os::open_dir(os::full_path(dir_.get()));
    if (!dir) return tl::unexpected(dir.error());
    const auto taken = insist([&] { return os::try_lock_directory(dir->get()); },
                              "another process creates or removes files in the queue's directory, or was stopped");
    if (!taken) return taken;
    queue::remove_leftovers(dir->get(), true);
    return queue::create_lease_file(dir->get(), queue::lease_name(ref.index, ref.life), main_.super, ref.index, ref.life);
}

Result<Seq> Attachment::start_position(const GroupOptions& options, Seq floor) const {
    // ORD(ring.tail): acquire; pairs with move_tail() and publish_tail().
    const Seq tail = main_.view.tail().load(std::memory_order_acquire);
    switch (options.start.kind()) {
        case format::StartKind::earliest: return floor;
        case format::StartKind::latest: return std::max(floor, tail);
        case format::StartKind::seq:
            if (options.start.value() > tail)
                return fail(Errc::invalid_argument, "the start position lies beyond the last message");
            return seek_boundary(floor, options.start.value(), std::nullopt);
        case format::StartKind::time:
            if (main_.super.timestamps == format::Timestamps::off)
                return fail(Errc::not_supported, "this queue keeps no timestamps");
            return seek_boundary(floor, floor, options.start.value());
    }
    return fail(Errc::invalid_argument, "unknown start position");
}

/// The latest moment at which a message can have been accepted: the unit is rounded down, and the coarse clock lags by
/// a tick, under load by more. A few messages too early are harmless, one too late would be lost.
std::uint64_t Attachment::accepted_until_ns(Seq p, const ring::RecordView& r) const {
    if (main_.super.timestamps == format::Timestamps::exact) {
        if (const auto body = ring::body_of(main_.view, p, r)) {
            const auto block = body->first(body->size() - r.head.payload_bytes);
            if (const auto ns = format::ExtensionReader::find_number(block, format::Tag::accepted_ns)) return *ns + 1;
        }
    }
    constexpr std::uint64_t unit_ns = 4'000'000;
    return format::accepted_wall_ns(main_.super, r.accepted, os::wall_ns()) + 5 * unit_ns;
}

/// First record boundary at or behind `wanted` whose message was accepted at or after `accepted_from`, or the tail.
Result<Seq> Attachment::seek_boundary(Seq floor, Seq wanted, std::optional<std::uint64_t> accepted_from) const {
    const auto& v = main_.view;
    // ORD(ring.tail): acquire; pairs with move_tail() and publish_tail().
    const Seq tail = v.tail().load(std::memory_order_acquire);
    Seq p = floor;
    for (std::uint64_t steps = 0; p < tail && steps < v.slots; ++steps) {
        ring::RecordView r{};
        if (ring::peek(v, p, r) == ring::Peek::record) {
            const bool late = !accepted_from || (r.head.type == format::RecordType::message &&
                                                 accepted_until_ns(p, r) > *accepted_from);
            if (p >= wanted && late) return p;
            p += r.head.slots;
            continue;
        }
        // ORD(ring.claim): acquire; pairs with claim_at(). Somebody is writing this record.
        const auto claim = format::unpack_claim(v.claim(p).load(std::memory_order_acquire));
        if (claim.lap1 != v.lap1(p) || claim.slots == 0) return p;
        if (p >= wanted) return p;
        p += claim.slots;
    }
    return std::max(p, floor);
}

Result<void> Attachment::delete_group(std::string_view name, Force force) {
    AdminLock admin(main_.fd.get(), admin_mutex_);
    if (auto ok = insist([&] { return admin.take(); }, admin_taken); !ok) return ok;
    auto ref = find_group(name);
    if (!ref) return tl::unexpected(ref.error());
    auto& g = groups()[ref->index];
    const bool members = group_has_handles(ref->index);
    // ORD(group.mark): acquire; pairs with whoever settles.
    const Seq cursor = g.cursor.load(std::memory_order_acquire);
    // ORD(none): a member writes them; without members they stand still.
    const bool in_flight = std::max(g.hint.load(std::memory_order_relaxed), g.handed.load(std::memory_order_relaxed)) >
                           cursor;
    if (force == Force::no && (members || in_flight))
        return fail(Errc::busy, "the group has members or messages in flight");
    set_state(g, GroupState::deleting);
    finish_delete(ref->index);
    forget_deleted_groups();
    data_event().notify_always();
    advance_credit();
    return {};
}

/// Under the admin lock, the group creating or deleting: takes its hold off the ring. The block is free again once
/// no member is left; the deletion is complete before.
void Attachment::finish_delete(std::uint32_t index) {
    auto& g = groups()[index];
    if (!any_active_group(index)) {
        // ORD(none): admin only.
        if (hot().keep_from.load(std::memory_order_relaxed) == format::nowhere) {
            // ORD(credit.keep): release; pairs with settled_floor(): set before the mark below goes away.
            hot().keep_from.store(flow::floor_of(main_.view), std::memory_order_release);
        }
    }
    // ORD(group.mark): release; pairs with settled_floor().
    g.cursor.store(format::nowhere, std::memory_order_release);
    (void)os::remove(dir_.get(), queue::lease_name(index, life_of(g)));
    if (group_has_handles(index)) {
        set_state(g, GroupState::deleting);
        return;
    }
    // Again: an exclusive owner that was inside an ack may have put its cursor back before it left.
    // ORD(group.mark): release; pairs with settled_floor().
    g.cursor.store(format::nowhere, std::memory_order_release);
    set_state(g, GroupState::free);
}

bool Attachment::group_has_handles(std::uint32_t index) const {
    for (const auto& h : used_handles()) {
        // ORD(group.member): seq_cst; pairs with take_handle().
        const std::uint64_t owner = h.owner.load(std::memory_order_seq_cst);
        if (format::owner_low(owner) != static_cast<std::uint32_t>(format::HandleKind::consumer)) continue;
        // ORD(none): published by the owner word.
        if (h.group.load(std::memory_order_relaxed) == index) return true;
    }
    return false;
}

bool Attachment::any_active_group(std::uint32_t except) const {
    for (std::uint32_t i = 0; i < groups().size(); ++i)
        if (i != except && state_of(groups()[i]) == GroupState::active) return true;
    return false;
}

void Attachment::repair_groups() {
    bool odd = false, active = false;
    for (const auto& g : groups()) {
        const GroupState s = state_of(g);
        odd = odd || s == GroupState::creating || s == GroupState::deleting;
        active = active || s == GroupState::active;
    }
    // ORD(none): looked at again under the lock.
    odd = odd || (active && hot().keep_from.load(std::memory_order_relaxed) != format::nowhere);
    if (!odd) return;
    AdminLock admin(main_.fd.get(), admin_mutex_);
    if (const auto taken = admin.take(); !taken || !*taken) return;
    for (std::uint32_t i = 0; i < groups().size(); ++i) {
        const GroupState s = state_of(groups()[i]);
        if (s == GroupState::creating || s == GroupState::deleting) finish_delete(i);
    }
    // ORD(credit.keep): release; pairs with settled_floor(). A maker died between its last two steps.
    if (any_active_group(~0U)) hot().keep_from.store(format::nowhere, std::memory_order_release);
}

}  // namespace rondo::detail
