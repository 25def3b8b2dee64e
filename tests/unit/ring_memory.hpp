// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Rings in private memory for tests of src/ring and src/flow: any number of slots from 64 on, any start position, and
// a past: slots and claim words hold what an earlier lap could have left there, old stamps included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "flow/credit.hpp"
#include "flow/lease_table.hpp"
#include "format/layout.hpp"
#include "ring/mpmc_ring.hpp"
#include "ring/record_io.hpp"
#include "ring/spsc_ring.hpp"
#include "support/seed.hpp"

namespace rondo::test {

/// An array of shared-memory structures (they hold atomics and cannot be moved), zeroed and aligned like a page.
template <class T>
class PageArray {
public:
    explicit PageArray(std::size_t count)
        : bytes_(count * sizeof(T)), count_(count), data_(::operator new(bytes_, alignment)) {
        std::memset(data_, 0, bytes_);
    }
    PageArray(const PageArray&) = delete;
    PageArray& operator=(const PageArray&) = delete;
    ~PageArray() { ::operator delete(data_, alignment); }

    T* data() const { return static_cast<T*>(data_); }
    T& operator[](std::size_t i) const { return data()[i]; }
    std::size_t size() const { return count_; }
    std::span<T> all() const { return {data(), count_}; }
    std::vector<std::byte> copy() const {
        const auto* first = static_cast<const std::byte*>(data_);
        return {first, first + bytes_};
    }

private:
    static constexpr std::align_val_t alignment{4096};
    std::size_t bytes_, count_;
    void* data_;
};

/// Start positions that matter in a ring of `slots`: zero, where 32 bits end, half of the laps, the last 32 laps.
inline std::vector<Seq> start_positions(std::uint64_t slots) {
    return {0, (Seq{1} << 32) - 10, (Seq{1} << 39) * slots - 10, format::end_of_positions(slots) - 32 * slots - 10};
}

class RingMemory {
public:
    static constexpr std::uint64_t salt = 0x9e3779b97f4a7c15U | std::uint64_t{1} << 63;

    explicit RingMemory(std::uint64_t slots, Seq start = 0, bool checksums = false)
        : hot(1), claims(slots), lines(slots * format::slot_bytes), groups(4), handles(8), entries(slots), notes(64) {
        view.hot = hot.data();
        view.claims = claims.data();
        view.bytes = lines.data();
        view.slots = slots;
        view.salt = salt;
        view.checksums = checksums;
        view.tail().store(start);
        view.limit().store(format::pack_limit(start + slots, 0));
        hot[0].keep_from.store(start);
        for (auto& g : groups.all()) g.cursor.store(format::nowhere);
        for (auto& h : handles.all()) h.borrow.store(format::nowhere);
        hot[0].handles_high.store(handles.size());
        if (start >= slots) live_before(start);
    }

    flow::LeaseTable table() const { return {entries.all(), notes.all()}; }

    /// An active group whose first unsettled position is `at`.
    format::Group& start_group(std::size_t index, Seq at) {
        auto& g = groups[index];
        g.hint.store(at);
        g.handed.store(at);
        g.cursor.store(at);
        hot[0].keep_from.store(format::nowhere);
        return g;
    }

    bool advance() const { return flow::advance_limit(view, groups.all(), handles.all()); }
    Seq tail() const { return view.tail().load(); }
    Seq limit() const { return format::limit_position(view.limit().load()); }
    format::ClaimWord claim_at(Seq p) const { return format::unpack_claim(view.claim(p).load()); }
    bool stamped(Seq p) const { return view.stamp(p).load() == view.stamp_of(p); }
    void set_limit(Seq p) const { view.limit().store(format::pack_limit(p, 0)); }

    PageArray<format::HotWords> hot;
    PageArray<format::Word> claims;
    PageArray<std::byte> lines;
    PageArray<format::Group> groups;
    PageArray<format::Handle> handles;
    PageArray<format::Entry> entries;
    PageArray<format::Note> notes;
    ring::RingView view;

private:
    /// What the lap before `start` may have left: payload bytes anywhere, claim words, stamps of its positions.
    void live_before(Seq start) {
        auto random = rng(start);
        random.fill(lines.all());
        for (Seq p = start - view.slots; p < start; ++p) {
            if (random.one_in(2)) {
                const auto owner = static_cast<std::uint32_t>(1 + random.below(4));
                view.claim(p).store(format::pack_claim(view.lap1(p), owner, 1 + random.below(8)));
            }
            if (random.one_in(2)) view.stamp(p).store(view.stamp_of(p));
        }
    }
};

/// Bytes that say who wrote them: each message of `size` bytes has content of its own.
inline std::vector<std::byte> message_bytes(std::uint64_t id, std::size_t size) {
    std::vector<std::byte> bytes(size);
    Rng random(id * 0x9e3779b97f4a7c15U + size);
    random.fill(bytes);
    return bytes;
}

/// A whole message written by hand over a claim of `slots`; the stamp is the caller's to put.
inline void write_message(const ring::RingView& v, Seq p, std::uint64_t slots, std::span<const std::byte> payload,
                          std::uint8_t flags = 0, std::span<const std::byte> extensions = {}) {
    ring::write_body(v, p, extensions, payload);
    ring::write_header(v, p,
                       {static_cast<std::uint32_t>(payload.size()), slots, ring::RecordType::message,
                        static_cast<std::uint8_t>(flags | (extensions.empty() ? 0 : format::flag_extensions))},
                       {7, 3}, extensions.size() + payload.size());
}

inline std::uint64_t slots_of_payload(std::size_t bytes) { return format::round_up_slots(format::slots_for(0, bytes)); }

/// Publishes one message. False when the ring says no.
template <class Ring>
bool publish(Ring& ring, std::span<const std::byte> payload, ring::Claimed* place = nullptr) {
    ring::Claimed c;
    if (ring.claim(slots_of_payload(payload.size()), c) != ring::ClaimStatus::ok) return false;
    write_message(ring.view(), c.position, c.slots, payload);
    ring::put_stamp(ring.view(), c.position);
    if constexpr (requires { ring.committed(c); }) ring.committed(c);
    if (place != nullptr) *place = c;
    return true;
}

/// What a reader that starts at `p` finds, up to the first position without a record.
struct Found {
    Seq position;
    ring::RecordView record;
    std::vector<std::byte> payload;
};
inline std::vector<Found> read_from(const ring::RingView& v, Seq p) {
    std::vector<Found> all;
    ring::RecordView r{};
    for (std::uint64_t step = 0; step <= v.slots && ring::peek(v, p, r) == ring::Peek::record; ++step) {
        Found f{p, r, {}};
        if (r.head.type == ring::RecordType::message) {
            const auto body = ring::body_of(v, p, r);
            if (!body || !ring::intact(v, p, r, *body)) break;
            f.payload.assign(body->end() - r.head.payload_bytes, body->end());
        }
        all.push_back(std::move(f));
        p += r.head.slots;
    }
    return all;
}

}  // namespace rondo::test
