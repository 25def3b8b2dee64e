// SPDX-License-Identifier: MIT
// Credit and waiting: a ring takes exactly what it says, gives back exactly what is settled, and every wait ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "format/record.hpp"
#include "support/eventually.hpp"
#include "support/seed.hpp"
#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

using namespace rondo;
using namespace rondo::test;
using test::eventually;
using test::TmpDir;

namespace {

template <Producers P, GroupMode M>
struct Kind {
    static constexpr Producers producers = P;
    static constexpr GroupMode mode = M;
};
using OneShared = Kind<Producers::one, GroupMode::shared>;
using OneExclusive = Kind<Producers::one, GroupMode::exclusive>;
using ManyShared = Kind<Producers::many, GroupMode::shared>;
using ManyExclusive = Kind<Producers::many, GroupMode::exclusive>;
#define KINDS OneShared, OneExclusive, ManyShared, ManyExclusive

template <class K>
struct Line {
    TmpDir dir;
    Queue queue;
    Producer producer;
    Consumer consumer;

    explicit Line(QueueOptions o = {})
        : queue(make(dir, o)),
          producer(queue.producer().value()),
          consumer(queue.consumer("group", {.mode = K::mode, .start = Start::earliest()}).value()) {}
    static Queue make(const TmpDir& dir, QueueOptions o) {
        o.capacity_bytes = small;
        o.producers = K::producers;
        return Queue::create(dir.str() + "/q", o).value();
    }
    Message next() { return consumer.try_receive().value(); }
    std::uint64_t slots() const { return queue.capacity() / format::slot_bytes; }
    /// As many messages of one slot as the ring takes.
    std::uint64_t fill() {
        std::uint64_t n = 0;
        while (producer.try_publish(bytes("one slot"))) ++n;
        return n;
    }
};

void check_sum(const Queue& queue) {
    const auto s = queue.stats();
    REQUIRE(s.used_slots + s.credit_slots == s.capacity_slots);
    REQUIRE(s.used_slots <= s.capacity_slots);
    REQUIRE(s.limit - s.floor == s.capacity_slots);
    REQUIRE(s.tail - s.floor == s.used_slots);
    for (const auto& g : s.groups) {
        REQUIRE(g.lag <= s.capacity_slots);
        REQUIRE(g.lag == g.ready + g.scheduled + g.in_flight + g.dead_pending);
    }
}

}  // namespace

// ---- the bound -----------------------------------------------------------------------------------------------

TEST_CASE_TEMPLATE("a ring takes exactly as many one-slot messages as it has slots", K, KINDS) {
    Line<K> line;
    CHECK(line.queue.capacity() == small);
    CHECK(line.queue.stats().credit_slots == line.slots());
    CHECK(line.fill() == line.slots());
    auto s = line.queue.stats();
    CHECK(s.credit_slots == 0);
    CHECK(s.used_slots == line.slots());
    CHECK(s.groups.at(0).ready == line.slots());

    // Each ack makes room for exactly one more; a refused publish changes nothing.
    for (int i = 0; i < 3; ++i) {
        const auto refused = line.producer.try_publish(bytes("x"));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == Errc::no_credit);
        CHECK(line.queue.stats().tail == s.tail);
        REQUIRE(line.next().ack());
        CHECK(line.fill() == 1);
        s = line.queue.stats();
        CHECK(s.credit_slots == 0);
    }
}

TEST_CASE_TEMPLATE("a ring that was drained takes all again, for several laps", K, KINDS) {
    Line<K> line;
    for (int lap = 0; lap < 4; ++lap) {
        CHECK(line.fill() == line.slots());
        check_sum(line.queue);
        for (std::uint64_t i = 0; i < line.slots(); ++i) REQUIRE(line.next().ack());
        const auto s = line.queue.stats();
        CHECK(s.groups.at(0).lag == 0);
        CHECK(s.groups.at(0).floor == s.tail);
        check_sum(line.queue);
    }
    CHECK(line.consumer.try_receive().error().code == Errc::empty);
}

TEST_CASE_TEMPLATE("messages of odd sizes go round and round: nothing is lost, credit adds up at each step", K, KINDS) {
    auto rng = test::rng(static_cast<std::uint64_t>(K::producers) * 2 + static_cast<std::uint64_t>(K::mode));
    Line<K> line({.max_record_bytes = small / 8, .checksum = Checksum::xxh3});
    std::deque<std::string> expected;
    std::uint64_t published = 0, full = 0;
    const auto payload = [&] {
        const std::size_t n = rng.one_in(20) ? rng.below(line.producer.max_payload_bytes() + 1) : rng.below(700);
        std::string p(n, '\0');
        rng.fill(std::as_writable_bytes(std::span(p)));
        return p;
    };
    const auto publish = [&](bool filling) {
        for (int i = 0; filling || i < 20; ++i) {
            const auto p = payload();
            Result<Published> sent = fail(Errc::empty, "");
            if (rng.one_in(3)) {
                PublishOptions now;
                now.timeout = 0ns;
                auto claim =
                    line.producer.claim(std::min(p.size() + rng.below(3) * 64, line.producer.max_payload_bytes()), now);
                if (claim && rng.one_in(10)) {
                    claim->abort();
                    continue;
                }
                if (claim) {
                    std::copy(p.begin(), p.end(), reinterpret_cast<char*>(claim->payload().data()));
                    sent = claim->commit(p.size());
                } else {
                    sent = tl::unexpected(claim.error());
                }
            } else if (rng.one_in(4)) {
                const auto q = payload();
                if (p.size() + q.size() > small / 8 - 1024) continue;
                PublishOptions now;
                now.timeout = 0ns;
                const std::array<Outgoing, 2> batch = {Outgoing{bytes(p), now}, Outgoing{bytes(q), {}}};
                sent = line.producer.publish_batch(batch);
                if (sent) {
                    expected.push_back(p);
                    expected.push_back(q);
                    published += 2;
                    continue;
                }
            } else {
                sent = line.producer.try_publish(bytes(p));
            }
            if (!sent) {
                CAPTURE(std::string(sent.error().what));
                REQUIRE((sent.error().code == Errc::no_credit || sent.error().code == Errc::timeout));
                ++full;
                break;
            }
            expected.push_back(p);
            ++published;
        }
    };
    const auto consume = [&](std::size_t max) {
        for (std::size_t i = 0; i < max && !expected.empty(); ++i) {
            Message m = line.next();
            REQUIRE(text(m.payload()) == expected.front());
            REQUIRE(m.ack());
            expected.pop_front();
        }
    };
    while (line.queue.stats().tail < 6 * line.slots()) {
        publish(rng.one_in(4));
        check_sum(line.queue);
        consume(rng.one_in(4) ? SIZE_MAX : rng.below(60));
        check_sum(line.queue);
    }
    consume(SIZE_MAX);
    CHECK(line.consumer.try_receive().error().code == Errc::empty);
    CHECK(full > 0);
    CHECK(published > 300);
    const auto s = line.queue.stats();
    CHECK(s.groups.at(0).lag == 0);
    CHECK(s.groups.at(0).floor == s.tail);
    CHECK(s.corrupt == 0);
}

TEST_CASE_TEMPLATE("at the ring's end a message fits exactly or goes round, whatever is left there", K, KINDS) {
    Line<K> line({.max_record_bytes = small / 8, .checksum = Checksum::xxh3});
    const auto send = [&](std::uint64_t slots) {
        const std::string payload(slots * format::slot_bytes - format::header_bytes,
                                  static_cast<char>('a' + slots % 26));
        const auto sent = line.producer.try_publish(bytes(payload));
        REQUIRE(sent);
        Message m = line.next();
        REQUIRE(m.seq() == sent->seq);
        REQUIRE((text(m.payload()) == payload));
        REQUIRE(m.ack());
        return sent->seq;
    };
    for (std::uint64_t rest = 1; rest <= 8; ++rest) {
        for (std::uint64_t slots = 1; slots <= rest + 3; ++slots) {
            CAPTURE(rest);
            CAPTURE(slots);
            Seq end = (line.queue.stats().tail / line.slots() + 1) * line.slots();
            if (line.queue.stats().tail > end - rest) end += line.slots();  // this lap is past that place already
            while (line.queue.stats().tail < end - rest)
                send(std::min(line.slots() / 8, end - rest - line.queue.stats().tail));
            const bool fits = slots <= rest;
            CHECK(send(slots) == (fits ? end - rest : end));
            check_sum(line.queue);
        }
    }
    CHECK(line.queue.stats().corrupt == 0);
    CHECK(line.queue.stats().groups.at(0).skipped == 0);
}

TEST_CASE_TEMPLATE("a full ring does not wake up half-empty: the largest message waits for all the room it needs", K,
                   KINDS) {
    Line<K> line({.max_record_bytes = small / 8});
    line.fill();
    const std::string large(line.producer.max_payload_bytes(), 'L');
    const std::uint64_t needed = small / 8 / format::slot_bytes;
    for (std::uint64_t i = 0; i < needed; ++i) {
        const auto sent = line.producer.try_publish(bytes(large));
        REQUIRE_FALSE(sent);
        REQUIRE(sent.error().code == Errc::no_credit);
        REQUIRE(line.next().ack());
    }
    CHECK(line.producer.try_publish(bytes(large)));
    check_sum(line.queue);
}

TEST_CASE("a message in hand, delayed or failed for good holds its room like any other") {
    Line<ManyShared> line;
    line.fill();
    std::vector<Message> hand;
    for (int i = 0; i < 3; ++i) hand.push_back(line.next());
    REQUIRE(line.next().ack());  // settled, but behind the three
    CHECK(line.fill() == 0);
    REQUIRE(hand[1].ack());
    CHECK(line.fill() == 0);
    REQUIRE(hand[0].nack({}, 1h));
    CHECK(line.fill() == 0);
    REQUIRE(hand[2].ack());
    CHECK(line.fill() == 0);
    const auto s = line.queue.stats().groups.at(0);
    CHECK(s.scheduled == 1);
    CHECK(s.lag == line.slots() - 3);
    CHECK(s.floor == 0);
}

TEST_CASE("the slowest of several groups decides about room") {
    Line<ManyShared> line;
    auto slow = line.queue.consumer("slow", {.mode = GroupMode::exclusive, .start = Start::earliest()}).value();
    line.fill();
    for (int i = 0; i < 10; ++i) REQUIRE(line.next().ack());
    CHECK(line.fill() == 0);
    Message last = slow.try_receive().value();
    for (int i = 1; i < 4; ++i) {
        REQUIRE(last.ack());
        last = slow.try_receive().value();
    }
    CHECK(line.fill() == 3);
}

// ---- overflow ------------------------------------------------------------------------------------------------

TEST_CASE("a full queue refuses at once under overflow = fail, and after the timeout under overflow = block") {
    for (const auto overflow : {Overflow::fail, Overflow::block}) {
        CAPTURE(static_cast<int>(overflow));
        Line<ManyShared> line({.overflow = overflow});
        line.fill();
        const auto tail = line.queue.stats().tail;
        const auto expected = overflow == Overflow::fail ? Errc::no_credit : Errc::timeout;
        PublishOptions o;
        o.timeout = 10ms;
        const std::array<Outgoing, 1> batch = {Outgoing{bytes("x"), o}};
        const auto before = std::chrono::steady_clock::now();
        CHECK(line.producer.publish(bytes("x"), o).error().code == expected);
        if (overflow == Overflow::block) CHECK(std::chrono::steady_clock::now() - before >= 10ms);
        CHECK(line.producer.publish_batch(batch).error().code == expected);
        CHECK(line.producer.claim(1, o).error().code == expected);
        CHECK(line.producer.try_publish(bytes("x"), o).error().code == Errc::no_credit);
        o.timeout = 0ns;
        CHECK(line.producer.publish(bytes("x"), o).error().code == expected);
        CHECK(line.producer.claim(1, o).error().code == expected);
        o.timeout = -1ns;
        CHECK(line.producer.publish(bytes("x"), o).error().code == Errc::invalid_argument);
        CHECK(line.queue.stats().tail == tail);
    }
}

TEST_CASE_TEMPLATE("a publisher that waits for room goes on as soon as there is some", K, KINDS) {
    Line<K> line;
    for (const Duration timeout : {Duration(1h), forever, forever - 1ns, Duration(INT64_MAX / 2)}) {
        CAPTURE(timeout.count());
        line.fill();
        std::atomic<bool> done = false;
        std::thread publisher([&] {
            PublishOptions o;
            o.timeout = timeout;
            const bool sent = line.producer.publish(bytes("waited"), o).has_value();
            done.store(sent);
        });
        // It shows that it waits; no room, no publish.
        eventually([&] {
            const auto e = line.queue.explain(Error{Errc::timeout, 0, ""});
            return line.queue.stats().credit_slots == 0 && e.find("group group") != std::string::npos;
        });
        CHECK_FALSE(done.load());
        CHECK(line.next().ack());
        publisher.join();
        CHECK(done.load());
    }
}

TEST_CASE("a receive ends at its deadline, whatever the deadline") {
    Line<ManyShared> line;
    CHECK(line.consumer.try_receive().error().code == Errc::empty);
    CHECK(line.consumer.receive(0ns).error().code == Errc::empty);
    for (const Duration timeout : {Duration(1ns), Duration(1us), Duration(5ms)}) {
        const auto before = std::chrono::steady_clock::now();
        CHECK(line.consumer.receive(timeout).error().code == Errc::timeout);
        CHECK(std::chrono::steady_clock::now() - before >= timeout);
        CHECK(line.consumer.receive_batch(5, timeout).error().code == Errc::timeout);
    }
    CHECK(line.consumer.receive(-1ns).error().code == Errc::invalid_argument);
    CHECK(line.consumer.receive(Duration::min()).error().code == Errc::invalid_argument);
    CHECK(line.consumer.receive_batch(1, -1ns).error().code == Errc::invalid_argument);
    CHECK(line.consumer.receive_batch(0, 1ms).error().code == Errc::invalid_argument);
}

TEST_CASE_TEMPLATE("a receiver that waits gets the next message", K, KINDS) {
    Line<K> line;
    for (const Duration timeout : {Duration(1h), forever, forever - 1ns, Duration(INT64_MAX / 2)}) {
        CAPTURE(timeout.count());
        std::thread publisher([&] { (void)line.producer.publish(bytes("x")); });
        auto m = line.consumer.receive(timeout);
        publisher.join();
        REQUIRE(m);
        CHECK(m->ack());
    }
}

TEST_CASE("many short waits of several threads all end in time, with or without messages") {
    Line<ManyShared> line;
    std::atomic<std::uint64_t> received = 0;
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            auto c = line.queue.consumer("group").value();
            while (!stop.load()) {
                auto m = c.receive(200us);
                if (m && m->ack()) received.fetch_add(1);
            }
        });
    }
    for (int i = 0; i < 300; ++i) {
        REQUIRE(line.producer.publish(bytes("x")));
        if (i % 10 == 0) std::this_thread::yield();
    }
    eventually([&] { return received.load() == 300; });
    stop.store(true);
    for (auto& t : threads) t.join();
    CHECK(line.queue.stats().groups.at(0).lag == 0);
}

// ---- handlers ------------------------------------------------------------------------------------------------

TEST_CASE_TEMPLATE("a thread that holds a message does not wait for room in the same queue", K, KINDS) {
    Line<K> line;
    line.fill();
    std::optional<Message> held = line.next();
    PublishOptions o;
    o.timeout = 1h;
    const auto tail = line.queue.stats().tail;
    CHECK(line.producer.publish(bytes("x"), o).error().code == Errc::would_deadlock);
    CHECK(line.producer.claim(1, o).error().code == Errc::would_deadlock);
    const std::array<Outgoing, 1> batch = {Outgoing{bytes("x"), o}};
    CHECK(line.producer.publish_batch(batch).error().code == Errc::would_deadlock);
    CHECK(line.producer.try_publish(bytes("x"), o).error().code == Errc::no_credit);
    CHECK(line.queue.stats().tail == tail);

    SUBCASE("another thread of the process may wait; this one settles") {
        std::optional<Result<Published>> sent;
        std::thread publisher([&] { sent = line.producer.publish(bytes("x"), o); });
        REQUIRE(held->ack());
        publisher.join();
        CHECK(*sent);
    }
    SUBCASE("another thread settles for it, and it may wait again") {
        std::thread settler([m = std::move(*held)]() mutable { (void)m.ack(); });
        settler.join();
        held.reset();
        CHECK(line.producer.publish(bytes("x"), o));
    }
    SUBCASE("a message that was moved to another thread is that thread's") {
        std::atomic<int> step = 0;
        std::thread holder([&, m = std::move(*held)]() mutable {
            Message here = std::move(m);
            step.store(1);
            eventually([&] { return step.load() == 2; });
            (void)here.ack();
        });
        eventually([&] { return step.load() == 1; });
        held.reset();
        PublishOptions brief;
        brief.timeout = 1ms;
        CHECK(line.producer.publish(bytes("x"), brief).error().code == Errc::timeout);
        step.store(2);
        CHECK(line.producer.publish(bytes("x"), o));
        holder.join();
    }
}

TEST_CASE("with room, a handler publishes into the queue it consumes") {
    Line<ManyShared> line;
    REQUIRE(line.producer.publish(bytes("first")));
    Message m = line.next();
    CHECK(line.producer.publish(bytes("second")));
    CHECK(m.ack());
    CHECK(text(line.next().payload()) == "second");
}

// ---- close ---------------------------------------------------------------------------------------------------

TEST_CASE("closing the queue ends every wait of the process, and every later call") {
    TmpDir dir;
    auto queue = Queue::create(dir.str() + "/q", {.capacity_bytes = small}).value();
    auto other = Queue::open(dir.str() + "/q").value();
    auto consumer = queue.consumer("busy", {.start = Start::earliest()}).value();
    auto filler = queue.producer().value();
    while (filler.try_publish(bytes("one slot"))) {
    }
    std::atomic<int> waiting = 0, closed = 0;
    std::vector<std::thread> threads;
    const auto count = [&](Errc code) { closed.fetch_add(code == Errc::closed ? 1 : 0); };
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            auto p = queue.producer().value();
            PublishOptions o;
            o.timeout = forever;
            waiting.fetch_add(1);
            count(p.publish(bytes("x"), o).error().code);
        });
        threads.emplace_back([&] {
            auto c = queue.consumer("idle", {.start = Start::latest()}).value();
            waiting.fetch_add(1);
            count(c.receive(forever).error().code);
        });
        threads.emplace_back([&, i] {
            auto c = queue.consumer("ordered", {.mode = GroupMode::exclusive, .start = Start::latest()}).value();
            waiting.fetch_add(1);
            // One is active, the other stands by.
            count(i == 0 ? c.receive(forever).error().code : c.receive_batch(3, forever).error().code);
        });
    }
    eventually([&] { return waiting.load() == 6; });
    queue.close();
    for (auto& t : threads) t.join();
    CHECK(closed.load() == 6);

    CHECK(filler.publish(bytes("x")).error().code == Errc::closed);
    CHECK(filler.claim(1).error().code == Errc::closed);
    CHECK(consumer.try_receive().error().code == Errc::closed);
    CHECK(consumer.wait_fd().error().code == Errc::closed);
    CHECK(queue.producer().error().code == Errc::closed);
    CHECK(queue.consumer("busy").error().code == Errc::closed);
    CHECK(queue.create_group("g", {.start = Start::earliest()}).error().code == Errc::closed);
    CHECK(queue.delete_group("busy").error().code == Errc::closed);
    CHECK(queue.dead_letters().error().code == Errc::closed);
    CHECK(queue.stats().closed);
    queue.close();  // again: nothing

    // Only this participant's use ended.
    CHECK_FALSE(other.stats().closed);
    auto c = other.consumer("busy").value();
    CHECK(c.try_receive().value().ack());
    CHECK(other.producer().value().publish(bytes("x")));
}

TEST_CASE_TEMPLATE("a claim that is open while the queue closes cannot be committed", K, KINDS) {
    Line<K> line;
    auto other = Queue::open(line.dir.str() + "/q").value();
    auto claim = line.producer.claim(4).value();
    line.queue.close();
    CHECK(claim.commit().error().code == Errc::closed);
    CHECK(claim.payload().empty());
    CHECK(other.stats().voids == 1);
    CHECK(other.stats().groups.at(0).lag == 0);
}

TEST_CASE("destroying a queue by force ends the waits of everyone who has it open") {
    TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = Queue::create(path, {.capacity_bytes = small}).value();
    auto consumer = queue.consumer("group", {.start = Start::earliest()}).value();
    auto producer = queue.producer().value();
    std::atomic<int> waiting = 0, closed = 0;
    std::vector<std::thread> threads;
    while (producer.try_publish(bytes("one slot"))) {
    }
    Message held = consumer.try_receive().value();
    threads.emplace_back([&] {  // only now: its group begins behind everything, and gets nothing
        auto c = queue.consumer("idle", {.start = Start::latest()}).value();
        waiting.fetch_add(1);
        const auto none = c.receive(forever);
        closed.fetch_add(!none && none.error().code == Errc::closed ? 1 : 0);
    });
    threads.emplace_back([&] {
        auto p = queue.producer().value();
        PublishOptions o;
        o.timeout = forever;
        waiting.fetch_add(1);
        for (;;) {  // the idle group's messages may still make room
            auto sent = p.publish(bytes("x"), o);
            if (sent) continue;
            closed.fetch_add(sent.error().code == Errc::closed ? 1 : 0);
            break;
        }
    });
    eventually([&] { return waiting.load() == 2; });
    CHECK(Queue::destroy(path).error().code == Errc::busy);
    CHECK(Queue::destroy(path, Force::yes));
    for (auto& t : threads) t.join();
    CHECK(closed.load() == 2);
    CHECK(text(held.payload()) == "one slot");  // the memory stays valid
    CHECK(producer.publish(bytes("x")).error().code == Errc::closed);
    CHECK(consumer.try_receive().error().code == Errc::closed);
    CHECK(queue.stats().closed);
    CHECK(queue.stats().file_gone);
    CHECK(Queue::open(path).error().code == Errc::not_found);

    auto fresh = Queue::create(path, {.capacity_bytes = small});
    REQUIRE(fresh);
    CHECK(fresh->stats().tail == 0);
    CHECK(fresh->producer().value().publish(bytes("x")));
    CHECK(producer.publish(bytes("x")).error().code == Errc::closed);
}
