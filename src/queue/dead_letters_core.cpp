// SPDX-License-Identifier: MIT
#include "queue/dead_letters_core.hpp"

#include <algorithm>
#include <utility>

#include "flow/credit.hpp"
#include "format/dead_entry.hpp"
#include "format/dead_state.hpp"
#include "os/clock.hpp"
#include "queue/producer_core.hpp"

namespace rondo::detail {

namespace {

bool matches(const DeadFilter& f, const DeadLetter& d) {
    return (f.group.empty() || f.group == d.group) && (f.reason.empty() || f.reason == to_string(d.reason)) &&
           (f.code.empty() || f.code == d.code) && (f.key.empty() || f.key == d.key) &&
           (!f.fingerprint || *f.fingerprint == d.fingerprint);
}

}  // namespace

DeadLettersCore::DeadLettersCore(std::shared_ptr<Attachment> a)
    : a_(std::move(a)), group_(a_->dead().view, a_->dead().groups()[0], 0, 1, a_->dead_table(), a_->id()) {}

Result<std::vector<DeadLetter>> DeadLettersCore::list(const DeadFilter& filter) const {
    if (a_->detached()) return fail(Errc::detached, "this process was forked from the one that opened the queue");
    if (!filter.reason.empty() && !format::dead_reason_of(filter.reason))
        return fail(Errc::invalid_argument, "no dead letter has that reason: it is not one of the reasons' words");
    std::vector<DeadLetter> out;
    if (filter.max == 0) return out;
    const auto ring = format::ring_bytes(a_->dead().mapping.bytes(), a_->dead().super);
    const auto table = format::lease_bytes(a_->dead_table_bytes(), ring);
    if (!table) return fail(Errc::corrupt, "lease-dead.tab is damaged");
    const auto& v = a_->dead().view;
    // ORD(ring.tail): acquire; pairs with move_tail().
    const Seq tail = v.tail().load(std::memory_order_acquire);
    // What lies below low water is closed.
    const Seq from =
        filter.state == DeadState::open ? std::max(group_.low_water(), flow::floor_of(v)) : flow::floor_of(v);
    (void)format::walk_records(ring, from, tail, [&](const format::RecordInfo& r) {
        if (r.state != format::RecordState::message || (filter.id && *filter.id != r.position)) return true;
        auto status = format::dead_status(*table, r.position);
        if (!status || (filter.state && *filter.state != status->state)) return true;
        const auto copy = format::copy_record(ring, r);
        const auto parts = copy ? format::parts_of(r.head, *copy) : std::nullopt;
        if (!parts) return true;
        auto letter = format::decode_dead_entry(parts->payload);
        if (!letter) return true;
        letter->id = r.position;
        format::put_status(std::move(*status), *letter);
        if (matches(filter, *letter)) out.push_back(std::move(*letter));
        return out.size() < filter.max;
    });
    return out;
}

/// The filter's choice among the open ones; `max` counts those only.
Result<std::vector<DeadLetter>> DeadLettersCore::open_letters(DeadFilter filter) const {
    const std::uint64_t max = std::exchange(filter.max, ~std::uint64_t{0});
    if (filter.state && *filter.state != DeadState::open) return std::vector<DeadLetter>{};
    filter.state = DeadState::open;
    auto letters = list(filter);
    if (!letters) return letters;
    if (letters->size() > max) letters->resize(max);
    return letters;
}

Result<ProducerCore*> DeadLettersCore::producer() {
    if (producer_ != nullptr) return producer_;
    auto made = ProducerCore::create(a_, {.name = "redrive"});
    if (made) producer_ = *made;
    return made;
}

/// Is there a record in the main ring that was made from this dead letter?
bool DeadLettersCore::copied_before(const format::Origin& origin) const {
    const auto& v = a_->main().view;
    const auto ring = format::ring_bytes(a_->main().mapping.bytes(), a_->main().super);
    // ORD(ring.tail): acquire; pairs with move_tail() and publish_tail().
    const Seq tail = v.tail().load(std::memory_order_acquire);
    bool found = false;
    (void)format::walk_records(ring, flow::floor_of(v), tail, [&](const format::RecordInfo& r) {
        if (r.state != format::RecordState::message || (r.head.flags & format::flag_extensions) == 0) return true;
        const auto copy = format::copy_record(ring, r);
        const auto parts = copy ? format::parts_of(r.head, *copy) : std::nullopt;
        found = parts && format::ExtensionReader::find_origin(parts->extensions) == origin;
        return !found;
    });
    return found;
}

/// Closes the entry. Its bytes and the note of who did it and why stay until dead.ring needs the space.
void DeadLettersCore::settle(const flow::Leased& lease, format::Outcome outcome, std::string_view why) {
    if (auto* note = group_.table().note_for(lease.position, group_.low_water())) {
        flow::Failure f;
        f.outcome = outcome;
        f.reason.message = why;
        f.started_ns = f.ended_ns = os::wall_ns();
        f.handler = {a_->program(), {}, a_->pid()};
        flow::note_attempt(*note, 1, f, 0);
    }
    (void)group_.close(lease, outcome);
    group_.advance_low_water();
    a_->space_event().notify();  // a message that found dead.ring full can be moved now
}

Result<DeadLettersCore::Moved> DeadLettersCore::redrive_one(const DeadLetter& d) {
    auto target = a_->find_group(d.group);
    if (!target || d.payload_damaged) return Moved::skipped;
    auto by = producer();
    if (!by) return tl::unexpected(by.error());
    flow::Leased lease;
    std::uint64_t former = 0;
    if (!group_.take_at(d.id, former, lease)) return Moved::skipped;
    const format::Origin origin{a_->dead().super.ring_uuid, lease.record.epoch, d.id};
    const auto before = format::unpack_lease(former);
    const bool again = before.lap1 == a_->dead().view.lap1(d.id) && before.attempts != 0;
    if (again && copied_before(origin)) {
        settle(lease, format::Outcome::redriven, {});
        return Moved::yes;
    }
    std::vector<Header> headers;
    for (const auto& [name, value] : d.headers) headers.push_back({name, value});
    format::Extensions e;
    e.key = d.key;
    e.type = d.type;
    e.message_id = d.message_id;
    e.headers = headers;
    e.only_group = target->index;
    e.only_group_life = target->life;
    e.redrive_count = d.redrive_count + 1;
    e.origin = origin;
    e.first_reason = d.first_reason;
    e.first_dead_ns = d.first_dead_ns;
    e.first_accepted_ns = d.first_accepted_ns;
    e.original_seq = d.original_seq;
    auto sent = (*by)->publish_extended(e, d.payload);
    if (!sent) {
        (void)group_.give_back(lease);
        if (sent.error().code == Errc::no_credit) return Moved::no_credit;
        if (sent.error().code == Errc::too_large) return Moved::skipped;
        return tl::unexpected(sent.error());
    }
    settle(lease, format::Outcome::redriven, {});
    return Moved::yes;
}

Result<Redriven> DeadLettersCore::redrive(const DeadFilter& filter, bool execute) {
    if (auto ok = a_->usable(); !ok) return tl::unexpected(ok.error());
    auto letters = open_letters(filter);
    if (!letters) return tl::unexpected(letters.error());
    // The producer's place, and with one producer its role, are held no longer than this call.
    struct Done {
        ProducerCore*& core;
        ~Done() {
            if (core != nullptr) std::exchange(core, nullptr)->close();
        }
    } done{producer_};
    Redriven sum;
    bool stopped = false;
    for (const auto& d : *letters) {
        if (stopped) {
            ++sum.skipped;
            continue;
        }
        auto moved = Result<Moved>(a_->find_group(d.group) && !d.payload_damaged ? Moved::yes : Moved::skipped);
        if (execute) moved = redrive_one(d);
        if (!moved) return tl::unexpected(moved.error());
        stopped = *moved == Moved::no_credit;
        if (*moved == Moved::yes) {
            ++sum.count;
            sum.bytes += d.payload.size();
        } else {
            ++sum.skipped;
        }
    }
    return sum;
}

Result<Redriven> DeadLettersCore::discard(const DeadFilter& filter, std::string_view reason, bool execute) {
    if (auto ok = a_->usable(); !ok) return tl::unexpected(ok.error());
    if (reason.empty()) return fail(Errc::invalid_argument, "a discard needs a reason");
    auto letters = open_letters(filter);
    if (!letters) return tl::unexpected(letters.error());
    Redriven sum;
    for (const auto& d : *letters) {
        if (execute) {
            flow::Leased lease;
            std::uint64_t former = 0;
            if (!group_.take_at(d.id, former, lease)) {
                ++sum.skipped;
                continue;
            }
            settle(lease, format::Outcome::discarded, reason);
        }
        ++sum.count;
        sum.bytes += d.payload.size();
    }
    return sum;
}

}  // namespace rondo::detail
