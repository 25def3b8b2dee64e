// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Producers and consumers over the public interface, for threads of one Queue and for processes alike.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "rondo/rondo.hpp"
#include "stress/traffic.hpp"

namespace rondo::test {

inline constexpr std::uint64_t smallest_capacity = std::uint64_t{256} << 10;
inline constexpr std::uint64_t larger_capacity = std::uint64_t{4} << 20;  // 64 Ki slots

struct Traffic {
    std::size_t largest = 2000;  // bytes of a message
    bool mixed = true;           // all ways to publish and to receive, otherwise the plain ones
};

/// Publishes messages 0 .. count-1 of producer `id`. False, with the error in `error`, if a call failed.
inline bool publish_all(Producer producer, std::uint32_t id, std::uint64_t count, const Traffic& t,
                        std::string& error) {
    auto random = rng(1000 + id);
    std::vector<std::byte> buffer(9 * t.largest);
    const auto failed = [&](const Error& e) {
        error = std::string("publish: ") + to_string(e.code) + ", " + e.what;
        return false;
    };
    PublishOptions options;
    options.timeout = std::chrono::seconds(20);  // only a failing test waits so long
    for (std::uint64_t sequence = 0; sequence < count;) {
        const auto bytes = std::span(buffer).first(random_size(random, t.largest));
        switch (t.mixed ? random.below(10) : 0) {
            case 1: {  // in place, maybe shorter than claimed, maybe given up
                auto claim = producer.claim(t.largest, options);
                if (!claim) return failed(claim.error());
                if (random.one_in(4)) {
                    if (random.one_in(2)) claim->abort();
                    break;
                }
                // A stalled member or an observer may look at the first words of a slot that it does not hold any more,
                // and throws away what it saw. A program's plain stores in place race with that, harmlessly; here
                // they are made as the library makes its own, so that the race detector sees the others.
                write_message_into(bytes, id, sequence);
                ring::copy_in(claim->payload().data(), bytes.data(), bytes.size());
                auto done = claim->commit(bytes.size());
                if (!done) return failed(done.error());
                ++sequence;
                break;
            }
            case 2: {  // several at once
                const std::uint64_t n = std::min<std::uint64_t>(1 + random.below(8), count - sequence);
                std::vector<Outgoing> batch;
                std::size_t at = 0;
                for (std::uint64_t i = 0; i < n; ++i) {
                    const auto one = std::span(buffer).subspan(at, random_size(random, 300));
                    write_message_into(one, id, sequence + i);
                    at += one.size();
                    batch.push_back({one, options});
                }
                auto done = producer.publish_batch(batch);
                if (!done) return failed(done.error());
                sequence += n;
                break;
            }
            case 3: {  // with a key and headers
                write_message_into(bytes, id, sequence);
                const Header headers[] = {{"name", "value"}, {"other", "x"}};
                auto with = options;
                with.key = "key";
                with.type = sequence;
                with.headers = headers;
                auto done = producer.publish(bytes, with);
                if (!done) return failed(done.error());
                ++sequence;
                break;
            }
            case 4: {
                write_message_into(bytes, id, sequence);
                auto done = producer.try_publish(bytes);
                if (done) {
                    ++sequence;
                } else if (done.error().code != Errc::no_credit) {
                    return failed(done.error());
                }
                break;
            }
            default: {
                write_message_into(bytes, id, sequence);
                auto done = producer.publish(bytes, options);
                if (!done) return failed(done.error());
                ++sequence;
            }
        }
    }
    return true;
}

inline bool nothing_yet(const Error& e) { return e.code == Errc::timeout || e.code == Errc::empty; }

/// Receives and acks until `done()`. Shared groups: every message counts when it is acked; exclusive groups: with the
/// cumulative ack. False if a call failed.
template <class Done>
bool consume_all(Consumer consumer, std::uint32_t id, bool exclusive, const Traffic& t, Books& books, Done&& done,
                 std::string& error) {
    auto random = rng(2000 + id);
    auto reader = books.reader();
    const auto failed = [&](const char* what, const Error& e) {
        error = std::string(what) + ": " + to_string(e.code) + ", " + e.what;
        return false;
    };
    constexpr auto wait = std::chrono::milliseconds(5);
    std::vector<Message> held;
    const auto settle = [&]() -> bool {
        if (held.empty()) return true;
        for (const auto& m : held) books.arrived(reader, m.payload());
        bool ok = true;
        if (exclusive) {
            // The last one settles all.
            if (auto acked = random.one_in(2) ? held.back().ack() : consumer.ack_through(held.back()); !acked)
                ok = failed("ack", acked.error());
            for (auto& m : held) (void)m.ack();  // stale by now: no effect
        } else if (auto acked = consumer.ack(held); !acked) {
            ok = failed("ack", acked.error());
        }
        held.clear();
        return ok;
    };
    while (!done()) {
        if (t.mixed && random.one_in(3)) {
            auto batch = consumer.receive_batch(1 + random.below(16), wait);
            if (!batch) {
                if (!nothing_yet(batch.error())) return failed("receive_batch", batch.error());
            } else {
                // Whatever next() did not return goes back when the batch ends.
                while (auto* m = batch->next()) held.push_back(std::move(*m));
            }
            if (!settle()) return false;
            continue;
        }
        auto m = random.one_in(4) ? consumer.try_receive() : consumer.receive(wait);
        if (!m) {
            if (!nothing_yet(m.error())) return failed("receive", m.error());
            if (!settle()) return false;
            continue;
        }
        held.push_back(std::move(*m));
        if (!t.mixed || held.size() > random.below(8)) {
            if (!settle()) return false;
        }
    }
    return settle();
}

}  // namespace rondo::test
