// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "perf/ring_perf/traffic.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace perf {

namespace {

using namespace std::chrono_literals;
constexpr auto patience = 20s;

/// A queue's directory of this process, removed at the end.
class Directory {
public:
    explicit Directory(const char* name) : path_("/dev/shm/ring-perf-" + std::to_string(getpid()) + "-" + name) {}
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    ~Directory() { (void)rondo::Queue::destroy(path_, rondo::Force::yes); }
    const std::string& path() const { return path_; }

    bool make(const rondo::QueueOptions& options, rondo::GroupMode mode) const {
        auto queue = rondo::Queue::create(path_, options);
        const bool ok = queue && queue->create_group("perf", {.mode = mode, .start = rondo::Start::earliest()});
        if (!ok) std::fprintf(stderr, "ring-perf: cannot make a queue in %s\n", path_.c_str());
        return ok;
    }

private:
    std::string path_;
};

rondo::OpenOptions waiting(bool polling) {
    rondo::OpenOptions o;
    o.spin = polling ? rondo::forever : rondo::Duration::zero();
    return o;
}

struct Sender {
    rondo::Queue queue;
    rondo::Producer producer;
    Sender(const std::string& path, bool polling)
        : queue(rondo::Queue::open(path, waiting(polling)).value()), producer(queue.producer().value()) {}
};
struct Receiver {
    rondo::Queue queue;
    rondo::Consumer consumer;
    Receiver(const std::string& path, bool polling)
        : queue(rondo::Queue::open(path, waiting(polling)).value()), consumer(queue.consumer("perf").value()) {}
};

void produce(Sender& s, const Work& w, double seconds) {
    std::vector<std::byte> buffer(w.bytes * w.batch, std::byte{0x5a});
    rondo::PublishOptions options;
    options.timeout = patience;
    std::vector<rondo::Outgoing> batch;
    for (unsigned i = 0; i < w.batch; ++i) batch.push_back({{buffer.data() + i * w.bytes, w.bytes}, options});
    Schedule schedule(seconds, w.bytes);
    std::uint64_t number = 0;
    for (bool more = true; more;) {
        unsigned n = 0;
        for (; n < w.batch && more; ++n) {
            const std::uint64_t head = schedule.head(number++);
            std::memcpy(buffer.data() + n * w.bytes, &head, 8);
            more = (head & last_flag) == 0;
        }
        if (w.batch == 1) {
            (void)s.producer.publish(buffer, options).value();
        } else {
            (void)s.producer.publish_batch(std::span(batch).first(n)).value();
        }
    }
}

void consume(Receiver& r, const Work& w, Control& c) {
    Tally tally(w.bytes);
    while (!tally.done()) {
        if (w.batch == 1) {
            auto m = r.consumer.receive(patience);
            if (!m) break;
            tally.take(m->payload().data(), m->payload().size());
            if (!m->ack()) ++c.errors;
        } else {
            auto b = r.consumer.receive_batch(w.batch, patience);
            if (!b) break;
            while (auto* m = b->next()) {
                tally.take(m->payload().data(), m->payload().size());
                if (!m->ack()) ++c.errors;
            }
        }
    }
    tally.report(c);
}

}  // namespace

std::string Work::name() const {
    return std::string(producers == rondo::Producers::one ? "one" : "many") + "/" +
           (mode == rondo::GroupMode::exclusive ? "exclusive" : "shared") + "/" + std::to_string(bytes) +
           (batch > 1 ? "/x" + std::to_string(batch) : "") +
           (timestamps == rondo::Timestamps::off ? "/timestamps=off" : "");
}

std::optional<double> throughput(Control& control, const Work& w, const Options& options) {
    const Directory dir("t");
    rondo::QueueOptions o;
    o.capacity_bytes = std::max<std::uint64_t>(options.capacity_bytes, 64 * w.bytes);
    o.producers = w.producers;
    o.timestamps = w.timestamps;
    if (!dir.make(o, w.mode)) return std::nullopt;
    const bool ok = run_pair(
        control,
        [&] {
            auto s = std::make_shared<Sender>(dir.path(), true);
            return [&w, s, &options](Control&) { produce(*s, w, options.seconds); };
        },
        [&] {
            auto r = std::make_shared<Receiver>(dir.path(), true);
            return [&w, r](Control& c) { consume(*r, w, c); };
        });
    if (!ok || control.ns == 0) return std::nullopt;
    return static_cast<double>(control.messages) * 1e9 / static_cast<double>(control.ns);
}

std::optional<Latency> ping_pong(Control& control, bool polling, std::uint64_t rounds) {
    const Directory ping("a"), pong("b");
    rondo::QueueOptions o;
    o.capacity_bytes = std::uint64_t{256} << 10;
    o.producers = rondo::Producers::one;
    if (!ping.make(o, rondo::GroupMode::exclusive) || !pong.make(o, rondo::GroupMode::exclusive)) return std::nullopt;
    struct Player {
        Sender out;
        Receiver in;
    };
    const auto exchange = [](Player& p, std::array<std::uint64_t, 8>& words, std::uint64_t i, Control& c) {
        auto m = p.in.consumer.receive(patience);
        if (!m || m->payload().size() != sizeof words || xor_of(m->payload().data(), 64) != (i ^ rest_of(64))) {
            ++c.errors;
            return false;
        }
        std::memcpy(words.data(), m->payload().data(), sizeof words);
        (void)m->ack();
        return true;
    };
    const std::uint64_t warm_up = rounds / 10;
    const bool ok = run_pair(
        control,
        [&] {
            auto p = std::make_shared<Player>(Sender(ping.path(), polling), Receiver(pong.path(), polling));
            return [&, p](Control& c) {
                std::vector<std::uint32_t> times;
                times.reserve(rounds);
                std::array<std::uint64_t, 8> words{};
                words.fill(pattern);
                for (std::uint64_t i = 0; i < rounds + warm_up; ++i) {
                    words[0] = i;
                    const std::uint64_t begin = now_ns();
                    (void)p->out.producer.publish(std::as_bytes(std::span(words))).value();
                    if (!exchange(*p, words, i, c)) return;
                    if (i >= warm_up) times.push_back(static_cast<std::uint32_t>(now_ns() - begin));
                }
                std::sort(times.begin(), times.end());
                const double quantiles[] = {0.5, 0.99, 0.999, 1};
                for (int q = 0; q < 4; ++q)
                    c.quantiles_ns[q] =
                        times[static_cast<std::size_t>(quantiles[q] * static_cast<double>(times.size() - 1))] / 2.0;
            };
        },
        [&] {
            auto p = std::make_shared<Player>(Sender(pong.path(), polling), Receiver(ping.path(), polling));
            return [&, p](Control& c) {
                std::array<std::uint64_t, 8> words{};
                for (std::uint64_t i = 0; i < rounds + warm_up; ++i) {
                    if (!exchange(*p, words, i, c)) return;
                    (void)p->out.producer.publish(std::as_bytes(std::span(words))).value();
                }
            };
        });
    if (!ok) return std::nullopt;
    const auto& q = control.quantiles_ns;
    return Latency{q[0], q[1], q[2], q[3]};
}

}  // namespace perf
