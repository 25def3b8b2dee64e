// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Every option of a group at the ends of its range, and just outside; defaults; what is stored.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "format/validate.hpp"

using namespace rondo;
using namespace rondo::format;
using namespace std::chrono_literals;

namespace {

// What a refusal must look like: `code`, with `text` somewhere in its words.
template <class T>
void check_refused(const Result<T>& got, Errc code, std::string_view text) {
    REQUIRE_FALSE(got.has_value());
    INFO("what: ", got.error().what);
    CHECK(got.error().code == code);
    CHECK(std::string_view(got.error().what).find(text) != std::string_view::npos);
    CHECK(got.error().sys_errno == 0);
}

const GroupOptions earliest{.mode = {}, .start = Start::earliest()};

GroupOptions group(const std::function<void(GroupOptions&)>& change) {
    GroupOptions o = earliest;
    change(o);
    return o;
}

}  // namespace

TEST_CASE("group options out of range are refused, each by its name") {
    struct Case {
        const char* name;
        std::function<void(GroupOptions&)> change;
        const char* text;
    };
    using O = GroupOptions;
    const std::vector<Case> cases = {
        {"mode 0", [](O& o) { o.mode = GroupMode{0}; }, "mode"},
        {"mode 3", [](O& o) { o.mode = GroupMode{3}; }, "mode"},
        {"kind 3", [](O& o) { o.kind = GroupKind{3}; }, "kind"},
        {"jitter 3", [](O& o) { o.jitter = Jitter{3}; }, "jitter"},
        {"lease 0", [](O& o) { o.lease_timeout = 0ns; }, "lease_timeout"},
        {"lease short", [](O& o) { o.lease_timeout = 10ms - 1ns; }, "lease_timeout"},
        {"lease long", [](O& o) { o.lease_timeout = 24h + 1ns; }, "lease_timeout"},
        {"lease negative", [](O& o) { o.lease_timeout = -30s; }, "lease_timeout"},
        {"lease forever", [](O& o) { o.lease_timeout = forever; }, "lease_timeout"},
        {"total 0", [](O& o) { o.max_lease_total = 0ns; }, "max_lease_total"},
        {"total negative", [](O& o) { o.max_lease_total = Duration::min(); }, "max_lease_total"},
        {"total long", [](O& o) { o.max_lease_total = 24h * 7 + 1ns; }, "max_lease_total"},
        {"total below lease", [](O& o) { o.lease_timeout = 1min, o.max_lease_total = 59s; }, "max_lease_total"},
        {"deliveries 0", [](O& o) { o.max_deliveries = 0; }, "max_deliveries"},
        {"deliveries -2", [](O& o) { o.max_deliveries = -2; }, "max_deliveries"},
        {"deliveries 1001", [](O& o) { o.max_deliveries = 1001; }, "max_deliveries"},
        {"initial negative", [](O& o) { o.backoff_initial = -1ns; }, "backoff_initial"},
        {"initial long", [](O& o) { o.backoff_initial = 24h + 1ns; }, "backoff_initial"},
        {"multiplier small", [](O& o) { o.backoff_multiplier = 0.999; }, "backoff_multiplier"},
        {"multiplier large", [](O& o) { o.backoff_multiplier = 10.001; }, "backoff_multiplier"},
        {"multiplier negative", [](O& o) { o.backoff_multiplier = -2; }, "backoff_multiplier"},
        {"multiplier nan", [](O& o) { o.backoff_multiplier = std::numeric_limits<double>::quiet_NaN(); }, "multiplier"},
        {"multiplier inf", [](O& o) { o.backoff_multiplier = std::numeric_limits<double>::infinity(); }, "multiplier"},
        {"max negative", [](O& o) { o.backoff_max = -1s; }, "backoff_max"},
        {"max below initial", [](O& o) { o.backoff_initial = 2s, o.backoff_max = 1s; }, "backoff_max"},
        {"max long", [](O& o) { o.backoff_max = 24h + 1ns; }, "backoff_max"},
        {"age 0", [](O& o) { o.retry_max_age = 0ns; }, "retry_max_age"},
        {"age short", [](O& o) { o.retry_max_age = 1s - 1ns; }, "retry_max_age"},
        {"age negative", [](O& o) { o.retry_max_age = -1h; }, "retry_max_age"},
        {"in flight 0", [](O& o) { o.max_in_flight = 0; }, "max_in_flight"},
        {"in flight many", [](O& o) { o.max_in_flight = 2049; }, "max_in_flight"},
        {"group in flight 0", [](O& o) { o.max_in_flight_group = 0; }, "max_in_flight_group"},
        {"group in flight many", [](O& o) { o.max_in_flight_group = ~0U; }, "max_in_flight_group"},
        {"dead pending 0", [](O& o) { o.max_dead_pending = 0; }, "max_dead_pending"},
        {"dead pending many", [](O& o) { o.max_dead_pending = 2049; }, "max_dead_pending"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        check_refused(check_group_options(group(c.change), min_slots), Errc::invalid_argument, c.text);
    }
    const GroupOptions lossy = group([](O& o) { o.kind = GroupKind::lossy; });
    check_refused(check_group_options(lossy, min_slots), Errc::not_supported, "lossy");
}

TEST_CASE("group options at the ends of their ranges are accepted and stored as given") {
    GroupOptions low = earliest;
    low.mode = GroupMode::exclusive;
    low.kind = GroupKind::durable;
    low.lease_timeout = low.max_lease_total = 10ms;
    low.max_deliveries = 1;
    low.backoff_initial = low.backoff_max = 0ns;
    low.backoff_multiplier = 1;
    low.jitter = Jitter::none;
    low.retry_max_age = 1s;
    low.max_in_flight = low.max_in_flight_group = low.max_dead_pending = 1;
    REQUIRE(check_group_options(low, min_slots).has_value());
    const ResolvedGroup a = resolve(low, min_slots);
    CHECK(a.mode == GroupMode::exclusive);
    CHECK(a.lease_timeout_ns == 10'000'000);
    CHECK(a.max_lease_total_ns == 10'000'000);
    CHECK(a.max_deliveries == 1);
    CHECK(a.backoff_initial_ns == 0);
    CHECK(a.backoff_max_ns == 0);
    CHECK(a.backoff_multiplier_milli == 1000);
    CHECK(a.jitter == Jitter::none);
    CHECK(a.retry_max_age_ns == 1'000'000'000);
    CHECK(a.max_in_flight_consumer == 1);
    CHECK(a.max_in_flight_group == 1);
    CHECK(a.max_dead_pending == 1);

    GroupOptions high{.mode = GroupMode::shared, .start = Start::time(7)};
    high.lease_timeout = 24h;
    high.max_lease_total = 24h * 7;
    high.max_deliveries = 1000;
    high.backoff_initial = high.backoff_max = 24h;
    high.backoff_multiplier = 10;
    high.jitter = Jitter::full;
    high.retry_max_age = forever;
    high.max_in_flight = high.max_in_flight_group = high.max_dead_pending = 2048;
    REQUIRE(check_group_options(high, min_slots).has_value());
    const ResolvedGroup b = resolve(high, min_slots);
    CHECK(b.start_kind == StartKind::time);
    CHECK(b.start_value == 7);
    CHECK(b.max_deliveries == 1000);
    CHECK(b.backoff_multiplier_milli == 10000);
    CHECK(b.retry_max_age_ns == no_age_limit);
    CHECK(b.max_in_flight_group == 2048);
    CHECK(b.max_dead_pending == 2048);
    high.max_deliveries = -1;
    REQUIRE(check_group_options(high, min_slots).has_value());
    CHECK(resolve(high).max_deliveries == 0);
}

TEST_CASE("the default group") {
    REQUIRE(check_group_options(earliest, 1 << 20).has_value());
    const ResolvedGroup g = resolve(earliest, 1 << 20);
    CHECK(g.mode == GroupMode::shared);
    CHECK(g.kind == GroupKind::durable);
    CHECK(g.jitter == Jitter::equal);
    CHECK(g.start_kind == StartKind::earliest);
    CHECK(g.lease_timeout_ns == 30'000'000'000);
    CHECK(g.max_lease_total_ns == std::uint64_t{12} * 3600 * 1'000'000'000);
    CHECK(g.max_deliveries == 5);
    CHECK(g.backoff_multiplier_milli == 2000);
    CHECK(g.backoff_initial_ns == 1'000'000'000);
    CHECK(g.backoff_max_ns == 60'000'000'000);
    CHECK(g.retry_max_age_ns == std::uint64_t{24} * 3600 * 1'000'000'000);
    CHECK(g.max_in_flight_consumer == 1024);
    CHECK(g.max_in_flight_group == 65536);
    CHECK(g.max_dead_pending == 1000);
    CHECK(resolve(group([](GroupOptions& o) { o.mode = GroupMode::exclusive; })).max_dead_pending == 1);
}

TEST_CASE("a default gives way to what was set, and never exceeds half of a small ring") {
    using O = GroupOptions;
    const auto check_pair = [](const GroupOptions& o) {
        REQUIRE(check_group_options(o, min_slots).has_value());
        const ResolvedGroup g = resolve(o, min_slots);
        CHECK(g.lease_timeout_ns <= g.max_lease_total_ns);
        CHECK(g.backoff_initial_ns <= g.backoff_max_ns);
        CHECK(g.max_in_flight_consumer <= min_slots / 2);
        CHECK(g.max_in_flight_group <= min_slots / 2);
        CHECK(g.max_dead_pending <= min_slots / 2);
    };
    check_pair(earliest);
    check_pair(group([](O& o) { o.lease_timeout = 20h; }));
    check_pair(group([](O& o) { o.max_lease_total = 5s; }));
    check_pair(group([](O& o) { o.backoff_initial = 10min; }));
    check_pair(group([](O& o) { o.backoff_max = 10ms; }));
    CHECK(resolve(earliest, 64).max_in_flight_consumer == 32);
}

TEST_CASE("an existing group is opened with the options it has, or with none; a difference is named") {
    using O = GroupOptions;
    const ResolvedGroup stored = resolve(group([](O& o) { o.lease_timeout = 5s; }), min_slots);
    CHECK(check_same_group(earliest, stored).has_value());
    CHECK(check_same_group({.mode = {}, .start = Start::seq(17)}, stored).has_value());
    CHECK(check_same_group(group([](O& o) { o.lease_timeout = 5s, o.max_deliveries = 5; }), stored).has_value());
    const std::vector<std::pair<const char*, std::function<void(O&)>>> differences = {
        {"mode", [](O& o) { o.mode = GroupMode::exclusive; }},
        {"kind", [](O& o) { o.kind = GroupKind::lossy; }},
        {"jitter", [](O& o) { o.jitter = Jitter::none; }},
        {"lease_timeout", [](O& o) { o.lease_timeout = 30s; }},
        {"max_lease_total", [](O& o) { o.max_lease_total = 1h; }},
        {"max_deliveries", [](O& o) { o.max_deliveries = -1; }},
        {"backoff_multiplier", [](O& o) { o.backoff_multiplier = 2.001; }},
        {"backoff_initial", [](O& o) { o.backoff_initial = 2s; }},
        {"backoff_max", [](O& o) { o.backoff_max = 61s; }},
        {"retry_max_age", [](O& o) { o.retry_max_age = forever; }},
        {"max_in_flight", [](O& o) { o.max_in_flight = 1; }},
        {"max_in_flight_group", [](O& o) { o.max_in_flight_group = 1; }},
        {"max_dead_pending", [](O& o) { o.max_dead_pending = 1; }},
    };
    for (const auto& difference : differences) {
        const std::string name = difference.first;
        CAPTURE(name);
        check_refused(check_same_group(group(difference.second), stored), Errc::option_mismatch, name + " differs");
    }
    // All options at once, as they are.
    GroupOptions all = earliest;
    all.mode = GroupMode::shared;
    all.kind = GroupKind::durable;
    all.jitter = Jitter::full;
    all.lease_timeout = 2s;
    all.max_lease_total = 3h;
    all.max_deliveries = 4;
    all.backoff_initial = 5ms;
    all.backoff_multiplier = 6;
    all.backoff_max = 7s;
    all.retry_max_age = 8h;
    all.max_in_flight = 9;
    all.max_in_flight_group = 10;
    all.max_dead_pending = 11;
    CHECK(check_same_group(all, resolve(all)).has_value());
    // An exclusive group stops at the first, whatever was asked for when it was made.
    const GroupOptions exclusive = group([](O& o) { o.mode = GroupMode::exclusive, o.max_dead_pending = 7; });
    CHECK(check_same_group(exclusive, resolve(exclusive)).has_value());
    CHECK(check_same_group(group([](O& o) { o.max_dead_pending = 7; }), resolve(exclusive)).has_value());
}
