// SPDX-License-Identifier: MIT
// Writing, finishing and reading one record at a known position.
//
//   write  back to front: the later lines, then the first line in one burst, the stamp last (release). A polling
//          reader then takes the first line from the writer once, not at every store.
//   finish what a dead owner left open: the holder of its lock writes a void record over the claim.
//   peek   the only way in for readers: stamp (acquire), then a copy of the header that is checked before use.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/checksum.hpp"
#include "format/record.hpp"
#include "format/words.hpp"
#include "ring/view.hpp"

namespace rondo::ring {

using format::RecordHead;
using format::RecordType;
using format::RecordView;

/// What a producer says about a record beside its bytes.
struct RecordMeta {
    std::uint32_t accepted = 0;
    std::uint16_t producer = 0;
};

/// Covers everything a reader relies on; the position keeps a record from passing at another place.
template <class View>
std::uint32_t checksum_of(const View& v, Seq p, std::uint64_t head, const RecordMeta& meta, std::uint16_t epoch,
                          std::span<const std::byte> body) {
    std::array<std::uint64_t, 2> fixed = {head, std::uint64_t{meta.accepted} << 32 |
                                                    std::uint64_t{meta.producer} << 16 | epoch};
    return base::checksum32(std::as_bytes(std::span(fixed)), body, v.salt ^ p);
}

/// Header without the stamp. The body is already there.
template <class View>
void write_header(const View& v, Seq p, const RecordHead& head, const RecordMeta& meta, std::size_t body_bytes) {
    auto& h = v.header(p);
    const std::uint16_t epoch = v.epoch();
    const std::uint64_t word = format::pack_head(head);
    // Padding is always checked: a rebuilt ring must not mistake old bytes for it.
    const bool sum = v.checksums || head.type != RecordType::message;
    const std::uint32_t checksum = sum ? checksum_of(v, p, word, meta, epoch, {v.body(p), body_bytes}) : 0;
    struct Rest {
        std::uint32_t checksum, durable_lag, accepted;
        std::uint16_t producer, epoch;
    } rest{checksum, 0, meta.accepted, meta.producer, epoch};
    // ORD(none): published by the stamp.
    h.head.store(word, std::memory_order_relaxed);
    copy_in(reinterpret_cast<std::byte*>(&h.checksum), reinterpret_cast<const std::byte*>(&rest), sizeof rest);
}

/// Makes the record at p visible. Everything of it must have been written by this thread.
template <class View>
void put_stamp(const View& v, Seq p) {
    // ORD(record.stamp): release; pairs with the acquire in peek() and finish(). Carries header and body.
    v.stamp(p).store(v.stamp_of(p), std::memory_order_release);
}

/// Extension block and payload into the body, later lines first.
template <class View>
void write_body(const View& v, Seq p, std::span<const std::byte> extensions, std::span<const std::byte> payload) {
    constexpr std::size_t in_first_line = format::slot_bytes - format::header_bytes;
    std::byte* body = v.body(p);
    const std::size_t e = extensions.size();
    const std::size_t payload_early = e >= in_first_line ? 0 : std::min(in_first_line - e, payload.size());
    copy_in(body + e + payload_early, payload.data() + payload_early, payload.size() - payload_early);
    const std::size_t ext_early = std::min(in_first_line, e);
    copy_in(body + ext_early, extensions.data() + ext_early, e - ext_early);
    copy_in(body, extensions.data(), ext_early);
    copy_in(body + e, payload.data(), payload_early);
}

/// A whole record of type pad or void over k slots, stamp included. k may be any claim's.
template <class View>
void write_void(const View& v, Seq p, std::uint64_t k, RecordType type) {
    write_header(v, p, {0, k, type, 0}, {}, 0);
    put_stamp(v, p);
}

/// Ends the claim [p, p+k) of a dead participant whose lock the caller holds; nothing if it was committed.
/// Interrupted anywhere, the next holder of the lock does it again. Returns true if it wrote a void.
template <class View>
bool finish(const View& v, Seq p, std::uint64_t k) {
    // ORD(record.stamp): acquire; pairs with put_stamp(). Read before the limit: if the record was committed,
    // consumed and overwritten in between, the limit read afterwards shows it.
    if (v.stamp(p).load(std::memory_order_acquire) == v.stamp_of(p)) return false;
    // ORD(credit.limit): acquire; pairs with the release in advance_limit().
    if (format::limit_position(v.limit().load(std::memory_order_acquire)) > p + v.slots) return false;
    for (Seq q = p + 1; q < p + k; ++q) {
        // ORD(none): the dead batch's inner stamps; only the lock's holder writes here.
        if (v.stamp(q).load(std::memory_order_relaxed) == v.stamp_of(q))
            v.stamp(q).store(0, std::memory_order_relaxed);
    }
    write_void(v, p, k, RecordType::void_claim);
    return true;
}

enum class Peek { absent, record, corrupt };

/// Is there a complete record at p, and what does its header say? The caller knows that p is a record boundary.
template <class View>
Peek peek(const View& v, Seq p, RecordView& out) {
    // ORD(record.stamp): acquire; pairs with put_stamp(). Carries header and body.
    if (v.stamp(p).load(std::memory_order_acquire) != v.stamp_of(p)) return Peek::absent;
    auto& h = v.header(p);
    // ORD(none): carried by the stamp; loaded once, only the copy is used.
    const std::uint64_t word = h.head.load(std::memory_order_relaxed);
    out.head = format::unpack_head(word);
    // Only what a producer can have written: also no stray bit in the coded size.
    if (!format::plausible(out.head, p, v.slots) || format::pack_head(out.head) != word) return Peek::corrupt;
    struct Rest {
        std::uint32_t checksum, durable_lag, accepted;
        std::uint16_t producer, epoch;
    } rest;
    copy_out(reinterpret_cast<std::byte*>(&rest), reinterpret_cast<const std::byte*>(&h.checksum), sizeof rest);
    out.checksum = rest.checksum;
    out.accepted = rest.accepted;
    out.producer = rest.producer;
    out.epoch = rest.epoch;
    return Peek::record;
}

/// The record's bytes after the header: extensions and payload.
template <class View>
std::optional<std::span<const std::byte>> body_of(const View& v, Seq p, const RecordView& r) {
    const std::uint64_t room = r.head.slots * format::slot_bytes - format::header_bytes;
    std::size_t extensions = 0;
    if (r.head.flags & format::flag_extensions) {
        const auto bytes = format::extension_block_bytes(r.head, {v.body(p), room});
        if (!bytes) return std::nullopt;
        extensions = *bytes;
    }
    if (extensions + r.head.payload_bytes > room) return std::nullopt;
    return std::span<const std::byte>(v.body(p), extensions + r.head.payload_bytes);
}

/// Checked rings: do the bytes match? Always true where the queue keeps no checksums.
template <class View>
bool intact(const View& v, Seq p, const RecordView& r, std::span<const std::byte> body) {
    if (!v.checksums) return true;
    return checksum_of(v, p, format::pack_head(r.head), {r.accepted, r.producer}, r.epoch, body) == r.checksum;
}

}  // namespace rondo::ring
