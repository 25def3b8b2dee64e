// SPDX-License-Identifier: MIT
// First what comes from files (superblocks, lease headers), then what comes from callers (options). See validate.hpp.
#include "format/validate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/bits.hpp"
#include "base/checksum.hpp"
#include "format/layout.hpp"
#include "format/record.hpp"
#include "format/words.hpp"

namespace rondo::format {
namespace {

constexpr std::uint32_t max_lanes = 64;

bool all_zero(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// The rest of the page behind a header of `used` bytes, as far as the caller has it.
bool rest_is_zero(std::span<const std::byte> page, std::size_t used) {
    return all_zero(page.first(std::min(page.size(), page_bytes)).subspan(used));
}

bool is_ring_size(std::uint64_t slots) { return base::is_pow2(slots) && slots >= min_slots && slots <= max_slots; }

const char* bad_enumerator(const Superblock& s) {
    if (s.kind != RingKind::main && s.kind != RingKind::retry && s.kind != RingKind::dead) {
        return "superblock: unknown kind of ring";
    }
    if (s.lane >= max_lanes) return "superblock: lane out of range";
    if (s.producers != Producers::one && s.producers != Producers::many) return "superblock: producers out of range";
    if (s.checksum != Checksum::none && s.checksum != Checksum::xxh3) return "superblock: unknown record checksum";
    if (s.timestamps != Timestamps::off && s.timestamps != Timestamps::coarse && s.timestamps != Timestamps::exact) {
        return "superblock: timestamps out of range";
    }
    if (s.durability != Durability::none && s.durability != Durability::durable) {
        return "superblock: durability out of range";
    }
    if (s.mode != 0600 && s.mode != 0640 && s.mode != 0660) return "superblock: mode is not 0600, 0640 or 0660";
    return nullptr;
}

const char* bad_count(const Superblock& s) {
    if (s.slot_bytes != slot_bytes) return "superblock: slots are not of 64 bytes";
    if (!base::is_pow2(s.slot_count)) return "superblock: slot count is not a power of two";
    if (!is_ring_size(s.slot_count)) return "superblock: slot count out of range";
    const bool is_main = s.kind == RingKind::main;
    // Participants and their handles live in the main ring; the other two reuse them.
    if (s.participant_count != (is_main ? max_participants : 0)) return "superblock: participant count out of range";
    if (s.handle_count != (is_main ? max_handles : 0)) return "superblock: handle count out of range";
    if (s.group_count > max_groups || (is_main && s.group_count == 0)) return "superblock: group count out of range";
    const std::uint64_t largest = max_record_slots(s.slot_count) * slot_bytes;
    if (s.max_record_bytes < min_record_bytes || s.max_record_bytes > largest) {
        return "superblock: largest record out of range";
    }
    const bool optional = !is_main;
    if (!is_ring_size(s.retry_slot_count) && !(optional && s.retry_slot_count == 0)) {
        return "superblock: slot count of retry.ring out of range";
    }
    if (!is_ring_size(s.dead_slot_count) && !(optional && s.dead_slot_count == 0)) {
        return "superblock: slot count of dead.ring out of range";
    }
    return nullptr;
}

const char* bad_layout(const Superblock& s) {
    const Layout l = layout_of({s.slot_count, s.participant_count, s.handle_count, s.group_count});
    if (s.hot_offset != l.hot) return "superblock: offset of the hot words is wrong";
    if (s.queue_offset != l.queue) return "superblock: offset of the queue block is wrong";
    if (s.participants_offset != l.participants) return "superblock: offset of the participants is wrong";
    if (s.handles_offset != l.handles) return "superblock: offset of the handles is wrong";
    if (s.groups_offset != l.groups) return "superblock: offset of the groups is wrong";
    if (s.claims_offset != l.claims) return "superblock: offset of the claim words is wrong";
    if (s.slots_offset != l.slots) return "superblock: offset of the slots is wrong";
    if (s.file_bytes != l.file_bytes) return "superblock: file size does not follow from the counts";
    return nullptr;
}

const char* bad_reserved(const Superblock& s) {
    if (!all_zero(std::as_bytes(std::span(s.image_uuid)))) return "superblock: image uuid is reserved, but not zero";
    if (!all_zero(std::as_bytes(std::span(s.image_reserved))))
        return "superblock: image words are reserved, but not zero";
    if (s.reserved0 != 0) return "superblock: reserved word is not zero";
    return nullptr;
}

void see(std::uint64_t* seen_version, std::uint64_t found) {
    if (seen_version != nullptr) *seen_version = found;
}

}  // namespace

std::uint32_t superblock_checksum_of(const Superblock& superblock) noexcept {
    const auto bytes = std::as_bytes(std::span(&superblock, 1));
    return base::checksum32(bytes.first(offsetof(Superblock, superblock_checksum)), superblock.salt);
}

void seal_superblock(Superblock& superblock) noexcept {
    superblock.superblock_checksum = superblock_checksum_of(superblock);
}

Result<Superblock> validate_superblock(std::span<const std::byte> page, std::uint64_t file_bytes,
                                       std::uint64_t* seen_version) noexcept {
    see(seen_version, 0);
    if (page.size() < sizeof(Superblock)) return fail(Errc::corrupt, "file too short for a superblock");
    Superblock s;
    std::memcpy(&s, page.data(), sizeof s);

    // These four come before the checksum: another version may lay out or checksum the rest in another way.
    if (s.magic != magic) return fail(Errc::corrupt, "not a rondo ring, or its first bytes are damaged");
    if (s.byte_order == __builtin_bswap32(byte_order_mark)) {
        see(seen_version, __builtin_bswap32(s.version));
        return fail(Errc::version_mismatch, "ring of a machine with another byte order");
    }
    see(seen_version, s.version);
    if (s.byte_order != byte_order_mark) return fail(Errc::corrupt, "superblock: byte order mark is damaged");
    if (s.version != version) return fail(Errc::version_mismatch, "ring of another format version");
    if (s.features_required != 0) {
        return fail(Errc::version_mismatch, "ring needs a feature that this version does not know");
    }
    if (s.superblock_checksum != superblock_checksum_of(s)) {
        return fail(Errc::corrupt, "superblock: checksum does not match");
    }

    if (const char* what = bad_enumerator(s)) return fail(Errc::corrupt, what);
    if (const char* what = bad_count(s)) return fail(Errc::corrupt, what);
    if (const char* what = bad_layout(s)) return fail(Errc::corrupt, what);
    if (const char* what = bad_reserved(s)) return fail(Errc::corrupt, what);
    if (!rest_is_zero(page, sizeof s)) return fail(Errc::corrupt, "superblock: rest of its page is not zero");
    if (s.file_bytes > file_bytes) return fail(Errc::corrupt, "ring file is shorter than its superblock says");
    // Opened as a volatile ring it would break its promise.
    if (s.durability == Durability::durable) {
        return fail(Errc::not_supported, "ring of a durable queue: not supported by this version");
    }
    return s;
}

Result<LeaseHeader> validate_lease_header(std::span<const std::byte> page, std::uint64_t file_bytes,
                                          std::uint64_t* seen_version) noexcept {
    see(seen_version, 0);
    if (page.size() < sizeof(LeaseHeader)) return fail(Errc::corrupt, "file too short for a lease table");
    LeaseHeader h;
    std::memcpy(&h, page.data(), sizeof h);
    if (h.magic != lease_magic) return fail(Errc::corrupt, "not a rondo lease table, or its first bytes are damaged");
    see(seen_version, h.version);
    if (h.version != version) return fail(Errc::version_mismatch, "lease table of another format version");
    if (h.group >= max_groups) return fail(Errc::corrupt, "lease table: group out of range");
    if (!is_ring_size(h.slot_count)) return fail(Errc::corrupt, "lease table: slot count out of range");
    const LeaseLayout l = lease_layout_of(h.slot_count);
    if (h.note_count != l.note_count)
        return fail(Errc::corrupt, "lease table: note count does not follow from the slots");
    if (h.file_bytes != l.file_bytes)
        return fail(Errc::corrupt, "lease table: file size does not follow from the slots");
    if (!rest_is_zero(page, sizeof h)) return fail(Errc::corrupt, "lease table: rest of its first page is not zero");
    if (h.file_bytes > file_bytes) return fail(Errc::corrupt, "lease table is shorter than its header says");
    return h;
}

Result<void> check_lease_owner(const LeaseHeader& header, const Superblock& ring, std::uint32_t group,
                               std::uint32_t life) noexcept {
    if (header.queue_uuid != ring.queue_uuid) return fail(Errc::corrupt, "lease table of another queue");
    if (header.ring_uuid != ring.ring_uuid) return fail(Errc::corrupt, "lease table of another ring");
    if (header.group != group) return fail(Errc::corrupt, "lease table of another group");
    if (header.life != life) return fail(Errc::corrupt, "lease table of an earlier group of the same number");
    if (header.slot_count != ring.slot_count) return fail(Errc::corrupt, "lease table for a ring of another size");
    return {};
}

// ---- options -------------------------------------------------------------------------------------------------

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration min_lease_timeout = milliseconds(10), max_lease_timeout = hours(24);
constexpr Duration longest_lease_total = hours(24 * 7);
constexpr Duration longest_backoff = hours(24);
constexpr Duration min_retry_max_age = seconds(1);
// Codable as one claim, in dead.ring too.
constexpr std::uint64_t largest_record_bytes = max_claim_slots * slot_bytes - story_bytes;

tl::unexpected<Error> refuse(const char* what) { return fail(Errc::invalid_argument, what); }

// Slots of retry.ring or dead.ring: 0 if the size that was asked for is out of range.
std::uint64_t side_slots(std::uint64_t asked, std::uint64_t capacity, std::uint64_t side_record_bytes) {
    const std::uint64_t least = 8 * side_record_bytes;
    if (asked != 0 && (asked < least || asked > max_capacity_bytes)) return 0;
    const std::uint64_t wanted = asked != 0 ? asked : std::max(capacity / 4, least);
    return base::next_pow2(std::max(wanted, min_capacity_bytes)) / slot_bytes;
}

const char* bad_choice(const QueueOptions& o) {
    if (o.producers != Producers::one && o.producers != Producers::many) return "producers: one or many";
    if (o.durability != Durability::none && o.durability != Durability::durable) return "durability: none or durable";
    if (o.checksum != Checksum::none && o.checksum != Checksum::xxh3) return "checksum: none or xxh3";
    if (o.timestamps != Timestamps::off && o.timestamps != Timestamps::coarse && o.timestamps != Timestamps::exact) {
        return "timestamps: off, coarse or exact";
    }
    if (o.overflow < Overflow::block || o.overflow > Overflow::drop_oldest) {
        return "overflow: block, fail, drop_newest or drop_oldest";
    }
    if (o.mode != 0600 && o.mode != 0640 && o.mode != 0660) return "mode: 0600, 0640 or 0660";
    // The system call takes this number for "leave it as it is".
    if (o.group && *o.group == ~std::uint32_t{0}) return "group: not a group id";
    if (o.max_groups < 1 || o.max_groups > max_groups) return "max_groups: 1 to 64";
    return nullptr;
}

template <class T>
bool outside(const std::optional<T>& value, T low, T high) {
    return value && (*value < low || *value > high);
}

std::uint64_t ns(Duration d) { return static_cast<std::uint64_t>(d.count()); }

constexpr std::uint64_t default_in_flight = 1024, default_in_flight_group = 65536;
constexpr std::uint32_t default_dead_pending = 1000;

std::uint32_t milli(double multiplier) { return static_cast<std::uint32_t>(std::lround(multiplier * 1000)); }

}  // namespace

Result<Geometry> check_options(const QueueOptions& options) noexcept {
    if (const char* what = bad_choice(options)) return refuse(what);
    if (options.capacity_bytes < min_capacity_bytes) return refuse("capacity_bytes: at least 256 KiB");
    if (options.capacity_bytes > max_capacity_bytes) return refuse("capacity_bytes: at most 1 TiB");
    const std::uint64_t capacity = base::next_pow2(options.capacity_bytes);

    Geometry g{};
    g.slots = capacity / slot_bytes;
    g.groups = options.max_groups;
    g.max_record_bytes =
        options.max_record_bytes != 0 ? options.max_record_bytes : std::min(capacity / 64, largest_record_bytes);
    if (g.max_record_bytes < min_record_bytes) return refuse("max_record_bytes: at least 256");
    if (g.max_record_bytes > capacity / 8) return refuse("max_record_bytes: at most capacity / 8");
    if (g.max_record_bytes > largest_record_bytes)
        return refuse("max_record_bytes: at most 2 GiB less 2 MiB and 16 KiB");
    g.side_max_record_bytes = g.max_record_bytes + story_bytes;
    g.retry_slots = side_slots(options.retry_capacity_bytes, capacity, g.side_max_record_bytes);
    if (g.retry_slots == 0) return refuse("retry_capacity_bytes: 8 * (max_record_bytes + 16 KiB) to 1 TiB");
    g.dead_slots = side_slots(options.dead_capacity_bytes, capacity, g.side_max_record_bytes);
    if (g.dead_slots == 0) return refuse("dead_capacity_bytes: 8 * (max_record_bytes + 16 KiB) to 1 TiB");

    // Last, so that a value nobody offers is never told to be merely unsupported.
    if (options.durability == Durability::durable) {
        return fail(Errc::not_supported, "durability = durable is not supported yet");
    }
    if (options.overflow == Overflow::drop_newest || options.overflow == Overflow::drop_oldest) {
        return fail(Errc::not_supported, "overflow = drop_newest and drop_oldest are not supported yet");
    }
    return g;
}

Result<void> check_group_options(const GroupOptions& o, std::uint64_t slots) noexcept {
    const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(slots / 2, ~std::uint32_t{0}));
    if (outside(o.mode, GroupMode::exclusive, GroupMode::shared)) return refuse("mode: exclusive or shared");
    if (outside(o.kind, GroupKind::durable, GroupKind::lossy)) return refuse("kind: durable or lossy");
    if (outside(o.jitter, Jitter::none, Jitter::full)) return refuse("jitter: none, equal or full");
    if (outside(o.lease_timeout, min_lease_timeout, max_lease_timeout)) return refuse("lease_timeout: 10 ms to 24 h");
    if (outside(o.max_lease_total, o.lease_timeout.value_or(min_lease_timeout), longest_lease_total)) {
        return refuse("max_lease_total: lease_timeout to 7 d");
    }
    if (o.max_deliveries && *o.max_deliveries != -1 && outside(o.max_deliveries, 1, 1000)) {
        return refuse("max_deliveries: 1 to 1000, or -1 for no limit");
    }
    if (outside(o.backoff_initial, Duration::zero(), longest_backoff)) return refuse("backoff_initial: 0 to 24 h");
    // Written so that NaN is refused.
    if (o.backoff_multiplier && !(*o.backoff_multiplier >= 1.0 && *o.backoff_multiplier <= 10.0)) {
        return refuse("backoff_multiplier: 1 to 10");
    }
    if (outside(o.backoff_max, o.backoff_initial.value_or(Duration::zero()), longest_backoff)) {
        return refuse("backoff_max: backoff_initial to 24 h");
    }
    if (outside(o.retry_max_age, min_retry_max_age, forever)) return refuse("retry_max_age: at least 1 s");
    if (outside(o.max_in_flight, std::uint32_t{1}, most)) return refuse("max_in_flight: 1 to half of the ring's slots");
    if (outside(o.max_in_flight_group, std::uint32_t{1}, most)) {
        return refuse("max_in_flight_group: 1 to half of the ring's slots");
    }
    if (outside(o.max_dead_pending, std::uint32_t{1}, most)) {
        return refuse("max_dead_pending: 1 to half of the ring's slots");
    }
    if (o.kind == GroupKind::lossy) return fail(Errc::not_supported, "kind = lossy is not supported yet");
    return {};
}

ResolvedGroup resolve(const GroupOptions& o, std::uint64_t slots) noexcept {
    const std::uint64_t most = slots / 2;
    ResolvedGroup g{};
    g.mode = o.mode.value_or(GroupMode::shared);
    g.kind = o.kind.value_or(GroupKind::durable);
    g.jitter = o.jitter.value_or(Jitter::equal);
    g.start_kind = o.start.kind();
    g.start_value = o.start.value();
    const Duration lease =
        o.lease_timeout.value_or(std::min<Duration>(seconds(30), o.max_lease_total.value_or(forever)));
    g.lease_timeout_ns = ns(lease);
    g.max_lease_total_ns = ns(o.max_lease_total.value_or(std::max<Duration>(hours(12), lease)));
    const std::int32_t deliveries = o.max_deliveries.value_or(5);
    g.max_deliveries = deliveries < 0 ? 0 : static_cast<std::uint32_t>(deliveries);
    g.backoff_multiplier_milli = milli(o.backoff_multiplier.value_or(2.0));
    const Duration initial =
        o.backoff_initial.value_or(std::min<Duration>(seconds(1), o.backoff_max.value_or(forever)));
    g.backoff_initial_ns = ns(initial);
    g.backoff_max_ns = ns(o.backoff_max.value_or(std::max<Duration>(seconds(60), initial)));
    g.retry_max_age_ns = ns(o.retry_max_age.value_or(hours(24)));
    // With one hand-over each, whatever is in hand behind a failed message of an ordered group would die with it.
    const bool alone = g.mode == GroupMode::exclusive && g.max_deliveries == 1;
    g.max_in_flight_consumer = o.max_in_flight ? *o.max_in_flight : alone ? 1 : std::min(default_in_flight, most);
    g.max_in_flight_group = o.max_in_flight_group ? *o.max_in_flight_group : std::min(default_in_flight_group, most);
    const std::uint64_t dead_pending = o.max_dead_pending.value_or(default_dead_pending);
    g.max_dead_pending = g.mode == GroupMode::exclusive ? 1 : std::min(dead_pending, most);
    return g;
}

Result<void> check_same_group(const GroupOptions& options, const ResolvedGroup& stored) noexcept {
    GroupOptions o = options;
    if (!o.mode) o.mode = stored.mode;  // max_dead_pending depends on it
    const ResolvedGroup a = resolve(o);
    const ResolvedGroup& b = stored;
    struct Option {
        bool differs;
        const char* what;
    };
    const Option table[] = {
        {a.mode != b.mode, "mode differs from the group's"},
        {o.kind && a.kind != b.kind, "kind differs from the group's"},
        {o.jitter && a.jitter != b.jitter, "jitter differs from the group's"},
        {o.lease_timeout && a.lease_timeout_ns != b.lease_timeout_ns, "lease_timeout differs from the group's"},
        {o.max_lease_total && a.max_lease_total_ns != b.max_lease_total_ns, "max_lease_total differs from the group's"},
        {o.max_deliveries && a.max_deliveries != b.max_deliveries, "max_deliveries differs from the group's"},
        {o.backoff_multiplier && a.backoff_multiplier_milli != b.backoff_multiplier_milli,
         "backoff_multiplier differs from the group's"},
        {o.backoff_initial && a.backoff_initial_ns != b.backoff_initial_ns, "backoff_initial differs from the group's"},
        {o.backoff_max && a.backoff_max_ns != b.backoff_max_ns, "backoff_max differs from the group's"},
        {o.retry_max_age && a.retry_max_age_ns != b.retry_max_age_ns, "retry_max_age differs from the group's"},
        {o.max_in_flight && a.max_in_flight_consumer != b.max_in_flight_consumer,
         "max_in_flight differs from the group's"},
        {o.max_in_flight_group && a.max_in_flight_group != b.max_in_flight_group,
         "max_in_flight_group differs from the group's"},
        {o.max_dead_pending && a.max_dead_pending != b.max_dead_pending, "max_dead_pending differs from the group's"},
    };
    for (const Option& option : table) {
        if (option.differs) return fail(Errc::option_mismatch, option.what);
    }
    return {};
}

Result<void> check_name(std::string_view name) noexcept {
    if (name.empty()) return refuse("name: empty");
    if (name.size() >= name_bytes) return refuse("name: longer than 63 characters");
    const auto allowed = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    };
    if (!std::all_of(name.begin(), name.end(), allowed)) return refuse("name: only A-Z a-z 0-9 . _ - are allowed");
    if (name == "." || name == "..") return refuse("name: \".\" and \"..\" are not allowed");
    return {};
}

Result<void> check_publish_options(const PublishOptions& o) noexcept {
    if (o.key.size() > max_key_bytes) return refuse("key: at most 255 bytes");
    if (o.headers.size() > max_headers) return refuse("headers: at most 32");
    std::size_t total = 0;
    for (const Header& header : o.headers) {
        if (header.name.empty() || header.name.size() > 255) return refuse("header name: 1 to 255 bytes");
        // Tools print names as they are; values may hold any bytes.
        if (header.name.find('\0') != std::string_view::npos) return refuse("header name: holds a zero byte");
        // Compared one by one, so that absurd sizes cannot wrap the sum.
        if (header.value.size() > max_headers_bytes) return refuse("headers: at most 4 KiB in all");
        total += header.name.size() + header.value.size();
    }
    if (total > max_headers_bytes) return refuse("headers: at most 4 KiB in all");
    if (o.timeout < Duration::zero()) return refuse("timeout: negative");
    if (o.delay && *o.delay < Duration::zero()) return refuse("delay: negative");
    if (o.confirm == Confirm::none) return refuse("confirm = none: only a staging producer offers it");
    if (o.confirm > Confirm::settled) return refuse("confirm: accepted, durable or settled");

    if (o.confirm == Confirm::durable) return fail(Errc::not_supported, "confirm = durable is not supported yet");
    if (o.confirm == Confirm::settled) return fail(Errc::not_supported, "confirm = settled is not supported yet");
    if (!o.dedup_key.empty()) return fail(Errc::not_supported, "dedup_key is not supported yet");
    if (o.delay) return fail(Errc::not_supported, "delay is not supported yet");
    if (o.expires_at_ns) return fail(Errc::not_supported, "expires_at is not supported yet");
    return {};
}

}  // namespace rondo::format
