// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A queue whose groups come and go, for tests of what they keep, where they begin and how they end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

namespace rondo::test {

inline std::string numbered(std::string_view stem, int i) {
    std::string out(stem);
    out += std::to_string(i);
    return out;
}

/// A queue without a group, and its one producer.
struct Fixture {
    TmpDir dir;
    Queue queue;
    Producer producer;

    explicit Fixture(QueueOptions o = {}) : queue(make(dir, o)), producer(queue.producer().value()) {}
    static Queue make(const TmpDir& dir, QueueOptions o) {
        o.capacity_bytes = small;
        return Queue::create(dir.str() + "/q", o).value();
    }
    Seq publish(std::string_view payload) { return producer.publish(bytes(payload)).value().seq; }
    /// As many messages of one slot as the ring takes.
    std::uint64_t fill() {
        std::uint64_t n = 0;
        while (producer.try_publish(bytes("one slot"))) ++n;
        return n;
    }
    /// How many files the queue has.
    std::size_t files() const {
        std::size_t n = 0;
        for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator(dir.str() + "/q")) ++n;
        return n;
    }
    const GroupStats* group(const Stats& s, std::string_view name) const {
        for (const auto& g : s.groups)
            if (g.name == name) return &g;
        return nullptr;
    }
};

inline GroupOptions earliest(GroupMode mode = GroupMode::shared) { return {.mode = mode, .start = Start::earliest()}; }

/// Acks everything there is. Returns the payloads.
inline std::vector<std::string> drain(Consumer& c) {
    std::vector<std::string> out;
    while (auto m = c.try_receive()) {
        out.push_back(text(m->payload()));
        (void)m->ack();
    }
    return out;
}

}  // namespace rondo::test
