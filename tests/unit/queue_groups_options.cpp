// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Names and options of groups, what a second opening compares, and how many groups fit.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "unit/queue_groups.hpp"

using namespace rondo;
using namespace rondo::test;

// ---- names and options ---------------------------------------------------------------------------------------

TEST_CASE("names of groups: 1 to 63 of letters, digits, dot, underscore and dash") {
    Fixture f({.max_groups = 64});
    const std::string longest(63, 'g'), longer(64, 'g');
    for (const std::string& name : {std::string("a"), std::string("0"), std::string("-"), std::string("_"),
                                    std::string("..."), std::string("A.b-C_9"), longest}) {
        CAPTURE(name);
        CHECK(f.queue.create_group(name, earliest()));
        CHECK(f.queue.consumer(name));
        CHECK(f.group(f.queue.stats(), name) != nullptr);
    }
    const auto groups = f.queue.stats().groups.size();
    for (const std::string& name :
         {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("/"), std::string(" "),
          std::string("a b"), std::string("\xc3\xbc"), std::string("a\0", 2), std::string("a\n"), longer}) {
        CAPTURE(name);
        CHECK(f.queue.create_group(name, earliest()).error().code == Errc::invalid_argument);
        CHECK(f.queue.consumer(name, earliest()).error().code == Errc::invalid_argument);
        const auto opened = f.queue.consumer(name);
        CHECK(opened.error().code == Errc::invalid_argument);
        const auto deleted = f.queue.delete_group(name).error().code;
        CHECK((deleted == Errc::invalid_argument || deleted == Errc::no_such_group));
    }
    CHECK(f.queue.stats().groups.size() == groups);
}

TEST_CASE("each group option is checked at both ends, and a bad one makes no group") {
    Fixture f;
    const auto half = static_cast<std::uint32_t>(f.queue.stats().capacity_slots / 2);
    struct Case {
        const char* what;
        GroupOptions options;
        std::optional<Errc> code;
    };
    std::vector<Case> cases;
    const auto add = [&](const char* what, std::optional<Errc> code, auto&& change) {
        GroupOptions o{.start = Start::earliest()};
        change(o);
        cases.push_back({what, o, code});
    };
    const auto bad = std::optional(Errc::invalid_argument);
    const std::optional<Errc> good;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    add("lease 10 ms", good, [](auto& o) { o.lease_timeout = 10ms; });
    add("lease 24 h", good, [](auto& o) { o.lease_timeout = 24h; });
    add("lease 0", bad, [](auto& o) { o.lease_timeout = 0ns; });
    add("lease below", bad, [](auto& o) { o.lease_timeout = 10ms - 1ns; });
    add("lease above", bad, [](auto& o) { o.lease_timeout = 24h + 1ns; });
    add("lease negative", bad, [](auto& o) { o.lease_timeout = -1s; });
    add("lease in total 7 d", good, [](auto& o) { o.max_lease_total = 24h * 7; });
    add("lease in total above", bad, [](auto& o) { o.max_lease_total = 24h * 7 + 1ns; });
    add("lease in total below the lease", bad, [](auto& o) { o.lease_timeout = 1s, o.max_lease_total = 1s - 1ns; });
    add("max_deliveries 1", good, [](auto& o) { o.max_deliveries = 1; });
    add("max_deliveries 1000", good, [](auto& o) { o.max_deliveries = 1000; });
    add("max_deliveries -1", good, [](auto& o) { o.max_deliveries = -1; });
    add("max_deliveries 0", bad, [](auto& o) { o.max_deliveries = 0; });
    add("max_deliveries 1001", bad, [](auto& o) { o.max_deliveries = 1001; });
    add("max_deliveries -2", bad, [](auto& o) { o.max_deliveries = -2; });
    add("backoff 0", good, [](auto& o) { o.backoff_initial = 0ns; });
    add("backoff 24 h", good, [](auto& o) { o.backoff_initial = 24h; });
    add("backoff negative", bad, [](auto& o) { o.backoff_initial = -1ns; });
    add("backoff above", bad, [](auto& o) { o.backoff_initial = 24h + 1ns; });
    add("backoff_max below initial", bad, [](auto& o) { o.backoff_initial = 2s, o.backoff_max = 1s; });
    add("backoff_max above", bad, [](auto& o) { o.backoff_max = 24h + 1ns; });
    add("multiplier 1", good, [](auto& o) { o.backoff_multiplier = 1.0; });
    add("multiplier 10", good, [](auto& o) { o.backoff_multiplier = 10.0; });
    add("multiplier below", bad, [](auto& o) { o.backoff_multiplier = 0.99; });
    add("multiplier above", bad, [](auto& o) { o.backoff_multiplier = 10.01; });
    add("multiplier nan", bad, [&](auto& o) { o.backoff_multiplier = nan; });
    add("retry_max_age 1 s", good, [](auto& o) { o.retry_max_age = 1s; });
    add("retry_max_age forever", good, [](auto& o) { o.retry_max_age = forever; });
    add("retry_max_age below", bad, [](auto& o) { o.retry_max_age = 1s - 1ns; });
    add("max_in_flight 1", good, [](auto& o) { o.max_in_flight = 1; });
    add("max_in_flight half", good, [&](auto& o) { o.max_in_flight = half; });
    add("max_in_flight 0", bad, [](auto& o) { o.max_in_flight = 0; });
    add("max_in_flight above", bad, [&](auto& o) { o.max_in_flight = half + 1; });
    add("max_in_flight_group 0", bad, [](auto& o) { o.max_in_flight_group = 0; });
    add("max_in_flight_group above", bad, [&](auto& o) { o.max_in_flight_group = half + 1; });
    add("max_dead_pending 0", bad, [](auto& o) { o.max_dead_pending = 0; });
    add("kind lossy", Errc::not_supported, [](auto& o) { o.kind = GroupKind::lossy; });
    const auto files = f.files();
    for (const auto& c : cases) {
        CAPTURE(c.what);
        const auto made = f.queue.create_group("g", c.options);
        CHECK(made.has_value() == !c.code);
        if (!made) {
            CHECK(made.error().code == *c.code);
            CHECK(std::string(made.error().what) != "");
            CHECK(f.queue.stats().groups.empty());
        } else {
            CHECK(f.queue.delete_group("g"));
        }
        CHECK(f.files() == files);
    }
}

TEST_CASE("opening an existing group compares what was set, but never the start") {
    Fixture f;
    const GroupOptions stored{.mode = GroupMode::shared,
                              .start = Start::earliest(),
                              .lease_timeout = 20s,
                              .max_lease_total = 1h,
                              .max_deliveries = 3,
                              .backoff_initial = 2s,
                              .backoff_multiplier = 3.0,
                              .backoff_max = 30s,
                              .jitter = Jitter::none,
                              .retry_max_age = 2h,
                              .max_in_flight = 10,
                              .max_in_flight_group = 100,
                              .max_dead_pending = 5};
    REQUIRE(f.queue.create_group("g", stored));
    f.publish("x");
    CHECK(f.queue.create_group("g", stored).error().code == Errc::exists);
    CHECK(f.queue.consumer("g", stored));
    CHECK(f.queue.consumer("g", {.start = Start::latest()}));  // nothing set, nothing compared
    CHECK(f.queue.consumer("g", {.start = Start::seq(1'000'000)}));
    CHECK(f.queue.consumer("g", {.start = Start::time(0)}));

    std::vector<GroupOptions> others(11, GroupOptions{.start = Start::earliest()});
    others[0].mode = GroupMode::exclusive;
    others[1].lease_timeout = 21s;
    others[2].max_lease_total = 2h;
    others[3].max_deliveries = 4;
    others[4].backoff_initial = 1s;
    others[5].backoff_multiplier = 2.0;
    others[6].backoff_max = 31s;
    others[7].jitter = Jitter::equal;
    others[8].retry_max_age = 3h;
    others[9].max_in_flight = 11;
    others[10].max_in_flight_group = 101;
    for (std::size_t i = 0; i < others.size(); ++i) {
        CAPTURE(i);
        const auto made = f.queue.create_group("g", others[i]);
        const auto opened = f.queue.consumer("g", others[i]);
        REQUIRE_FALSE(made);
        REQUIRE_FALSE(opened);
        CHECK(made.error().code == Errc::option_mismatch);
        CHECK(opened.error().code == Errc::option_mismatch);
        CHECK(std::string(opened.error().what) != "");
    }
    // Also a default is an option once it was stored.
    REQUIRE(f.queue.create_group("defaults", earliest()));
    CHECK(f.queue.consumer("defaults", {.start = Start::earliest(), .lease_timeout = 30s, .max_deliveries = 5}));
    CHECK(f.queue.consumer("defaults", {.start = Start::earliest(), .max_deliveries = -1}).error().code ==
          Errc::option_mismatch);
    // The start was applied once.
    auto c = f.queue.consumer("g", {.start = Start::latest()}).value();
    CHECK(drain(c) == std::vector<std::string>{"x"});
}

TEST_CASE("a consumer with a bad name makes no group") {
    Fixture f;
    CHECK(f.queue.consumer("g", earliest(), {.name = "not a name"}).error().code == Errc::invalid_argument);
    CHECK(f.queue.stats().groups.empty());
}

TEST_CASE("an unknown group") {
    Fixture f;
    CHECK(f.queue.consumer("g").error().code == Errc::no_such_group);
    CHECK(f.queue.delete_group("g").error().code == Errc::no_such_group);
    CHECK(f.queue.delete_group("g", Force::yes).error().code == Errc::no_such_group);
}

// ---- how many ------------------------------------------------------------------------------------------------

TEST_CASE("64 groups fit, each sees every message, the 65th is refused until one goes") {
    Fixture f({.max_groups = 64});
    for (int i = 0; i < 64; ++i) {
        const auto mode = i % 2 == 0 ? GroupMode::shared : GroupMode::exclusive;
        REQUIRE(f.queue.create_group(numbered("g", i), earliest(mode)));
    }
    const auto files = f.files();
    const auto more = f.queue.create_group("g64", earliest());
    REQUIRE_FALSE(more);
    CHECK(more.error().code == Errc::busy);
    CHECK(f.files() == files);
    f.publish("for all");
    for (int i = 0; i < 64; ++i) {
        auto c = f.queue.consumer(numbered("g", i)).value();
        CHECK(drain(c) == std::vector<std::string>{"for all"});
    }
    REQUIRE(f.queue.delete_group("g17"));
    CHECK(f.queue.create_group("g64", earliest()));
    CHECK(f.queue.create_group("g65", earliest()).error().code == Errc::busy);
    CHECK(f.fill() > 0);
}

TEST_CASE("of two who make a group at once with different options one makes it, the other is told the difference") {
    Fixture f;
    auto other = Queue::open(f.dir.str() + "/q").value();
    for (int round = 0; round < 30; ++round) {
        const std::string name = numbered("g", round % 15);
        std::atomic<int> at_start = 0;
        std::array<std::optional<Errc>, 2> codes;
        std::vector<std::thread> threads;
        for (int i = 0; i < 2; ++i) {
            threads.emplace_back([&, i] {
                auto o = earliest();
                o.max_deliveries = i + 1;
                at_start.fetch_add(1);
                while (at_start.load() < 2) std::this_thread::yield();
                const auto made = (i == 0 ? f.queue : other).create_group(name, o);
                if (!made) codes[static_cast<std::size_t>(i)] = made.error().code;
            });
        }
        for (auto& t : threads) t.join();
        CHECK(codes[0].has_value() != codes[1].has_value());
        CHECK(codes[codes[0] ? 0 : 1] == Errc::option_mismatch);
        CHECK(f.queue.stats().groups.size() == 1);
        REQUIRE(f.queue.delete_group(name));
    }
}

TEST_CASE("max_groups is a bound of its own") {
    Fixture f({.max_groups = 2});
    CHECK(f.queue.create_group("a", earliest()));
    CHECK(f.queue.create_group("b", earliest()));
    CHECK(f.queue.create_group("c", earliest()).error().code == Errc::busy);
    CHECK(f.queue.create_group("a", earliest()).error().code == Errc::exists);
}

TEST_CASE("groups that come and go many times leave no files and never run out") {
    Fixture f({.max_groups = 2});
    f.publish("kept");
    const auto files = f.files();
    for (int i = 0; i < 300; ++i) {
        CAPTURE(i);
        const auto mode = i % 2 == 0 ? GroupMode::shared : GroupMode::exclusive;
        {
            auto c = f.queue.consumer("g", earliest(mode));
            REQUIRE(c);
            REQUIRE(c->try_receive().value().ack());
        }
        REQUIRE(f.queue.delete_group("g"));
    }
    CHECK(f.files() == files);
    CHECK(f.queue.stats().groups.empty());
}
