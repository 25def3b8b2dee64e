// SPDX-License-Identifier: MIT
#include "perf/ring_perf/physical.hpp"

#include <array>
#include <cstring>

#include "base/cpu.hpp"

namespace perf {

namespace {

struct alignas(128) Line {
    std::atomic<std::uint64_t> value{0};
};

constexpr std::uint64_t lines = 16384;  // 1 MiB

struct Stream {
    Line written, read;
    std::array<std::array<std::uint64_t, 8>, lines> data;
};

}  // namespace

double handoff_ns(Control& control, std::uint64_t rounds) {
    static auto* line = new (shared_memory(sizeof(Line))) Line;
    line->value.store(0);
    const auto& done = run_pair(
        control,
        [&](Control& c) {
            const std::uint64_t start = now_ns();
            for (std::uint64_t i = 1; i <= rounds; ++i) {
                line->value.store(2 * i - 1, std::memory_order_release);
                while (line->value.load(std::memory_order_acquire) != 2 * i) {}
            }
            c.ns = now_ns() - start;
        },
        [&](Control&) {
            for (std::uint64_t i = 1; i <= rounds; ++i) {
                while (line->value.load(std::memory_order_acquire) != 2 * i - 1) {}
                line->value.store(2 * i, std::memory_order_release);
            }
        });
    return static_cast<double>(done.ns) / static_cast<double>(rounds) / 2;
}

double ideal_mps(Control& control, unsigned batch, double seconds) {
    static auto* s = new (shared_memory(sizeof(Stream))) Stream;
    s->written.value.store(0);
    s->read.value.store(0);
    constexpr std::uint64_t last = ~std::uint64_t{0};
    const auto& done = run_pair(
        control,
        [&](Control&) {
            const auto end = now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
            std::uint64_t i = 0, freed = 0;
            for (bool more = true; more;) {
                more = now_ns() < end;
                for (unsigned j = 0; j < 4096; ++i, ++j) {
                    while (i - freed >= lines - batch) freed = s->read.value.load(std::memory_order_acquire);
                    auto& line = s->data[i % lines];
                    line.fill(i);
                    if (!more && j == 4095) line[7] = last;
                    if ((i + 1) % batch == 0) s->written.value.store(i + 1, std::memory_order_release);
                }
            }
        },
        [&](Control& c) {
            std::uint64_t i = 0, seen = 0, wrong = 0;
            const std::uint64_t start = now_ns();
            for (bool more = true; more;) {
                while ((seen = s->written.value.load(std::memory_order_acquire)) == i) rondo::base::pause();
                for (; i < seen; ++i) {
                    const auto& line = s->data[i % lines];
                    std::uint64_t sum = 0;
                    for (const auto w : line) sum |= w ^ i;
                    if (line[7] == last) {
                        more = false;
                    } else {
                        wrong += sum != 0 ? 1U : 0U;
                    }
                }
                s->read.value.store(i, std::memory_order_release);
            }
            c.ns = now_ns() - start;
            c.count = i;
            c.errors = wrong;
        });
    if (done.errors != 0) return 0;
    return static_cast<double>(done.count) * 1e3 / static_cast<double>(done.ns);
}

}  // namespace perf
