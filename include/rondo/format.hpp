// SPDX-License-Identifier: MIT
// The bytes of a ring file: every structure, width and offset that two processes must agree on.
// Mirrored by docs/format.md; a test compares both. All integers are little endian.
//
// A ring file is   superblock | hot words | queue block | participants | handles | groups | claim words | slots
// (format/layout.hpp computes the offsets). Words that change while the ring lives are std::atomic and say who
// writes them; everything else is written before the file gets its name and never again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rondo::format {

inline constexpr std::array<char, 8> magic = {'R', 'O', 'N', 'D', 'O', '\r', '\n', '\x1a'};
inline constexpr std::uint32_t version = 1;
inline constexpr std::uint32_t byte_order_mark = 0x01020304;

inline constexpr std::size_t slot_bytes = 64;
inline constexpr std::size_t header_bytes = 32;
inline constexpr std::size_t hot_spacing = 128;  // two lines: the adjacent-line prefetcher pairs them
inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::uint64_t min_slots = 4096;  // of a created ring; the ring classes take 64 and more
inline constexpr std::uint64_t max_slots = std::uint64_t{1} << 34;
inline constexpr std::uint32_t max_participants = 1024;  // id 0 is nobody
inline constexpr std::uint32_t max_handles = 2048;
inline constexpr std::uint32_t max_groups = 64;
inline constexpr std::size_t name_bytes = 64;  // 63 characters and a zero
inline constexpr std::uint64_t nowhere = ~std::uint64_t{0};  // "no position"

using Word = std::atomic<std::uint64_t>;
using Half = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8 && Half::is_always_lock_free && sizeof(Half) == 4);

using Uuid = std::array<std::uint8_t, 16>;
using Name = std::array<char, name_bytes>;

enum class RingKind : std::uint32_t { main = 1, retry = 2, dead = 3 };
enum class Producers : std::uint32_t { one = 1, many = 2 };
enum class Checksum : std::uint32_t { none = 0, xxh3 = 1 };
enum class Timestamps : std::uint32_t { off = 0, coarse = 1, exact = 2 };
enum class Durability : std::uint32_t { none = 0, durable = 1 };

/// Written once, before the file is linked to its name. Reserved bytes are zero.
struct Superblock {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t byte_order;
    std::uint64_t features_required;  // a bit that the reader does not know: refuse
    std::uint64_t features_optional;  // a bit that the reader does not know: ignore
    Uuid queue_uuid;                  // the same in all files of a queue
    Uuid ring_uuid;
    Uuid boot_id;
    std::uint64_t salt;  // of stamps and checksums
    RingKind kind;
    std::uint32_t lane;
    Producers producers;
    Checksum checksum;
    Timestamps timestamps;
    Durability durability;
    std::uint64_t slot_count;  // a power of two
    std::uint32_t slot_bytes;
    std::uint32_t participant_count;  // 0 in retry.ring and dead.ring: the main ring's are used
    std::uint32_t handle_count;
    std::uint32_t group_count;
    std::uint64_t max_record_bytes;  // header, extensions, payload
    std::uint64_t file_bytes;
    std::uint64_t hot_offset, queue_offset, participants_offset, handles_offset, groups_offset, claims_offset,
        slots_offset;
    std::uint64_t retry_slot_count, dead_slot_count;  // of the queue's other rings
    std::uint64_t time_base_ns;                       // wall clock; `accepted` counts 4 ms units from here
    std::uint64_t created_ns;                         // wall clock
    std::uint64_t device, inode;                      // of this very file: a copy is told by them
    std::uint64_t time_namespace;                     // inode: monotonic deadlines mean nothing in another one
    std::uint32_t mode;                               // permission bits
    std::uint32_t gid;                                // ~0: the creator's
    // Reserved for the image and checkpoints of durable queues.
    Uuid image_uuid;
    std::uint64_t image_reserved[8];
    std::uint32_t reserved0;
    std::uint32_t superblock_checksum;  // low 32 bits of XXH3-64 over all bytes before this field
};
static_assert(sizeof(Superblock) == 360 && offsetof(Superblock, superblock_checksum) == 356);
static_assert(offsetof(Superblock, salt) == 80 && offsetof(Superblock, slot_count) == 112);
static_assert(std::is_trivially_copyable_v<Superblock>);

enum class RingState : std::uint32_t { open = 1, closed = 2 };

template <class T>
struct alignas(hot_spacing) Hot : T {};

/// The words that everybody polls. Each has 128 bytes of its own.
struct HotWords {
    Hot<Word> tail;        // producers. Hint (many producers) or truth (one): the end of all claims
    Hot<Word> limit;       // whoever is short of credit, and joins. position << 12 | join generation
    Hot<Half> data_event;  // eventcounts: bit 0 = somebody sleeps, the rest a sequence
    Hot<Half> space_event;
    Hot<Half> durable_event;    // reserved
    Hot<Word> keep_from;        // admin. Floor while no durable group exists, otherwise `nowhere`
    Hot<Word> last_scan;        // monotonic ns of the last housekeeping; whoever does it
    Hot<Half> state;            // RingState; destroy and close
    Hot<Half> epoch;            // recovery
    Hot<Word> durable;          // reserved: persister
    Hot<Word> checkpoint_head;  // reserved: persister
    Hot<Word> producer_owner;   // producers = one: handle + 1 of the producer; itself, or its scavenger
    Hot<Word> participants_high;  // one more than the highest participant id ever used; grows
    Hot<Word> handles_high;       // same for handles
    Hot<Half> fence_needed;       // != 0: some participant could not register for membarrier
    Hot<Word> void_total;         // claims that ended without a message: aborts and dead owners
    Hot<Word> corrupt_total;      // positions skipped because their bytes made no sense
};
static_assert(sizeof(HotWords) == 17 * hot_spacing && offsetof(HotWords, limit) == hot_spacing);

/// Settings that may change while the queue lives (`ring-ctl set`, under the admin lock).
enum class Overflow : std::uint32_t { block = 1, fail = 2, drop_newest = 3, drop_oldest = 4 };
struct QueueBlock {
    Half overflow;
    Half reserved[1023];
};
static_assert(sizeof(QueueBlock) == page_bytes);

/// A process that opened the queue once. Alive means: byte `id` of the main ring file is locked.
enum class ParticipantState : std::uint32_t { free = 0, attached = 1 };
struct alignas(128) Participant {
    Half state;        // its owner; whoever got its lock after its death
    Half incarnation;  // the owner, on attach
    Half pid;          // for people only, never for liveness
    Half uid;
    Word pid_namespace;  // inode: in which namespace `pid` means something
    Word start_ticks;    // process start time, for people only
    Word attached_ns;    // wall clock
    std::array<std::atomic<char>, 48> program;  // executable's name, zero padded
    Word reserved[5];
};
static_assert(sizeof(Participant) == 128);

/// A Producer or a Consumer of a participant: what it holds, what it did. Counters are written by the owner alone.
enum class HandleKind : std::uint32_t { free = 0, producer = 1, consumer = 2, claiming = 3 };
enum class Waiting : std::uint32_t { no = 0, for_credit = 1, for_message = 2, standby = 3 };
struct alignas(128) Handle {
    Word owner;        // participant << 32 | HandleKind; CAS from 0, back to 0 by the owner or its scavenger
    Half group;        // consumers: index of the group
    Half group_life;   // consumers: its life
    Word borrow;       // consumers: lowest position whose bytes it may still read, or `nowhere`
    Half waiting;      // Waiting
    Half serial;       // whoever takes the handle: one more each time
    Word waiting_since_ns;  // monotonic; of a free handle: since when it is
    std::array<std::atomic<char>, name_bytes> name;
    Word reserved1[3];
    // The second pair of lines: telemetry, so that no reader of the first disturbs anyone.
    Word published;       // producers: messages; consumers: hand-overs
    Word acked;           // consumers; producers: refused publishes
    Word nacked;
    Word rejected;
    Word released;
    Word stale;           // outcomes that came too late
    Word lapsed;          // leases of this consumer that lapsed
    Word in_flight;
    Word last_seq;        // producers: last published; consumers: last handed over
    Word last_outcome_ns; // wall clock
    Word handler_ns;      // sum of hand-over to outcome, sampled
    Word handler_samples;
    Word blocked_ns;      // total time spent waiting for credit
    Word reserved2[3];
};
static_assert(sizeof(Handle) == 256 && offsetof(Handle, published) == 128);

enum class GroupState : std::uint32_t { free = 0, creating = 1, active = 2, deleting = 3 };
enum class GroupMode : std::uint32_t { exclusive = 1, shared = 2 };
enum class GroupKind : std::uint32_t { durable = 1, lossy = 2 };
enum class StartKind : std::uint32_t { earliest = 1, latest = 2, seq = 3, time = 4 };
enum class Jitter : std::uint32_t { none = 0, equal = 1, full = 2 };

/// One failed attempt at a message.
enum class Outcome : std::uint32_t {
    none = 0, acked, nacked, rejected, released, lease_expired, owner_died, dead_lettered, redriven, discarded, skipped
};
struct Attempt {
    std::uint32_t number;
    Outcome outcome;
    std::uint32_t pid;
    std::uint32_t reserved0;
    std::uint64_t started_ns, ended_ns;  // wall clock
    std::uint64_t delay_ns;              // backoff chosen after it
    std::array<char, 40> consumer;
    std::array<char, 40> error_code;
};
static_assert(sizeof(Attempt) == 120);

inline constexpr std::size_t attempts_kept = 8;

/// What is known of a message that failed and is not settled yet. Written only by the one who owns the message's
/// entry (state failing or moving) or, in an exclusive group, by the group's owner.
struct Note {
    Word position;  // position << 1 | 1, or 0; shared groups find a note by it. Top bit: being emptied
    std::uint32_t attempt_count, release_count;
    std::uint64_t first_delivered_ns, last_delivered_ns;  // wall clock
    std::uint32_t code_size, type_size, stage_size, message_size;
    std::uint32_t flags;  // note_message_cut ...
    std::uint32_t reason;  // DeadReason once the message is to be dead-lettered, otherwise 0
    std::uint64_t first_mono_ns;  // monotonic: first_delivered_ns, for its age, which no wall clock may change
    std::array<Attempt, attempts_kept> attempts;  // ring: attempt n at (n - 1) % 8
    std::array<char, 64> code;
    std::array<char, 128> type;
    std::array<char, 32> stage;
    std::array<char, 792> message;
};
static_assert(sizeof(Note) == 2040 && offsetof(Note, attempts) == 64);
inline constexpr std::uint32_t note_message_cut = 1;
inline constexpr std::uint32_t note_detail_lost = 2;

/// A group's definition and marks. Definition: admin, before state becomes active. Marks: as said.
struct alignas(128) Group {
    Half state;  // GroupState; admin
    Half life;   // admin; tells the group from the one that had this block before
    Half mode, kind, start_kind, jitter;
    Word start_value;
    Word lease_timeout_ns, max_lease_total_ns;
    Half max_deliveries;  // 0 = no limit
    Half backoff_multiplier_milli;
    Word backoff_initial_ns, backoff_max_ns, retry_max_age_ns;
    Word max_in_flight_consumer, max_in_flight_group, max_dead_pending;
    Word created_ns;
    std::array<std::atomic<char>, name_bytes> name;
    Word first;    // admin. Where the group began
    Word returns;  // shared: whoever gives a message back; grows. Tells the members to look
    std::array<Word, 6> returned;  // same: n-th return at n % 6: position << 11 | n % 2048
    // Marks.
    Hot<Word> cursor;  // exclusive: owner; shared (low water): anyone. First position not settled, or `nowhere`
    Hot<Word> hint;    // shared: anyone. First position never leased
    Hot<Word> owner;   // exclusive: participant << 32 | handle + 1, or 0
    Hot<Word> handed;  // exclusive: owner. End of what was handed over
    Word retry;        // exclusive: owner. position << 11 | attempts << 1 | 1 of the first unsettled message, or 0
    Word not_before;   // exclusive: owner. Monotonic ns; its retry is not due earlier
    Word move;         // exclusive: owner. position of the message being dead-lettered << 1 | 1, or 0
    Word move_tail;    // exclusive: owner. dead.ring's tail noted before the copy
    Word dead_pending; // exclusive: owner. position << 1 | 1 of the message that dead.ring has no room for
    Word handed_ns;    // exclusive: owner. Wall clock; when the first unsettled message was handed over last
    // Totals of handles that are gone (whoever frees the handle), and events that belong to no handle.
    Hot<Word> delivered;
    Word acked, nacked, rejected, released, stale, lapsed, owner_died, dead_lettered, redelivered, skipped;
    Word reserved1[5];
    Note note;  // exclusive: owner. The first unsettled message's
    std::array<std::byte, 904> reserved2;
};
static_assert(sizeof(Group) == page_bytes && std::is_standard_layout_v<Group>);

/// Claim word: lap + 1 : 40 | owner : 10 | slots : 14 (coded, see SlotCount). Out of line, one per slot.
/// Record: header, extensions (a multiple of 16 bytes), payload; in 1..k whole slots.
enum class RecordType : std::uint8_t { message = 1, pad = 2, void_claim = 3 };
inline constexpr std::uint8_t flag_extensions = 1;
inline constexpr std::uint8_t flag_batch_more = 2;  // another record of the same batch follows
struct RecordHeader {
    Word stamp;  // mix64(position ^ salt): the record is here and complete. Last store of the producer
    Word head;   // len:32 | k:16 | type:8 | flags:8
    std::uint32_t checksum;
    std::uint32_t durable_lag;  // reserved: position - durable at commit
    std::uint32_t accepted;     // 4 ms units since time_base, modulo 2^32; 0 when timestamps are off
    std::uint16_t producer;     // handle index : 11 | its serial : 5, for people
    std::uint16_t epoch;
};
static_assert(sizeof(RecordHeader) == header_bytes && offsetof(RecordHeader, head) == 8 &&
              offsetof(RecordHeader, checksum) == 16 && offsetof(RecordHeader, producer) == 28);

/// Extension block, after the header when flag_extensions is set: {bytes:32 (all, a multiple of 16), count:32},
/// then fields {tag:16, size:16, value, zeros to a multiple of 4}.
enum class Tag : std::uint16_t {
    key = 1, message_type = 2, message_id = 3, accepted_ns = 4, dedup_key = 5, expires_at = 6, deliver_at = 7,
    only_group = 8, lane = 9, header = 10, created_ns = 11, redrive_count = 12, origin = 13, delivery_count = 14,
    first_reason = 15, first_dead_ns = 16, original_seq = 17, first_accepted_ns = 18,
};

/// Lease table of a shared group: lease-<group>-<life>.tab = page {LeaseHeader} | notes | entries.
struct LeaseHeader {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t group;
    std::uint32_t life;
    std::uint32_t note_count;
    std::uint64_t slot_count;
    Uuid queue_uuid;
    Uuid ring_uuid;
    std::uint64_t file_bytes;
};
static_assert(sizeof(LeaseHeader) == 72);
inline constexpr std::array<char, 8> lease_magic = {'R', 'O', 'N', 'D', 'O', 'L', 'T', '\n'};

/// A = lap + 1 : 40 | state : 4 | owner : 10 | attempts : 10 (of a settled entry: the Outcome).
/// B = leased, handed, failing: deadline; backoff: not before; moving: dead.ring's tail. With the owner:10 and
/// attempts:10 it belongs to in the low bits (deadlines in 100 us of the monotonic clock; B is a tag-checked hint).
struct Entry {
    Word a;
    Word b;
};
static_assert(sizeof(Entry) == 16);
enum class EntryState : std::uint8_t {
    ready = 0, leased = 1, handed = 2, failing = 3, backoff = 4, moving = 5, dead_pending = 6, settled = 7
};

}  // namespace rondo::format
