// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: TIMEOUT 180
//
// ring-dump beside processes that work, are stopped, or were killed at a bad moment.
#include <doctest/doctest.h>
#include <rondo/rondo.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/child.hpp"
#include "support/eventually.hpp"
#include "support/paths.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace std::chrono_literals;
using nlohmann::json;
using rondo::test::Child;
using rondo::test::eventually;

namespace {

struct Run {
    int code = -1;     // exit code, -1 when a signal ended it
    std::string text;  // standard output and error
    double ms = 0;
};

Run run_dump(const std::string& arguments) {
    const std::string command = rondo::test::bin_directory() + "/ring-dump " + arguments + " 2>&1";
    const auto started = std::chrono::steady_clock::now();
    FILE* pipe = popen(command.c_str(), "r");  // NOLINT
    REQUIRE(pipe != nullptr);
    Run run;
    std::array<char, 4096> buffer{};
    while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) run.text.append(buffer.data(), n);
    const int status = pclose(pipe);
    if (WIFEXITED(status) && WEXITSTATUS(status) < 128) run.code = WEXITSTATUS(status);
    run.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count();
    return run;
}

json dump(const std::string& queue, const std::string& view) {
    const Run run = run_dump(queue + " " + view + " -o json");
    CAPTURE(run.text);
    REQUIRE(run.code == 0);
    return json::parse(run.text);
}

/// The first row whose field has that value; null when there is none.
json row_with(const json& rows, const char* field, const json& value) {
    for (const auto& row : rows) {
        if (row.at(field) == value) return row;
    }
    return nullptr;
}

struct Flags {
    std::atomic<std::uint64_t> ready{0};
    std::atomic<std::uint64_t> stop{0};
    std::atomic<std::uint64_t> count{0};
};

void publish(rondo::Queue& queue, int n, std::string_view text = "message") {
    auto producer = queue.producer().value();
    for (int i = 0; i < n; ++i) REQUIRE(producer.publish(std::as_bytes(std::span(text))));
}

rondo::GroupOptions group(rondo::GroupMode mode) { return {.mode = mode, .start = rondo::Start::earliest()}; }

/// A child that opens the queue, does `body(queue)`, says so, and then sits on what it has.
template <class Body>
Child sitting(const std::string& queue, rondo::test::SharedBlock<Flags>& flags, Body body) {
    return Child([&flags, queue, body] {
        auto opened = rondo::Queue::open(queue);
        if (!opened) return 1;
        auto held = body(*opened);
        flags->ready.fetch_add(1);
        eventually([&] { return flags->stop.load() != 0; }, rondo::test::until_the_watchdog);
        return 0;
    });
}

}  // namespace

TEST_CASE("a stopped consumer is named with its group, position, age and state, and everything else answers") {
    const rondo::test::TmpDir tmp;
    const std::string path = tmp.str() + "/q";
    for (const auto mode : {rondo::GroupMode::shared, rondo::GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        auto queue = rondo::Queue::create(path, {.capacity_bytes = 256 << 10}).value();
        REQUIRE(queue.create_group("slow", group(mode)));
        REQUIRE(queue.create_group("quick", group(rondo::GroupMode::shared)));
        publish(queue, 10);
        rondo::test::SharedBlock<Flags> flags;
        Child child = sitting(path, flags, [](rondo::Queue& q) {
            auto consumer = std::make_unique<rondo::Consumer>(q.consumer("slow", {.name = "sleeper"}).value());
            auto message = std::make_unique<rondo::Message>(consumer->receive(5s).value());
            return std::pair(std::move(consumer), std::move(message));
        });
        eventually([&] { return flags->ready.load() == 1; });
        child.stop();

        const json all = dump(path, "overview");
        CHECK(all.at("live") == true);
        const json blocker = row_with(all.at("blockers"), "group", "slow");
        REQUIRE_FALSE(blocker.is_null());
        CHECK(blocker.at("name") == "sleeper");
        CHECK(blocker.at("pid") == child.pid());
        CHECK(blocker.at("process") == "stopped");
        CHECK(blocker.at("seq") == 0);
        CHECK(blocker.at("holds_floor") == true);
        if (mode == rondo::GroupMode::shared) CHECK(blocker.at("age_seconds").is_number());
        const json row = row_with(all.at("groups"), "group", "slow");
        CHECK(row.at("lag") == 10);
        CHECK(row.at("in_flight") == 1);
        CHECK(row.at("ready") == 9);
        CHECK(row.at("blocked_by").get<std::string>().find("stopped") != std::string::npos);
        CHECK(row_with(all.at("groups"), "group", "quick").at("ready") == 10);
        const json held = dump(path, "inflight -g slow").at("rows");
        REQUIRE(held.size() == 1);
        CHECK(held[0].at("alive") == "stopped");
        CHECK(queue.stats().groups.at(0).in_flight == 1);

        child.cont();
        flags->stop.store(1);
        CHECK(child.wait().exited_with(0));
        queue.close();
        REQUIRE(rondo::Queue::destroy(path, rondo::Force::yes));
    }
}

TEST_CASE("a claim of a stopped producer is shown as reserved; killed, it is first dead, then aborted") {
    const rondo::test::TmpDir tmp;
    const std::string path = tmp.str() + "/q";
    { auto made = rondo::Queue::create(path, {.capacity_bytes = 256 << 10}).value(); }
    rondo::test::SharedBlock<Flags> flags;
    Child child = sitting(path, flags, [](rondo::Queue& q) {
        auto producer = std::make_unique<rondo::Producer>(q.producer({.name = "gateway"}).value());
        const std::string text = "before";
        (void)producer->publish(std::as_bytes(std::span(text)));
        auto claim = std::make_unique<rondo::Claim>(producer->claim(100).value());
        std::memset(claim->payload().data(), 'g', claim->payload().size());  // garbage
        return std::pair(std::move(producer), std::move(claim));
    });
    eventually([&] { return flags->ready.load() == 1; });
    child.stop();
    {
        // Somebody else goes on publishing behind it, and leaves again.
        auto queue = rondo::Queue::open(path).value();
        REQUIRE(queue.create_group("g", group(rondo::GroupMode::shared)));
        publish(queue, 10);
    }
    json all = dump(path, "overview");
    json blocker = row_with(all.at("blockers"), "blocked_by", "open_claim");
    REQUIRE_FALSE(blocker.is_null());
    CHECK(blocker.at("name") == "gateway");
    CHECK(blocker.at("pid") == child.pid());
    CHECK(blocker.at("process") == "stopped");
    CHECK(blocker.at("seq") == 1);
    CHECK(blocker.at("age_seconds").is_number());
    CHECK(blocker.at("age_at_least") == true);
    CHECK(row_with(all.at("groups"), "group", "g").at("lag") == 11);
    json reserved = row_with(dump(path, "records").at("rows"), "storage", "reserved");
    CHECK(reserved.at("seq") == 1);
    CHECK(row_with(dump(path, "producers").at("rows"), "producer", "gateway").at("open_reservations") == 1);

    child.kill();
    (void)child.wait();
    all = dump(path, "overview");
    CHECK(all.at("live") == false);
    blocker = row_with(all.at("blockers"), "blocked_by", "open_claim");
    CHECK(blocker.at("process") == "dead");
    CHECK(dump(path, "verify").at("rows")[0].at("open_reservations") == 1);

    // Whoever comes next repairs; nobody ever gets the garbage.
    auto queue = rondo::Queue::open(path).value();
    auto consumer = queue.consumer("g").value();
    for (int i = 0; i < 11; ++i) {
        auto message = consumer.receive(10s);
        REQUIRE(message);
        const std::string_view text(reinterpret_cast<const char*>(message->payload().data()),
                                    message->payload().size());
        CHECK(text == (i == 0 ? "before" : "message"));
        CHECK(message->ack());
    }
    all = dump(path, "overview");
    CHECK(row_with(all.at("rows"), "ring", "lane-00.ring").at("void") == 1);
    CHECK(row_with(all.at("blockers"), "blocked_by", "open_claim").is_null());
    const json rows = dump(path, "records").at("rows");
    const json aborted = row_with(rows, "storage", "aborted");
    if (!aborted.is_null()) CHECK(aborted.at("seq") == 1);  // unless its slots were taken back already
    CHECK(row_with(rows, "storage", "damaged").is_null());
    CHECK(dump(path, "verify").at("rows")[0].at("result") == "ok");
}

TEST_CASE("a consumer killed with a message: shown in flight of a dead one until somebody comes") {
    const rondo::test::TmpDir tmp;
    const std::string path = tmp.str() + "/q";
    {
        auto queue = rondo::Queue::create(path, {.capacity_bytes = 256 << 10}).value();
        REQUIRE(queue.create_group("g", group(rondo::GroupMode::shared)));
        publish(queue, 3);
    }
    rondo::test::SharedBlock<Flags> flags;
    Child child = sitting(path, flags, [](rondo::Queue& q) {
        auto consumer = std::make_unique<rondo::Consumer>(q.consumer("g", {.name = "worker"}).value());
        auto message = std::make_unique<rondo::Message>(consumer->receive(5s).value());
        return std::pair(std::move(consumer), std::move(message));
    });
    eventually([&] { return flags->ready.load() == 1; });
    child.kill();
    (void)child.wait();
    const json row = dump(path, "inflight").at("rows").at(0);
    CHECK(row.at("consumer") == "worker");
    CHECK(row.at("alive") == "dead");
    CHECK(row.at("deliveries") == 1);
    const json state = dump(path, "groups").at("rows").at(0);
    CHECK(state.at("members") == 0);
    CHECK(state.at("blocked_by").get<std::string>().find("dead") != std::string::npos);
    auto queue = rondo::Queue::open(path).value();
    auto consumer = queue.consumer("g").value();
    for (int i = 0; i < 2; ++i) CHECK(consumer.receive(10s).value().ack());
    eventually([&] { return dump(path, "groups").at("rows").at(0).at("owner_died") == 1; });
}

TEST_CASE("beside a ring at full speed every view answers, with numbers in their bounds") {
    const rondo::test::TmpDir tmp;
    const std::string path = tmp.str() + "/q";
    auto queue = rondo::Queue::create(path, {.capacity_bytes = 1 << 20}).value();
    REQUIRE(queue.create_group("shared", group(rondo::GroupMode::shared)));
    REQUIRE(queue.create_group("ordered", group(rondo::GroupMode::exclusive)));
    rondo::test::SharedBlock<Flags> flags;
    const auto producing = [&] {
        auto q = rondo::Queue::open(path).value();
        auto producer = q.producer().value();
        const std::vector<std::byte> payload(200);
        while (flags->stop.load() == 0) {
            if (producer.publish(payload, {.key = "k"})) flags->count.fetch_add(1);
        }
        return 0;
    };
    const auto consuming = [&](const char* name) {
        auto q = rondo::Queue::open(path).value();
        auto consumer = q.consumer(name).value();
        for (int n = 0; flags->stop.load() == 0; ++n) {
            auto message = consumer.receive(20ms);
            if (!message) continue;
            if (n % 1000 == 999) {
                (void)message->reject({.code = "every thousandth"});
            } else {
                (void)message->ack();
            }
        }
        return 0;
    };
    Child producer(producing);
    Child shared([&] { return consuming("shared"); });
    Child ordered([&] { return consuming("ordered"); });
    eventually([&] { return flags->count.load() > 10'000; });

    const std::uint64_t slots = (1 << 20) / 64;
    std::vector<double> times;
    const std::array views = {"overview", "groups", "inflight", "consumers", "producers", "dlq-summary", "scheduled"};
    std::uint64_t before = 0;
    for (std::size_t round = 0; round < 100; ++round) {
        const Run run = run_dump(path + " " + views[round % views.size()] + " -o json");
        CAPTURE(run.text);
        REQUIRE(run.code == 0);
        times.push_back(run.ms);
        const json all = json::parse(run.text);
        for (const auto& row : all.at("view") == "groups" ? all.at("rows") : json::array()) {
            const auto lag = row.at("lag").get<std::uint64_t>();
            CHECK(lag <= slots);
            CHECK(lag == row.at("ready").get<std::uint64_t>() + row.at("in_flight").get<std::uint64_t>() +
                             row.at("sched_retry").get<std::uint64_t>() + row.at("dead_pending").get<std::uint64_t>());
            CHECK(row.at("complete") == true);
        }
        if (all.at("view") == "overview") {
            const json ring = row_with(all.at("rows"), "ring", "lane-00.ring");
            CHECK(ring.at("bytes").get<std::uint64_t>() + ring.at("credit_left_bytes").get<std::uint64_t>() == 1 << 20);
            const auto tail = ring.at("tail_seq").get<std::uint64_t>();
            CHECK(tail >= before);
            before = tail;
        }
    }
    // Everything is checked while it moves: a moving ring is no damage.
    for (int i = 0; i < 10; ++i) {
        const Run run = run_dump(path + " verify");
        CAPTURE(run.text);
        CHECK(run.code == 0);
    }
    for (int i = 0; i < 5; ++i) {
        const Run run = run_dump(path + " records --payload hex -o jsonl");
        CAPTURE(run.text.substr(0, 2000));
        CHECK(run.code == 0);
        CHECK(run.text.find("\"damaged\"") == std::string::npos);
    }
    flags->stop.store(1);
    CHECK(producer.wait().exited_with(0));
    CHECK(shared.wait().exited_with(0));
    CHECK(ordered.wait().exited_with(0));
    std::sort(times.begin(), times.end());
    std::printf("%zu runs beside a busy ring: median %.1f ms, slowest %.1f ms\n", times.size(), times[times.size() / 2],
                times.back());

    const json quiet = dump(path, "groups");
    for (const auto& row : quiet.at("rows")) {
        std::uint64_t lag = 0;
        for (const auto& g : queue.stats().groups) {
            if (row.at("group") == g.name) lag = g.lag;
        }
        CHECK(row.at("lag") == lag);
    }
}

TEST_CASE("a file that is cut while it is read ends with a line that names it, never without a word") {
    const rondo::test::TmpDir tmp;
    const std::string path = tmp.str() + "/q";
    {
        auto queue = rondo::Queue::create(path, {.capacity_bytes = 16 << 20}).value();
        auto producer = queue.producer().value();
        const std::vector<std::byte> payload(100'000);
        while (producer.publish(payload, {.timeout = 0ms})) {
        }
    }
    const std::string file = path + "/lane-00.ring";
    const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    std::vector<char> content(static_cast<std::size_t>(lseek(fd, 0, SEEK_END)));
    REQUIRE(pread(fd, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
    auto random = rondo::test::rng(1);
    int told = 0;
    // Where in its run the cut meets ring-dump is chance: all cuts must be survived, some must meet it reading.
    for (int round = 0; round < 500 && told < 3; ++round) {
        REQUIRE(pwrite(fd, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
        const auto length = static_cast<off_t>(round % 2 == 0 ? 0 : content.size() / 2);
        const auto delay = static_cast<useconds_t>(random.below(15'000));
        Child cutter([&] {
            usleep(delay);  // the random moment of the cut is the thing under test
            return ftruncate(fd, length) == 0 ? 0 : 1;
        });
        const Run run = run_dump(path + " verify");
        CAPTURE(run.text);
        CHECK(cutter.wait().exited_with(0));
        CHECK((run.code == 0 || run.code == 3 || run.code == 4));
        if (run.text.find("became shorter") != std::string::npos) {
            ++told;
            CHECK(run.code == 3);
            CHECK(run.text.find("lane-00.ring") != std::string::npos);
        }
    }
    (void)close(fd);
    CHECK(told > 0);
}
