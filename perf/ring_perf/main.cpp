// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-perf: rondo between two pinned processes, beside what the machine can do at the same moment. Every repetition
// runs every row once, the bare rings of the same message size right beside it; see perf/README.md.
#include <fmt/core.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "perf/ring_perf/physical.hpp"
#include "perf/ring_perf/traffic.hpp"
#include "rondo/version.hpp"

namespace {

using perf::Work;
using rondo::GroupMode;
using rondo::Producers;

constexpr std::size_t all_sizes[] = {8, 64, 256, 1024, 16384};

struct Settings {
    unsigned repetitions = 5;
    perf::Options options;
    std::uint64_t rounds = 200'000;  // of the polling ping-pong; a tenth of it sleeping
    std::string filter, json_path;
    bool quick = false;
};

/// The rows of one message size.
std::vector<Work> rows_of(std::size_t bytes, const Settings& s) {
    std::vector<Work> rows;
    for (const auto producers : {Producers::one, Producers::many})
        for (const auto mode : {GroupMode::exclusive, GroupMode::shared})
            for (const unsigned batch : {1U, bytes <= 1024 ? 32U : 4U}) rows.push_back({bytes, producers, mode, batch});
    if (bytes == 64) {
        auto row = Work{64};
        row.timestamps = rondo::Timestamps::off;
        rows.push_back(row);
    }
    std::erase_if(rows, [&](const Work& w) { return w.name().find(s.filter) == std::string::npos; });
    return rows;
}

/// All values of one row; medians, least and most of them.
class Samples {
public:
    void add(double v) { values_.push_back(v); }
    bool empty() const { return values_.empty(); }
    double median() const { return at(values_.size() / 2); }
    double least() const { return at(0); }
    double most() const { return at(values_.size() - 1); }

private:
    double at(std::size_t i) const {
        auto sorted = values_;
        std::sort(sorted.begin(), sorted.end());
        return sorted[i];
    }
    std::vector<double> values_;
};

struct Row {
    Samples rate, to_batched, to_each;  // messages/s and its ratios to the bare rings of the same repetition
    unsigned voids = 0;
};

std::string cpu_model() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
    return "unknown";
}

double load_average() {
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : -1;
}

std::string kernel() {
    utsname u{};
    return uname(&u) == 0 ? u.release : "unknown";
}

/// The commit of the working directory, "+" when files differ from it.
std::string commit() {
    std::string out;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        popen("git rev-parse --short HEAD 2>/dev/null && git diff --quiet HEAD 2>/dev/null || echo +", "r"), pclose);
    for (int c = 0; pipe && (c = std::fgetc(pipe.get())) != EOF;)
        if (c != '\n') out += static_cast<char>(c);
    return out.empty() || out == "+" ? "unknown" : out;
}

std::string rate_text(double v) {
    return v >= 1e6   ? fmt::format("{:.2f}M", v / 1e6)
           : v >= 1e3 ? fmt::format("{:.1f}k", v / 1e3)
                      : fmt::format("{:.0f}", v);
}

void print_line(const std::string& name, const Row& r) {
    if (r.rate.empty()) {
        fmt::print("{:34} void\n", name);
        return;
    }
    fmt::print("{:34} {:>9} {:>9} {:>9}", name, rate_text(r.rate.median()), rate_text(r.rate.least()),
               rate_text(r.rate.most()));
    if (!r.to_batched.empty())
        fmt::print("   {:6.3f} ({:.3f}-{:.3f})", r.to_batched.median(), r.to_batched.least(), r.to_batched.most());
    if (!r.to_each.empty()) fmt::print("   {:6.3f}", r.to_each.median());
    fmt::print("{}\n", r.voids != 0 ? fmt::format("   {} void", r.voids) : "");
}

class Run {
public:
    explicit Run(const Settings& s)
        : s_(s), control_(*new (perf::shared_memory(sizeof(perf::Control))) perf::Control) {}

    int all() {
        for (unsigned r = 0; r < s_.repetitions; ++r) {
            for (const std::size_t bytes : all_sizes) size(r, bytes);
            latency(r);
            if (!s_.quick) std::fprintf(stderr, "repetition %u of %u\n", r + 1, s_.repetitions);
        }
        print();
        if (!s_.json_path.empty()) write_json();
        return voids_ == 0 ? 0 : 1;
    }

private:
    void note(unsigned repetition, const std::string& row, const char* unit, double value) {
        runs_.push_back({{"repetition", repetition}, {"row", row}, {"unit", unit}, {"value", value}});
    }
    /// Where a row is shown: in the order of its first appearance.
    Row& row(const std::string& name) {
        if (rows_.find(name) == rows_.end()) order_.push_back(name);
        return rows_[name];
    }
    std::optional<double> ideal(unsigned r, std::size_t bytes, bool each) {
        const std::string name = fmt::format("bare ring/{}/{}", bytes, each ? "index each" : "index per 64 lines");
        const auto rate = perf::ideal_rate(control_, bytes, each, s_.options.seconds);
        auto& out = row(name);
        if (!rate) {
            ++out.voids, ++voids_;
        } else {
            out.rate.add(*rate);
            note(r, name, "messages/s", *rate);
        }
        return rate;
    }
    void size(unsigned r, std::size_t bytes) {
        const auto rows = rows_of(bytes, s_);
        if (rows.empty()) return;
        if (const auto ns = perf::handoff_ns(control_, s_.quick ? 20'000 : 50'000)) {
            handoff_.add(*ns);
            note(r, "hand-off", "ns", *ns);
        }
        const auto batched = ideal(r, bytes, false), each = ideal(r, bytes, true);
        for (const auto& w : rows) {
            auto& out = row(w.name());
            const auto rate = perf::throughput(control_, w, s_.options);
            if (!rate) {
                ++out.voids, ++voids_;
                continue;
            }
            out.rate.add(*rate);
            if (batched) out.to_batched.add(*rate / *batched);
            if (each) out.to_each.add(*rate / *each);
            note(r, w.name(), "messages/s", *rate);
        }
    }
    void latency(unsigned r) {
        for (const bool polling : {true, false}) {
            const std::string name = polling ? "one way, polling" : "one way, sleeping";
            if (name.find(s_.filter) == std::string::npos) continue;
            const auto l = perf::ping_pong(control_, polling, polling ? s_.rounds : s_.rounds / 10);
            if (!l) {
                ++voids_;
                continue;
            }
            const double values[] = {l->p50_ns, l->p99_ns, l->p999_ns, l->max_ns};
            const char* labels[] = {"p50", "p99", "p99.9", "max"};
            for (int i = 0; i < 4; ++i) {
                latency_[polling ? 0 : 1][i].add(values[i]);
                note(r, name + " " + labels[i], "ns", values[i]);
            }
        }
    }

    bool oversubscribed() const { return std::thread::hardware_concurrency() < 2; }
    /// Two processes of ours are at work: anything beyond is somebody else.
    bool disturbed() const { return begin_load_ > 1.5; }

    void print() const {
        fmt::print("{}, {} cores, kernel {}, {}, rondo {} {}\n", cpu_model(), std::thread::hardware_concurrency(),
                   kernel(), __VERSION__, rondo::version_string, commit());
        fmt::print("{} repetitions of {} s, ring of {} KiB, 64 B where nothing else is said\n", s_.repetitions,
                   s_.options.seconds, s_.options.capacity_bytes >> 10);
        if (oversubscribed()) fmt::print("OVERSUBSCRIBED: two processes on one core\n");
        if (disturbed()) fmt::print("DISTURBED: the load was {:.1f} when this began\n", begin_load_);
        if (!handoff_.empty())
            fmt::print("hand-off of a line, one way: {:.0f} ns ({:.0f}-{:.0f})\n", handoff_.median(), handoff_.least(),
                       handoff_.most());
        fmt::print("\n{:34} {:>9} {:>9} {:>9}   {:<22} {}\n", "messages/s", "median", "least", "most",
                   "to index per 64 lines", "to index each");
        for (const auto& name : order_) print_line(name, rows_.at(name));
        fmt::print("\n{:34} {:>9} {:>9} {:>9} {:>9}   least-most of p50\n", "ns, 64 B, half a round trip", "p50", "p99",
                   "p99.9", "max");
        for (int k = 0; k < 2; ++k) {
            if (latency_[k][0].empty()) continue;
            fmt::print("{:34}", k == 0 ? "polling (spin = forever)" : "sleeping (spin = 0)");
            for (const auto& q : latency_[k]) fmt::print(" {:9.0f}", q.median());
            fmt::print("   {:.0f}-{:.0f}\n", latency_[k][0].least(), latency_[k][0].most());
        }
        if (voids_ != 0) fmt::print("\n{} runs were VOID: the data was wrong or did not come\n", voids_);
    }
    void write_json() const {
        const nlohmann::json out = {
            {"machine",
             {{"cpu", cpu_model()},
              {"cores", std::thread::hardware_concurrency()},
              {"kernel", kernel()},
              {"load_at_start", begin_load_},
              {"oversubscribed", oversubscribed()},
              {"pinned", {0, 1}}}},
            {"build", {{"compiler", __VERSION__}, {"rondo", rondo::version_string}, {"commit", commit()}}},
            {"options",
             {{"repetitions", s_.repetitions},
              {"seconds", s_.options.seconds},
              {"capacity_bytes", s_.options.capacity_bytes},
              {"quick", s_.quick},
              {"filter", s_.filter}}},
            {"void", voids_},
            {"runs", runs_}};
        std::ofstream(s_.json_path) << out.dump(1) << '\n';
    }

    const Settings& s_;
    perf::Control& control_;
    double begin_load_ = load_average();
    std::vector<std::string> order_;
    std::map<std::string, Row> rows_;
    Samples handoff_, latency_[2][4];
    unsigned voids_ = 0;
    nlohmann::json runs_ = nlohmann::json::array();
};

}  // namespace

int main(int argc, char** argv) {
    Settings s;
    CLI::App app{"rondo between two pinned processes, beside what the machine can do at the same moment"};
    app.add_option("--reps", s.repetitions, "repetitions of every row")->check(CLI::Range(1U, 1000U));
    app.add_option("--seconds", s.options.seconds, "length of each throughput run")->check(CLI::Range(0.01, 60.0));
    app.add_option("--capacity", s.options.capacity_bytes, "bytes of message slots")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--rows", s.filter, "only rows whose name contains this, e.g. one/exclusive/64");
    app.add_option("--json", s.json_path, "write every single result to this file");
    app.add_flag("--quick", s.quick, "two short repetitions: shows that it works, not how fast it is");
    CLI11_PARSE(app, argc, argv);
    if (s.quick) {
        s.repetitions = 2;
        s.options.seconds = 0.02;
        s.rounds = 5'000;
    }
    return Run(s).all();
}
