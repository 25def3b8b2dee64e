// SPDX-License-Identifier: MIT
#include "format/snapshot.hpp"

#include <algorithm>

namespace rondo::format {

namespace {

MessageStatus exclusive_status(const GroupInfo& group, Seq position, const Now& now) {
    MessageStatus s;
    // After a failure or a take-over the first unsettled message is handed over alone; what was handed over behind
    // it is stale.
    const bool alone = group.retry_position != nowhere && group.retry_position >= group.cursor;
    const bool first = group.retry_position == position;
    const bool waits = group.not_before_ns != 0 && (now.mono_ns == 0 || group.not_before_ns > now.mono_ns);
    s.attempts = first ? group.retry_attempts : position < group.handed ? 1 : 0;
    s.state = MessageState::ready;
    if (group.dead_pending == position || group.moving == position) {
        s.state = MessageState::dead_pending;
    } else if (alone && first && waits) {
        s.state = MessageState::scheduled;
        s.due_ns = group.not_before_ns;
    } else if (group.owner_in_flight != 0 && position < group.handed && s.attempts != 0 &&
               (!alone || (first && !waits))) {
        s.state = MessageState::in_flight;
        s.owner = group.owner;
    }
    return s;
}

MessageStatus shared_status(const GroupInfo& group, const LeaseBytes* table, Seq position, std::uint64_t slots,
                            const Now& now) {
    MessageStatus s;
    s.state = MessageState::ready;
    if (position >= group.hint) return s;
    const auto entry = table == nullptr ? std::nullopt : table->entry(position);
    if (!entry) {
        s.state = MessageState::unknown;
        return s;
    }
    if (entry->a.lap1 != lap1_of(position, slots)) return s;  // leased by nobody yet, or overtaken meanwhile
    s.entry = entry->a.state;
    s.attempts = entry->a.attempts;
    if (entry->b.owner == entry->a.owner && entry->b.attempts == entry->a.attempts) {
        s.due_ns = entry->b.value * due_tick_ns;
    }
    switch (entry->a.state) {
        case EntryState::ready:
            s.due_ns.reset();
            break;
        case EntryState::leased:
        case EntryState::handed:
        case EntryState::failing:
            s.state = MessageState::in_flight;
            s.owner = entry->a.owner;
            break;
        case EntryState::backoff:
            if (!s.due_ns || now.mono_ns == 0 || *s.due_ns > now.mono_ns) s.state = MessageState::scheduled;
            break;
        case EntryState::moving:
        case EntryState::dead_pending:
            s.state = MessageState::dead_pending;
            s.owner = entry->a.owner;
            s.due_ns.reset();
            break;
        case EntryState::settled:
            s.state = MessageState::settled;
            s.outcome = static_cast<Outcome>(entry->a.attempts);
            s.attempts = 0;
            s.due_ns.reset();
            break;
    }
    return s;
}

/// Adds one message to a group's counts. Returns whether it is unsettled.
bool count(GroupCounts& c, const MessageStatus& s, const RecordInfo& record) {
    const auto add = [&](std::uint64_t& number, Seq& oldest) {
        ++number;
        ++c.lag;
        if (oldest == nowhere) oldest = record.position;
    };
    switch (s.state) {
        case MessageState::not_for_group:
        case MessageState::settled:
            return false;
        case MessageState::ready:
            add(c.ready, c.oldest_ready);
            break;
        case MessageState::scheduled:
            add(c.scheduled, c.oldest_scheduled);
            break;
        case MessageState::in_flight:
            add(c.in_flight, c.oldest_in_flight);
            break;
        case MessageState::dead_pending:
            add(c.dead_pending, c.oldest_dead_pending);
            break;
        case MessageState::unknown:
            ++c.unknown;
            break;
    }
    if (c.oldest_unsettled == nowhere) {
        c.oldest_unsettled = record.position;
        c.oldest = s;
        c.oldest_accepted = record.accepted;
    }
    return true;
}

/// The range of a ring that holds records, kept within one ring length whatever the words say.
struct Range {
    Seq floor, tail;
};
Range range_of(const HotValues& hot, std::uint64_t slots) {
    const Seq floor = RingBytes::floor_of(hot.limit, slots);
    return {floor, std::clamp(hot.tail, floor, floor + slots)};
}

/// As flow::settled_floor(): how far the floor could move.
Seq settled_floor(const RingBytes& ring, const HotValues& hot, const Range& range, std::span<const GroupInfo> groups) {
    Seq m = std::min(range.tail, hot.keep_from);
    for (const auto& g : groups) m = std::min(m, g.cursor);
    for (const auto& h : ring.handles()) m = std::min(m, h.borrow);
    return std::max(m, range.floor);
}

}  // namespace

MessageStatus status_of(const GroupInfo& group, const LeaseBytes* table, const RecordInfo& record,
                        const std::optional<OnlyGroup>& only, std::uint64_t slots, const Now& now) {
    MessageStatus s;
    const bool foreign = only && (only->group != group.index || only->life != group.life);
    if (record.state != RecordState::message || foreign || group.cursor == nowhere) {
        s.state = MessageState::not_for_group;
    } else if (record.position < group.cursor) {
        if (group.mode == GroupMode::shared) s = shared_status(group, table, record.position, slots, now);
        if (s.state != MessageState::settled) s = {};
        s.state = MessageState::settled;
    } else if (group.mode == GroupMode::exclusive) {
        s = exclusive_status(group, record.position, now);
    } else {
        s = shared_status(group, table, record.position, slots, now);
    }
    return s;
}

GroupCounts count_group(const RingBytes& ring, const LeaseBytes* table, std::uint32_t group, const Now& now,
                        std::uint64_t max_steps) {
    GroupCounts counts;
    const auto hot = ring.hot();  // before the marks: then nothing beyond this tail is counted as missing
    const auto info = ring.group(group);
    if (!hot || !info || info->state == GroupState::free || info->cursor == nowhere) return counts;
    const auto range = range_of(*hot, ring.slots());
    RecordWalk walk(ring, std::max(info->cursor, range.floor), range.tail, max_steps);
    while (const auto record = walk.next()) {
        if (record->state != RecordState::message) continue;
        count(counts, status_of(*info, table, *record, only_group_of(ring, *record), ring.slots(), now), *record);
    }
    counts.complete = walk.end() == WalkEnd::reached && counts.unknown == 0;
    return counts;
}

// ---- survey --------------------------------------------------------------------------------------------------

namespace {

class Surveyor {
public:
    Surveyor(const RingBytes& ring, std::span<const LeaseBytes> tables, const Now& now, Survey& out)
        : ring_(ring), now_(now), out_(out) {
        for (const auto& g : out.groups) {
            tables_.push_back(table_of(tables, ring, g));
            if (g.cursor == nowhere) continue;
            holds_ = holds_ || g.kind != GroupKind::lossy;
            fresh_from_ = std::max(fresh_from_, fresh_from(g));
        }
    }

    void add(const RecordInfo& record) {
        switch (record.state) {
            case RecordState::message:
                message(record);
                return;
            case RecordState::pad:
                ++out_.pads;
                break;
            case RecordState::void_claim:
                ++out_.voids;
                break;
            case RecordState::open_claim:
                open_claim(record);
                return;
            case RecordState::damaged:
                ++out_.damaged;
                if (!out_.first_damaged) out_.first_damaged = record.position;
                return;
        }
        if (unsettled_before_) out_.pinned_slots += record.slots;
    }

    void open_claim(const RecordInfo& record) {
        ++out_.open_claim_count;
        unsettled_before_ = true;
        if (out_.open_claims.size() >= open_claims_kept) return;
        out_.open_claims.push_back({record.position, record.slots, record.owner, std::nullopt});
    }

    /// After the last record.
    void finish() {
        for (std::size_t i = 0; i < out_.groups.size() && fresh_ != 0; ++i) {
            if (out_.groups[i].cursor == nowhere) continue;
            auto& c = out_.counts[i];
            c.ready += fresh_;
            c.lag += fresh_;
            c.oldest_ready = std::min(c.oldest_ready, first_fresh_.position);
            if (first_fresh_.position > c.oldest_unsettled) continue;
            c.oldest_unsettled = first_fresh_.position;
            c.oldest = {};
            c.oldest.state = MessageState::ready;
            c.oldest_accepted = first_fresh_.accepted;
        }
    }

private:
    /// From here on a group has touched nothing: what is for it is ready.
    static Seq fresh_from(const GroupInfo& g) {
        if (g.mode != GroupMode::exclusive) return std::max(g.cursor, g.hint);
        Seq from = std::max(g.cursor, g.handed);
        for (const Seq touched : {g.retry_position, g.dead_pending.value_or(0), g.moving.value_or(0)}) {
            if (touched != nowhere) from = std::max(from, touched + 1);
        }
        return from;
    }

    void message(const RecordInfo& record) {
        ++out_.messages;
        for (; dated_claims_ < out_.open_claims.size(); ++dated_claims_) {
            out_.open_claims[dated_claims_].accepted_behind = record.accepted;
        }
        const bool extended = (record.head.flags & flag_extensions) != 0;
        const auto only = extended ? only_group_of(ring_, record) : std::nullopt;
        if (record.position >= fresh_from_ && !only) {
            // Most of a long backlog: the same to every group.
            if (fresh_++ == 0) first_fresh_ = record;
            unsettled_before_ = true;
            return;
        }
        bool unsettled = !holds_;
        for (std::size_t i = 0; i < out_.groups.size(); ++i) {
            const auto& group = out_.groups[i];
            const auto status = status_of(group, tables_[i], record, only, ring_.slots(), now_);
            if (count(out_.counts[i], status, record) && group.kind != GroupKind::lossy) unsettled = true;
        }
        if (unsettled) {
            unsettled_before_ = true;
        } else if (unsettled_before_) {
            out_.pinned_slots += record.slots;
        }
    }

    const RingBytes& ring_;
    const Now& now_;
    Survey& out_;
    std::vector<const LeaseBytes*> tables_;
    std::size_t dated_claims_ = 0;
    Seq fresh_from_ = 0;
    std::uint64_t fresh_ = 0;
    RecordInfo first_fresh_{};
    bool holds_ = false;             // some group keeps records
    bool unsettled_before_ = false;  // something older than the record at hand is not settled
};

}  // namespace

Survey survey(const RingBytes& ring, std::span<const LeaseBytes> tables, const Now& now, std::uint64_t max_steps) {
    Survey s;
    const auto hot = ring.hot();
    if (!hot) {
        s.end = WalkEnd::truncated;
        return s;
    }
    s.hot = *hot;
    const auto range = range_of(*hot, ring.slots());
    s.floor = range.floor;
    s.tail = range.tail;
    s.groups = ring.groups();
    s.used_slots = range.tail - settled_floor(ring, *hot, range, s.groups);
    s.credit_slots = ring.slots() - s.used_slots;
    s.counts.resize(s.groups.size());

    Surveyor surveyor(ring, tables, now, s);
    RecordWalk walk(ring, range.floor, range.tail, max_steps);
    while (const auto record = walk.next()) surveyor.add(*record);
    surveyor.finish();
    s.end = walk.end();
    for (auto& c : s.counts) c.complete = s.complete() && c.unknown == 0;

    // A producer killed between its claim and the tail leaves a claim at the tail.
    const auto claim = ring.claim(range.tail);
    if (s.complete() && ring.super.producers == Producers::many && claim && claim->slots != 0 &&
        claim->lap1 == lap1_of(range.tail, ring.slots()) && range.tail == hot->tail) {
        const auto* header = ring.header(range.tail);
        if (header != nullptr && peek_acquire(header->stamp) != stamp_of(range.tail, ring.super.salt)) {
            RecordInfo record{};
            record.position = range.tail;
            record.slots = claim->slots;
            record.owner = claim->owner;
            surveyor.open_claim(record);
        }
    }
    return s;
}

// ---- who blocks ----------------------------------------------------------------------------------------------

namespace {

bool member_of(const HandleInfo& h, const GroupInfo& g) {
    return h.kind == HandleKind::consumer && h.group == g.index && h.group_life == g.life;
}

/// The handle that is meant, if the participant has only one of the kind.
template <class Match>
std::optional<std::uint32_t> only_handle(std::span<const HandleInfo> handles, std::uint32_t participant, Match match) {
    std::optional<std::uint32_t> found;
    for (const auto& h : handles) {
        if (h.participant != participant || !match(h)) continue;
        if (found) return std::nullopt;
        found = h.index;
    }
    return found;
}

std::optional<std::uint64_t> since(std::uint64_t then_ns, std::uint64_t now_ns) {
    if (then_ns == 0 || now_ns == 0) return std::nullopt;
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

Blocker claim_blocker(const RingBytes& ring, const OpenClaim& claim, std::span<const HandleInfo> handles,
                      const Now& now) {
    Blocker b{BlockKind::open_claim};
    b.participant = claim.owner;
    b.handle = only_handle(handles, claim.owner, [](const auto& h) { return h.kind == HandleKind::producer; });
    b.position = claim.position;
    if (claim.accepted_behind) {
        b.age_ns = since(accepted_wall_ns(ring.super, *claim.accepted_behind, now.wall_ns), now.wall_ns);
        b.age_at_least = true;
    }
    return b;
}

Blocker group_blocker(const GroupInfo& group, const GroupCounts& counts, std::span<const HandleInfo> handles,
                      const Now& now) {
    Blocker b{BlockKind::unconsumed};
    b.group = group.index;
    b.position = counts.oldest_unsettled;
    switch (counts.oldest.state) {
        case MessageState::in_flight:
            b.participant = counts.oldest.owner;
            if (group.mode == GroupMode::exclusive) {
                b.kind = BlockKind::exclusive_owner;
                b.handle = group.owner_handle;
                b.age_ns = since(group.handed_ns, now.wall_ns);
            } else {
                b.kind = BlockKind::lease;
                b.handle = only_handle(handles, b.participant, [&](const auto& h) { return member_of(h, group); });
                if (counts.oldest.due_ns) b.age_ns = lease_age_ns(group, *counts.oldest.due_ns, now);
            }
            break;
        case MessageState::scheduled:
            b.kind = BlockKind::retry;
            break;
        case MessageState::dead_pending:
            b.kind = BlockKind::dead_pending;
            break;
        default:
            if (std::none_of(handles.begin(), handles.end(), [&](const auto& h) { return member_of(h, group); })) {
                b.kind = BlockKind::no_members;
            } else if (group.mode == GroupMode::exclusive && group.owner != 0) {
                b.participant = group.owner;
                b.handle = group.owner_handle;
            }
    }
    return b;
}

}  // namespace

std::optional<std::uint64_t> lease_age_ns(const GroupInfo& group, std::uint64_t deadline_ns, const Now& now) {
    if (now.mono_ns == 0) return std::nullopt;
    const std::uint64_t taken = deadline_ns > group.lease_timeout_ns ? deadline_ns - group.lease_timeout_ns : 0;
    return now.mono_ns > taken ? now.mono_ns - taken : 0;
}

std::vector<Blocker> who_blocks(const RingBytes& ring, const Survey& seen, std::span<const HandleInfo> handles,
                                const Now& now) {
    std::vector<Blocker> all;
    for (const auto& claim : seen.open_claims) all.push_back(claim_blocker(ring, claim, handles, now));
    bool durable_group = false;
    for (std::size_t i = 0; i < seen.groups.size(); ++i) {
        if (seen.groups[i].cursor == nowhere || seen.groups[i].kind == GroupKind::lossy) continue;
        durable_group = true;
        if (seen.counts[i].oldest_unsettled != nowhere) {
            all.push_back(group_blocker(seen.groups[i], seen.counts[i], handles, now));
        }
    }
    Seq settled = seen.tail;  // what all groups have settled
    for (const auto& b : all) settled = std::min(settled, b.position);
    if (ring.super.kind == RingKind::main) {
        for (const auto& h : handles) {
            if (h.kind != HandleKind::consumer || h.borrow >= settled) continue;
            Blocker b{BlockKind::borrow};
            b.participant = h.participant;
            b.handle = h.index;
            b.group = h.group;
            b.position = h.borrow;
            all.push_back(b);
        }
    }
    if (!durable_group && seen.used_slots != 0) {
        Blocker b{BlockKind::no_group};
        b.position = seen.floor;
        all.push_back(b);
    }
    if (all.empty()) return all;
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
    for (auto& b : all) b.holds_floor = b.position == all.front().position;
    return all;
}

}  // namespace rondo::format
