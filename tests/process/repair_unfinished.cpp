// ctest: TIMEOUT 60
// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Who finds a dead participant may be unable to finish its work: no descriptor left, a lease table out of reach. The
// dead one then stays what it was, for the next one or a better moment; nothing it held is forgotten.
#include <doctest/doctest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "process/actors.hpp"
#include "support/child.hpp"
#include "support/shared_block.hpp"
#include "support/tmp_dir.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Book {
    Flag ready;
};

/// This process gets no further descriptor as long as it lives.
class NoDescriptors {
public:
    NoDescriptors() {
        const int next = dup(STDERR_FILENO);
        if (next < 0 || getrlimit(RLIMIT_NOFILE, &former_) != 0)
            throw std::system_error(errno, std::generic_category(), "NoDescriptors");
        close(next);
        rlimit tight = former_;
        tight.rlim_cur = static_cast<rlim_t>(next);
        setrlimit(RLIMIT_NOFILE, &tight);
    }
    NoDescriptors(const NoDescriptors&) = delete;
    NoDescriptors& operator=(const NoDescriptors&) = delete;
    ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &former_); }

private:
    rlimit former_{};
};

/// A queue of one producer with a shared group, three of whose messages a consumer took with it when it was killed.
/// Nobody else has looked at the group's lease table yet. Leases end by themselves long after the test.
struct Scene {
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue{must(Queue::create(path, small_queue(Producers::one)))};
    std::optional<Producer> producer{must(queue->producer())};

    Scene() {
        auto options = group_of(GroupMode::shared);
        options.lease_timeout = 1h;
        options.max_lease_total = 2h;
        must(queue->create_group("g", options));
        for (std::uint64_t i = 0; i < 3; ++i) must(publish_item(*producer, {1, i}));
        const SharedBlock<Book> book;
        Child consumer([&] {
            auto own = must(Queue::open(path));
            auto taker = must(own.consumer("g"));
            std::vector<Message> hand;
            hand.reserve(3);
            for (int i = 0; i < 3; ++i) hand.push_back(must(taker.receive(repair_watchdog)));
            book->ready.store(1);
            return wait_for_the_end();
        });
        eventually([&] { return book->ready.load() == 1; });
        consumer.kill();
        CHECK(consumer.wait().killed_by(SIGKILL));
    }

    /// This process looks for the dead, once at least: a second producer is refused only after that.
    void look_around() { CHECK(word_of(queue->producer()) == "role_taken"); }

    void all_three_come_back(Queue& to) {
        auto consumer = must(to.consumer("g"));
        for (int i = 0; i < 3; ++i) {
            auto m = must(consumer.receive(repair_watchdog));
            CHECK(m.delivery_count() == 2);
            must(m.ack());
        }
        CHECK(group_stats(to, "g").owner_died == 3);
    }
};

}  // namespace

TEST_CASE("a process without descriptors leaves the dead consumer as it was, and its leases come back later") {
    Scene scene;
    {
        const NoDescriptors none;
        scene.look_around();
        const auto stats = scene.queue->stats();
        CHECK(stats.participants == 2);
        CHECK(stats.consumers == 1);
    }
    scene.all_three_come_back(*scene.queue);
    CHECK(scene.queue->stats().participants == 1);
    CHECK(scene.queue->stats().consumers == 0);
}

TEST_CASE("what one process could not finish the next one finishes: the first keeps no lock") {
    Scene scene;
    {
        const NoDescriptors none;
        scene.look_around();
    }
    Child next([&] {
        auto own = must(Queue::open(scene.path));
        return own.stats().consumers == 0 && own.stats().participants == 2 ? 0 : 1;
    });
    const auto status = next.wait();
    CHECK_MESSAGE(status.exited_with(0), status.text());
    scene.all_three_come_back(*scene.queue);
}

TEST_CASE("an opener takes a dead one's place only when its work is done, and another place otherwise") {
    Scene scene;
    const std::filesystem::path table = scene.path + "/lease-0-1.tab", aside = scene.dir / "aside";
    std::filesystem::rename(table, aside);
    auto opened = must(Queue::open(scene.path));
    CHECK(opened.stats().participants == 3);  // this one, the opener, the dead one
    CHECK(opened.stats().consumers == 1);
    std::filesystem::rename(aside, table);
    scene.all_three_come_back(opened);
    CHECK(opened.stats().participants == 2);
}

TEST_CASE("a dead consumer whose group is deleted has nothing left to be done") {
    Scene scene;
    const NoDescriptors none;
    scene.look_around();
    CHECK(scene.queue->stats().consumers == 1);
    CHECK(word_of(scene.queue->delete_group("g", Force::yes)) == "ok");
    scene.look_around();
    CHECK(scene.queue->stats().consumers == 0);
    CHECK(scene.queue->stats().participants == 1);
}
