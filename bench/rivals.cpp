// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// For orientation: queues inside one process, in one thread. They do less (no acknowledgement, no groups, nothing
// survives the process), so a call of theirs is a floor, not a rival.
#include <benchmark/benchmark.h>
#include <concurrentqueue/concurrentqueue.h>

#include <array>
#include <chrono>
#include <deque>
#include <mutex>

#include "bench/support/bed.hpp"

using namespace rondo::bench;

namespace {

template <std::size_t Size>
using Fixed = std::array<std::byte, Size>;

template <std::size_t Size>
struct Moodycamel {
    moodycamel::ConcurrentQueue<Fixed<Size>> queue;
    moodycamel::ProducerToken producer{queue};
    moodycamel::ConsumerToken consumer{queue};
    bool push(const Fixed<Size>& m) { return queue.enqueue(producer, m); }
    bool pop(Fixed<Size>& m) { return queue.try_dequeue(consumer, m); }
};

template <std::size_t Size>
struct MutexDeque {
    std::mutex mutex;
    std::deque<Fixed<Size>> queue;
    bool push(const Fixed<Size>& m) {
        const std::lock_guard guard(mutex);
        queue.push_back(m);
        return true;
    }
    bool pop(Fixed<Size>& m) {
        const std::lock_guard guard(mutex);
        if (queue.empty()) return false;
        m = queue.front();
        queue.pop_front();
        return true;
    }
};

using Clock = std::chrono::steady_clock;

template <template <std::size_t> class Queue, std::size_t Size, bool push>
void rival(benchmark::State& state) {
    Queue<Size> queue;
    const std::uint64_t n = round_of(Size);
    std::uint64_t at = 0;
    Fixed<Size> m{};
    for (auto _ : state) {
        const auto begin = Clock::now();
        for (std::uint64_t i = 0; i < n; ++i) {
            fill(m, at + i);
            if (!queue.push(m)) return state.SkipWithError("refused");
        }
        const auto middle = Clock::now();
        for (std::uint64_t i = 0; i < n; ++i) {
            if (!queue.pop(m) || !check(m, Size, at + i)) return state.SkipWithError("lost or changed");
        }
        const auto took = push ? middle - begin : Clock::now() - middle;
        state.SetIterationTime(std::chrono::duration<double>(took).count());
        at += n;
    }
    per_operation(state, n, Size);
}

BENCHMARK(rival<Moodycamel, 8, true>)->Name("moodycamel_tokens_push/bytes:8")->UseManualTime();
BENCHMARK(rival<Moodycamel, 64, true>)->Name("moodycamel_tokens_push/bytes:64")->UseManualTime();
BENCHMARK(rival<Moodycamel, 256, true>)->Name("moodycamel_tokens_push/bytes:256")->UseManualTime();
BENCHMARK(rival<Moodycamel, 1024, true>)->Name("moodycamel_tokens_push/bytes:1024")->UseManualTime();
BENCHMARK(rival<Moodycamel, 64, false>)->Name("moodycamel_tokens_pop/bytes:64")->UseManualTime();
BENCHMARK(rival<Moodycamel, 1024, false>)->Name("moodycamel_tokens_pop/bytes:1024")->UseManualTime();
BENCHMARK(rival<MutexDeque, 8, true>)->Name("mutex_deque_push/bytes:8")->UseManualTime();
BENCHMARK(rival<MutexDeque, 64, true>)->Name("mutex_deque_push/bytes:64")->UseManualTime();
BENCHMARK(rival<MutexDeque, 256, true>)->Name("mutex_deque_push/bytes:256")->UseManualTime();
BENCHMARK(rival<MutexDeque, 1024, true>)->Name("mutex_deque_push/bytes:1024")->UseManualTime();
BENCHMARK(rival<MutexDeque, 64, false>)->Name("mutex_deque_pop/bytes:64")->UseManualTime();
BENCHMARK(rival<MutexDeque, 1024, false>)->Name("mutex_deque_pop/bytes:1024")->UseManualTime();

}  // namespace
