// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Messages that prove themselves, and the books on them: who sent which, how many arrived, how often, in which order.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "base/mix.hpp"
#include "ring/view.hpp"
#include "support/seed.hpp"

namespace rondo::test {

/// n, or fewer under the race detector, which is much slower.
constexpr std::uint64_t scaled(std::uint64_t n) {
#ifdef RONDO_RACE_DETECTOR
    return n / 4;
#else
    return n;
#endif
}

struct MessageId {
    std::uint32_t producer;
    std::uint32_t bytes;
    std::uint64_t sequence;
};
inline constexpr std::size_t min_message_bytes = 24;

inline std::uint64_t sum_of(std::span<const std::byte> bytes) {
    std::uint64_t sum = bytes.size();
    std::size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, 8);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15U + (sum >> 29);
    }
    for (; at < bytes.size(); ++at) sum = (sum ^ static_cast<std::uint64_t>(bytes[at])) * 0x9e3779b97f4a7c15U;
    return sum;
}

/// Writes a message: {id, checksum of the rest, content that follows from the id}. At least min_message_bytes.
inline void write_message_into(std::span<std::byte> out, std::uint32_t producer, std::uint64_t sequence) {
    const MessageId id{producer, static_cast<std::uint32_t>(out.size()), sequence};
    std::memcpy(out.data(), &id, sizeof id);
    std::uint64_t word = base::mix64(sequence << 8 | producer);
    std::size_t at = min_message_bytes;
    for (; at + 8 <= out.size(); at += 8, word += 0x9e3779b97f4a7c15U) std::memcpy(out.data() + at, &word, 8);
    for (; at < out.size(); ++at) out[at] = static_cast<std::byte>(word >> (at % 8 * 8));
    const std::uint64_t sum = base::mix64(sequence ^ producer) ^ sum_of(out.subspan(min_message_bytes));
    std::memcpy(out.data() + sizeof id, &sum, sizeof sum);
}

/// Which message is this? Nothing if a byte of it is wrong.
inline std::optional<MessageId> read_message(std::span<const std::byte> bytes) {
    if (bytes.size() < min_message_bytes) return std::nullopt;
    MessageId id{};
    std::uint64_t sum = 0;
    std::memcpy(&id, bytes.data(), sizeof id);
    std::memcpy(&sum, bytes.data() + sizeof id, sizeof sum);
    if (id.bytes != bytes.size()) return std::nullopt;
    if (sum != (base::mix64(id.sequence ^ id.producer) ^ sum_of(bytes.subspan(min_message_bytes)))) return std::nullopt;
    return id;
}

/// Mostly small messages, sometimes a large one.
inline std::size_t random_size(Rng& random, std::size_t largest) {
    if (random.one_in(64)) return min_message_bytes + random.below(largest - min_message_bytes + 1);
    return min_message_bytes + random.below(std::min<std::size_t>(200, largest - min_message_bytes) + 1);
}

/// What arrived, for several threads or (in memory that was mapped before the fork) processes.
class Books {
public:
    Books(std::uint32_t producers, std::uint64_t each)
        : producers_(producers), each_(each), bytes_(sizeof(Totals) + producers * each) {
        void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        totals_ = new (memory) Totals();
        seen_ = reinterpret_cast<std::atomic<std::uint8_t>*>(totals_ + 1);
    }
    Books(const Books&) = delete;
    Books& operator=(const Books&) = delete;
    ~Books() { munmap(static_cast<void*>(totals_), bytes_); }

    /// One reader's memory of the order.
    struct Reader {
        std::vector<std::uint64_t> next;
        explicit Reader(std::uint32_t producers) : next(producers, 0) {}
    };
    Reader reader() const { return Reader(producers_); }

    /// A message that was received. `ordered`: this reader has never seen a later one of the same producer.
    void arrived(Reader& reader, std::span<const std::byte> bytes, bool ordered = true) {
        const auto id = read_message(bytes);
        if (!id || id->producer >= producers_ || id->sequence >= each_) {
            totals_->corrupt.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        auto& next = reader.next[id->producer];
        if (ordered && id->sequence < next) totals_->disordered.fetch_add(1, std::memory_order_relaxed);
        next = std::max(next, id->sequence + 1);
        seen_[id->producer * each_ + id->sequence].fetch_add(1, std::memory_order_relaxed);
        totals_->arrived.fetch_add(1, std::memory_order_relaxed);
    }
    /// Cheaper, for one reader that must see everything: only the order is kept.
    void arrived_next(Reader& reader, std::span<const std::byte> bytes) {
        const auto id = read_message(bytes);
        if (!id || id->producer >= producers_) {
            totals_->corrupt.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        auto& next = reader.next[id->producer];
        if (id->sequence != next) totals_->disordered.fetch_add(1, std::memory_order_relaxed);
        next = id->sequence + 1;
    }

    std::uint64_t arrived_count() const { return totals_->arrived.load(std::memory_order_relaxed); }
    std::uint64_t expected() const { return producers_ * each_; }
    bool complete() const { return arrived_count() >= expected(); }
    /// Nothing more to wait for: complete, or wrong already.
    bool over() const { return complete() || corrupt() != 0 || disordered() != 0; }
    std::uint64_t corrupt() const { return totals_->corrupt.load(std::memory_order_relaxed); }
    std::uint64_t disordered() const { return totals_->disordered.load(std::memory_order_relaxed); }
    std::uint64_t lost() const {
        return count([](std::uint8_t n) { return n == 0; });
    }
    std::uint64_t repeated() const {
        return count([](std::uint8_t n) { return n > 1; });
    }

private:
    struct Totals {
        std::atomic<std::uint64_t> arrived{0}, corrupt{0}, disordered{0}, reserved{0};
    };
    template <class Is>
    std::uint64_t count(Is&& is) const {
        std::uint64_t n = 0;
        for (std::uint64_t i = 0; i < producers_ * each_; ++i)
            n += is(seen_[i].load(std::memory_order_relaxed)) ? 1 : 0;
        return n;
    }

    std::uint32_t producers_;
    std::uint64_t each_;
    std::size_t bytes_;
    Totals* totals_;
    std::atomic<std::uint8_t>* seen_;
};

}  // namespace rondo::test
