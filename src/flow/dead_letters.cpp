// SPDX-License-Identifier: MIT
#include "flow/dead_letters.hpp"

#include <algorithm>
#include <array>

#include "flow/credit.hpp"
#include "format/snapshot.hpp"

namespace rondo::flow {

namespace {

std::uint64_t accepted_ns(const format::Superblock& super, const ring::RecordView& record,
                          std::span<const std::byte> extensions, std::uint64_t now_ns) {
    if (super.timestamps == format::Timestamps::off) return 0;
    const auto exact = format::ExtensionReader::find_number(extensions, format::Tag::accepted_ns);
    return exact ? *exact : format::accepted_wall_ns(super, record.accepted, now_ns);
}

}  // namespace

format::DeadIdentity identity_of(const format::Superblock& main, const Death& death) {
    return {{main.ring_uuid, death.record.epoch, death.position}, death.group, death.life};
}

bool DeadRing::contains(const format::DeadIdentity& identity, Seq from) const {
    Seq p = std::max(from, floor_of(ring_));
    const Seq end = tail();
    for (std::uint64_t steps = 0; p < end && steps < ring_.slots; ++steps) {
        ring::RecordView r{};
        if (ring::peek(ring_, p, r) == ring::Peek::record) {
            if (r.head.type == ring::RecordType::message) {
                const auto body = ring::body_of(ring_, p, r);
                if (body && format::dead_entry_identity(*body) == identity) return true;
            }
            p += r.head.slots;
            continue;
        }
        // An open claim: its owner is not the dead mover that this search is for, or it was never committed.
        // ORD(ring.claim): acquire; pairs with claim_at().
        const auto claim = format::unpack_claim(ring_.claim(p).load(std::memory_order_acquire));
        if (claim.lap1 != ring_.lap1(p) || claim.slots == 0) return false;
        p += claim.slots;
    }
    return false;
}

/// Name of the producer that a record names, as long as nobody else has its place: a free one keeps its last words.
std::string_view DeadRing::producer_name(std::uint16_t producer, std::array<char, format::name_bytes>& out) const {
    const std::uint32_t index = format::producer_handle(producer);
    if (index >= handles_.size()) return {};
    const auto& h = handles_[index];
    // ORD(handle.owner): acquire; pairs with take_handle() and free_handle().
    const std::uint64_t owner = h.owner.load(std::memory_order_acquire);
    if (format::owner_low(owner) == static_cast<std::uint32_t>(format::HandleKind::claiming)) return {};
    std::size_t n = 0;
    for (; n < out.size(); ++n) {
        // ORD(handle.owner): acquire; the second look at the owner comes after: a name that is being overwritten.
        out[n] = h.name[n].load(std::memory_order_acquire);
        if (out[n] == '\0') break;
    }
    // ORD(none): published by the owner word.
    const bool same = (h.serial.load(std::memory_order_relaxed) & 31) == format::producer_serial(producer);
    // ORD(none): as above.
    return same && h.owner.load(std::memory_order_relaxed) == owner ? std::string_view(out.data(), n)
                                                                    : std::string_view();
}

bool DeadRing::claim(std::uint64_t k, ring::Claimed& out, bool& full) {
    ring::MpmcRing<> producer(ring_, participant_);
    for (;;) {
        // ORD(credit.limit): acquire; pairs with advance_limit(). Before asking, as in ProducerCore::try_room().
        const std::uint64_t limit = ring_.limit().load(std::memory_order_acquire);
        const auto status = producer.claim(k, out);
        if (status == ring::ClaimStatus::ok) return true;
        full = status == ring::ClaimStatus::full;
        if (!full) return false;
        (void)advance_limit(ring_, groups_, {});
        // ORD(credit.limit): acquire; as above.
        if (ring_.limit().load(std::memory_order_acquire) == limit) return false;
    }
}

DeadRing::Append DeadRing::append(const ring::RingView& main, const format::Superblock& main_super,
                                  const Death& death) {
    // Damaged lengths: everything that the record's slots hold is kept as its payload.
    const auto sound = ring::body_of(main, death.position, death.record);
    const std::span<const std::byte> whole(main.body(death.position),
                                           death.record.head.slots * format::slot_bytes - format::header_bytes);
    const auto body = sound.value_or(whole);
    const std::size_t extension_bytes = sound ? sound->size() - death.record.head.payload_bytes : 0;
    const auto extensions = body.first(extension_bytes);

    format::DeadEntry e;
    e.ring_uuid = main_super.ring_uuid;
    e.epoch = death.record.epoch;
    e.seq = death.position;
    e.lane = main_super.lane;
    e.group = death.group;
    e.group_life = death.life;
    e.group_name = death.group_name;
    e.reason = death.reason;
    e.code = death.texts.code;
    e.type = death.texts.type;
    e.stage = death.texts.stage;
    e.message = death.texts.message;
    e.detail = death.texts.detail;
    e.accepted_ns = accepted_ns(main_super, death.record, extensions, death.now_ns);
    e.dead_ns = death.now_ns;
    e.delivery_count = death.delivery_count;
    e.max_deliveries = death.max_deliveries;
    e.consumer = death.handler.consumer;
    e.program = death.handler.program;
    e.consumer_pid = death.handler.pid;
    std::array<char, format::name_bytes> producer{};
    e.producer = producer_name(death.record.producer, producer);
    e.extensions = extensions;
    e.payload = body.subspan(extension_bytes);
    e.payload_damaged = !sound || !ring::intact(main, death.position, death.record, body);
    e.redrive_count = static_cast<std::uint32_t>(
        format::ExtensionReader::find_number(extensions, format::Tag::redrive_count).value_or(0));
    e.first_reason = format::ExtensionReader::find_text(extensions, format::Tag::first_reason);
    e.first_dead_ns = format::ExtensionReader::find_number(extensions, format::Tag::first_dead_ns).value_or(0);

    std::array<format::Attempt, format::attempts_kept> attempts;
    if (death.note != nullptr) {
        const auto& n = *death.note;
        const std::uint32_t last = n.attempt_count;
        std::size_t count = 0;
        constexpr auto kept = static_cast<std::uint32_t>(format::attempts_kept);
        for (std::uint32_t number = last > kept ? last - kept + 1 : 1; number <= last; ++number) {
            const auto& a = n.attempts[(number - 1) % kept];
            if (a.number == number) attempts[count++] = a;  // an attempt without an outcome left a hole
        }
        e.attempts = std::span(attempts).first(count);
        e.release_count = n.release_count;
        e.first_delivered_ns = n.first_delivered_ns;
        e.last_delivered_ns = n.last_delivered_ns;
        e.message_cut = (n.flags & format::note_message_cut) != 0 && death.texts.message.size() <= n.message_size;
        e.detail_cut = (n.flags & format::note_detail_lost) != 0 && death.texts.detail.empty();
    }

    const std::size_t bytes = format::dead_entry_bytes(e);
    ring::Claimed room;
    bool full = false;
    const std::uint64_t k = format::round_up_slots(format::slots_for(0, bytes));
    if (k > format::max_record_slots(ring_.slots)) return Append::broken;
    if (!claim(k, room, full)) return full ? Append::full : Append::broken;
    if (!format::encode_dead_entry(e, {ring_.body(room.position), bytes})) {
        ring::write_void(ring_, room.position, room.slots, ring::RecordType::void_claim);
        return Append::broken;
    }
    ring::write_header(ring_, room.position,
                       {static_cast<std::uint32_t>(bytes), room.slots, ring::RecordType::message, 0},
                       {death.record.accepted, 0}, bytes);
    ring::put_stamp(ring_, room.position);
    return Append::done;
}

}  // namespace rondo::flow
