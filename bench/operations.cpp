// SPDX-License-Identifier: MIT
// One benchmark for each operation of the public interface, in one process and one thread: what an operation costs by
// itself, so that a regression is seen. What two processes reach together is perf/ring_perf's business.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "rondo/rondo.hpp"

namespace {

using namespace std::chrono_literals;
using rondo::GroupMode;
using rondo::Producers;

/// A queue of its own for each benchmark, with one group.
class Fixture {
public:
    Fixture(Producers producers, GroupMode mode, std::uint64_t capacity = 4U << 20)
        : path_("/dev/shm/rondo-bench-" + std::to_string(getpid())),
          queue_(create(path_, producers, capacity)),
          consumer_(queue_.consumer("bench", {.mode = mode, .start = rondo::Start::earliest(),
                                              .max_deliveries = -1,
                                              .backoff_initial = rondo::Duration::zero()}).value()),
          producer_(queue_.producer().value()) {}
    Fixture(const Fixture&) = delete;
    Fixture& operator=(const Fixture&) = delete;
    ~Fixture() { (void)rondo::Queue::destroy(path_, rondo::Force::yes); }

    rondo::Queue& queue() { return queue_; }
    rondo::Producer& producer() { return producer_; }
    rondo::Consumer& consumer() { return consumer_; }
    /// Takes everything; the sequence in each payload must be the next one.
    bool drain(std::uint64_t& expected) {
        while (auto m = consumer_.try_receive()) {
            std::uint64_t seen = 0;
            std::memcpy(&seen, m->payload().data(), 8);
            if (seen != expected++) return false;
            (void)m->ack();
        }
        return true;
    }

private:
    static rondo::Queue create(const std::string& path, Producers producers, std::uint64_t capacity) {
        (void)rondo::Queue::destroy(path, rondo::Force::yes);
        rondo::QueueOptions o;
        o.capacity_bytes = capacity;
        o.producers = producers;
        return rondo::Queue::create(path, o).value();
    }
    std::string path_;
    rondo::Queue queue_;
    rondo::Consumer consumer_;
    rondo::Producer producer_;
};

constexpr int burst = 32;

/// Publishes in bursts; the draining between them is not timed.
template <class Publish>
void publishing(benchmark::State& state, Producers producers, Publish&& publish) {
    Fixture f(producers, GroupMode::exclusive);
    std::uint64_t sequence = 0, expected = 0;
    for (auto _ : state) {
        for (int i = 0; i < burst; ++i) publish(f, sequence++);
        state.PauseTiming();
        if (!f.drain(expected)) state.SkipWithError("messages were lost or out of order");
        state.ResumeTiming();
    }
    state.SetItemsProcessed(state.iterations() * burst);
}

void publish(benchmark::State& state, Producers producers) {
    std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)));
    publishing(state, producers, [&](Fixture& f, std::uint64_t sequence) {
        std::memcpy(payload.data(), &sequence, 8);
        if (!f.producer().publish(payload)) state.SkipWithError("publish failed");
    });
}
BENCHMARK_CAPTURE(publish, one_producer, Producers::one)->Arg(8)->Arg(64)->Arg(256)->Arg(1024)->Arg(16384);
BENCHMARK_CAPTURE(publish, many_producers, Producers::many)->Arg(8)->Arg(64)->Arg(256)->Arg(1024)->Arg(16384);

void publish_with_key(benchmark::State& state) {
    std::array<std::byte, 64> payload{};
    publishing(state, Producers::many, [&](Fixture& f, std::uint64_t sequence) {
        std::memcpy(payload.data(), &sequence, 8);
        if (!f.producer().publish(payload, {.key = "account-7"})) state.SkipWithError("publish failed");
    });
}
BENCHMARK(publish_with_key);

void claim_commit(benchmark::State& state) {
    publishing(state, Producers::many, [&](Fixture& f, std::uint64_t sequence) {
        auto claim = f.producer().claim(64);
        if (!claim) return state.SkipWithError("claim failed");
        std::memcpy(claim->payload().data(), &sequence, 8);
        if (!claim->commit()) state.SkipWithError("commit failed");
    });
}
BENCHMARK(claim_commit);

void publish_batch(benchmark::State& state) {
    Fixture f(Producers::many, GroupMode::exclusive);
    const auto n = static_cast<std::size_t>(state.range(0));
    std::vector<std::array<std::byte, 64>> payloads(n);
    std::vector<rondo::Outgoing> batch;
    for (auto& p : payloads) batch.push_back({p});
    std::uint64_t sequence = 0, expected = 0;
    for (auto _ : state) {
        for (auto& p : payloads) {
            std::memcpy(p.data(), &sequence, 8);
            ++sequence;
        }
        if (!f.producer().publish_batch(batch)) state.SkipWithError("publish_batch failed");
        state.PauseTiming();
        if (!f.drain(expected)) state.SkipWithError("messages were lost or out of order");
        state.ResumeTiming();
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(publish_batch)->Arg(4)->Arg(32);

/// Fills outside the timing; takes `burst` messages inside.
template <class Take>
void receiving(benchmark::State& state, GroupMode mode, Take&& take) {
    Fixture f(Producers::many, mode);
    std::array<std::byte, 64> payload{};
    std::uint64_t sequence = 0;
    for (auto _ : state) {
        state.PauseTiming();
        for (int i = 0; i < burst; ++i, ++sequence) {
            std::memcpy(payload.data(), &sequence, 8);
            if (!f.producer().publish(payload)) state.SkipWithError("publish failed");
        }
        state.ResumeTiming();
        take(f);
    }
    state.SetItemsProcessed(state.iterations() * burst);
}

void receive_ack(benchmark::State& state, GroupMode mode) {
    std::uint64_t expected = 0;
    receiving(state, mode, [&](Fixture& f) {
        for (int i = 0; i < burst; ++i) {
            auto m = f.consumer().try_receive();
            std::uint64_t seen = ~std::uint64_t{0};
            if (m) std::memcpy(&seen, m->payload().data(), 8);
            if (!m || seen != expected++ || !m->ack()) return state.SkipWithError("a message is missing");
        }
    });
}
BENCHMARK_CAPTURE(receive_ack, exclusive, GroupMode::exclusive);
BENCHMARK_CAPTURE(receive_ack, shared, GroupMode::shared);

void receive_batch_ack(benchmark::State& state, GroupMode mode) {
    receiving(state, mode, [&](Fixture& f) {
        auto batch = f.consumer().receive_batch(burst, 0ns);
        int n = 0;
        while (batch) {
            auto* m = batch->next();
            if (m == nullptr) break;
            if (m->ack()) ++n;
        }
        if (n != burst) state.SkipWithError("a message is missing");
    });
}
BENCHMARK_CAPTURE(receive_batch_ack, exclusive, GroupMode::exclusive);
BENCHMARK_CAPTURE(receive_batch_ack, shared, GroupMode::shared);

void nack_and_again(benchmark::State& state) {
    Fixture f(Producers::many, GroupMode::shared);
    std::array<std::byte, 64> payload{};
    if (!f.producer().publish(payload)) state.SkipWithError("publish failed");
    for (auto _ : state) {
        auto m = f.consumer().receive(1s);
        if (!m || !m->nack({.code = "again"}, rondo::Duration::zero())) return state.SkipWithError("it did not come again");
    }
}
BENCHMARK(nack_and_again);

void stats(benchmark::State& state) {
    Fixture f(Producers::many, GroupMode::shared);
    std::array<std::byte, 64> payload{};
    for (std::int64_t i = 0; i < state.range(0); ++i)
        if (!f.producer().publish(payload)) state.SkipWithError("publish failed");
    for (auto _ : state) {
        const auto s = f.queue().stats();
        if (s.groups.at(0).lag != static_cast<std::uint64_t>(state.range(0))) state.SkipWithError("wrong lag");
    }
}
BENCHMARK(stats)->Arg(0)->Arg(1000);

void open_close(benchmark::State& state) {
    const std::string path = "/dev/shm/rondo-bench-open-" + std::to_string(getpid());
    {
        auto made = rondo::Queue::create(path, {.capacity_bytes = 1U << 20});
        if (!made) return state.SkipWithError("create failed");
        for (auto _ : state) {
            auto q = rondo::Queue::open(path);
            if (!q) state.SkipWithError("open failed");
        }
    }
    (void)rondo::Queue::destroy(path, rondo::Force::yes);
}
BENCHMARK(open_close)->Unit(benchmark::kMicrosecond);

void create_destroy(benchmark::State& state) {
    const std::string path = "/dev/shm/rondo-bench-create-" + std::to_string(getpid());
    for (auto _ : state) {
        if (!rondo::Queue::create(path, {.capacity_bytes = 1U << 20})) state.SkipWithError("create failed");
        if (!rondo::Queue::destroy(path)) state.SkipWithError("destroy failed");
    }
}
BENCHMARK(create_destroy)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
