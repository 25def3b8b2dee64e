// SPDX-License-Identifier: MIT
// Dead letters: messages that were rejected or failed too often, each with its whole story. Reading never writes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rondo/format.hpp"
#include "rondo/result.hpp"
#include "rondo/types.hpp"

namespace rondo {

enum class DeadReason : std::uint32_t {
    rejected = 1, max_deliveries = 2, retry_timeout = 3, owner_died_limit = 4, lease_expired_limit = 5, corrupt = 6,
    operator_request = 7,
};
enum class DeadState : std::uint32_t { open = 1, redriving = 2, redriven = 3, discarded = 4 };

[[nodiscard]] const char* to_string(DeadReason) noexcept;
[[nodiscard]] const char* to_string(DeadState) noexcept;
[[nodiscard]] const char* to_string(format::Outcome) noexcept;
namespace format {
using rondo::to_string;  // so that it is found by the enumeration's own namespace
}

/// One entry, copied out. Times are wall clock ns, 0 = unknown. Texts were cut to their limits when `texts_cut`.
struct DeadLetter {
    Seq id = 0;  // position in the dead-letter ring
    DeadState state = DeadState::open;
    // Who closed it (redriven, discarded), when and why; empty while it is open, or when nobody knows any more.
    std::string state_by;  // program
    std::uint32_t state_pid = 0;
    std::uint64_t state_ns = 0;
    std::string state_note;  // a discard's reason
    // Identity.
    format::Uuid ring_uuid{};
    Epoch epoch = 0;
    Seq seq = 0;           // of the record that died; after a redrive the copy's
    Seq original_seq = 0;  // where it was published first
    std::uint32_t lane = 0;
    std::string group;
    std::string key;
    std::optional<std::uint64_t> type;
    std::optional<std::array<std::uint8_t, 16>> message_id;
    // The message itself, byte for byte.
    std::vector<std::pair<std::string, std::string>> headers;
    std::vector<std::byte> payload;
    std::uint32_t payload_checksum = 0;  // XXH3, as computed when the entry was made
    bool payload_damaged = false;
    // Times. Exact to the clock's tick (some ms) unless the queue keeps exact timestamps. Of an attempt that ended
    // without an outcome the start is computed from its lease: if that was extended, it is the last extension's.
    std::uint64_t first_accepted_ns = 0;  // before any redrive
    std::uint64_t accepted_ns = 0, first_delivered_ns = 0, last_delivered_ns = 0, dead_ns = 0;
    // Why.
    DeadReason reason = DeadReason::rejected;
    std::string code, error_type, stage, message, detail;
    bool texts_cut = false;
    // Effort and who.
    std::uint32_t delivery_count = 0, release_count = 0, max_deliveries = 0;
    std::vector<format::Attempt> attempts;  // the last 8, oldest first
    std::string consumer, program;
    std::string producer;  // empty if it left the queue so long ago that others have its place
    std::uint32_t consumer_pid = 0;
    // History.
    std::uint32_t redrive_count = 0;
    std::string first_reason;  // of the first death; equals `reason`'s word when redrive_count is 0
    std::uint64_t first_dead_ns = 0;
    std::uint64_t fingerprint = 0;  // same cause, same value
    std::size_t bytes = 0;          // of the message's record
};

namespace detail {
class DeadLettersCore;
}

struct DeadFilter {
    std::string group{};             // empty: any
    std::optional<Seq> id{};
    std::string reason{};            // a DeadReason's word; an unknown one is invalid_argument
    std::string code{}, key{};
    std::optional<DeadState> state{};
    std::optional<std::uint64_t> fingerprint{};
    std::uint64_t max = ~std::uint64_t{0};
};

struct Redriven {
    std::uint64_t count = 0;    // entries moved, or (dry run) that would be
    std::uint64_t bytes = 0;    // their payloads'
    std::uint64_t skipped = 0;  // group is gone, no credit, in another operator's hands, or damaged
};

/// The queue's dead letters. One thread at a time.
class DeadLetters {
public:
    DeadLetters(DeadLetters&&) noexcept;
    DeadLetters& operator=(DeadLetters&&) noexcept;
    ~DeadLetters();

    /// Entries that are kept, oldest first: a snapshot, never a write. Open ones are kept for ever; closed ones stay
    /// readable until dead.ring needs their space. May allocate.
    [[nodiscard]] Result<std::vector<DeadLetter>> list(const DeadFilter& filter = {}) const noexcept;
    [[nodiscard]] Result<DeadLetter> show(Seq id) const noexcept;

    /// Publishes open entries again, each to the group that failed, oldest first; they keep message id, key and
    /// headers and count one redrive more. Stops at the first lack of credit (skipped counts the rest).
    Result<Redriven> redrive(const DeadFilter& filter, bool execute) noexcept;
    /// Closes open entries without redrive; `reason` is required.
    Result<Redriven> discard(const DeadFilter& filter, std::string_view reason, bool execute) noexcept;

private:
    friend class Queue;
    struct Closer {
        void operator()(detail::DeadLettersCore*) const noexcept;
    };
    explicit DeadLetters(detail::DeadLettersCore* core) noexcept : core_(core) {}
    std::unique_ptr<detail::DeadLettersCore, Closer> core_;
};

}  // namespace rondo
