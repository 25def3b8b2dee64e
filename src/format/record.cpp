// SPDX-License-Identifier: MIT
// The extension block: written for our own records, read from anybody's. See record.hpp.
#include "format/record.hpp"

#include <algorithm>
#include <cstring>

namespace rondo::format {
namespace {

constexpr std::size_t block_head_bytes = 8;
constexpr std::size_t field_head_bytes = 4;
constexpr std::size_t origin_bytes = 32;
constexpr std::size_t only_group_bytes = 8;

constexpr std::size_t field_bytes(std::size_t value_bytes) { return field_head_bytes + base::round_up(value_bytes, 4); }

// Nothing in a block is aligned to more than 4 bytes, and a damaged one to nothing at all.
template <class T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// Lays fields down one behind the other. What would not fit is left out, so that a caller's mistake about the size
// never becomes a write behind the block.
class Writer {
public:
    explicit Writer(std::span<std::byte> out) : out_(out) { std::fill(out.begin(), out.end(), std::byte{0}); }

    void begin(Tag tag, std::size_t size) {
        const std::uint16_t head[2] = {static_cast<std::uint16_t>(tag), static_cast<std::uint16_t>(size)};
        put(head, sizeof head);
        ++count_;
    }
    void put(const void* from, std::size_t size) {
        if (size > out_.size() - at_) return;
        if (size != 0) std::memcpy(out_.data() + at_, from, size);
        at_ += size;
    }
    void end() { at_ = std::min(base::round_up(at_, 4), out_.size()); }

    void field(Tag tag, const void* from, std::size_t size) {
        begin(tag, size);
        put(from, size);
        end();
    }
    void text(Tag tag, std::string_view value) { field(tag, value.data(), value.size()); }
    template <class T>
    void number(Tag tag, T value) {
        field(tag, &value, sizeof value);
    }

    std::size_t at() const { return at_; }
    void seek(std::size_t at) { at_ = std::min(at, out_.size()); }
    std::uint32_t count() const { return count_; }

private:
    std::span<std::byte> out_;
    std::size_t at_ = 0;
    std::uint32_t count_ = 0;
};

}  // namespace

std::size_t extension_bytes(const Extensions& e) {
    std::size_t n = 0;
    if (!e.key.empty()) n += field_bytes(e.key.size());
    if (e.type) n += field_bytes(8);
    if (e.message_id) n += field_bytes(e.message_id->size());
    if (e.accepted_ns) n += field_bytes(8);
    if (e.only_group) n += field_bytes(only_group_bytes);
    for (const Header& header : e.headers) n += field_bytes(1 + header.name.size() + header.value.size());
    if (e.redrive_count != 0) n += field_bytes(4);
    if (e.origin) n += field_bytes(origin_bytes);
    if (!e.first_reason.empty()) n += field_bytes(e.first_reason.size());
    if (e.first_dead_ns != 0) n += field_bytes(8);
    if (e.first_accepted_ns != 0) n += field_bytes(8);
    if (e.original_seq) n += field_bytes(8);
    return n == 0 ? 0 : base::round_up(block_head_bytes + n, 16);
}

// In the order of the tags: the same extensions always give the same bytes.
void encode_extensions(const Extensions& e, std::span<std::byte> out) {
    if (out.empty()) return;
    Writer w(out);
    w.seek(block_head_bytes);
    if (!e.key.empty()) w.text(Tag::key, e.key);
    if (e.type) w.number(Tag::message_type, *e.type);
    if (e.message_id) w.field(Tag::message_id, e.message_id->data(), e.message_id->size());
    if (e.accepted_ns) w.number(Tag::accepted_ns, *e.accepted_ns);
    if (e.only_group) {
        const std::uint32_t value[2] = {*e.only_group, e.only_group_life};
        w.field(Tag::only_group, value, sizeof value);
    }
    for (const Header& header : e.headers) {
        const auto name_size = static_cast<std::uint8_t>(header.name.size());
        w.begin(Tag::header, 1 + header.name.size() + header.value.size());
        w.put(&name_size, 1);
        w.put(header.name.data(), header.name.size());
        w.put(header.value.data(), header.value.size());
        w.end();
    }
    if (e.redrive_count != 0) w.number(Tag::redrive_count, e.redrive_count);
    if (e.origin) {
        w.begin(Tag::origin, origin_bytes);
        w.put(e.origin->ring_uuid.data(), e.origin->ring_uuid.size());
        w.put(&e.origin->epoch, 8);
        w.put(&e.origin->seq, 8);
        w.end();
    }
    if (!e.first_reason.empty()) w.text(Tag::first_reason, e.first_reason);
    if (e.first_dead_ns != 0) w.number(Tag::first_dead_ns, e.first_dead_ns);
    if (e.original_seq) w.number(Tag::original_seq, *e.original_seq);
    if (e.first_accepted_ns != 0) w.number(Tag::first_accepted_ns, e.first_accepted_ns);
    const std::uint32_t head[2] = {static_cast<std::uint32_t>(out.size()), w.count()};
    w.seek(0);
    w.put(head, sizeof head);
}

std::optional<ExtensionReader::Field> ExtensionReader::next() {
    const std::size_t room = bytes_.size() > at_ ? bytes_.size() - at_ : 0;
    if (room < field_head_bytes) return std::nullopt;
    const auto tag = load<std::uint16_t>(bytes_.data() + at_);
    const std::size_t size = load<std::uint16_t>(bytes_.data() + at_ + 2);
    // Tag 0 is the padding at the end of the block.
    if (tag == 0 || size > room - field_head_bytes) {
        at_ = bytes_.size();
        return std::nullopt;
    }
    const Field field{static_cast<Tag>(tag), bytes_.subspan(at_ + field_head_bytes, size)};
    at_ += field_bytes(size);
    return field;
}

std::optional<std::span<const std::byte>> ExtensionReader::find(std::span<const std::byte> block, Tag tag) {
    ExtensionReader reader(block);
    while (const auto field = reader.next()) {
        if (field->tag == tag) return field->value;
    }
    return std::nullopt;
}

std::optional<std::uint64_t> ExtensionReader::find_number(std::span<const std::byte> block, Tag tag) {
    const auto value = find(block, tag);
    if (!value) return std::nullopt;
    if (value->size() == 8) return load<std::uint64_t>(value->data());
    if (value->size() == 4) return load<std::uint32_t>(value->data());
    return std::nullopt;
}

std::string_view ExtensionReader::find_text(std::span<const std::byte> block, Tag tag) {
    const auto value = find(block, tag);
    if (!value) return {};
    return {reinterpret_cast<const char*>(value->data()), value->size()};
}

Header ExtensionReader::as_header(std::span<const std::byte> value) {
    if (value.empty()) return {};
    const auto name_size = load<std::uint8_t>(value.data());
    if (name_size == 0 || name_size > value.size() - 1) return {};
    const auto* text = reinterpret_cast<const char*>(value.data()) + 1;
    return {{text, name_size}, {text + name_size, value.size() - 1 - name_size}};
}

std::optional<Origin> ExtensionReader::find_origin(std::span<const std::byte> block) {
    const auto value = find(block, Tag::origin);
    if (!value || value->size() != origin_bytes) return std::nullopt;
    return Origin{load<Uuid>(value->data()), load<std::uint64_t>(value->data() + 16),
                  load<std::uint64_t>(value->data() + 24)};
}

std::optional<std::size_t> extension_block_bytes(const RecordHead& head, std::span<const std::byte> body) {
    const std::uint64_t capacity = head.slots * slot_bytes;
    const std::uint64_t room =
        std::min<std::uint64_t>(body.size(), capacity < header_bytes ? 0 : capacity - header_bytes);
    if (head.payload_bytes > room) return std::nullopt;
    if ((head.flags & flag_extensions) == 0) return 0;
    if (room < block_head_bytes) return std::nullopt;
    const std::uint64_t bytes = load<std::uint32_t>(body.data());
    if (bytes < 16 || bytes % 16 != 0 || bytes > room - head.payload_bytes) return std::nullopt;
    return static_cast<std::size_t>(bytes);
}

std::optional<OnlyGroup> find_only_group(std::span<const std::byte> block) {
    const auto value = ExtensionReader::find(block, Tag::only_group);
    if (!value || value->size() != only_group_bytes) return std::nullopt;
    return OnlyGroup{load<std::uint32_t>(value->data()), load<std::uint32_t>(value->data() + 4)};
}

}  // namespace rondo::format
