// SPDX-License-Identifier: MIT
#include "perf/ring_perf/traffic.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace perf {

namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t last_flag = std::uint64_t{1} << 63;

/// A queue's directory of this process, removed at the end.
class Directory {
public:
    explicit Directory(const char* name) : path_("/dev/shm/ring-perf-" + std::to_string(getpid()) + "-" + name) {}
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    ~Directory() { (void)rondo::Queue::destroy(path_, rondo::Force::yes); }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

std::uint64_t sum_of(rondo::Bytes bytes) {
    std::uint64_t sum = 0, word = 0;
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        std::memcpy(&word, bytes.data() + i, 8);
        sum ^= word;
    }
    return sum;
}

rondo::OpenOptions polling_options(bool polling) {
    rondo::OpenOptions o;
    o.spin = polling ? rondo::forever : rondo::Duration::zero();
    return o;
}

void produce(const Work& w, const std::string& path, double seconds) {
    auto queue = rondo::Queue::open(path, polling_options(true)).value();
    auto producer = queue.producer().value();
    std::vector<std::byte> payload(w.bytes * w.batch, std::byte{0x5a});
    std::vector<rondo::Outgoing> batch;
    for (unsigned i = 0; i < w.batch; ++i) batch.push_back({{payload.data() + i * w.bytes, w.bytes}});
    const rondo::PublishOptions options{.timeout = 60s};
    for (auto& m : batch) m.options.timeout = 60s;
    const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
    std::uint64_t sequence = 0;
    for (bool more = true; more;) {
        more = now_ns() < end;
        for (unsigned n = 0; n < 64; n += w.batch) {
            for (unsigned i = 0; i < w.batch; ++i, ++sequence) {
                const bool final = !more && n + i + 1 >= 64;
                const std::uint64_t head = sequence | (final ? last_flag : 0);
                std::memcpy(payload.data() + i * w.bytes, &head, 8);
            }
            if (w.batch == 1) {
                (void)producer.publish(payload, options).value();
            } else {
                (void)producer.publish_batch(batch).value();
            }
        }
    }
}

void consume(const Work& w, const std::string& path, Control& c) {
    auto queue = rondo::Queue::open(path, polling_options(true)).value();
    auto consumer = queue.consumer("perf").value();
    std::uint64_t expected = 0, sum = 0;
    const std::uint64_t filler = w.bytes / 8 % 2 == 0 ? 0x5a5a5a5a5a5a5a5aU : 0;
    bool more = true;
    const auto take = [&](rondo::Message& m) {
        std::uint64_t head = 0;
        std::memcpy(&head, m.payload().data(), 8);
        sum = sum_of(m.payload()) ^ head ^ filler;
        if ((head & ~last_flag) != expected++ || m.payload().size() != w.bytes || sum != 0) ++c.errors;
        more = (head & last_flag) == 0;
        (void)m.ack();
    };
    const std::uint64_t start = now_ns();
    while (more) {
        if (w.batch == 1) {
            auto m = consumer.receive(60s);
            if (!m) break;
            take(*m);
        } else {
            auto b = consumer.receive_batch(w.batch, 60s);
            if (!b) break;
            while (auto* m = b->next()) take(*m);
        }
    }
    c.ns = now_ns() - start;
    c.count = expected;
    if (more) ++c.errors;
}

}  // namespace

double throughput_mps(Control& control, const Work& w, double seconds) {
    const Directory dir("t");
    {
        rondo::QueueOptions o;
        o.capacity_bytes = std::max<std::uint64_t>(std::uint64_t{2} << 20, 64 * w.bytes * w.batch);
        o.producers = w.producers;
        o.timestamps = w.timestamps;
        auto queue = rondo::Queue::create(dir.path(), o).value();
        const bool made = queue.create_group("perf", {.mode = w.mode, .start = rondo::Start::earliest()}).has_value();
        if (!made) return 0;
    }
    const auto& done = run_pair(
        control, [&](Control&) { produce(w, dir.path(), seconds); },
        [&](Control& c) { consume(w, dir.path(), c); });
    return done.errors != 0 || done.ns == 0 ? 0 : static_cast<double>(done.count) * 1e3 / static_cast<double>(done.ns);
}

Latency round_trip(Control& control, bool polling, std::uint64_t rounds) {
    const Directory ping("a"), pong("b");
    for (const auto* d : {&ping, &pong}) {
        rondo::QueueOptions o;
        o.capacity_bytes = std::uint64_t{256} << 10;
        o.producers = rondo::Producers::one;
        auto queue = rondo::Queue::create(d->path(), o).value();
        if (!queue.create_group("perf", {.mode = rondo::GroupMode::exclusive, .start = rondo::Start::earliest()}))
            return {};
    }
    const auto side = [&](Control& c, const std::string& out, const std::string& in, bool leads) {
        auto out_queue = rondo::Queue::open(out, polling_options(polling)).value();
        auto in_queue = rondo::Queue::open(in, polling_options(polling)).value();
        auto producer = out_queue.producer().value();
        auto consumer = in_queue.consumer("perf").value();
        std::array<std::byte, 64> payload{};
        std::vector<std::uint64_t> times;
        times.reserve(leads ? rounds : 0);
        for (std::uint64_t i = 0; i < rounds; ++i) {
            const std::uint64_t start = leads ? now_ns() : 0;
            if (leads) {
                std::memcpy(payload.data(), &i, 8);
                (void)producer.publish(payload).value();
            }
            auto m = consumer.receive(60s);
            if (!m || std::memcmp(m->payload().data(), &i, 8) != 0) {
                ++c.errors;
                return;
            }
            std::memcpy(payload.data(), m->payload().data(), 64);
            (void)m->ack();
            if (leads) {
                times.push_back(now_ns() - start);
            } else {
                (void)producer.publish(payload).value();
            }
        }
        if (!leads) return;
        std::sort(times.begin(), times.end());
        const auto at = [&](double q) { return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))]; };
        c.quantiles_ns[0] = at(0.5);
        c.quantiles_ns[1] = at(0.99);
        c.quantiles_ns[2] = at(0.999);
        c.quantiles_ns[3] = times.back();
        c.count = times.size();
    };
    const auto& done = run_pair(
        control, [&](Control& c) { side(c, ping.path(), pong.path(), true); },
        [&](Control& c) { side(c, pong.path(), ping.path(), false); });
    const auto half = [&](int i) { return static_cast<double>(done.quantiles_ns[i]) / 2; };
    return {half(0), half(1), half(2), half(3), done.errors == 0 && done.count == rounds};
}

}  // namespace perf
