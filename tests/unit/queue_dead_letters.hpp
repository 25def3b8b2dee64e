// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A queue whose messages fail, for tests of dead letters.
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

namespace rondo::test {

/// A queue, its one producer, its dead letters; groups as each test wants them, without backoff.
struct Fixture {
    TmpDir dir;
    Queue queue;
    Producer producer;
    DeadLetters letters;

    explicit Fixture(QueueOptions o = {})
        : queue(make(dir, o)),
          producer(queue.producer({.name = "gateway"}).value()),
          letters(queue.dead_letters().value()) {}
    static Queue make(const TmpDir& dir, QueueOptions o) {
        o.capacity_bytes = small;
        return Queue::create(dir.str() + "/q", o).value();
    }
    static GroupOptions options(GroupMode mode = GroupMode::shared) {
        GroupOptions o{.mode = mode, .start = Start::earliest()};
        o.backoff_initial = 0ns;
        return o;
    }
    Consumer consumer(std::string_view group, const GroupOptions& o = options(), std::string_view name = "consumer") {
        return queue.consumer(group, o, ConsumerOptions{name}).value();
    }
    Seq publish(std::string_view payload = "x", const PublishOptions& o = {}) {
        return producer.publish(bytes(payload), o).value().seq;
    }
    const GroupStats stats(std::string_view name) const {
        for (auto& g : queue.stats().groups)
            if (g.name == name) return g;
        return {};
    }
    std::vector<DeadLetter> list(const DeadFilter& filter = {}) const { return letters.list(filter).value(); }
    std::string files() const {
        std::string all;
        for (const char* name : {"lane-00.ring", "dead.ring", "retry.ring", "lease-dead.tab", "lease-0-1.tab"}) {
            std::ifstream in(dir.str() + "/q/" + name, std::ios::binary);
            all.append(std::istreambuf_iterator<char>(in), {});
        }
        return all;
    }
};

/// A text of just this length.
inline std::string limited(std::size_t n, char c = 'x') { return std::string(n, c); }

}  // namespace rondo::test
