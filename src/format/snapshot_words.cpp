// SPDX-License-Identifier: MIT
#include "format/snapshot_words.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "base/mix.hpp"

namespace rondo::format {

namespace {

/// A private copy of a block of shared memory. Its atomics are read like any others; nobody else writes them.
template <class T>
class Copied {
public:
    static_assert(sizeof(T) % 8 == 0 && std::is_trivially_destructible_v<T>);
    explicit Copied(const T& shared) { copy_words(reinterpret_cast<const std::byte*>(&shared), bytes_, sizeof(T)); }
    const T* operator->() const { return reinterpret_cast<const T*>(bytes_); }
    const T& operator*() const { return *reinterpret_cast<const T*>(bytes_); }

private:
    alignas(std::max(alignof(T), std::size_t{8})) std::byte bytes_[sizeof(T)];
};

template <std::size_t Size>
std::string text_of(const std::array<std::atomic<char>, Size>& field) {
    std::string text;
    for (const auto& c : field) {
        // ORD(none): for people.
        const char value = c.load(std::memory_order_relaxed);
        if (value == '\0') break;
        text.push_back(value);
    }
    return text;
}

std::optional<Seq> tagged_position(std::uint64_t word) {
    if ((word & 1) == 0) return std::nullopt;
    return word >> 1;
}

template <std::size_t Size>
std::string sized_text(const std::array<char, Size>& field, std::uint32_t size) {
    return {field.data(), std::min<std::size_t>(size, Size)};
}

/// Nothing if the note belongs to no message.
std::optional<NoteInfo> note_of(const Note& shared) {
    const Copied<Note> n(shared);
    const auto position = tagged_position(peek(n->position));
    if (!position) return std::nullopt;
    NoteInfo v{};
    v.position = *position;
    v.attempt_count = n->attempt_count;
    v.release_count = n->release_count;
    v.first_delivered_ns = n->first_delivered_ns;
    v.last_delivered_ns = n->last_delivered_ns;
    v.flags = n->flags;
    v.code = sized_text(n->code, n->code_size);
    v.type = sized_text(n->type, n->type_size);
    v.stage = sized_text(n->stage, n->stage_size);
    v.message = sized_text(n->message, n->message_size);
    const std::uint32_t kept = std::min<std::uint32_t>(n->attempt_count, attempts_kept);
    for (std::uint32_t i = n->attempt_count - kept; i < n->attempt_count; ++i) {
        v.attempts.push_back(n->attempts[i % attempts_kept]);
    }
    return v;
}

}  // namespace

void copy_words(const std::byte* from, std::byte* to, std::size_t bytes) {
    for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
        // ORD(credit.limit): acquire; the caller looks at the limit afterwards, and must not do so earlier: pairs
        // with advance_limit(), before which nobody overwrites these words.
        const std::uint64_t value = reinterpret_cast<const Word*>(from + at)->load(std::memory_order_acquire);
        std::memcpy(to + at, &value, 8);
    }
}

std::optional<Superblock> copy_superblock(std::span<const std::byte> file) {
    static_assert(sizeof(Superblock) % 8 == 0);
    if (file.size() < sizeof(Superblock)) return std::nullopt;
    Superblock result;
    copy_words(file.data(), reinterpret_cast<std::byte*>(&result), sizeof result);
    return result;
}

std::optional<LeaseHeader> copy_lease_header(std::span<const std::byte> file) {
    static_assert(sizeof(LeaseHeader) % 8 == 0);
    if (file.size() < sizeof(LeaseHeader)) return std::nullopt;
    LeaseHeader result;
    copy_words(file.data(), reinterpret_cast<std::byte*>(&result), sizeof result);
    return result;
}

bool usable_geometry(const Superblock& super) {
    return base::is_pow2(super.slot_count) && super.slot_count >= 64 && super.slot_count <= max_slots &&
           super.participant_count <= max_participants && super.handle_count <= max_handles &&
           super.group_count <= max_groups;
}

RingBytes ring_bytes(std::span<const std::byte> file, const Superblock& super) {
    return {file, super, layout_of({super.slot_count, super.participant_count, super.handle_count, super.group_count})};
}

std::optional<HotValues> RingBytes::hot() const {
    const HotWords* words = hot_words();
    if (words == nullptr) return std::nullopt;
    HotValues v{};
    // The tail before the limit: tail <= limit then holds in the copy too, as neither decreases.
    v.tail = peek_acquire(words->tail);
    const std::uint64_t limit = peek_acquire(words->limit);
    v.limit = limit_position(limit);
    v.join_generation = limit_generation(limit);
    v.keep_from = peek(words->keep_from);
    v.last_scan_ns = peek(words->last_scan);
    v.state = peek(words->state);
    v.epoch = peek(words->epoch);
    v.producer_owner = peek(words->producer_owner);
    v.participants_high = peek(words->participants_high);
    v.handles_high = peek(words->handles_high);
    v.fence_needed = peek(words->fence_needed);
    v.void_total = peek(words->void_total);
    v.corrupt_total = peek(words->corrupt_total);
    return v;
}

std::optional<ClaimWord> RingBytes::claim(Seq position) const {
    const Word* word = claim_word(position);
    if (word == nullptr) return std::nullopt;
    // ORD(ring.claim): acquire; pairs with claim_at().
    return unpack_claim(word->load(std::memory_order_acquire));
}

std::uint32_t RingBytes::overflow() const {
    const auto* block = at<QueueBlock>(layout.queue, 0);
    return block == nullptr ? 0 : peek(block->overflow);
}

std::optional<ParticipantInfo> RingBytes::participant(std::uint32_t id) const {
    if (id >= super.participant_count) return std::nullopt;
    const auto* shared = at<Participant>(layout.participants, id);
    if (shared == nullptr) return std::nullopt;
    const Copied<Participant> p(*shared);
    return ParticipantInfo{id,
                           peek(p->state),
                           peek(p->incarnation),
                           peek(p->pid),
                           peek(p->uid),
                           peek(p->pid_namespace),
                           peek(p->start_ticks),
                           peek(p->attached_ns),
                           text_of(p->program)};
}

std::optional<HandleInfo> RingBytes::handle(std::uint32_t index) const {
    if (index >= super.handle_count) return std::nullopt;
    const auto* shared = at<Handle>(layout.handles, index);
    if (shared == nullptr) return std::nullopt;
    const Copied<Handle> h(*shared);
    HandleInfo v{};
    const std::uint64_t owner = peek(h->owner);
    v.index = index;
    v.participant = owner_participant(owner);
    v.kind = static_cast<HandleKind>(owner_low(owner));
    v.group = peek(h->group);
    v.group_life = peek(h->group_life);
    v.borrow = peek(h->borrow);
    v.waiting = static_cast<Waiting>(peek(h->waiting));
    v.waiting_since_ns = peek(h->waiting_since_ns);
    v.name = text_of(h->name);
    v.published = peek(h->published);
    v.acked = peek(h->acked);
    v.nacked = peek(h->nacked);
    v.rejected = peek(h->rejected);
    v.released = peek(h->released);
    v.stale = peek(h->stale);
    v.lapsed = peek(h->lapsed);
    v.in_flight = peek(h->in_flight);
    v.last_seq = peek(h->last_seq);
    v.last_outcome_ns = peek(h->last_outcome_ns);
    v.handler_ns = peek(h->handler_ns);
    v.handler_samples = peek(h->handler_samples);
    v.blocked_ns = peek(h->blocked_ns);
    return v;
}

std::optional<GroupInfo> RingBytes::group(std::uint32_t index) const {
    if (index >= super.group_count) return std::nullopt;
    // In place, word by word: a copy of the block would take in the note, which the owner writes in plain bytes.
    const auto* g = at<Group>(layout.groups, index);
    if (g == nullptr) return std::nullopt;
    GroupInfo v{};
    v.index = index;
    v.state = static_cast<GroupState>(peek(g->state));
    v.life = peek(g->life);
    v.mode = static_cast<GroupMode>(peek(g->mode));
    v.kind = static_cast<GroupKind>(peek(g->kind));
    v.start_kind = static_cast<StartKind>(peek(g->start_kind));
    v.start_value = peek(g->start_value);
    v.lease_timeout_ns = peek(g->lease_timeout_ns);
    v.max_lease_total_ns = peek(g->max_lease_total_ns);
    v.max_deliveries = peek(g->max_deliveries);
    v.max_in_flight_consumer = peek(g->max_in_flight_consumer);
    v.max_in_flight_group = peek(g->max_in_flight_group);
    v.max_dead_pending = peek(g->max_dead_pending);
    v.created_ns = peek(g->created_ns);
    v.name = text_of(g->name);
    v.cursor = peek(g->cursor);
    v.hint = peek(g->hint);
    const std::uint64_t owner = peek(g->owner);
    v.owner = owner_participant(owner);
    if (owner_low(owner) != 0) {
        v.owner_handle = owner_low(owner) - 1;
        if (const auto h = handle(*v.owner_handle)) v.owner_in_flight = h->in_flight;
    }
    v.handed = peek(g->handed);
    const std::uint64_t retry = peek(g->retry);
    v.retry_position = retry_set(retry) ? retry_position(retry) : nowhere;
    v.retry_attempts = retry_attempts(retry);
    v.not_before_ns = peek(g->not_before);
    v.moving = tagged_position(peek(g->move));
    v.handed_ns = peek(g->handed_ns);
    v.dead_pending = tagged_position(peek(g->dead_pending));
    v.delivered = peek(g->delivered);
    v.acked = peek(g->acked);
    v.nacked = peek(g->nacked);
    v.rejected = peek(g->rejected);
    v.released = peek(g->released);
    v.stale = peek(g->stale);
    v.lapsed = peek(g->lapsed);
    v.owner_died = peek(g->owner_died);
    v.dead_lettered = peek(g->dead_lettered);
    v.redelivered = peek(g->redelivered);
    v.skipped = peek(g->skipped);
    return v;
}

std::optional<NoteInfo> RingBytes::group_note(std::uint32_t index) const {
    if (index >= super.group_count) return std::nullopt;
    const auto* shared = at<Group>(layout.groups, index);
    return shared == nullptr ? std::nullopt : note_of(shared->note);
}

std::vector<ParticipantInfo> RingBytes::participants() const {
    std::vector<ParticipantInfo> all;
    const auto values = hot();
    const std::uint64_t high = values ? values->participants_high : 0;
    for (std::uint32_t id = 1; id < std::min<std::uint64_t>(high, super.participant_count); ++id) {
        auto p = participant(id);
        if (p && p->state != static_cast<std::uint32_t>(ParticipantState::free)) all.push_back(std::move(*p));
    }
    return all;
}

std::vector<HandleInfo> RingBytes::handles() const {
    std::vector<HandleInfo> all;
    const auto values = hot();
    const std::uint64_t high = values ? values->handles_high : 0;
    for (std::uint32_t index = 0; index < std::min<std::uint64_t>(high, super.handle_count); ++index) {
        auto h = handle(index);
        if (h && (h->kind == HandleKind::producer || h->kind == HandleKind::consumer)) all.push_back(std::move(*h));
    }
    return all;
}

std::vector<GroupInfo> RingBytes::groups() const {
    std::vector<GroupInfo> all;
    for (std::uint32_t index = 0; index < super.group_count; ++index) {
        auto g = group(index);
        if (g && g->state != GroupState::free) all.push_back(std::move(*g));
    }
    return all;
}

// ---- lease tables --------------------------------------------------------------------------------------------

std::optional<LeaseBytes> lease_bytes(std::span<const std::byte> file, const RingBytes& ring) {
    const auto header = copy_lease_header(file);
    if (!header || header->magic != lease_magic || header->version != version ||
        header->slot_count != ring.super.slot_count || header->queue_uuid != ring.super.queue_uuid ||
        header->ring_uuid != ring.super.ring_uuid) {
        return std::nullopt;
    }
    return LeaseBytes{file, *header, lease_layout_of(ring.super.slot_count), ring.super.slot_count};
}

std::optional<LeaseBytes::Words> LeaseBytes::entry(Seq position) const {
    const std::uint64_t offset = layout.entries + (position & (slot_count - 1)) * sizeof(Entry);
    if (offset > file.size() || file.size() - offset < sizeof(Entry)) return std::nullopt;
    const auto* shared = reinterpret_cast<const Entry*>(file.data() + offset);
    // A before B: B is believed only if its tag matches A.
    // ORD(lease.entry): acquire; pairs with the CAS of the entry's state.
    const std::uint64_t a = shared->a.load(std::memory_order_acquire);
    return Words{unpack_lease(a), unpack_due(peek(shared->b))};
}

std::optional<NoteInfo> LeaseBytes::note(Seq position) const {
    // Where LeaseTable::note_for() puts it.
    constexpr std::uint64_t probes = 16;
    const std::uint64_t first = base::mix64(position) % layout.note_count;
    for (std::uint64_t i = 0; i < probes && i < layout.note_count; ++i) {
        const std::uint64_t offset = layout.notes + (first + i) % layout.note_count * sizeof(Note);
        if (offset > file.size() || file.size() - offset < sizeof(Note)) break;
        const auto* shared = reinterpret_cast<const Note*>(file.data() + offset);
        if (tagged_position(peek(shared->position)) != position) continue;
        auto copy = note_of(*shared);
        if (copy && copy->position == position) return copy;
    }
    return std::nullopt;
}

const LeaseBytes* table_of(std::span<const LeaseBytes> tables, const RingBytes& ring, const GroupInfo& group) {
    for (const auto& table : tables) {
        if (table.header.ring_uuid == ring.super.ring_uuid && table.header.group == group.index &&
            table.header.life == group.life) {
            return &table;
        }
    }
    return nullptr;
}

}  // namespace rondo::format
