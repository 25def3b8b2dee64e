// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A queue for a benchmark, and messages whose content is checked: a benchmark that moved wrong bytes is void.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "rondo/rondo.hpp"

namespace rondo::bench {

/// A directory of its own in /dev/shm, removed with its contents.
class TmpDir {
public:
    TmpDir() : path_("/dev/shm/rondo-bench-" + std::to_string(std::random_device{}())) {}
    TmpDir(const TmpDir&) = delete;
    TmpDir& operator=(const TmpDir&) = delete;
    ~TmpDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// One message: its number, then bytes that follow from it.
inline void fill(std::span<std::byte> out, std::uint64_t number) {
    std::memset(out.data(), static_cast<int>(number & 0xff), out.size());
    std::memcpy(out.data(), &number, std::min(out.size(), sizeof number));
}
inline bool check(std::span<const std::byte> bytes, std::size_t size, std::uint64_t number) {
    std::uint64_t head = 0;
    if (bytes.size() != size) return false;
    std::memcpy(&head, bytes.data(), std::min(size, sizeof head));
    return head == number && (size <= 8 || bytes[size - 1] == static_cast<std::byte>(number & 0xff));
}

struct Bed {
    explicit Bed(const QueueOptions& options = {}, GroupMode mode = GroupMode::exclusive)
        : queue(std::move(*Queue::create(dir.path(), options))),
          consumer(std::move(*queue.consumer(
              "bench",
              {.mode = mode, .start = Start::earliest(), .max_deliveries = -1, .backoff_initial = Duration::zero()}))),
          producer(std::move(*queue.producer())) {}

    /// Publishes messages first .. first + n - 1. False if one was refused.
    bool publish(std::span<std::byte> buffer, std::uint64_t first, std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            fill(buffer, first + i);
            if (!producer.try_publish(buffer)) return false;
        }
        return true;
    }
    /// Receives and acks messages first .. first + n - 1. False if one is missing or wrong.
    bool drain(std::size_t size, std::uint64_t first, std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            auto m = consumer.try_receive();
            if (!m || !check(m->payload(), size, first + i) || !m->ack()) return false;
        }
        return true;
    }

    TmpDir dir;
    Queue queue;
    Consumer consumer;
    Producer producer;
};

/// Messages a round: a sixteenth of the ring's bytes, at most 1024.
inline std::uint64_t round_of(std::size_t size) {
    const std::uint64_t fit = (std::uint64_t{4} << 20) / (size + 64);
    return fit < 1024 ? fit : 1024;
}

/// What a benchmark with manual time reports for each operation of a round.
inline void per_operation(benchmark::State& state, std::uint64_t operations, std::size_t bytes = 0) {
    state.counters["op"] = benchmark::Counter(
        static_cast<double>(operations), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
    if (bytes != 0) state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * operations * bytes));
}

}  // namespace rondo::bench
