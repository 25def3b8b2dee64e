// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What the deletion of a group ends, for those who hold its messages and for those who wait.
#include <doctest/doctest.h>

#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "unit/queue_groups.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("a group with members or messages in flight is deleted only by force") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f;
        std::optional<Consumer> c = f.queue.consumer("g", earliest(mode)).value();
        CHECK(f.queue.delete_group("g").error().code == Errc::busy);
        f.publish("x");
        std::optional<Message> m = c->try_receive().value();
        c.reset();
        CHECK(f.queue.delete_group("g").error().code == Errc::busy);
        m.reset();
        CHECK(f.queue.delete_group("g").error().code == Errc::busy);  // failed once, comes again
        CHECK(f.queue.consumer("g"));
        CHECK(f.queue.delete_group("g", Force::yes));
        CHECK(f.queue.consumer("g").error().code == Errc::no_such_group);
        CHECK(f.queue.stats().groups.empty());
    }
}

TEST_CASE("an idle group with waiting messages is deleted without force") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        {
            auto c = f.queue.consumer("g", earliest(mode)).value();
            f.publish("done");
            CHECK(drain(c).size() == 1);
        }
        f.publish("never seen");
        CHECK(f.queue.delete_group("g"));
    }
}

TEST_CASE("what is in hand when its group is deleted is stale, and stays readable") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f;
        auto other = f.queue.consumer("other", earliest()).value();
        auto c = f.queue.consumer("g", earliest(mode)).value();
        for (int i = 0; i < 6; ++i) f.publish(numbered("message ", i));
        std::vector<Message> hand;
        for (int i = 0; i < 5; ++i) hand.push_back(c.try_receive().value());
        REQUIRE(f.queue.delete_group("g", Force::yes));
        CHECK(c.try_receive().error().code == Errc::no_such_group);
        CHECK(c.receive(1ms).error().code == Errc::no_such_group);
        CHECK(c.receive_batch(2, 0ns).error().code == Errc::no_such_group);
        // The other group goes round the ring twice.
        for (int lap = 0; lap < 2; ++lap) {
            f.fill();
            (void)drain(other);
        }
        for (int i = 0; i < 5; ++i) CHECK(text(hand[static_cast<std::size_t>(i)].payload()) == numbered("message ", i));
        CHECK(hand[0].ack().error().code == Errc::stale_lease);
        CHECK(hand[1].nack().error().code == Errc::stale_lease);
        CHECK(hand[2].reject({.code = "c"}).error().code == Errc::stale_lease);
        CHECK(hand[3].release().error().code == Errc::stale_lease);
        CHECK(hand[4].extend(1s).error().code == Errc::stale_lease);
        hand.clear();
        CHECK(f.queue.dead_letters().value().list().value().empty());
        f.fill();
        (void)drain(other);
        CHECK(f.fill() == f.queue.stats().capacity_slots);  // nobody holds anything any more
    }
}

TEST_CASE("a message that came again while later ones were kept stays readable, too, when its group is deleted") {
    Fixture f;
    auto other = f.queue.consumer("other", earliest()).value();
    auto o = earliest(GroupMode::exclusive);
    o.backoff_initial = 0ns;
    auto c = f.queue.consumer("g", o).value();
    f.publish("first");
    f.publish("second");
    Message first = c.try_receive().value();
    Message stale = c.try_receive().value();
    CHECK(first.nack({}, 0ns));
    first = c.receive(20s).value();
    CHECK(text(first.payload()) == "first");
    REQUIRE(f.queue.delete_group("g", Force::yes));
    for (int lap = 0; lap < 2; ++lap) {
        f.fill();
        (void)drain(other);
    }
    CHECK(text(first.payload()) == "first");
    CHECK(text(stale.payload()) == "second");
}

TEST_CASE("a deleted group's batch hands over nothing more") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f;
        auto c = f.queue.consumer("g", earliest(mode)).value();
        for (int i = 0; i < 4; ++i) f.publish("x");
        auto batch = c.receive_batch(4, 0ns).value();
        CHECK(batch.next() != nullptr);
        REQUIRE(f.queue.delete_group("g", Force::yes));
        CHECK(batch.next() == nullptr);
    }
}

TEST_CASE("a consumer that sleeps while its group is deleted is told so") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        auto c = f.queue.consumer("g", earliest(mode)).value();
        std::optional<Errc> code;
        std::thread sleeper([&] { code = c.receive(forever).error().code; });
        REQUIRE(f.queue.delete_group("g", Force::yes));
        sleeper.join();
        CHECK(code == Errc::no_such_group);
    }
}

TEST_CASE("a group of a deleted group's name is another group") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        for (const bool same_place : {false, true}) {
            CAPTURE(static_cast<int>(mode));
            CAPTURE(same_place);
            Fixture f({.max_groups = same_place ? 1U : 2U});
            std::optional<Consumer> old = f.queue.consumer("g", earliest(mode)).value();
            f.publish("first");
            f.publish("second");
            CHECK(old->try_receive().value().nack({.code = "failed"}));
            CHECK(old->try_receive().has_value() == (mode == GroupMode::shared));
            if (same_place) old.reset();
            REQUIRE(f.queue.delete_group("g", Force::yes));
            auto c = f.queue.consumer("g", earliest(mode)).value();
            if (old) {
                CHECK(old->try_receive().error().code == Errc::no_such_group);
                CHECK(old->wait_fd());
            }
            for (const char* expected : {"first", "second"}) {
                Message m = c.try_receive().value();
                CHECK(text(m.payload()) == expected);
                CHECK(m.delivery_count() == 1);
                CHECK(m.ack());
            }
            const auto s = f.queue.stats();
            REQUIRE(s.groups.size() == 1);
            CHECK(s.groups[0].delivered == 2);
            CHECK(s.groups[0].nacked == 0);
            CHECK(s.groups[0].acked == 2);
            CHECK(s.groups[0].lag == 0);
            CHECK(s.groups[0].members == 1);
        }
    }
}
