// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Words of a live queue's records overwritten by somebody who should not have. Whatever was hit, the messages around it
// arrive, the damage is counted, and nothing waits for ever.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "format/words.hpp"
#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr int total = 8;
constexpr int hit = 3;
std::string marked(int i) {
    std::string s("MARK-");
    s += std::to_string(i);
    return s + "-END";
}

enum class Writer { left, went_on, one_batch };

struct Case {
    GroupMode mode;
    Producers producers;
    Checksum checksum;
    Writer writer;
};

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive})
        for (const auto producers : {Producers::one, Producers::many})
            for (const auto checksum : {Checksum::none, Checksum::xxh3})
                for (const auto writer : {Writer::left, Writer::went_on, Writer::one_batch})
                    all.push_back({mode, producers, checksum, writer});
    return all;
}

/// A queue with `total` messages, and a group that has seen none.
struct Fixture {
    TmpDir dir;
    std::string path = dir.str() + "/q";
    std::optional<Queue> queue;
    std::optional<Producer> producer;
    std::optional<Consumer> consumer;

    explicit Fixture(const Case& c) {
        queue =
            Queue::create(path, {.capacity_bytes = small, .producers = c.producers, .checksum = c.checksum}).value();
        consumer = queue->consumer("g", {.mode = c.mode, .start = Start::earliest()}).value();
        producer = queue->producer().value();
        std::vector<std::string> texts;
        for (int i = 0; i < total; ++i) texts.push_back(marked(i));
        if (c.writer == Writer::one_batch) {
            std::vector<Outgoing> batch;
            for (const auto& t : texts) batch.push_back({bytes(t), {}});
            REQUIRE(producer->publish_batch(batch));
        } else {
            for (const auto& t : texts) REQUIRE(producer->publish(bytes(t)));
        }
        if (c.writer == Writer::left) producer.reset();
    }

    /// Offset of a message's record in the main ring's file.
    std::uint64_t record(int i) const {
        std::ifstream in(path + "/lane-00.ring", std::ios::binary);
        const std::string all((std::istreambuf_iterator<char>(in)), {});
        const auto at = all.find(marked(i));
        REQUIRE(at != std::string::npos);
        return at / format::slot_bytes * format::slot_bytes;
    }
    void overwrite(std::uint64_t offset, std::string_view with) const {
        std::fstream file(path + "/lane-00.ring", std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(static_cast<std::streamoff>(offset));
        file.write(with.data(), static_cast<std::streamsize>(with.size()));
        REQUIRE(file.flush());
    }

    /// Receives and acknowledges until nothing comes; errors count as what they are.
    struct Drained {
        std::vector<std::string> messages;
        int corrupt = 0;
    };
    Drained drain(std::size_t wanted, int wanted_corrupt) {
        Drained d;
        while (d.messages.size() < wanted || d.corrupt < wanted_corrupt) {
            auto m = consumer->receive(long_wait);
            if (m) {
                d.messages.push_back(text(m->payload()));
                CHECK(m->ack());
                continue;
            }
            REQUIRE(m.error().code == Errc::corrupt);
            ++d.corrupt;
        }
        CHECK(consumer->try_receive().error().code == Errc::empty);
        return d;
    }
    std::vector<std::string> all_but(int missing) const {
        std::vector<std::string> v;
        for (int i = 0; i < total; ++i)
            if (i != missing) v.push_back(marked(i));
        return v;
    }
};

const std::array<std::string, 3> stamps = {std::string(8, '\0'), std::string(8, '\xff'), std::string("\x01oddword", 8)};

}  // namespace

TEST_CASE("a message whose stamp was overwritten arrives all the same, counted, in order") {
    for (const Case& c : cases()) {
        for (const auto& bad : stamps) {
            CAPTURE(static_cast<int>(c.mode));
            CAPTURE(static_cast<int>(c.producers));
            CAPTURE(static_cast<int>(c.writer));
            Fixture f(c);
            f.overwrite(f.record(hit), bad);
            const auto d = f.drain(total, 0);
            CHECK(d.messages == f.all_but(-1));
            CHECK(f.queue->stats().corrupt == 1);
            CHECK(f.queue->stats().groups.at(0).lag == 0);
        }
    }
}

TEST_CASE("a message whose header was overwritten is told once and stepped over, its neighbours of a batch too") {
    for (const Case& c : cases()) {
        for (const bool stamp_too : {false, true}) {
            CAPTURE(static_cast<int>(c.mode));
            CAPTURE(static_cast<int>(c.producers));
            CAPTURE(static_cast<int>(c.writer));
            CAPTURE(stamp_too);
            Fixture f(c);
            const auto at = f.record(hit);
            f.overwrite(at + 8, std::string(8, '\xff'));
            if (stamp_too) f.overwrite(at, stamps[1]);
            const auto d = f.drain(total - 1, 1);
            CHECK(d.messages == f.all_but(hit));
            CHECK(d.corrupt == 1);
            CHECK(f.queue->stats().corrupt == (stamp_too ? 2 : 1));
            CHECK(f.queue->stats().groups.at(0).lag == 0);
        }
    }
}

TEST_CASE("the first message of all and the last are mended like any other") {
    for (const Case& c : cases()) {
        for (const int which : {0, total - 1}) {
            CAPTURE(static_cast<int>(c.mode));
            CAPTURE(static_cast<int>(c.producers));
            CAPTURE(static_cast<int>(c.writer));
            CAPTURE(which);
            Fixture f(c);
            f.overwrite(f.record(which), stamps[0]);
            CHECK(f.drain(total, 0).messages == f.all_but(-1));
        }
    }
}

TEST_CASE("an open claim is no damage, however long it stays open") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        Fixture f({mode, Producers::many, Checksum::none, Writer::went_on});
        (void)f.drain(total, 0);
        auto other = f.queue->producer().value();
        auto claim = f.producer->claim(6).value();
        REQUIRE(other.publish(bytes("behind")));  // another producer of the same process goes on
        for (int i = 0; i < 4; ++i) CHECK(f.consumer->receive(60ms).error().code == Errc::timeout);
        CHECK(f.queue->stats().corrupt == 0);
        std::memcpy(claim.payload().data(), "before", 6);
        REQUIRE(claim.commit());
        CHECK(f.drain(2, 0).messages == std::vector<std::string>{"before", "behind"});
    }
}

TEST_CASE("a batch that meets damage says so with the next call") {
    for (const auto mode : {GroupMode::shared, GroupMode::exclusive}) {
        CAPTURE(static_cast<int>(mode));
        Fixture f({mode, Producers::many, Checksum::xxh3, Writer::left});
        f.overwrite(f.record(hit) + format::header_bytes, "m");
        {
            auto batch = f.consumer->receive_batch(total, long_wait).value();
            int n = 0;
            while (Message* m = batch.next()) {
                CHECK(text(m->payload()) == marked(n++));
                CHECK(m->ack());
            }
            CHECK(n == hit);
        }
        const auto told = f.consumer->try_receive();
        REQUIRE_FALSE(told);
        CHECK(told.error().code == Errc::corrupt);
        CHECK(f.drain(total - hit - 1, 0).messages.front() == marked(hit + 1));
        CHECK(f.queue->stats().corrupt == 1);
    }
}
