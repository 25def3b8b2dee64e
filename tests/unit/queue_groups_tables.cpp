// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The lease table of a deleted group: its memory comes back from everybody who had looked at it.
#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "support/eventually.hpp"
#include "unit/queue_groups.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

/// Lease tables that this process still has mapped though their files are gone.
int deleted_tables() {
    std::ifstream maps("/proc/self/maps");
    int n = 0;
    for (std::string line; std::getline(maps, line);)
        if (line.find("/lease-") != std::string::npos && line.find("(deleted)") != std::string::npos) ++n;
    return n;
}

}  // namespace

TEST_CASE("groups that come and go leave no table with those who consumed, deleted or looked on") {
    Fixture f;
    auto observer = Queue::open(f.dir.str() + "/q").value();
    for (int i = 0; i < 20; ++i) {
        {
            auto c = f.queue.consumer(numbered("g", i), earliest()).value();
            f.publish("x");
            CHECK(drain(c).size() == static_cast<std::size_t>(i) + 1);  // without a group all is kept
            CHECK(observer.stats().groups.size() == 1);
        }
        REQUIRE(f.queue.delete_group(numbered("g", i)));
        CHECK(observer.stats().groups.empty());
        CHECK(deleted_tables() == 0);
    }
}

TEST_CASE("whoever only waits lets go of a deleted group's table as well") {
    Fixture f;
    auto observer = Queue::open(f.dir.str() + "/q").value();
    auto waiting = observer.consumer("other", earliest(GroupMode::exclusive)).value();
    REQUIRE(f.queue.create_group("g", earliest()));
    CHECK(observer.stats().groups.size() == 2);
    REQUIRE(f.queue.delete_group("g"));
    eventually([&] {
        CHECK(waiting.receive(10ms).error().code == Errc::timeout);
        return deleted_tables() == 0;
    });
}

TEST_CASE("a deleted group's table stays as long as a consumer or a message works on it, and goes with it") {
    Fixture f;
    std::optional<Consumer> c = f.queue.consumer("g", earliest()).value();
    f.publish("x");
    std::optional<Message> m = c->try_receive().value();
    REQUIRE(f.queue.delete_group("g", Force::yes));
    (void)f.queue.stats();
    CHECK(deleted_tables() == 1);
    CHECK(c->try_receive().error().code == Errc::no_such_group);
    c.reset();
    CHECK(m->ack().error().code == Errc::stale_lease);
    CHECK(deleted_tables() == 1);
    m.reset();
    CHECK(deleted_tables() == 0);
}

TEST_CASE("tables come and go under threads that consume, look on and keep house") {
    Fixture f;
    auto observer = Queue::open(f.dir.str() + "/q").value();
    std::atomic<bool> stop{false};
    std::thread looker([&] {
        while (!stop.load()) (void)observer.stats();
    });
    std::thread sharer([&] {
        while (!stop.load()) (void)f.queue.stats();
    });
    for (int i = 0; i < 50; ++i) {
        auto c = f.queue.consumer("g", earliest()).value();
        REQUIRE(c.wait_fd());
        f.publish("x");
        Message m = c.try_receive().value();
        REQUIRE(f.queue.delete_group("g", Force::yes));
        CHECK(m.ack().error().code == Errc::stale_lease);
    }
    stop.store(true);
    looker.join();
    sharer.join();
    (void)observer.stats();
    (void)f.queue.stats();
    CHECK(deleted_tables() == 0);
}
