// ctest: TIMEOUT 240
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Making and removing queues and groups, killed before and after each system call. Then eight processes want the queue
// at once: exactly one comes into being, all of them are in it, and no file is left that does not belong to it.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <set>

#include "process/actors.hpp"
#include "process/tracer.hpp"
#include "support/seed.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr unsigned openers = 8;

struct Book {
    Count round;  // of the openers; ~0 ends them
    std::array<Count, openers> opened, finished;
    std::array<Flag, openers> error;  // Errc + 1
    Flag may_leave;
};

/// Eight processes that open or create the queue at each call, publish one message each and leave.
class Openers {
public:
    explicit Openers(std::string path) : path_(std::move(path)) {
        for (unsigned i = 0; i < openers; ++i) children_[i] = std::make_unique<Child>([this, i] { return work(i); });
    }
    ~Openers() { book_->round.store(~std::uint64_t{0}); }
    Openers(const Openers&) = delete;
    Openers& operator=(const Openers&) = delete;

    /// All of them at once. Every one must succeed at the first try.
    void run() {
        book_->may_leave.store(0);
        const std::uint64_t round = book_->round.fetch_add(1) + 1;
        for (unsigned i = 0; i < openers; ++i) {
            eventually([&] { return book_->opened[i].load() == round; });
            const auto error = book_->error[i].load();
            CHECK_MESSAGE(error == 0, "opener " << i << ": " << to_string(static_cast<Errc>(error - 1)));
        }
    }
    void dismiss() {
        book_->may_leave.store(1);
        for (unsigned i = 0; i < openers; ++i)
            eventually([&] { return book_->finished[i].load() == book_->round.load(); });
    }

private:
    int work(unsigned me) {
        for (std::uint64_t round = 1;; ++round) {
            eventually([&] { return book_->round.load() >= round; }, std::chrono::minutes(5));
            if (book_->round.load() == ~std::uint64_t{0}) return 0;
            auto queue = Queue::open_or_create(path_, small_queue(), {.prefault = false});
            Result<void> good{};
            if (!queue) {
                good = tl::unexpected(queue.error());
            } else if (auto producer = queue->producer(); !producer) {
                good = tl::unexpected(producer.error());
            } else if (auto sent = publish_item(*producer, {me, round}); !sent) {
                good = tl::unexpected(sent.error());
            }
            book_->error[me].store(good ? 0 : static_cast<std::uint32_t>(good.error().code) + 1);
            book_->opened[me].store(round);
            eventually([&] { return book_->may_leave.load() != 0; });
            queue = tl::unexpected(Error{Errc::closed, 0, ""});
            book_->finished[me].store(round);
        }
    }

    std::string path_;
    SharedBlock<Book> book_;
    std::array<std::unique_ptr<Child>, openers> children_;
};

/// Kills `deed` at its n-th stop at a system call, for all n; `before` sets the stage, `after` looks at what is left.
template <class Before, class Deed, class After>
void each_system_call(const std::string& what, Before&& before, Deed&& deed, After&& after) {
    std::uint64_t n = 0;
    for (bool more = true; more; ++n) {
        before();
        Traced victim([&] {
            mark();
            const int code = deed();
            mark();
            return code;
        });
        more = victim.system_call_stops(n);
        victim.kill();
        INFO(what, " killed at stop ", n);
        after(more);
    }
    std::printf("%s: killed at each of %llu stops\n", what.c_str(), static_cast<unsigned long long>(n - 1));
    std::fflush(stdout);
    CHECK(n > 10);
}

/// Everybody is in one and the same queue: a consumer finds one message of each.
void check_one_queue(const std::string& path, Openers& all) {
    all.run();
    {
        auto queue = must(Queue::open(path, {.prefault = false}));
        auto consumer = must(queue.consumer("all", group_of(GroupMode::exclusive)));
        std::set<std::uint64_t> seen;
        while (seen.size() < openers) {
            auto m = must(consumer.receive(repair_watchdog));
            CHECK(seen.insert(item_of(m).producer).second);
            must(m.ack());
        }
        CHECK(consumer.try_receive().error().code == Errc::empty);
    }
    CHECK(joined(files_of(path)) == joined(bare_files()));
    all.dismiss();
}

/// The housekeeping of others is enough: the group is whole or gone, and with it its file.
void check_group_whole_or_gone(const std::string& path) {
    auto queue = must(Queue::open(path, {.prefault = false}));
    auto keeper = must(queue.consumer("keeps-house", group_of(GroupMode::exclusive)));
    eventually(
        [&] {
            (void)keeper.receive(5ms);
            const bool whole = queue.consumer("g").has_value();
            return queue.stats().groups.size() == (whole ? 2 : 1) &&
                   files_of(path).size() == bare_files().size() + whole;
        },
        repair_watchdog);
}

/// Kill-proof with a group of that mode: whoever comes next can make the group, use it and delete it, and the files
/// are those of a healthy queue.
void check_group_works(const std::string& path, GroupMode mode) {
    auto queue = must(Queue::open(path, {.prefault = false}));
    auto wanted = group_of(mode);
    {
        auto consumer = must(queue.consumer("g", wanted));
        auto producer = must(queue.producer());
        must(publish_item(producer, {1, 1}));
        auto m = must(consumer.receive(repair_watchdog));
        CHECK(item_of(m).sequence == 1);
        must(m.ack());
        CHECK(files_of(path).size() == bare_files().size() + (mode == GroupMode::shared ? 1 : 0));
    }
    must(queue.delete_group("g"));
    auto consumer = must(queue.consumer("keeps-house", group_of(GroupMode::exclusive)));
    eventually(
        [&] {
            (void)consumer.receive(10ms);
            return queue.stats().groups.size() == 1;
        },
        repair_watchdog);
    CHECK(joined(files_of(path)) == joined(bare_files()));
    consumer = must(queue.consumer("keeps-house"));
}

}  // namespace

TEST_CASE("a creation killed at any system call leaves a whole queue or none") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    Openers all(path);
    each_system_call(
        "create", [&] { CHECK(files_of(dir.path()).empty()); },
        [&] { return Queue::create(path, small_queue(), {.prefault = false}) ? 0 : 1; },
        [&](bool) {
            check_one_queue(path, all);
            must(Queue::destroy(path, Force::no));
            CHECK(files_of(dir.path()).empty());
        });
}

TEST_CASE("a destruction killed at any system call can be followed by a new queue") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    Openers all(path);
    each_system_call(
        "destroy",
        [&] {
            auto queue = must(Queue::create(path, small_queue(), {.prefault = false}));
            must(queue.create_group("before", group_of(GroupMode::shared)));
        },
        [&] { return Queue::destroy(path, Force::no) ? 0 : 1; },
        [&](bool) {
            // Either the old queue is as good as before, or nothing of it is in the way of a new one.
            {
                auto queue = Queue::open(path, {.prefault = false});
                if (queue) {
                    auto consumer = queue->consumer("before");
                    CHECK(word_of(consumer) == "ok");
                    if (consumer) consumer = tl::unexpected(Error{Errc::closed, 0, ""});
                    CHECK(word_of(queue->delete_group("before")) == "ok");
                } else {
                    CHECK((queue.error().code == Errc::not_found || queue.error().code == Errc::closed));
                }
            }
            check_one_queue(path, all);
            must(Queue::destroy(path, Force::no));
            CHECK(files_of(dir.path()).empty());
        });
}

TEST_CASE("a destruction killed at any system call can be repeated") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    each_system_call(
        "destroy, again", [&] { must(Queue::create(path, small_queue(), {.prefault = false})); },
        [&] { return Queue::destroy(path, Force::no) ? 0 : 1; },
        [&](bool) {
            const auto again = Queue::destroy(path, Force::no);
            CHECK((again || again.error().code == Errc::not_found));
            // What is gone for its users must not go on filling the file system.
            CHECK(joined(files_of(path)).empty());
            std::filesystem::remove_all(path);
        });
}

TEST_CASE("the creation of a shared group killed at any system call leaves no half group") {
    std::uint64_t rounds = 0;
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    must(Queue::create(path, small_queue(), {.prefault = false}));
    each_system_call(
        "create_group", [] {},
        [&] {
            auto queue = must(Queue::open(path, {.prefault = false}));
            return queue.create_group("g", group_of(GroupMode::shared)) ? 0 : 1;
        },
        [&](bool) {
            if (rng(rounds++).one_in(count_of(6, 1))) check_group_whole_or_gone(path);  // takes a tick or two
            check_group_works(path, GroupMode::shared);
        });
}

TEST_CASE("the deletion of a shared group killed at any system call leaves no half group") {
    std::uint64_t rounds = 0;
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(), {.prefault = false}));
    each_system_call(
        "delete_group", [&] { must(queue.create_group("g", group_of(GroupMode::shared))); },
        [&] {
            auto own = must(Queue::open(path, {.prefault = false}));
            return own.delete_group("g") ? 0 : 1;
        },
        [&](bool) {
            if (rng(rounds++).one_in(count_of(6, 1))) check_group_whole_or_gone(path);  // takes a tick or two
            check_group_works(path, GroupMode::shared);
        });
}

TEST_CASE("joining a queue killed at any system call leaks nothing") {
    const TmpDir dir;
    const std::string path = dir.str() + "/q";
    auto queue = must(Queue::create(path, small_queue(), {.prefault = false}));
    must(queue.create_group("g", group_of(GroupMode::shared)));
    const auto files = files_of(path);
    each_system_call(
        "open", [] {},
        [&] {
            auto own = must(Queue::open(path, {.prefault = false}));
            auto consumer = must(own.consumer("g"));
            auto producer = must(own.producer());
            return 0;
        },
        [&](bool) {
            auto next = must(Queue::open(path, {.prefault = false}));
            const auto stats = queue.stats();
            CHECK(stats.participants == 2);
            CHECK(stats.consumers == 0);
            CHECK(stats.producers == 0);
            CHECK(joined(files_of(path)) == joined(files));
        });
}
