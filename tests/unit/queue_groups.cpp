// SPDX-License-Identifier: MIT
// Groups: what is kept without one, where a new one begins, what a second opening compares, and what a deletion ends.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rondo/rondo.hpp"
#include "support/eventually.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace std::chrono_literals;
using test::eventually;
using test::TmpDir;

namespace {

constexpr std::uint64_t small = 256 << 10;

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

std::string numbered(std::string_view stem, int i) {
    std::string out(stem);
    out += std::to_string(i);
    return out;
}

std::uint64_t wall_ns() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
}

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
    std::uint64_t fill() {
        std::uint64_t n = 0;
        while (producer.try_publish(bytes("one slot"))) ++n;
        return n;
    }
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

GroupOptions earliest(GroupMode mode = GroupMode::shared) { return {.mode = mode, .start = Start::earliest()}; }

std::vector<std::string> drain(Consumer& c) {
    std::vector<std::string> out;
    while (auto m = c.try_receive()) {
        out.push_back(text(m->payload()));
        (void)m->ack();
    }
    return out;
}

}  // namespace

// ---- without a group -----------------------------------------------------------------------------------------

TEST_CASE("a queue without a group keeps everything until credit runs out, and overwrites nothing") {
    for (const auto producers : {Producers::one, Producers::many}) {
        CAPTURE(static_cast<int>(producers));
        Fixture f({.producers = producers});
        const Seq first = f.publish("first");
        const std::uint64_t more = f.fill();
        CHECK(more == f.queue.stats().capacity_slots - 1);
        CHECK(f.producer.try_publish(bytes("x")).error().code == Errc::no_credit);
        PublishOptions o;
        o.timeout = 1ms;
        CHECK(f.producer.publish(bytes("x"), o).error().code == Errc::timeout);
        CHECK(f.queue.explain({Errc::no_credit, 0, ""}).find("no group: everything is kept") != std::string::npos);
        auto c = f.queue.consumer("late", earliest()).value();
        Message m = c.try_receive().value();
        CHECK(m.seq() == first);
        CHECK(text(m.payload()) == "first");
        CHECK(m.ack());
        CHECK(drain(c).size() == more);
        CHECK(f.fill() == more + 1);
    }
}

TEST_CASE("a group without members holds the ring like one with members") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        REQUIRE(f.queue.create_group("g", earliest(mode)));
        const std::uint64_t n = f.fill();
        CHECK(f.fill() == 0);
        {
            auto c = f.queue.consumer("g").value();
            CHECK(c.try_receive().value().ack());
        }
        CHECK(f.fill() == 1);
        CHECK(f.fill() == 0);
        auto c = f.queue.consumer("g").value();
        CHECK(drain(c).size() == n);
    }
}

TEST_CASE("once the last group is deleted, everything is kept again from where it stood") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        {
            auto c = f.queue.consumer("g", earliest(mode)).value();
            f.publish("settled");
            CHECK(drain(c).size() == 1);
            f.publish("unsettled");
        }
        REQUIRE(f.queue.delete_group("g"));
        f.publish("later");
        f.fill();
        CHECK(f.producer.try_publish(bytes("x")).error().code == Errc::no_credit);
        auto c = f.queue.consumer("next", earliest(mode)).value();
        auto all = drain(c);
        REQUIRE(all.size() >= 2);
        if (all.front() == "settled") all.erase(all.begin());  // the floor need not have moved yet
        CHECK(all[0] == "unsettled");
        CHECK(all[1] == "later");
    }
}

TEST_CASE("deleting one of two groups leaves the other one in charge of the ring") {
    Fixture f;
    auto c = f.queue.consumer("stays", earliest()).value();
    REQUIRE(f.queue.create_group("goes", earliest()));
    const std::uint64_t n = f.fill();
    CHECK(drain(c).size() == n);
    CHECK(f.fill() == 0);  // the other one has not consumed anything
    REQUIRE(f.queue.delete_group("goes"));
    CHECK(f.fill() == n);
    CHECK(drain(c).size() == n);
}

// ---- starts --------------------------------------------------------------------------------------------------

TEST_CASE("a new group begins at the earliest kept message, at the end, or at a position") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        for (const auto producers : {Producers::one, Producers::many}) {
            Fixture f({.producers = producers});
            std::vector<Seq> seqs;
            const std::string three_slots(150, '3');
            for (int i = 0; i < 4; ++i) seqs.push_back(f.publish(three_slots));
            const auto begins = [&](Start start) -> std::optional<Seq> {
                auto c = f.queue.consumer("g", {.mode = mode, .start = start}).value();
                std::optional<Seq> first;
                if (auto m = c.try_receive()) {
                    first = m->seq();
                    (void)m->ack();
                }
                (void)f.queue.delete_group("g", Force::yes);
                return first;
            };
            CHECK(begins(Start::earliest()) == seqs[0]);
            CHECK(begins(Start::latest()) == std::nullopt);
            CHECK(begins(Start::seq(0)) == seqs[0]);
            CHECK(begins(Start::seq(seqs[2])) == seqs[2]);
            CHECK(begins(Start::seq(seqs[2] - 1)) == seqs[2]);  // inside a message: the next one
            CHECK(begins(Start::seq(seqs[2] + 1)) == seqs[3]);
            CHECK(begins(Start::seq(seqs[3] + 3)) == std::nullopt);  // the tail itself
        }
    }
}

TEST_CASE("a group at the latest position sees what is published from then on, and nothing before") {
    Fixture f;
    f.publish("before");
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        const std::string name = mode == GroupMode::shared ? "s" : "e";
        auto c = f.queue.consumer(name, {.mode = mode, .start = Start::latest()}).value();
        f.publish("after");
        CHECK(drain(c) == std::vector<std::string>{"after"});
    }
}

TEST_CASE("a start beyond the tail is refused and leaves nothing behind") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        f.publish("x");
        const auto files = f.files();
        for (const Seq at : {Seq{2}, Seq{1} << 40, std::numeric_limits<Seq>::max()}) {
            CAPTURE(at);
            const auto made = f.queue.create_group("g", {.mode = mode, .start = Start::seq(at)});
            REQUIRE_FALSE(made);
            CHECK(made.error().code == Errc::invalid_argument);
        }
        CHECK(f.files() == files);
        CHECK(f.queue.stats().groups.empty());
        CHECK(f.queue.consumer("g").error().code == Errc::no_such_group);
        // The queue still keeps everything.
        CHECK(f.fill() == f.queue.stats().capacity_slots - 1);
        CHECK(f.producer.try_publish(bytes("x")).error().code == Errc::no_credit);
        CHECK(f.queue.create_group("g", earliest(mode)));
    }
}

TEST_CASE("a start below the floor begins at the floor and says once what was missed") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f;
        auto first = f.queue.consumer("first", earliest()).value();
        f.fill();
        (void)drain(first);
        const Seq next = f.publish("next");  // moves the floor
        f.publish("last");
        const Seq floor = f.queue.stats().floor;
        REQUIRE(floor > 0);
        auto c = f.queue.consumer("late", {.mode = mode, .start = Start::seq(0)}).value();
        const auto told = c.try_receive();
        REQUIRE_FALSE(told);
        CHECK(told.error().code == Errc::gap);
        REQUIRE(c.last_gap());
        CHECK(c.last_gap()->first == 0);
        CHECK(c.last_gap()->last == floor - 1);
        CHECK(c.try_receive().value().seq() == next);
    }
}

TEST_CASE("a start in time takes the first message accepted at or after it") {
    for (const auto timestamps : {Timestamps::coarse, Timestamps::exact}) {
        for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
            CAPTURE(static_cast<int>(timestamps));
            Fixture f({.timestamps = timestamps});
            f.publish("early");
            // Further than the grain of 4 ms and a coarse clock.
            const std::uint64_t then = wall_ns() + 30'000'000;
            eventually([&] { return wall_ns() > then + 30'000'000; });
            f.publish("late");
            const auto at = [&](const char* name, std::uint64_t ns) {
                auto c = f.queue.consumer(name, {.mode = mode, .start = Start::time(ns)}).value();
                return drain(c);
            };
            CHECK(at("a", 0) == std::vector<std::string>{"early", "late"});
            CHECK(at("b", then) == std::vector<std::string>{"late"});
            CHECK(at("c", wall_ns() + 3'600'000'000'000) == std::vector<std::string>{});
        }
    }
}

TEST_CASE("a start at the time just read does not miss a message published after it") {
    for (const auto timestamps : {Timestamps::coarse, Timestamps::exact}) {
        CAPTURE(static_cast<int>(timestamps));
        for (int i = 0; i < 10; ++i) {
            Fixture f({.timestamps = timestamps});
            const std::uint64_t now = wall_ns();
            f.publish("after");
            auto c = f.queue.consumer("g", {.start = Start::time(now)}).value();
            REQUIRE(drain(c) == std::vector<std::string>{"after"});
        }
    }
}

TEST_CASE("a group that starts in the future gets what comes, as the tail is where it waits") {
    Fixture f;
    f.publish("old");
    auto c = f.queue.consumer("g", {.start = Start::time(std::numeric_limits<std::uint64_t>::max())}).value();
    f.publish("new");
    CHECK(drain(c) == std::vector<std::string>{"new"});
}

TEST_CASE("without timestamps there is no start in time") {
    Fixture f({.timestamps = Timestamps::off});
    const auto files = f.files();
    const auto made = f.queue.create_group("g", {.start = Start::time(0)});
    REQUIRE_FALSE(made);
    CHECK(made.error().code == Errc::not_supported);
    CHECK(f.files() == files);
    CHECK(f.queue.stats().groups.empty());
}

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

// ---- deletion ------------------------------------------------------------------------------------------------

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
        for (int i = 0; i < 5; ++i)
            CHECK(text(hand[static_cast<std::size_t>(i)].payload()) == numbered("message ", i));
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
