// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A queue with one exclusive group, for tests of its order, its failures and its owners.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

namespace rondo::test {

/// A queue and one exclusive group, without backoff unless the test says otherwise.
struct Fixture {
    TmpDir dir;
    Queue queue;
    Queue other;  // another participant
    Producer producer;

    explicit Fixture(GroupOptions group = options(), QueueOptions q = {})
        : queue(make(dir, q)), other(Queue::open(dir.str() + "/q").value()), producer(queue.producer().value()) {
        group.mode = GroupMode::exclusive;
        REQUIRE(queue.create_group("group", group));
    }
    static Queue make(const TmpDir& dir, QueueOptions q) {
        q.capacity_bytes = small;
        return Queue::create(dir.str() + "/q", q).value();
    }
    static GroupOptions options() {
        GroupOptions o{.start = Start::earliest()};
        o.backoff_initial = 0ns;
        return o;
    }
    Consumer consumer(std::string_view name = "consumer") {
        return queue.consumer("group", ConsumerOptions{name}).value();
    }
    Seq publish(std::string_view payload = "x") { return producer.publish(bytes(payload)).value().seq; }
    void publish_numbers(int n) {
        for (int i = 0; i < n; ++i) publish(std::to_string(i));
    }
    GroupStats stats() const { return queue.stats().groups.at(0); }
    std::vector<DeadLetter> dead() { return queue.dead_letters().value().list().value(); }
};

/// The next n messages, which are all there.
inline std::vector<Message> take(Consumer& c, int n) {
    std::vector<Message> out;
    for (int i = 0; i < n; ++i) out.push_back(c.try_receive().value());
    return out;
}

}  // namespace rondo::test
