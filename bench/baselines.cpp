// SPDX-License-Identifier: MIT
// For orientation: what a queue inside one process costs for the same 64 bytes. Neither crosses processes, keeps a
// message until it is acknowledged, or survives a killed thread.
#include <benchmark/benchmark.h>
#include <concurrentqueue/concurrentqueue.h>

#include <array>
#include <deque>
#include <mutex>

namespace {

using Payload = std::array<std::uint64_t, 8>;

void moodycamel_enqueue_dequeue(benchmark::State& state) {
    moodycamel::ConcurrentQueue<Payload> queue;
    Payload in{}, out{};
    for (auto _ : state) {
        ++in[0];
        queue.enqueue(in);
        if (!queue.try_dequeue(out) || out[0] != in[0]) state.SkipWithError("lost");
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(moodycamel_enqueue_dequeue);

void mutex_deque_push_pop(benchmark::State& state) {
    std::mutex mutex;
    std::deque<Payload> queue;
    Payload in{};
    for (auto _ : state) {
        ++in[0];
        {
            const std::lock_guard guard(mutex);
            queue.push_back(in);
        }
        const std::lock_guard guard(mutex);
        if (queue.front()[0] != in[0]) state.SkipWithError("lost");
        queue.pop_front();
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(mutex_deque_push_pop);

}  // namespace
