// SPDX-License-Identifier: MIT
// Numbers and explanations: bounded at every moment, exact when it is quiet, and reading them changes no byte.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "support/eventually.hpp"
#include "support/seed.hpp"
#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

using namespace rondo;
using namespace rondo::test;
using test::eventually;
using test::TmpDir;

namespace {

struct Fixture {
    TmpDir dir;
    Queue queue;
    Producer producer;

    explicit Fixture(Producers producers = Producers::many)
        : queue(Queue::create(dir.str() + "/q", {.capacity_bytes = small, .producers = producers}).value()),
          producer(queue.producer({.name = "maker"}).value()) {}
    static GroupOptions options(GroupMode mode = GroupMode::shared) {
        GroupOptions o{.mode = mode, .start = Start::earliest()};
        o.backoff_initial = 0ns;
        return o;
    }
    void publish(int n = 1) {
        for (int i = 0; i < n; ++i) REQUIRE(producer.publish(bytes("x")));
    }
    GroupStats group(std::string_view name) const {
        for (auto& g : queue.stats().groups)
            if (g.name == name) return g;
        return {};
    }
    std::map<std::string, std::string> files() const {
        std::map<std::string, std::string> all;
        for (const auto& f : std::filesystem::directory_iterator(dir.str() + "/q")) {
            std::ifstream in(f.path(), std::ios::binary);
            all[f.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
        }
        return all;
    }
    bool explains(Errc code, std::string_view with) const {
        const std::string text = queue.explain({code, 0, "why"});
        CAPTURE(text);
        const bool found = text.find(with) != std::string::npos;
        CHECK(found);
        return found;
    }
};

void check_bounds(const Stats& s) {
    REQUIRE(s.used_slots + s.credit_slots == s.capacity_slots);
    REQUIRE(s.tail - s.floor == s.used_slots);
    REQUIRE(s.limit - s.floor == s.capacity_slots);
    REQUIRE(s.dead_used_slots <= s.dead_capacity_slots);
    for (const auto& g : s.groups) {
        REQUIRE(g.lag <= s.capacity_slots);
        REQUIRE(g.lag == g.ready + g.scheduled + g.in_flight + g.dead_pending);
    }
}

}  // namespace

TEST_CASE("a new queue's numbers") {
    for (const auto producers : {Producers::one, Producers::many}) {
        Fixture f(producers);
        const auto s = f.queue.stats();
        CHECK(s.capacity_slots == small / 64);
        CHECK(s.used_slots == 0);
        CHECK(s.credit_slots == s.capacity_slots);
        CHECK(s.floor == 0);
        CHECK(s.tail == 0);
        CHECK(s.limit == s.capacity_slots);
        CHECK(s.participants == 1);
        CHECK(s.producers == 1);
        CHECK(s.consumers == 0);
        CHECK(s.voids == 0);
        CHECK(s.corrupt == 0);
        CHECK(s.dead_open == 0);
        CHECK(s.dead_used_slots == 0);
        CHECK(s.dead_capacity_slots == small / 64);
        CHECK_FALSE(s.closed);
        CHECK_FALSE(s.file_gone);
        CHECK(s.groups.empty());
    }
}

TEST_CASE("the counts of a shared group follow its messages through every state") {
    Fixture f;
    auto o = Fixture::options();
    o.max_deliveries = 2;
    auto c = f.queue.consumer("g", o).value();
    const auto expect = [&](std::uint64_t ready, std::uint64_t scheduled, std::uint64_t in_flight) {
        const auto g = f.group("g");
        CHECK(g.ready == ready);
        CHECK(g.scheduled == scheduled);
        CHECK(g.in_flight == in_flight);
        CHECK(g.dead_pending == 0);
        CHECK(g.lag == ready + scheduled + in_flight);
    };
    f.publish(5);
    expect(5, 0, 0);
    std::vector<Message> held;
    for (int i = 0; i < 4; ++i) held.push_back(next(c));
    expect(1, 0, 4);
    CHECK(held[0].ack());
    expect(1, 0, 3);
    CHECK(held[1].nack({}, 1h));
    expect(1, 1, 2);
    CHECK(held[2].release());
    expect(2, 1, 1);
    CHECK(held[3].reject({.code = "c"}));
    expect(2, 1, 0);
    {
        auto batch = c.receive_batch(10, 0ns).value();
        expect(0, 1, 2);
    }
    expect(2, 1, 0);
    const auto g = f.group("g");
    CHECK(g.mode == GroupMode::shared);
    CHECK(g.delivered == 4);
    CHECK(g.redelivered == 0);
    CHECK(g.acked == 1);
    CHECK(g.nacked == 1);
    CHECK(g.rejected == 1);
    CHECK(g.released == 1);
    CHECK(g.stale == 0);
    CHECK(g.lapsed == 0);
    CHECK(g.owner_died == 0);
    CHECK(g.dead_lettered == 1);
    CHECK(g.members == 1);
    CHECK(f.queue.stats().dead_open == 1);
}

TEST_CASE("the counts of an exclusive group follow its messages through every state") {
    Fixture f;
    auto c = f.queue.consumer("g", Fixture::options(GroupMode::exclusive)).value();
    const auto expect = [&](std::uint64_t ready, std::uint64_t scheduled, std::uint64_t in_flight) {
        const auto g = f.group("g");
        CHECK(g.ready == ready);
        CHECK(g.scheduled == scheduled);
        CHECK(g.in_flight == in_flight);
        CHECK(g.lag == ready + scheduled + in_flight);
    };
    f.publish(5);
    expect(5, 0, 0);
    CHECK_FALSE(f.group("g").active_owner);
    std::vector<Message> held;
    for (int i = 0; i < 3; ++i) held.push_back(next(c));
    expect(2, 0, 3);
    CHECK(f.group("g").active_owner);
    CHECK(held[0].ack());
    expect(2, 0, 2);
    CHECK(held[1].nack({}, 1h));
    expect(3, 1, 0);
    held.clear();
    expect(3, 1, 0);
    CHECK(f.group("g").nacked == 1);  // dropping what is stale is no failure
    CHECK(f.group("g").delivered == 3);
    CHECK(f.group("g").mode == GroupMode::exclusive);
}

TEST_CASE("what was delivered adds up at every quiet moment, whatever the handlers do") {
    auto rng = test::rng();
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f;
        auto o = Fixture::options(mode);
        o.max_deliveries = 3;
        std::optional<Consumer> c = f.queue.consumer("g", o).value();
        std::uint64_t published = 0, acked = 0;
        for (int round = 0; round < 60; ++round) {
            const auto n = static_cast<int>(rng.below(8));
            f.publish(n);
            published += static_cast<std::uint64_t>(n);
            const auto takes = rng.below(10);
            for (std::uint64_t i = 0; i < takes; ++i) {
                auto m = c->try_receive();
                if (!m) break;
                switch (rng.below(6)) {
                    case 0:
                        CHECK(m->nack({}, 0ns));
                        break;
                    case 1:
                        CHECK(m->reject({.code = "c"}));
                        break;
                    case 2:
                        CHECK(m->release());
                        break;
                    case 3:
                        break;
                    default:
                        CHECK(m->ack());
                        ++acked;
                }
            }
            if (rng.one_in(5)) c = f.queue.consumer("g").value();
            const auto s = f.queue.stats();
            check_bounds(s);
            const auto& g = s.groups.at(0);
            CHECK(g.in_flight == 0);
            CHECK(g.acked == acked);
            CHECK(g.lag + g.acked + g.dead_lettered == published);
            CHECK(g.delivered >= g.acked + g.nacked + g.rejected + g.released);
            CHECK(s.dead_open == g.dead_lettered);
        }
    }
}

TEST_CASE("counters of members that are gone are kept, those of an earlier group are not") {
    Fixture f;
    for (int i = 0; i < 3; ++i) {
        auto c = f.queue.consumer("g", Fixture::options()).value();
        f.publish(2);
        CHECK(next(c).ack());
        CHECK(next(c).ack());
    }
    CHECK(f.group("g").acked == 6);
    CHECK(f.group("g").delivered == 6);
    CHECK(f.group("g").members == 0);
    REQUIRE(f.queue.delete_group("g"));
    REQUIRE(f.queue.create_group("g", Fixture::options()));
    CHECK(f.group("g").acked == 0);
}

TEST_CASE("participants, producers and consumers are counted while they live") {
    Fixture f;
    CHECK(f.queue.stats().producers == 1);
    {
        auto other = Queue::open(f.dir.str() + "/q").value();
        auto p = other.producer().value();
        auto c = other.consumer("g", Fixture::options()).value();
        auto s = f.queue.stats();
        CHECK(s.participants == 2);
        CHECK(s.producers == 2);
        CHECK(s.consumers == 1);
        CHECK(s.groups.at(0).members == 1);
        s = other.stats();
        CHECK(s.participants == 2);
    }
    const auto s = f.queue.stats();
    CHECK(s.participants == 1);
    CHECK(s.producers == 1);
    CHECK(s.consumers == 0);
}

TEST_CASE("numbers stay within their bounds while the ring is busy") {
    Fixture f;
    REQUIRE(f.queue.create_group("shared", Fixture::options()));
    REQUIRE(f.queue.create_group("ordered", Fixture::options(GroupMode::exclusive)));
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
        const std::string payloads[] = {std::string(10, 'a'), std::string(200, 'b'), std::string(900, 'c')};
        PublishOptions brief;
        brief.timeout = 1ms;
        for (std::size_t i = 0; !stop.load(); ++i) {
            if (i % 7 == 0) {
                auto claim = f.producer.claim(100, brief);
                if (claim) claim->abort();
            } else {
                (void)f.producer.publish(bytes(payloads[i % 3]), brief);
            }
        }
    });
    for (const char* name : {"shared", "ordered"}) {
        threads.emplace_back([&, name] {
            auto c = f.queue.consumer(name).value();
            for (std::size_t i = 0; !stop.load(); ++i) {
                auto m = c.receive(1ms);
                if (!m) continue;
                if (i % 11 == 0) {
                    (void)m->nack({}, 0ns);
                } else if (i % 101 == 0) {
                    (void)m->reject({.code = "c"});
                } else {
                    (void)m->ack();
                }
            }
        });
    }
    Seq tail = 0;
    for (int i = 0; i < 200; ++i) {
        const auto s = f.queue.stats();
        check_bounds(s);
        REQUIRE(s.tail >= tail);
        tail = s.tail;
    }
    eventually([&] { return f.queue.stats().tail > f.queue.stats().capacity_slots; });
    stop.store(true);
    for (auto& t : threads) t.join();
    check_bounds(f.queue.stats());
}

TEST_CASE("reading numbers and explanations changes no byte of any file") {
    Fixture f;
    auto c = f.queue.consumer("g", Fixture::options()).value();
    auto e = f.queue.consumer("e", Fixture::options(GroupMode::exclusive)).value();
    f.publish(5);
    Message m = next(c), n = next(c), o = next(e);
    CHECK(m.nack({}, 1h));
    CHECK(n.reject({.code = "c"}));
    auto claim = f.producer.claim(8).value();
    auto other = Queue::open(f.dir.str() + "/q").value();
    const auto before = f.files();
    for (int i = 0; i < 3; ++i) {
        check_bounds(f.queue.stats());
        check_bounds(other.stats());
        for (const auto code : {Errc::timeout, Errc::no_credit, Errc::would_deadlock, Errc::role_taken, Errc::busy})
            CHECK_FALSE(f.queue.explain({code, 0, "why"}).empty());
        CHECK(f.queue.capacity() == small);
        CHECK(e.active());
        CHECK(c.last_gap().error().code == Errc::not_found);
    }
    const auto after = f.files();
    REQUIRE(after.size() == before.size());
    for (const auto& file : before) {
        CAPTURE(file.first);
        CHECK((after.at(file.first) == file.second));
    }
}

// ---- explanations --------------------------------------------------------------------------------------------

TEST_CASE("an explanation names the error, the queue and its path") {
    Fixture f;
    const std::string text = f.queue.explain({Errc::too_large, 0, "larger than it may be"});
    CHECK(text.find("too_large") != std::string::npos);
    CHECK(text.find("larger than it may be") != std::string::npos);
    CHECK(text.find(f.dir.str() + "/q") != std::string::npos);
    CHECK(text.find("held up") == std::string::npos);
}

TEST_CASE("who holds up a full queue is named: which group, which process, doing what") {
    const std::string me = std::string("process ").append(std::to_string(getpid()));
    {
        Fixture f;
        f.publish();
        f.explains(Errc::no_credit, "no group: everything is kept");
    }
    {
        Fixture f;
        REQUIRE(f.queue.create_group("lonely", Fixture::options()));
        f.publish();
        f.explains(Errc::timeout, "by group lonely, which has no members");
        f.explains(Errc::timeout, "group lonely");
    }
    {
        Fixture f;
        auto c = f.queue.consumer("slow", Fixture::options()).value();
        f.publish();
        f.explains(Errc::timeout, "by group slow, which is behind");
        Message m = next(c);
        f.explains(Errc::timeout, "by a message in the hands of a consumer of group slow, process");
        f.explains(Errc::timeout, "group slow");
        f.explains(Errc::timeout, me);
        f.explains(Errc::timeout, "unit_queue_stats");
        f.explains(Errc::timeout, "this one");
        f.explains(Errc::timeout, " ms");
        CHECK(m.nack({}, 1h));
        f.explains(Errc::no_credit, "waits for its next attempt");
    }
    {
        Fixture f;
        auto c = f.queue.consumer("ordered", Fixture::options(GroupMode::exclusive)).value();
        f.publish();
        Message m = next(c);
        f.explains(Errc::would_deadlock, "by a message in the hands of the owner of group ordered, process");
        f.explains(Errc::would_deadlock, "group ordered");
        f.explains(Errc::would_deadlock, me);
    }
    {
        Fixture f;
        auto claim = f.producer.claim(8).value();
        f.explains(Errc::timeout, "an uncommitted claim");
        f.explains(Errc::timeout, me);
    }
    {
        Fixture f;
        auto o = Fixture::options();
        o.lease_timeout = 10ms;
        auto a = f.queue.consumer("g", o).value(), b = f.queue.consumer("g", o).value();
        f.publish();
        Message late = next(a);
        CHECK(next(b).ack());
        f.explains(Errc::timeout, "still reads a settled message");
    }
}

TEST_CASE("the files of a queue that were removed behind its back are missed") {
    Fixture f;
    CHECK_FALSE(f.queue.stats().file_gone);
    std::filesystem::rename(f.dir.str() + "/q/lane-00.ring", f.dir.str() + "/aside");
    CHECK(f.queue.stats().file_gone);
    std::filesystem::rename(f.dir.str() + "/aside", f.dir.str() + "/q/lane-00.ring");
    CHECK_FALSE(f.queue.stats().file_gone);
    std::filesystem::remove_all(f.dir.str() + "/q");
    CHECK(f.queue.stats().file_gone);
    f.publish();  // the memory is still there
}
