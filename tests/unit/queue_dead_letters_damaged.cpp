// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Messages that were damaged on their way die for that reason, and are never redriven.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "unit/queue_dead_letters.hpp"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("a message whose bytes do not match its checksum is told once, dead with that reason, and stepped over") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f({.checksum = Checksum::xxh3});
        auto c = f.consumer("g", Fixture::options(mode));
        const std::string marked = "DAMAGE-ME-" + limited(100, 'd');
        f.publish(marked);
        f.publish("sound");
        {
            std::fstream file(f.dir.str() + "/q/lane-00.ring", std::ios::binary | std::ios::in | std::ios::out);
            const std::string all((std::istreambuf_iterator<char>(file)), {});
            const auto at = all.find(marked);
            REQUIRE(at != std::string::npos);
            file.seekp(static_cast<std::streamoff>(at));
            file.write("BROKEN", 6);
        }
        const auto told = c.try_receive();
        REQUIRE_FALSE(told);
        CHECK(told.error().code == Errc::corrupt);
        REQUIRE(c.last_gap());
        CHECK(c.last_gap()->first == 0);
        CHECK(c.last_gap()->total == 1);
        Message m = next(c);
        CHECK(text(m.payload()) == "sound");
        CHECK(m.ack());
        CHECK(f.queue.stats().corrupt == 1);
        CHECK(f.stats("g").lag == 0);
        const auto all = f.list();
        REQUIRE(all.size() == 1);
        CHECK(all[0].reason == DeadReason::corrupt);
        CHECK(all[0].payload_damaged);
        CHECK(text(all[0].payload).starts_with("BROKEN"));
        CHECK(f.letters.redrive({}, true).value().skipped == 1);
    }
}
