// ctest: TIMEOUT 60
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A process is stopped while it makes or deletes a group. Nobody else stops with it: groups that exist are opened, and
// messages flow; whoever wants to change the groups, too, is told after a while who is in the way.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <thread>

#include "os/file.hpp"
#include "os/lock.hpp"
#include "process/actors.hpp"
#include "queue/files.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag holds;
};

/// Somebody who was stopped with the groups' lock in its hands.
struct Scene {
    TmpDir dir;
    std::string path = dir.str() + "/q";
    Queue queue = must(Queue::create(path, small_queue()));
    SharedBlock<Book> book;
    std::optional<Child> holder;

    void stop_a_holder() {
        holder.emplace([&] {
            const auto directory = must(os::open_dir(path));
            const auto ring = must(os::open_file(directory.get(), queue::main_name, os::Access::read_write));
            if (!must(os::try_lock(ring.get(), queue::admin_byte, os::Lock::exclusive))) return 1;
            book->holds.store(1);
            return wait_for_the_end();
        });
        eventually([&] { return book->holds.load() == 1; });
        holder->stop();
    }
};

}  // namespace

TEST_CASE("an existing group is opened, and told apart from others, while the lock of the groups is held") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Scene scene;
        must(scene.queue.create_group("g", group_of(mode)));
        scene.stop_a_holder();
        auto other = must(Queue::open(scene.path));
        CHECK(word_of(other.consumer("g", group_of(mode))) == "ok");
        CHECK(word_of(other.create_group("g", group_of(mode))) == "exists");
        const auto differs = mode == GroupMode::shared ? GroupMode::exclusive : GroupMode::shared;
        CHECK(word_of(other.consumer("g", group_of(differs))) == "option_mismatch");
    }
}

TEST_CASE("whoever waits for the lock of the groups is told busy, or closed, and holds up nobody") {
    Scene scene;
    auto& queue = scene.queue;
    auto producer = must(queue.producer());
    auto consumer = must(queue.consumer("g", group_of(GroupMode::shared)));
    // Deleted with a member: whoever keeps house would like to free its place.
    auto member = must(queue.consumer("gone", group_of(GroupMode::shared)));
    must(queue.delete_group("gone", Force::yes));
    scene.stop_a_holder();
    auto closing = must(Queue::open(scene.path));
    std::optional<Error> made, deleted, closed;
    std::thread maker([&] { made = queue.create_group("new", group_of(GroupMode::shared)).error(); });
    std::thread deleter([&] { deleted = queue.delete_group("g", Force::yes).error(); });
    std::thread waiter([&] { closed = closing.create_group("new", group_of(GroupMode::exclusive)).error(); });
    for (std::uint64_t i = 0; i < 10; ++i) {
        must(publish_item(producer, {1, i}));
        must(must(consumer.receive(repair_watchdog)).ack());
        CHECK(word_of(consumer.receive(60ms)) == "timeout");  // more than a tick: keeps house
    }
    closing.close();
    waiter.join();
    CHECK(closed->code == Errc::closed);
    maker.join();
    deleter.join();
    CHECK(made->code == Errc::busy);
    CHECK(deleted->code == Errc::busy);
    CHECK(queue.explain(*made).find("another process is changing the queue's groups") != std::string::npos);
    // It dies, and takes nothing with it.
    scene.holder->kill();
    CHECK(scene.holder->wait().killed_by(SIGKILL));
    CHECK(word_of(queue.create_group("new", group_of(GroupMode::shared))) == "ok");
    CHECK(word_of(queue.delete_group("new")) == "ok");
}
