// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// One benchmark for each public operation, in one thread: what a call costs by itself. How fast two processes are
// together is what ring-perf measures.
//
// Each round does its operation some hundred times under the clock and puts the queue back in order outside of it; the
// counter `op` is the time of one operation. What is moved is checked.
#include <benchmark/benchmark.h>

#include <chrono>

#include "bench/support/bed.hpp"

using namespace rondo;
using namespace rondo::bench;

namespace {

using Clock = std::chrono::steady_clock;

/// Runs rounds of `timed` (under the clock) and `after` (outside). Either returns false when data were wrong.
template <class Before, class Timed, class After>
void rounds(benchmark::State& state, Before&& before, Timed&& timed, After&& after) {
    for (auto _ : state) {
        if (!before()) return state.SkipWithError("the queue could not be prepared");
        const auto begin = Clock::now();
        const bool ok = timed();
        state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
        if (!ok || !after()) return state.SkipWithError("messages were refused, lost or changed");
    }
}
constexpr auto nothing = [] { return true; };

QueueOptions options_of(const benchmark::State& state) {
    QueueOptions o;
    o.capacity_bytes = std::uint64_t{16} << 20;
    o.producers = state.range(1) == 1 ? Producers::one : Producers::many;
    return o;
}
GroupMode mode_of(const benchmark::State& state) {
    return state.range(1) == 0 ? GroupMode::exclusive : GroupMode::shared;
}

void publish(benchmark::State& state) {
    const auto size = static_cast<std::size_t>(state.range(0));
    Bed bed(options_of(state));
    std::vector<std::byte> buffer(size);
    const std::uint64_t n = round_of(size);
    std::uint64_t at = 0;
    rounds(
        state, nothing, [&] { return bed.publish(buffer, at, n); },
        [&] {
            at += n;
            return bed.drain(size, at - n, n);
        });
    per_operation(state, n, size);
}
BENCHMARK(publish)->ArgNames({"bytes", "producers"})->ArgsProduct({{8, 64, 256, 1024, 16384}, {1, 2}})->UseManualTime();

void publish_with_key_and_headers(benchmark::State& state) {
    Bed bed;
    const Header headers[] = {{"trace", "4bf92f3577b34da6"}, {"kind", "order"}};
    PublishOptions options;
    options.key = "customer-4711";
    options.headers = headers;
    std::vector<std::byte> buffer(64);
    const std::uint64_t n = round_of(200);
    std::uint64_t at = 0;
    rounds(
        state, nothing,
        [&] {
            bool ok = true;
            for (std::uint64_t i = 0; i < n; ++i) {
                fill(buffer, at + i);
                ok = bed.producer.try_publish(buffer, options).has_value() && ok;
            }
            return ok;
        },
        [&] {
            at += n;
            return bed.drain(64, at - n, n);
        });
    per_operation(state, n);
}
BENCHMARK(publish_with_key_and_headers)->UseManualTime();

void claim_commit(benchmark::State& state) {
    const auto size = static_cast<std::size_t>(state.range(0));
    Bed bed(options_of(state));
    const std::uint64_t n = round_of(size);
    std::uint64_t at = 0;
    rounds(
        state, nothing,
        [&] {
            for (std::uint64_t i = 0; i < n; ++i) {
                auto claim = bed.producer.claim(size);
                if (!claim) return false;
                fill(claim->payload(), at + i);
                if (!claim->commit()) return false;
            }
            return true;
        },
        [&] {
            at += n;
            return bed.drain(size, at - n, n);
        });
    per_operation(state, n, size);
}
BENCHMARK(claim_commit)->ArgNames({"bytes", "producers"})->ArgsProduct({{64, 1024}, {1, 2}})->UseManualTime();

void claim_abort(benchmark::State& state) {
    Bed bed;
    const std::uint64_t n = round_of(64);
    rounds(
        state, nothing,
        [&] {
            for (std::uint64_t i = 0; i < n; ++i) {
                if (!bed.producer.claim(64)) return false;  // aborted at the end of its life
            }
            return true;
        },
        [&] { return !bed.consumer.try_receive(); });
    per_operation(state, n);
}
BENCHMARK(claim_abort)->UseManualTime();

void publish_batch(benchmark::State& state) {
    const auto size = static_cast<std::size_t>(state.range(0));
    constexpr std::uint64_t batch = 32;
    Bed bed(options_of(state));
    std::vector<std::byte> buffer(size * batch);
    std::vector<Outgoing> out(batch);
    const std::uint64_t n = round_of(size) / batch * batch;
    std::uint64_t at = 0;
    rounds(
        state, nothing,
        [&] {
            for (std::uint64_t i = 0; i < n; i += batch) {
                for (std::uint64_t j = 0; j < batch; ++j) {
                    const auto one = std::span(buffer).subspan(j * size, size);
                    fill(one, at + i + j);
                    out[j].payload = one;
                }
                if (!bed.producer.publish_batch(out)) return false;
            }
            return true;
        },
        [&] {
            at += n;
            return bed.drain(size, at - n, n);
        });
    per_operation(state, n, size);
}
BENCHMARK(publish_batch)->ArgNames({"bytes", "producers"})->ArgsProduct({{8, 64, 1024}, {1, 2}})->UseManualTime();

void receive_ack(benchmark::State& state) {
    const auto size = static_cast<std::size_t>(state.range(0));
    Bed bed({}, mode_of(state));
    std::vector<std::byte> buffer(size);
    const std::uint64_t n = round_of(size);
    std::uint64_t at = 0;
    rounds(
        state, [&] { return bed.publish(buffer, at, n); }, [&] { return bed.drain(size, at, n); },
        [&] {
            at += n;
            return true;
        });
    per_operation(state, n, size);
}
BENCHMARK(receive_ack)
    ->ArgNames({"bytes", "shared"})
    ->ArgsProduct({{8, 64, 256, 1024, 16384}, {0, 1}})
    ->UseManualTime();

void receive_batch_ack(benchmark::State& state) {
    const auto size = static_cast<std::size_t>(state.range(0));
    Bed bed({}, mode_of(state));
    std::vector<std::byte> buffer(size);
    const std::uint64_t n = round_of(size);
    std::uint64_t at = 0;
    rounds(
        state, [&] { return bed.publish(buffer, at, n); },
        [&] {
            for (std::uint64_t i = 0; i < n;) {
                auto batch = bed.consumer.receive_batch(32, Duration::zero());
                if (!batch) return false;
                while (auto* m = batch->next()) {
                    if (!check(m->payload(), size, at + i) || !m->ack()) return false;
                    ++i;
                }
            }
            return true;
        },
        [&] {
            at += n;
            return true;
        });
    per_operation(state, n, size);
}
BENCHMARK(receive_batch_ack)->ArgNames({"bytes", "shared"})->ArgsProduct({{64, 1024}, {0, 1}})->UseManualTime();

/// Holding many messages at once, then acking them in order.
void receive_then_ack(benchmark::State& state) {
    constexpr std::size_t size = 64;
    Bed bed({}, mode_of(state));
    std::vector<std::byte> buffer(size);
    const auto n = static_cast<std::uint64_t>(state.range(0));
    std::uint64_t at = 0;
    std::vector<Message> held;
    held.reserve(n);
    rounds(
        state, [&] { return bed.publish(buffer, at, n); },
        [&] {
            for (std::uint64_t i = 0; i < n; ++i) {
                auto m = bed.consumer.try_receive();
                if (!m || !check(m->payload(), size, at + i)) return false;
                held.push_back(std::move(*m));
            }
            for (auto& m : held) {
                if (!m.ack()) return false;
            }
            return true;
        },
        [&] {
            held.clear();
            at += n;
            return true;
        });
    per_operation(state, n);
}
BENCHMARK(receive_then_ack)->ArgNames({"held", "shared"})->ArgsProduct({{32, 1000}, {0, 1}})->UseManualTime();

void receive_nack(benchmark::State& state) {
    Bed bed({}, mode_of(state));
    std::vector<std::byte> buffer(64);
    if (!bed.publish(buffer, 1, 1)) return state.SkipWithError("not published");
    for (auto _ : state) {
        auto m = bed.consumer.try_receive();
        if (!m || !check(m->payload(), 64, 1) || !m->nack({.code = "again"}, Duration::zero()))
            return state.SkipWithError("the message did not come again");
    }
}
BENCHMARK(receive_nack)->ArgNames({"", "shared"})->ArgsProduct({{0}, {0, 1}});

void receive_release(benchmark::State& state) {
    Bed bed({}, mode_of(state));
    std::vector<std::byte> buffer(64);
    if (!bed.publish(buffer, 1, 1)) return state.SkipWithError("not published");
    for (auto _ : state) {
        auto m = bed.consumer.try_receive();
        if (!m || !check(m->payload(), 64, 1) || !m->release())
            return state.SkipWithError("the message did not come again");
    }
}
BENCHMARK(receive_release)->ArgNames({"", "shared"})->ArgsProduct({{0}, {0, 1}});

void receive_reject(benchmark::State& state) {
    Bed bed({}, mode_of(state));
    auto letters = std::move(*bed.queue.dead_letters());
    std::vector<std::byte> buffer(64);
    constexpr std::uint64_t n = 64;
    rounds(
        state, [&] { return bed.publish(buffer, 0, n); },
        [&] {
            for (std::uint64_t i = 0; i < n; ++i) {
                auto m = bed.consumer.try_receive();
                if (!m || !check(m->payload(), 64, i) || !m->reject({.code = "bad", .message = "for the benchmark"}))
                    return false;
            }
            return true;
        },
        [&] {
            auto gone = letters.discard({}, "counted", true);
            return gone && gone->count == n;
        });
    per_operation(state, n);
}
BENCHMARK(receive_reject)->ArgNames({"", "shared"})->ArgsProduct({{0}, {0, 1}})->UseManualTime();

void try_receive_empty(benchmark::State& state) {
    Bed bed({}, mode_of(state));
    for (auto _ : state) {
        if (bed.consumer.try_receive()) return state.SkipWithError("a message out of nothing");
    }
}
BENCHMARK(try_receive_empty)->ArgNames({"", "shared"})->ArgsProduct({{0}, {0, 1}});

void extend(benchmark::State& state) {
    Bed bed({}, GroupMode::shared);
    std::vector<std::byte> buffer(64);
    if (!bed.publish(buffer, 1, 1)) return state.SkipWithError("not published");
    auto m = bed.consumer.try_receive();
    for (auto _ : state) {
        if (!m->extend(std::chrono::seconds(10))) return state.SkipWithError("the lease was lost");
    }
    (void)m->ack();
}
BENCHMARK(extend);

void stats(benchmark::State& state) {
    Bed bed({}, GroupMode::shared);
    std::vector<std::byte> buffer(64);
    const auto n = static_cast<std::uint64_t>(state.range(0));
    if (!bed.publish(buffer, 0, n)) return state.SkipWithError("not published");
    for (auto _ : state) {
        const auto s = bed.queue.stats();
        if (s.groups.at(0).lag != n) return state.SkipWithError("the count is wrong");
    }
}
BENCHMARK(stats)->ArgNames({"messages"})->Arg(0)->Arg(1000)->Arg(100000)->Unit(benchmark::kMicrosecond);

void open_close(benchmark::State& state) {
    QueueOptions options;
    options.capacity_bytes = static_cast<std::uint64_t>(state.range(0)) << 20;
    const Bed bed(options);
    OpenOptions open;
    open.prefault = state.range(1) != 0;
    for (auto _ : state) {
        auto queue = Queue::open(bed.dir.path(), open);
        if (!queue) return state.SkipWithError("not opened");
    }
}
BENCHMARK(open_close)->ArgNames({"MiB", "prefault"})->ArgsProduct({{1, 64}, {0, 1}})->Unit(benchmark::kMicrosecond);

void create_destroy(benchmark::State& state) {
    const TmpDir dir;
    QueueOptions options;
    options.capacity_bytes = static_cast<std::uint64_t>(state.range(0)) << 10;
    for (auto _ : state) {
        { auto queue = Queue::create(dir.path(), options); }
        if (!Queue::destroy(dir.path(), Force::yes)) return state.SkipWithError("not destroyed");
    }
}
BENCHMARK(create_destroy)->ArgNames({"KiB"})->Arg(256)->Arg(65536)->Unit(benchmark::kMicrosecond);

void open_consumer(benchmark::State& state) {
    Bed bed({}, mode_of(state));
    for (auto _ : state) {
        auto consumer = bed.queue.consumer("bench");
        if (!consumer) return state.SkipWithError("not opened");
    }
}
BENCHMARK(open_consumer)->ArgNames({"", "shared"})->ArgsProduct({{0}, {0, 1}})->Unit(benchmark::kMicrosecond);

void open_producer(benchmark::State& state) {
    Bed bed;
    for (auto _ : state) {
        auto producer = bed.queue.producer();
        if (!producer) return state.SkipWithError("not opened");
    }
}
BENCHMARK(open_producer)->Unit(benchmark::kMicrosecond);

void create_delete_group(benchmark::State& state) {
    Bed bed;
    for (auto _ : state) {
        if (!bed.queue.create_group("other", {.mode = mode_of(state), .start = Start::earliest()}) ||
            !bed.queue.delete_group("other"))
            return state.SkipWithError("the group was not made or not deleted");
    }
}
// Not for longer: a ring that stands still has 4095 generations of groups.
BENCHMARK(create_delete_group)
    ->ArgNames({"", "shared"})
    ->ArgsProduct({{0}, {0, 1}})
    ->Iterations(200)
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
