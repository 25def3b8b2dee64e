// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A queue with one shared group, for tests of its leases, outcomes, batches and limits.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

namespace rondo::test {

/// A queue and one shared group. Short lease, no backoff, unless the test says otherwise.
struct Fixture {
    TmpDir dir;
    Queue queue;
    Queue other;  // another participant
    Producer producer;

    explicit Fixture(GroupOptions group = brief())
        : queue(Queue::create(dir.str() + "/q", {.capacity_bytes = small}).value()),
          other(Queue::open(dir.str() + "/q").value()),
          producer(queue.producer().value()) {
        group.mode = GroupMode::shared;
        REQUIRE(queue.create_group("group", group));
    }
    static GroupOptions brief() {
        GroupOptions o{.start = Start::earliest()};
        o.lease_timeout = 10ms;
        o.backoff_initial = 0ns;
        return o;
    }
    static GroupOptions patient() {
        GroupOptions o{.start = Start::earliest()};
        o.backoff_initial = 0ns;
        return o;
    }
    Consumer consumer(std::string_view name = "consumer") {
        return queue.consumer("group", ConsumerOptions{name}).value();
    }
    Seq publish(std::string_view payload = "x") { return producer.publish(bytes(payload)).value().seq; }
    GroupStats stats() const { return queue.stats().groups.at(0); }
    std::vector<DeadLetter> dead() { return queue.dead_letters().value().list().value(); }
    std::string file(const char* name) const {
        std::ifstream in(dir.str() + "/q/" + name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    /// Everything that says who holds what and what has died.
    std::string books() const { return file("lease-0-1.tab") + file("dead.ring") + file("lease-dead.tab"); }
};

}  // namespace rondo::test
