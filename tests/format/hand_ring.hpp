// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A small ring in private memory, written by hand: 64 slots, 8 participants, 8 handles, 4 groups, and a lease table
// for each group. For tests of what only reads.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "format/record.hpp"
#include "format/snapshot.hpp"
#include "ring/record_io.hpp"
#include "ring/view.hpp"

namespace rondo::test {

/// Memory aligned like a mapping, of exactly the given size: a read beyond it is seen by the address sanitizer.
class PageMemory {
public:
    explicit PageMemory(std::size_t bytes)
        : bytes_(bytes), data_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}))) {
        std::memset(data_, 0, bytes);
    }
    explicit PageMemory(std::span<const std::byte> content) : PageMemory(content.size()) {
        if (!content.empty()) std::memcpy(data_, content.data(), content.size());
    }
    PageMemory(const PageMemory&) = delete;
    PageMemory& operator=(const PageMemory&) = delete;
    ~PageMemory() { ::operator delete (data_, std::align_val_t{4096}); }

    std::byte* data() { return data_; }
    std::span<std::byte> bytes() { return {data_, bytes_}; }

private:
    std::size_t bytes_;
    std::byte* data_;
};

class HandRing {
public:
    static constexpr std::uint64_t slots = 64;
    static constexpr std::uint64_t salt = 0x5eed5a17;

    explicit HandRing(format::Producers producers = format::Producers::many) : super_(superblock(producers)) {
        const auto layout = format::layout_of({slots, 8, 8, 4});
        memory_ = std::make_unique<PageMemory>(layout.file_bytes);
        std::memcpy(memory_->data(), &super_, sizeof super_);
        ring = format::ring_bytes(memory_->bytes(), super_);
        view.hot = reinterpret_cast<format::HotWords*>(memory_->data() + layout.hot);
        view.claims = reinterpret_cast<format::Word*>(memory_->data() + layout.claims);
        view.bytes = memory_->data() + layout.slots;
        view.slots = slots;
        view.salt = salt;
        handles = {reinterpret_cast<format::Handle*>(memory_->data() + layout.handles), 8};
        groups = {reinterpret_cast<format::Group*>(memory_->data() + layout.groups), 4};
        view.hot->keep_from.store(0);
        view.hot->handles_high.store(8);
        view.hot->participants_high.store(8);
        for (auto& h : handles) h.borrow.store(format::nowhere);
        for (auto& g : groups) g.cursor.store(format::nowhere);
        set_floor(0);
    }

    std::span<std::byte> bytes() { return memory_->bytes(); }
    const format::Superblock& super() const { return super_; }

    void set_floor(Seq floor) { view.hot->limit.store(format::pack_limit(floor + slots, 0)); }
    Seq tail() const { return view.hot->tail.load(); }

    /// Claims k slots at the tail for a participant, as a producer would, and leaves the claim open.
    Seq claim(std::uint64_t k, std::uint32_t owner = 1) {
        const Seq p = tail();
        if (super_.producers == format::Producers::many) {
            view.claim(p).store(format::pack_claim(view.lap1(p), owner, k));
        }
        view.hot->tail.store(p + k);
        return p;
    }
    /// A message in the open claim at p.
    void commit(Seq p, std::uint64_t k, std::string_view payload = "hello", std::span<const std::byte> extensions = {},
                std::uint32_t accepted = 0) {
        const auto bytes = std::as_bytes(std::span(payload));
        format::RecordHead head{static_cast<std::uint32_t>(payload.size()), k, format::RecordType::message,
                                extensions.empty() ? std::uint8_t{0} : format::flag_extensions};
        ring::write_body(view, p, extensions, bytes);
        ring::write_header(view, p, head, {accepted, 0}, extensions.size() + bytes.size());
        ring::put_stamp(view, p);
    }
    Seq publish(std::uint64_t k = 1, std::string_view payload = "hello") {
        const Seq p = claim(k);
        commit(p, k, payload);
        return p;
    }
    std::vector<Seq> publish_many(std::size_t n, std::uint64_t k = 1) {
        std::vector<Seq> all(n);
        for (Seq& p : all) p = publish(k);
        return all;
    }
    Seq publish_for(std::uint32_t group, std::uint32_t life) {
        format::Extensions e;
        e.only_group = group;
        e.only_group_life = life;
        std::vector<std::byte> block(format::extension_bytes(e));
        format::encode_extensions(e, block);
        const Seq p = claim(2);
        commit(p, 2, "copy", block);
        return p;
    }

    format::Group& make_group(std::uint32_t index, format::GroupMode mode, Seq cursor = 0) {
        auto& g = groups[index];
        g.state.store(static_cast<std::uint32_t>(format::GroupState::active));
        g.life.store(7);
        g.mode.store(static_cast<std::uint32_t>(mode));
        g.kind.store(static_cast<std::uint32_t>(format::GroupKind::durable));
        g.lease_timeout_ns.store(30'000'000'000);
        g.name[0].store(static_cast<char>('a' + index));
        g.cursor.store(cursor);
        g.hint.store(cursor);
        g.handed.store(cursor);
        view.hot->keep_from.store(format::nowhere);
        return g;
    }
    void make_handle(std::uint32_t index, std::uint32_t participant, format::HandleKind kind, std::uint32_t group = 0) {
        auto& h = handles[index];
        h.owner.store(format::pack_owner(participant, static_cast<std::uint32_t>(kind)));
        h.group.store(group);
        h.group_life.store(7);
        h.last_seq.store(format::nowhere);  // as take_handle() leaves it
    }

    /// The lease table of a group, made on first use.
    format::LeaseBytes table(std::uint32_t group) {
        if (!tables_[group]) {
            const auto layout = format::lease_layout_of(slots);
            tables_[group] = std::make_unique<PageMemory>(layout.file_bytes);
            format::LeaseHeader h{};
            h.magic = format::lease_magic;
            h.version = format::version;
            h.group = group;
            h.life = 7;
            h.note_count = layout.note_count;
            h.slot_count = slots;
            h.queue_uuid = super_.queue_uuid;
            h.ring_uuid = super_.ring_uuid;
            h.file_bytes = layout.file_bytes;
            std::memcpy(tables_[group]->data(), &h, sizeof h);
        }
        return *format::lease_bytes(tables_[group]->bytes(), ring);
    }
    std::span<std::byte> table_bytes(std::uint32_t group) {
        (void)table(group);
        return tables_[group]->bytes();
    }
    void lease(std::uint32_t group, Seq p, format::EntryState state, std::uint32_t owner, std::uint32_t attempts,
               std::uint64_t due = 0) {
        const auto t = table(group);
        auto* entries = reinterpret_cast<format::Entry*>(tables_[group]->data() + t.layout.entries);
        auto& e = entries[p & (slots - 1)];
        e.b.store(format::pack_due({due, owner, attempts}));
        e.a.store(format::pack_lease({view.lap1(p), state, owner, attempts}));
    }

    format::RingBytes ring{};
    ring::RingView view{};
    std::span<format::Handle> handles;
    std::span<format::Group> groups;

private:
    static format::Superblock superblock(format::Producers producers) {
        format::Superblock s{};
        s.magic = format::magic;
        s.version = format::version;
        s.kind = format::RingKind::main;
        s.producers = producers;
        s.timestamps = format::Timestamps::coarse;
        s.slot_count = slots;
        s.slot_bytes = format::slot_bytes;
        s.participant_count = 8;
        s.handle_count = 8;
        s.group_count = 4;
        s.salt = salt;
        s.queue_uuid[0] = 1;
        s.ring_uuid[0] = 2;
        s.time_base_ns = 1'000'000'000'000;
        return s;
    }

    format::Superblock super_;
    std::unique_ptr<PageMemory> memory_;
    std::unique_ptr<PageMemory> tables_[4];
};

}  // namespace rondo::test
