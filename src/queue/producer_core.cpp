// SPDX-License-Identifier: MIT
// Publishing: plan the record, get room, write back to front, stamp, wake.
#include "queue/producer_core.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "format/layout.hpp"
#include "format/validate.hpp"
#include "os/clock.hpp"
#include "queue/waiting.hpp"

namespace rondo::detail {

namespace {

constexpr std::uint64_t accepted_unit_ns = 4'000'000;
// Header, key, id, type, time and 4 KiB of user headers with their lengths.
constexpr std::size_t max_extension_bytes = 8192;
// only_group, redrive_count, origin, first_reason, first_dead_ns, original_seq, first_accepted_ns, with heads.
constexpr std::size_t redrive_extension_bytes = 256;
// {bytes, count}, field head, 8 bytes, rounded up to 16.
constexpr std::size_t exact_time_bytes = 32;

void add(format::Word& counter, std::uint64_t n) {
    // ORD(none): a counter with one writer.
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

bool plain(const PublishOptions& o) {
    return o.key.empty() && !o.type && !o.message_id && o.headers.empty() && o.confirm == Confirm::accepted &&
           o.dedup_key.empty() && !o.delay && !o.expires_at_ns && o.timeout.count() >= 0;
}

}  // namespace

Result<ProducerCore*> ProducerCore::create(std::shared_ptr<Attachment> a, const ProducerOptions& options) {
    const std::string_view name = options.name.empty() ? std::string_view("producer") : options.name;
    if (auto ok = format::check_name(name); !ok) return tl::unexpected(ok.error());
    auto handle = a->take_handle(format::HandleKind::producer, name, std::nullopt);
    if (!handle) return tl::unexpected(handle.error());
    TakenHandle place(*a, *handle);
    const bool one = a->main().super.producers == format::Producers::one;
    if (one) {
        if (auto ok = take_role(*a, *handle); !ok) return tl::unexpected(ok.error());
    }
    auto* core = new (std::nothrow) ProducerCore(a, *handle);
    if (core == nullptr) {
        std::uint64_t mine = format::pack_owner(a->id(), *handle + 1);
        // ORD(producer.role): acq_rel; pairs with take_role().
        if (one)
            a->hot().producer_owner.compare_exchange_strong(mine, 0, std::memory_order_acq_rel,
                                                            std::memory_order_relaxed);
        return fail(Errc::no_memory, "not enough memory");
    }
    place.keep();  // the core frees it
    return core;
}

Result<void> ProducerCore::take_role(Attachment& a, std::uint32_t handle) {
    const std::uint64_t mine = format::pack_owner(a.id(), handle + 1);
    // A holder that died may be under burial by somebody else: that is over within a tick or two.
    const Deadline deadline(2 * flow::tick);
    for (bool last = false;; last = deadline.over()) {
        std::uint64_t nobody = 0;
        // ORD(producer.role): acq_rel; pairs with the release in end() and the scavenger's.
        if (a.hot().producer_owner.compare_exchange_strong(nobody, mine, std::memory_order_acq_rel,
                                                           std::memory_order_relaxed))
            return {};
        if (last) break;
        auto buried = a.space_event();
        const std::uint32_t key = buried.prepare();
        a.housekeep_now();  // the holder may be dead and not buried yet
        // ORD(none): only to skip the sleep.
        if (a.hot().producer_owner.load(std::memory_order_relaxed) == 0) continue;
        buried.sleep(key, deadline.left() / 4);
    }
    return fail(Errc::role_taken, "the queue was made for one producer, and another one is at work");
}

ProducerCore::ProducerCore(std::shared_ptr<Attachment> a, std::uint32_t handle)
    : a_(std::move(a)), handle_(handle),
      // ORD(none): this participant's own handle.
      tag_(format::pack_producer(handle, a_->handles()[handle].serial.load(std::memory_order_relaxed))),
      ring_(ring::MpmcRing<>(a_->main().view, a_->id())) {
    if (a_->main().super.producers == format::Producers::one) {
        ring::SpscRing<> ring(a_->main().view);
        ring.take_over();
        ring_ = ring;
    }
}

void ProducerCore::close() {
    closed_ = true;
    if (!open_) end();
}

void ProducerCore::end() {
    if (!a_->detached()) {
        std::uint64_t mine = format::pack_owner(a_->id(), handle_ + 1);
        // ORD(producer.role): acq_rel; pairs with take_role().
        a_->hot().producer_owner.compare_exchange_strong(mine, 0, std::memory_order_acq_rel,
                                                         std::memory_order_relaxed);
        a_->free_handle(handle_);
    }
    delete this;
}

std::size_t ProducerCore::max_payload_bytes() const { return max_payload_bytes(a_->main().super); }

std::size_t ProducerCore::max_payload_bytes(const format::Superblock& s) {
    const std::size_t time = s.timestamps == format::Timestamps::exact ? exact_time_bytes : 0;
    return s.max_record_bytes - format::header_bytes - time;
}

// ---- room ----------------------------------------------------------------------------------------------------

Error ProducerCore::refused(Error e) {
    if (e.code == Errc::no_credit || e.code == Errc::timeout || e.code == Errc::would_deadlock)
        add(handle().acked, 1);  // of a producer: publishes refused for lack of credit
    return e;
}

Result<ProducerCore::Record> ProducerCore::plan(std::size_t payload_bytes, const PublishOptions& o) const {
    format::Extensions e;
    const bool no_options = plain(o);
    if (no_options && a_->main().super.timestamps != format::Timestamps::exact) {
        if (payload_bytes > a_->main().super.max_record_bytes - format::header_bytes)
            return fail(Errc::too_large, "larger than max_record_bytes of this queue");
        Record r;
        r.slots = format::round_up_slots(format::slots_for(0, payload_bytes));
        return r;
    }
    if (!no_options) {
        if (auto ok = format::check_publish_options(o); !ok) return tl::unexpected(ok.error());
        e.key = o.key;
        e.type = o.type;
        e.message_id = o.message_id;
        e.headers = o.headers;
    }
    return plan_extended(e, payload_bytes);
}

Result<ProducerCore::Record> ProducerCore::plan_extended(const format::Extensions& extensions,
                                                         std::size_t payload_bytes) const {
    Record r;
    r.extensions = extensions;
    if (a_->main().super.timestamps == format::Timestamps::exact) r.extensions.accepted_ns = os::wall_ns();
    r.extension_bytes = format::extension_bytes(r.extensions);
    // More than a publish takes: a damaged or foreign dead letter's.
    if (r.extension_bytes > max_extension_bytes) return fail(Errc::too_large, "larger headers than a message may have");
    // What the library adds for a redrive does not count: a message that was published once fits again.
    const std::size_t own = extensions.origin ? redrive_extension_bytes : 0;
    const std::uint64_t bytes = base::saturating_add(format::header_bytes + r.extension_bytes, payload_bytes);
    if (bytes > a_->main().super.max_record_bytes + own)
        return fail(Errc::too_large, "larger than max_record_bytes of this queue");
    r.slots = format::round_up_slots(format::slots_for(r.extension_bytes, payload_bytes));
    return r;
}

ring::ClaimStatus ProducerCore::try_room(std::uint64_t slots, ring::Claimed& out) {
    const auto ask = [&] {
        return std::visit([&](auto& ring) { return ring.claim(slots, out); }, ring_);
    };
    auto status = ask();
    while (status == ring::ClaimStatus::full) {
        // ORD(credit.limit): acquire; pairs with advance_limit(). If it moves, whoever moved it, there may be room.
        const std::uint64_t limit = view().limit().load(std::memory_order_acquire);
        const bool moved = a_->advance_credit();
        status = ask();
        // ORD(credit.limit): acquire; as above.
        if (!moved && view().limit().load(std::memory_order_acquire) == limit) break;
    }
    return status;
}

Result<ring::Claimed> ProducerCore::room(std::uint64_t slots, const PublishOptions& options, bool wait) {
    if (auto ok = a_->usable(); !ok) return tl::unexpected(ok.error());
    if (open_) return fail(Errc::claim_open, "this producer has an open claim");
    if (++operations_ % 256 == 0) a_->housekeep();
    ring::Claimed place;
    switch (try_room(slots, place)) {
        case ring::ClaimStatus::ok: return place;
        case ring::ClaimStatus::exhausted: return fail(Errc::exhausted, "the ring has no positions left");
        case ring::ClaimStatus::corrupt: return fail(Errc::corrupt, "the ring's claim words contradict each other");
        case ring::ClaimStatus::full: break;
    }
    // ORD(none): a setting.
    const auto overflow = reinterpret_cast<const format::QueueBlock*>(a_->main().at(a_->main().super.queue_offset))
                              ->overflow.load(std::memory_order_relaxed);
    if (!wait || overflow == static_cast<std::uint32_t>(Overflow::fail))
        return tl::unexpected(refused({Errc::no_credit, 0, "the queue is full"}));
    if (options.timeout.count() == 0) return tl::unexpected(refused({Errc::timeout, 0, "the queue is full"}));
    if (a_->thread_holds_message())
        return tl::unexpected(refused(
            {Errc::would_deadlock, 0, "the queue is full and this thread holds one of its messages"}));
    return wait_for_room(slots, options.timeout);
}

Result<ring::Claimed> ProducerCore::wait_for_room(std::uint64_t slots, Duration timeout) {
    ring::Claimed place;
    auto status = ring::ClaimStatus::full;
    Result<void> usable{};
    const std::uint64_t since = os::mono_ns();
    const bool got = wait_until(
        *a_, a_->space_event(), Deadline(timeout), handle(), format::Waiting::for_credit,
        [&] {
            usable = a_->usable();
            if (!usable) return true;
            status = try_room(slots, place);
            return status != ring::ClaimStatus::full;
        },
        [] { return flow::tick; });
    add(handle().blocked_ns, os::mono_ns() - since);
    if (!got) return tl::unexpected(refused({Errc::timeout, 0, "no room came in time"}));
    if (!usable) return tl::unexpected(usable.error());
    if (status == ring::ClaimStatus::exhausted) return fail(Errc::exhausted, "the ring has no positions left");
    if (status != ring::ClaimStatus::ok) return fail(Errc::corrupt, "the ring's claim words contradict each other");
    return place;
}

// ---- writing -------------------------------------------------------------------------------------------------

std::uint32_t ProducerCore::accepted_now() const {
    const auto& s = a_->main().super;
    if (s.timestamps == format::Timestamps::off) return 0;
    const std::uint64_t now = os::wall_coarse_ns();
    // Never 0, which would mean that nobody knows.
    const std::uint64_t units = now > s.time_base_ns ? (now - s.time_base_ns) / accepted_unit_ns : 0;
    return std::max(static_cast<std::uint32_t>(units), 1U);
}

/// Everything of one record but its stamp.
void ProducerCore::write(Seq at, std::uint64_t slots, const Record& r, Bytes payload, std::uint8_t flags) {
    std::array<std::byte, max_extension_bytes> block;  // NOLINT: filled as far as it is used
    const auto extensions = std::span(block).first(r.extension_bytes);
    if (r.extension_bytes != 0) {
        format::encode_extensions(r.extensions, extensions);
        flags |= format::flag_extensions;
    }
    ring::write_body(view(), at, extensions, payload);
    ring::write_header(view(), at,
                       {static_cast<std::uint32_t>(payload.size()), slots, format::RecordType::message, flags},
                       {accepted_now(), tag_}, r.extension_bytes + payload.size());
}

/// After the stamp of a claim's first record: the one producer's tail, and the sleepers.
void ProducerCore::stamped(const ring::Claimed& c) {
    if (auto* spsc = std::get_if<ring::SpscRing<>>(&ring_)) spsc->committed(c);
    a_->data_event().notify();
}

Published ProducerCore::done(Seq seq, std::uint64_t messages) {
    auto& h = handle();
    add(h.published, messages);
    // ORD(handle.last_seq): release; pairs with claim_ended(): what was published up to here is stamped.
    h.last_seq.store(seq, std::memory_order_release);
    return {seq, view().epoch(), false};
}

Result<Published> ProducerCore::publish(Bytes payload, const PublishOptions& options, bool wait) {
    if (a_->detached()) return fail(Errc::detached, "this process was forked from the one that opened the queue");
    auto r = plan(payload.size(), options);
    if (!r) return tl::unexpected(r.error());
    auto place = room(r->slots, options, wait);
    if (!place) return tl::unexpected(place.error());
    return put(*place, *r, payload);
}

Published ProducerCore::put(const ring::Claimed& place, const Record& r, Bytes payload) {
    write(place.position, place.slots, r, payload, 0);
    ring::put_stamp(view(), place.position);
    stamped(place);
    return done(place.position, 1);
}

Result<Published> ProducerCore::publish_extended(const format::Extensions& extensions, Bytes payload) {
    auto r = plan_extended(extensions, payload.size());
    if (!r) return tl::unexpected(r.error());
    auto place = room(r->slots, {}, false);
    if (!place) return tl::unexpected(place.error());
    return put(*place, *r, payload);
}

Result<Published> ProducerCore::publish_batch(std::span<const Outgoing> messages) {
    if (a_->detached()) return fail(Errc::detached, "this process was forked from the one that opened the queue");
    if (messages.empty()) return fail(Errc::invalid_argument, "a batch needs at least one message");
    std::uint64_t slots = 0;
    for (const auto& m : messages) {
        auto r = plan(m.payload.size(), m.options);
        if (!r) return tl::unexpected(r.error());
        slots += r->slots;
        if (slots > format::max_record_slots(view().slots))
            return fail(Errc::too_large, "a batch takes at most an eighth of the ring");
    }
    const std::uint64_t claimed = format::round_up_slots(slots);
    if (claimed > format::max_record_slots(view().slots))
        return fail(Errc::too_large, "a batch takes at most an eighth of the ring");
    auto place = room(claimed, messages.front().options, true);
    if (!place) return tl::unexpected(place.error());
    // One claim, all records, then the stamps from the last to the first: readers come in through the first only.
    Seq at = place->position;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto r = plan(messages[i].payload.size(), messages[i].options);
        write(at, r->slots, *r, messages[i].payload,
              i + 1 < messages.size() ? format::flag_batch_more : std::uint8_t{0});
        at += r->slots;
    }
    for (Seq end = place->position + claimed; at < end;) {  // what rounding up left over
        const std::uint64_t k = format::round_down_slots(end - at);
        ring::write_void(view(), at, k, format::RecordType::pad);
        at += k;
    }
    at = place->position + slots;
    for (std::size_t i = messages.size(); i-- > 0;) {
        at -= plan(messages[i].payload.size(), messages[i].options)->slots;
        ring::put_stamp(view(), at);
    }
    stamped(*place);
    return done(place->position, messages.size());
}

// ---- zero copy -----------------------------------------------------------------------------------------------

Result<Claim> ProducerCore::claim(std::size_t bytes, const PublishOptions& options) {
    if (a_->detached()) return fail(Errc::detached, "this process was forked from the one that opened the queue");
    auto r = plan(bytes, options);
    if (!r) return tl::unexpected(r.error());
    auto place = room(r->slots, options, true);
    if (!place) return tl::unexpected(place.error());
    std::byte* body = view().body(place->position);
    if (r->extension_bytes != 0) {
        std::array<std::byte, max_extension_bytes> block;  // NOLINT: filled as far as it is used
        format::encode_extensions(r->extensions, std::span(block).first(r->extension_bytes));
        ring::copy_in(body, block.data(), r->extension_bytes);
    }
    open_ = OpenClaim{*place, r->extension_bytes, bytes, accepted_now()};
    return Claim(this, {body + r->extension_bytes, bytes});
}

Result<Published> ProducerCore::commit(std::size_t used) {
    if (a_->detached()) return fail(Errc::detached, "this process was forked from the one that opened the queue");
    if (!open_) return fail(Errc::invalid_argument, "nothing is claimed");
    if (used > open_->payload_bytes) return fail(Errc::invalid_argument, "more bytes used than claimed");
    const OpenClaim c = *open_;
    if (a_->closed()) {
        abort();
        return fail(Errc::closed, "the queue is closed");
    }
    const std::uint8_t flags = c.extension_bytes != 0 ? format::flag_extensions : std::uint8_t{0};
    ring::write_header(view(), c.place.position,
                       {static_cast<std::uint32_t>(used), c.place.slots, format::RecordType::message, flags},
                       {c.accepted, tag_}, c.extension_bytes + used);
    ring::put_stamp(view(), c.place.position);
    stamped(c.place);
    const auto published = done(c.place.position, 1);
    open_.reset();
    if (closed_) end();
    return published;
}

void ProducerCore::abort() {
    if (!open_) return;
    if (!a_->detached()) {
        ring::write_void(view(), open_->place.position, open_->place.slots, format::RecordType::void_claim);
        // ORD(none): a counter.
        a_->hot().void_total.fetch_add(1, std::memory_order_relaxed);
        stamped(open_->place);
    }
    open_.reset();
    if (closed_) end();
}

}  // namespace rondo::detail
