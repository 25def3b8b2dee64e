// ctest: TIMEOUT 300
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// One process does one thing, and is killed after n instructions of it, for n from 0 to the end. Whoever joins next
// finishes what it left: each message comes, or is a dead letter, or was never published; never two of these, never
// none; and nothing stays behind.
//
// RONDO_FULL=1 takes every instruction (up to the stride's limit), otherwise some twenty of each.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <memory>

#include "process/actors.hpp"
#include "process/tracer.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::uint64_t mine = 1;      // producer number of the test
constexpr std::uint64_t victims = 2;   // of the one that is killed
constexpr std::uint64_t sentinel = 3;  // comes after everything

struct Book {
    Flag begun, done;      // the outcome under test
    Flag received;         // receive has returned
    Count delivery_count;  // what it said
};

/// What the test finds out after each kill.
struct Found {
    std::array<std::uint64_t, 8> copies{};  // of the victim's items, or of the test's items, by sequence
    std::array<std::uint32_t, 8> attempts{};
    std::uint64_t dead = 0;
    Seq dead_seq = 0;
};

/// A queue and what the test process holds of it. `mode` of the one group "g".
class Scene {
public:
    explicit Scene(GroupMode mode, Producers producers = Producers::many) {
        queue_.emplace(must(Queue::create(path(), small_queue(producers), {.prefault = false})));
        auto g = group_of(mode);
        g.backoff_initial = 0ms;
        g.backoff_max = 0ms;
        g.max_in_flight = 16;  // the instructions of a consumer's making are counted as well
        must(queue_->create_group("g", g));
    }

    std::string path() const { return dir_.str() + "/q"; }
    Queue& queue() { return *queue_; }

    void publish(std::uint64_t sequence) {
        auto p = must(queue_->producer());
        must(publish_item(p, {mine, sequence}));
    }

    /// Joins (which repairs), then receives and acks everything up to a sentinel. Every third time the repair is left
    /// to the housekeeping of a waiting consumer. `others`: participants beside the test's own.
    Found drain(std::uint64_t round, std::uint64_t whose, std::uint64_t others = 0) {
        std::optional<Queue> other;
        if (round % 16 != 7) other.emplace(must(Queue::open(path(), {.prefault = false})));
        Found found;
        auto consumer = must(queue_->consumer("g"));
        bool sentinel_seen = false;
        const auto take = [&](Duration timeout) {
            auto m = consumer.receive(timeout);
            if (!m) return false;
            const Item item = item_of(*m);
            if (item.producer == sentinel) {
                if (item.sequence != round) throw std::runtime_error("an old sentinel came again");
                sentinel_seen = true;
            } else {
                if (item.producer != whose || item.sequence >= found.copies.size())
                    throw std::runtime_error("a message that nobody published");
                ++found.copies[item.sequence];
                found.attempts[item.sequence] = m->delivery_count();
            }
            must(m->ack());
            return true;
        };
        if (round % 2 == 0) {  // what is there already is read before anybody publishes again
            while (take(0ms)) {
            }
        }
        {
            std::optional<Producer> p;
            eventually([&] {
                auto made = queue_->producer();
                if (!made && made.error().code == Errc::role_taken) return false;
                p.emplace(must(std::move(made)));
                return true;
            });
            must(publish_item(*p, {sentinel, round}));
        }
        // What came back may come behind the sentinel in a shared group: until nothing is left.
        eventually(
            [&] {
                while (take(sentinel_seen ? 0ms : 50ms)) {
                }
                const auto stats = queue_->stats();
                return sentinel_seen && group_stats(*queue_, "g").lag == 0 &&
                       stats.participants == (other ? 2 : 1) + others;
            },
            repair_watchdog);
        auto dead = must(queue_->dead_letters());
        for (const auto& d : must(dead.list())) {
            if (d.state != DeadState::open) continue;
            ++found.dead;
            found.dead_seq = d.original_seq;
            const auto item = read_item(d.payload);
            if (!item || item->producer != whose) throw std::runtime_error("a dead letter with another's bytes");
        }
        if (found.dead != 0) must(dead.discard({}, "looked at", true));
        return found;
    }

    /// Nothing is held, nothing is left.
    void check_rest() {
        const auto stats = queue_->stats();
        CHECK(stats.participants == 1);
        CHECK(stats.producers == 0);
        CHECK(stats.consumers == 0);
        CHECK(stats.corrupt == 0);
        CHECK(group_stats(*queue_, "g").in_flight == 0);
        CHECK(group_stats(*queue_, "g").dead_pending == 0);
    }

private:
    TmpDir dir_;
    std::optional<Queue> queue_;
};

/// Calls round(n) for n = 0, stride, ... until it says that the end was reached. A quick run takes about half of
/// `quick` places, up to all of them.
template <class Round>
void each_instruction(const std::string& what, Round&& round, std::uint64_t quick = 16, bool close_look = false) {
    // A first look tells how long it is.
    std::uint64_t length = 0;
    for (std::uint64_t n = 64; round(n, 0); n *= 2) length = n;
    const std::uint64_t wanted = count_of(quick, 1500);
    const std::uint64_t stride = std::max<std::uint64_t>(1, 2 * length / wanted);
    auto r = rng(length);
    std::uint64_t rounds = 0;
    for (std::uint64_t n = r.below(stride); round(n, rounds + 1); n += stride) ++rounds;
    const std::uint64_t end = rounds * stride;
    std::printf("%s: about %llu instructions, killed at %llu of them\n", what.c_str(),
                static_cast<unsigned long long>(end), static_cast<unsigned long long>(rounds));
    std::fflush(stdout);
    CHECK(rounds > 3);
    if (!close_look) return;
    // Where things become visible, near the end, the places lie close together.
    for (std::uint64_t n = end > 250 ? end - 250 : 0; round(n, 100'000 + n); n += full_run() ? 1 : 4) {
    }
}

enum class Deed { publish, publish_large, claim_commit, claim_abort, publish_batch };

/// The victim publishes; `deed` says how. Its items have the sequences 0 and up.
int publish_under_test(const std::string& path, Deed deed, Book& book) {
    auto queue = must(Queue::open(path, {.prefault = false}));
    auto producer = must(queue.producer());
    std::array<std::array<std::byte, 1000>, 3> bytes{};
    for (std::uint64_t i = 0; i < bytes.size(); ++i)
        write_item(std::span(bytes[i]).first(deed == Deed::publish_large ? 1000 : 100), {victims, i});
    const auto payload = Bytes(bytes[0]).first(deed == Deed::publish_large ? 1000 : 100);
    std::array<Outgoing, 3> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i].payload = Bytes(bytes[i]).first(100);
    mark();
    bool sent = false;
    switch (deed) {
        case Deed::publish:
        case Deed::publish_large:
            sent = producer.publish(payload).has_value();
            break;
        case Deed::claim_commit: {
            auto claim = producer.claim(payload.size());
            if (!claim) return 1;
            std::memcpy(claim->payload().data(), payload.data(), payload.size());
            sent = claim->commit().has_value();
            break;
        }
        case Deed::claim_abort: {
            auto claim = producer.claim(payload.size());
            if (!claim) return 1;
            std::memcpy(claim->payload().data(), payload.data(), payload.size());
            claim->abort();
            break;
        }
        case Deed::publish_batch:
            sent = producer.publish_batch(out).has_value();
            break;
    }
    if (sent) book.done.store(1);
    mark();
    return 0;
}

void kill_publishers(GroupMode mode, Producers producers, Deed deed, const std::string& name) {
    Scene scene(mode, producers);
    const SharedBlock<Book> book;
    each_instruction(
        name,
        [&](std::uint64_t n, std::uint64_t round) {
            book->done.store(0);
            Traced victim([&] { return publish_under_test(scene.path(), deed, *book); });
            const bool more = victim.instructions(n);
            victim.kill();
            const Found f = scene.drain(round, victims);
            INFO(name, " killed after ", n, " instructions");
            const std::uint64_t whole = deed == Deed::publish_batch ? 3 : 1;
            std::uint64_t came = 0;
            for (std::uint64_t i = 0; i < f.copies.size(); ++i) {
                CHECK(f.copies[i] <= 1);
                came += f.copies[i];
            }
            CHECK((came == 0 || came == whole));
            if (book->done.load() != 0) CHECK(came == whole);
            if (deed == Deed::claim_abort) CHECK(came == 0);
            if (!more && deed != Deed::claim_abort) CHECK(came == whole);
            scene.check_rest();
            return more;
        },
        16, producers == Producers::one);
}

enum class End { ack, nack, reject, release, drop, last_nack };

/// The victim receives item 0 and ends it.
int consume_under_test(const std::string& path, End end, Book& book) {
    auto queue = must(Queue::open(path, {.prefault = false}));
    auto consumer = must(queue.consumer("g"));
    mark();
    {
        auto m = consumer.receive(0ms);
        if (!m) return 1;
        book.delivery_count.store(m->delivery_count());
        book.received.store(1);
        book.begun.store(1);
        bool ok = true;
        switch (end) {
            case End::ack:
                ok = m->ack().has_value();
                break;
            case End::last_nack:
            case End::nack:
                ok = m->nack({.code = "test", .message = "on purpose"}).has_value();
                break;
            case End::reject:
                ok = m->reject({.code = "test", .message = "on purpose"}).has_value();
                break;
            case End::release:
                ok = m->release().has_value();
                break;
            case End::drop:
                break;
        }
        if (!ok) return 2;
    }
    book.done.store(1);
    mark();
    return 0;
}

void kill_consumers(GroupMode mode, End end, const std::string& name) {
    Scene scene(mode);
    if (end == End::last_nack) {  // the only attempt
        must(scene.queue().delete_group("g", Force::yes));
        auto g = group_of(mode, Start::latest());
        g.max_deliveries = 1;
        must(scene.queue().create_group("g", g));
    }
    const SharedBlock<Book> book;
    each_instruction(
        name,
        [&](std::uint64_t n, std::uint64_t round) {
            book->begun.store(0);
            book->done.store(0);
            book->received.store(0);
            scene.publish(0);
            Traced victim([&] { return consume_under_test(scene.path(), end, *book); });
            const bool more = victim.instructions(n);
            victim.kill();
            const Found f = scene.drain(round, mine);
            INFO(name, " killed after ", n, " instructions, received ", book->received.load(), " begun ",
                 book->begun.load(), " done ", book->done.load(), ", copies ", f.copies[0], " attempts ", f.attempts[0],
                 " dead ", f.dead);
            const bool received = book->received.load() != 0;
            const bool done = book->done.load() != 0;
            CHECK(f.copies[0] <= 1);
            CHECK(f.dead <= 1);
            switch (end) {
                case End::ack:
                    CHECK(f.dead == 0);
                    if (book->begun.load() == 0) CHECK(f.copies[0] == 1);
                    if (done) CHECK(f.copies[0] == 0);
                    break;
                case End::nack:
                case End::drop:
                    CHECK(f.dead == 0);
                    CHECK(f.copies[0] == 1);
                    if (received) CHECK(f.attempts[0] == 2);
                    break;
                case End::release:
                    CHECK(f.dead == 0);
                    CHECK(f.copies[0] == 1);
                    if (done) CHECK(f.attempts[0] == 1);
                    break;
                case End::last_nack:
                    if (received) CHECK(f.dead == 1);
                    CHECK(f.copies[0] + f.dead == 1);
                    break;
                case End::reject:
                    CHECK(f.copies[0] + f.dead == 1);
                    if (done) CHECK(f.dead == 1);
                    break;
            }
            if (f.copies[0] == 1) {
                CHECK(f.attempts[0] >= 1);
                CHECK(f.attempts[0] <= 2);  // charged once at most for the one who died
            }
            scene.check_rest();
            return more;
        },
        end == End::reject ? 100 : 16);  // its critical piece, between the copy and the mark, is short
}

/// The victim takes three messages as a batch, acks the first, and gives the others back unread.
void kill_batch_consumers(const std::string& name) {
    Scene scene(GroupMode::shared);
    const SharedBlock<Book> book;
    each_instruction(name, [&](std::uint64_t n, std::uint64_t round) {
        book->begun.store(0);
        book->done.store(0);
        for (std::uint64_t i = 0; i < 3; ++i) scene.publish(i);
        Traced victim([&] {
            auto queue = must(Queue::open(scene.path(), {.prefault = false}));
            auto consumer = must(queue.consumer("g"));
            mark();
            {
                auto batch = consumer.receive_batch(3, 0ms);
                if (!batch || batch->size() != 3) return 1;
                Message* first = batch->next();
                if (first == nullptr) return 2;
                book->begun.store(1);
                if (!first->ack()) return 3;
            }
            book->done.store(1);
            mark();
            return 0;
        });
        const bool more = victim.instructions(n);
        victim.kill();
        const Found f = scene.drain(round, mine);
        INFO(name, " killed after ", n, " instructions");
        CHECK(f.copies[0] <= 1);
        CHECK(f.attempts[0] <= 2);
        if (book->begun.load() == 0) CHECK(f.copies[0] == 1);
        if (book->done.load() != 0) CHECK(f.copies[0] == 0);
        for (std::size_t i = 1; i < 3; ++i) {
            CHECK(f.copies[i] == 1);
            CHECK(f.attempts[i] == 1);  // never handed over, never charged
        }
        CHECK(f.dead == 0);
        scene.check_rest();
        return more;
    });
}

/// The victim joins with a producer and a consumer, takes a message and leaves, all of it under test.
void kill_members(GroupMode mode, const std::string& name) {
    Scene scene(mode);
    const SharedBlock<Book> book;
    auto keeper = must(Queue::open(scene.path(), {.prefault = false}));
    each_instruction(
        name,
        [&](std::uint64_t n, std::uint64_t round) {
            book->done.store(0);
            scene.publish(0);
            Traced victim([&] {
                std::optional<Queue> queue(must(Queue::open(scene.path(), {.prefault = false})));
                mark();
                {
                    auto producer = queue->producer();
                    auto consumer = queue->consumer("g");
                    if (!producer || !consumer) return 1;
                    auto m = consumer->receive(0ms);
                    if (!m) return 2;
                    // Leaves in the order that programs get wrong: what it holds last.
                    consumer = tl::unexpected(Error{Errc::closed, 0, ""});
                    queue.reset();
                }
                book->done.store(1);
                mark();
                return 0;
            });
            const bool more = victim.instructions(n);
            victim.kill();
            std::optional<Found> f(scene.drain(round, mine, 1));
            INFO(name, " killed after ", n, " instructions");
            CHECK(f->copies[0] == 1);
            CHECK(f->attempts[0] <= 2);
            CHECK(f->dead == 0);
            const auto stats = scene.queue().stats();
            CHECK(stats.participants == 2);
            CHECK(stats.producers == 0);
            CHECK(stats.consumers == 0);
            return more;
        },
        8);  // long ones
}

/// The victim moves a dead letter back, or closes it.
void kill_operators(bool redrive, const std::string& name) {
    Scene scene(GroupMode::shared);
    const SharedBlock<Book> book;
    each_instruction(name, [&](std::uint64_t n, std::uint64_t round) {
        book->done.store(0);
        scene.publish(0);
        {
            auto consumer = must(scene.queue().consumer("g"));
            must(must(consumer.receive(repair_watchdog)).reject({.code = "test"}));
        }
        Traced victim([&] {
            auto queue = must(Queue::open(scene.path(), {.prefault = false}));
            auto dead = must(queue.dead_letters());
            mark();
            const auto done = redrive ? dead.redrive({}, true) : dead.discard({}, "test", true);
            if (!done || done->count != 1) return 1;
            book->done.store(1);
            mark();
            return 0;
        });
        const bool more = victim.instructions(n);
        victim.kill();
        // Whoever comes next does what is not done yet.
        std::uint64_t open = 0;
        {
            auto other = must(Queue::open(scene.path(), {.prefault = false}));
            auto dead = must(other.dead_letters());
            for (const auto& d : must(dead.list())) {
                CHECK(
                    (d.state == DeadState::open || d.state == DeadState::redriven || d.state == DeadState::discarded));
                open += d.state == DeadState::open ? 1U : 0U;
            }
            CHECK(open <= 1);
            const auto again = redrive ? dead.redrive({}, true) : dead.discard({}, "test", true);
            CHECK(word_of(again) == "ok");
        }
        const Found f = scene.drain(round, mine);
        INFO(name, " killed after ", n, " instructions, open ", open, " done ", book->done.load());
        if (book->done.load() != 0) CHECK(open == 0);
        CHECK(f.copies[0] == (redrive ? 1 : 0));  // once, however often it was tried
        CHECK(f.dead == 0);
        scene.check_rest();
        return more;
    });
}

}  // namespace

TEST_CASE("a publisher killed at any instruction leaves its message or nothing") {
    kill_publishers(GroupMode::shared, Producers::many, Deed::publish, "publish");
    kill_publishers(GroupMode::exclusive, Producers::many, Deed::publish_large, "publish of 1000 bytes");
    kill_publishers(GroupMode::exclusive, Producers::one, Deed::publish, "publish of a single producer");
}

TEST_CASE("a claim killed at any instruction is a message or void") {
    kill_publishers(GroupMode::shared, Producers::many, Deed::claim_commit, "claim and commit");
    kill_publishers(GroupMode::exclusive, Producers::one, Deed::claim_commit, "claim and commit of a single producer");
    kill_publishers(GroupMode::exclusive, Producers::many, Deed::claim_abort, "claim and abort");
}

TEST_CASE("a batch killed at any instruction comes whole or not at all") {
    kill_publishers(GroupMode::shared, Producers::many, Deed::publish_batch, "batch");
    kill_publishers(GroupMode::shared, Producers::one, Deed::publish_batch, "batch of a single producer");
}

TEST_CASE("a consumer of a shared group killed at any instruction of a success loses nothing") {
    kill_consumers(GroupMode::shared, End::ack, "shared: receive and ack");
}

TEST_CASE("a consumer of a shared group killed at any instruction of a failure is charged once") {
    kill_consumers(GroupMode::shared, End::nack, "shared: receive and nack");
    kill_consumers(GroupMode::shared, End::drop, "shared: receive and drop");
    kill_consumers(GroupMode::shared, End::release, "shared: receive and release");
}

TEST_CASE("a consumer of a shared group killed at any instruction of a rejection makes one dead letter at most") {
    kill_consumers(GroupMode::shared, End::reject, "shared: receive and reject");
    kill_consumers(GroupMode::shared, End::last_nack, "shared: receive and last nack");
}

TEST_CASE("the owner of an exclusive group killed at any instruction of a success loses nothing") {
    kill_consumers(GroupMode::exclusive, End::ack, "exclusive: receive and ack");
}

TEST_CASE("the owner of an exclusive group killed at any instruction of a failure is charged once") {
    kill_consumers(GroupMode::exclusive, End::nack, "exclusive: receive and nack");
    kill_consumers(GroupMode::exclusive, End::drop, "exclusive: receive and drop");
    kill_consumers(GroupMode::exclusive, End::release, "exclusive: receive and release");
}

TEST_CASE("the owner of an exclusive group killed at any instruction of a rejection makes one dead letter at most") {
    kill_consumers(GroupMode::exclusive, End::reject, "exclusive: receive and reject");
    kill_consumers(GroupMode::exclusive, End::last_nack, "exclusive: receive and last nack");
}

TEST_CASE("a batch whose consumer is killed at any instruction comes back, unread messages uncharged") {
    kill_batch_consumers("shared: receive_batch, one ack, the rest back");
}

TEST_CASE("a member killed at any instruction of its coming and going leaves no place taken") {
    kill_members(GroupMode::shared, "shared: join, receive, leave");
    kill_members(GroupMode::exclusive, "exclusive: join, receive, leave");
}

TEST_CASE("an operator killed at any instruction of a redrive or discard leaves the dead letter open or done") {
    kill_operators(true, "redrive");
    kill_operators(false, "discard");
}
