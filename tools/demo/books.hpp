// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The books: what each process of the demo did, written down by itself in memory that the processes share and that
// the library knows nothing of. At the end they must balance, whatever the queue says about itself.
//
// A worker writes its result before it acknowledges, by the record's number: a record that comes twice is counted
// once in the totals, and once more as a duplicate. Every word is atomic: a process may be killed between any two.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/demo/packages.hpp"

namespace rondo::demo {

using Count = std::atomic<std::uint64_t>;

/// Monotonic, the same in all processes.
[[nodiscard]] std::uint64_t now_ns();

struct RecordBook {
    Count published;  // times the producer's publish returned
    Count seq;        // where it lies
    Count handed;     // times a worker received it
    Count processed;  // times a worker processed it to the end
    Count rejected;   // times a worker found it malformed
    Count audited;    // times the auditor received it
    // Of the last time it was processed.
    Count bytes, fields, installed_kib, depends, resolved;

    void store(const Findings& findings);
    [[nodiscard]] Findings findings() const;
};

/// One consumer, over all its lives.
struct ConsumerBook {
    Count handled;
    Count redelivered;  // of them: not the first hand-over
    Count stale;        // outcomes that came too late
    Count last_ns;
    Count longest_pause_ns;  // between two messages in one life

    void note_message(std::uint32_t delivery_count, bool first_in_life);
};

inline constexpr std::size_t worker_count = 3;

struct Books {
    explicit Books(std::size_t records);
    Books(const Books&) = delete;
    Books& operator=(const Books&) = delete;
    ~Books();

    struct Shared {
        std::atomic<bool> stop{false};  // the workers shall end
        std::atomic<pid_t> victim{0};   // the worker that waits to be killed with a message in hand
        std::atomic<bool> victim_chosen{false};
        Count victim_record, killed_ns;      // what it had in hand, when it was killed
        Count came_again_ns, came_again_to;  // when, and to which worker (from 1), that record came next
        Count started_ns, published_ns, audited_ns, processed_ns;  // first and last moments
        Count blocked;                                             // times the producer found the queue full
        Count out_of_order;                                        // records that reached the auditor out of file order
        Count wrong_bytes;                                         // records that did not arrive as they were sent
        std::array<ConsumerBook, worker_count> workers;
        ConsumerBook auditor;
    };

    Shared& shared;
    std::span<RecordBook> records;

private:
    void* memory_;
    std::size_t bytes_;
};

}  // namespace rondo::demo
