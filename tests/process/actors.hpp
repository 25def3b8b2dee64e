// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What the process tests share: small queues, checked payloads, the files of a queue, counts that a full run raises.
// A payload carries its producer, its sequence number and a checksum over both and its filling, so that loss,
// repetition, disorder and damage are told apart by whoever receives it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rondo/rondo.hpp"
#include "support/eventually.hpp"

namespace rondo::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// The value, or an exception that says what failed: in a test case a failure, in a Child its end.
template <class T>
T must(Result<T> result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (!result) {
        throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " +
                                 to_string(result.error().code) + ": " + result.error().what +
                                 (result.error().sys_errno != 0
                                      ? std::string(" (") + std::strerror(result.error().sys_errno) + ")"
                                      : std::string()));
    }
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// The error's word, or "ok".
template <class T>
std::string word_of(const Result<T>& result) {
    return result ? "ok" : to_string(result.error().code);
}

inline constexpr std::uint64_t smallest_capacity = 256 << 10;

inline QueueOptions small_queue(Producers producers = Producers::many) {
    QueueOptions o;
    o.capacity_bytes = smallest_capacity;
    o.producers = producers;
    o.checksum = Checksum::xxh3;
    return o;
}

inline GroupOptions group_of(GroupMode mode, Start start = Start::earliest()) {
    GroupOptions o{{}, start, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
    o.mode = mode;
    return o;
}

/// A count of this size in a full run, and a smaller one where time is short: RONDO_FULL=1 chooses.
inline bool full_run() {
    const char* text = std::getenv("RONDO_FULL");
    return text != nullptr && std::string_view(text) == "1";
}
inline std::uint64_t count_of(std::uint64_t quick, std::uint64_t full) { return full_run() ? full : quick; }

inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

inline std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}
inline std::uint64_t now_ms() { return now_ns() / 1'000'000; }

// ---- payloads ------------------------------------------------------------------------------------------------

struct Item {
    std::uint64_t producer = 0;
    std::uint64_t sequence = 0;
};

namespace payload {

struct Head {
    std::uint64_t producer, sequence, sum;
};

constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
}

constexpr std::uint64_t sum_of(std::uint64_t producer, std::uint64_t sequence, std::size_t bytes) {
    return mix(mix(producer + 0x9E3779B97F4A7C15U) ^ mix(sequence + bytes));
}

}  // namespace payload

inline constexpr std::size_t item_bytes = sizeof(payload::Head);

/// Fills all of `to` (at least item_bytes).
inline void write_item(std::span<std::byte> to, const Item& item) {
    const payload::Head head{item.producer, item.sequence, payload::sum_of(item.producer, item.sequence, to.size())};
    std::memcpy(to.data(), &head, sizeof head);
    const auto filling = static_cast<std::byte>(head.sum);
    std::fill(to.begin() + sizeof head, to.end(), filling);
}

/// Nothing when a single byte is wrong.
inline std::optional<Item> read_item(Bytes from) {
    payload::Head head{};
    if (from.size() < sizeof head) return std::nullopt;
    std::memcpy(&head, from.data(), sizeof head);
    if (head.sum != payload::sum_of(head.producer, head.sequence, from.size())) return std::nullopt;
    for (const std::byte b : from.subspan(sizeof head))
        if (b != static_cast<std::byte>(head.sum)) return std::nullopt;
    return Item{head.producer, head.sequence};
}

inline Result<Published> publish_item(Producer& producer, const Item& item, std::size_t bytes = item_bytes,
                                      const PublishOptions& options = {}) {
    std::vector<std::byte> buffer(std::max(bytes, item_bytes));
    write_item(buffer, item);
    return producer.publish(buffer, options);
}

/// Receives one message, fails loudly when none comes or its bytes are wrong.
inline Item item_of(const Message& message, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const auto item = read_item(message.payload());
    if (!item)
        throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": damaged payload at " +
                                 std::to_string(message.seq()));
    return *item;
}

// ---- files ---------------------------------------------------------------------------------------------------

inline std::vector<std::string> files_of(const std::filesystem::path& directory) {
    std::vector<std::string> names;
    if (!std::filesystem::exists(directory)) return names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

inline std::string joined(const std::vector<std::string>& words) {
    std::string out;
    for (const auto& w : words) out += (out.empty() ? "" : " ") + w;
    return out;
}

/// Files of a queue without groups. Each shared group adds one lease table.
inline const std::vector<std::string>& bare_files() {
    static const std::vector<std::string> names = {"dead.ring", "lane-00.ring", "lease-dead.tab", "retry.ring"};
    return names;
}

/// Blocks of all files of the directory together.
inline std::uint64_t bytes_of(const std::filesystem::path& directory) {
    std::uint64_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) sum += entry.file_size();
    return sum;
}

inline GroupStats group_stats(const Queue& queue, std::string_view name) {
    const auto stats = queue.stats();
    for (const auto& g : stats.groups)
        if (g.name == name) return g;
    throw std::runtime_error("no group " + std::string(name));
}

// ---- flags between processes ---------------------------------------------------------------------------------

using Flag = std::atomic<std::uint32_t>;
using Count = std::atomic<std::uint64_t>;
static_assert(Flag::is_always_lock_free && Count::is_always_lock_free);

inline void raise_to(Count& high, std::uint64_t value) {
    std::uint64_t seen = high.load();
    while (seen < value && !high.compare_exchange_weak(seen, value)) {
    }
}

/// Never returns: for a child that is to be killed.
[[noreturn]] inline int wait_for_the_end() {
    for (;;) ::pause();
}

/// The bound within which the work of the dead is taken over, and the watchdog of tests of it: ten times the bound.
inline constexpr auto repair_bound = std::chrono::seconds(1);
inline constexpr auto repair_watchdog = 10 * repair_bound;

}  // namespace rondo::test
