// SPDX-License-Identifier: MIT
// ring-perf: rondo between two pinned processes, beside what the machine can do in the same repetition.
// Everything is interleaved: each repetition runs every row once; the table shows medians with least and most.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "perf/ring_perf/physical.hpp"
#include "perf/ring_perf/traffic.hpp"

namespace {

using perf::Work;
using rondo::GroupMode;
using rondo::Producers;

std::vector<Work> all_work() {
    std::vector<Work> out;
    for (const std::size_t bytes : {8U, 64U, 256U, 1024U, 16384U}) {
        const std::string size = std::to_string(bytes) + " B";
        out.push_back({"one producer, exclusive, " + size, bytes, Producers::one, GroupMode::exclusive});
    }
    out.push_back({"same without timestamps, 64 B", 64, Producers::one, GroupMode::exclusive, 1,
                   rondo::Timestamps::off});
    out.push_back({"one producer, exclusive, batches of 32, 64 B", 64, Producers::one, GroupMode::exclusive, 32});
    out.push_back({"many producers, exclusive, 64 B", 64, Producers::many, GroupMode::exclusive});
    out.push_back({"many producers, shared, 64 B", 64, Producers::many, GroupMode::shared});
    out.push_back({"many producers, shared, batches of 32, 64 B", 64, Producers::many, GroupMode::shared, 32});
    return out;
}

struct Spread {
    double median = 0, least = 0, most = 0;
};
Spread spread(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.empty() ? Spread{} : Spread{v[v.size() / 2], v.front(), v.back()};
}

std::string cpu_model() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
    return "unknown";
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"rondo between two processes, beside the machine's own limits"};
    unsigned repetitions = 5;
    double seconds = 0.4;
    bool quick = false;
    std::string json_path;
    app.add_option("--reps", repetitions, "repetitions of every row")->check(CLI::Range(1U, 1000U));
    app.add_option("--seconds", seconds, "length of each throughput run")->check(CLI::Range(0.01, 60.0));
    app.add_flag("--quick", quick, "three short repetitions: shows that it works, not how fast it is");
    app.add_option("--json", json_path, "write all single results to this file");
    CLI11_PARSE(app, argc, argv);
    if (quick) {
        repetitions = 3;
        seconds = 0.1;
    }
    const bool oversubscribed = std::thread::hardware_concurrency() < 2;

    auto& control = *new (perf::shared_memory(sizeof(perf::Control))) perf::Control;
    std::map<std::string, std::vector<double>> values;  // by row
    std::vector<std::string> rows;
    nlohmann::json json = {{"cpu", cpu_model()},       {"cores", std::thread::hardware_concurrency()},
                           {"compiler", __VERSION__},  {"rondo", rondo::version_string},
                           {"seconds", seconds},       {"oversubscribed", oversubscribed},
                           {"runs", nlohmann::json::array()}};
    const auto note = [&](const std::string& row, double value) {
        if (values.find(row) == values.end()) rows.push_back(row);
        values[row].push_back(value);
        json["runs"].push_back({{"row", row}, {"value", value}});
    };
    const std::uint64_t rounds = quick ? 20'000 : 200'000;
    int void_runs = 0;
    for (unsigned r = 0; r < repetitions; ++r) {
        note("hand-off of a line, ns", perf::handoff_ns(control, rounds));
        note("ideal stream, index each message, M/s", perf::ideal_mps(control, 1, seconds));
        for (const auto& w : all_work()) {
            const double ideal = perf::ideal_mps(control, 64, seconds);  // beside each row: the cores move
            note("ideal stream, index each 64, M/s", ideal);
            const double mps = perf::throughput_mps(control, w, seconds);
            if (mps == 0 || ideal == 0) {
                ++void_runs;
                continue;
            }
            note(w.name + ", M/s", mps);
            note(w.name + ", ratio to the ideal", mps / ideal);
        }
        for (const bool polling : {true, false}) {
            const auto l = perf::round_trip(control, polling, polling ? rounds : rounds / 10);
            if (!l.valid) {
                ++void_runs;
                continue;
            }
            const std::string kind = polling ? "one way, polling, 64 B" : "one way, sleeping, 64 B";
            note(kind + ", p50 ns", l.p50_ns);
            note(kind + ", p99 ns", l.p99_ns);
            note(kind + ", p99.9 ns", l.p999_ns);
            note(kind + ", max ns", l.max_ns);
        }
    }
    fmt::print("{}, {} cores{}\n", cpu_model(), std::thread::hardware_concurrency(),
               oversubscribed ? ", OVERSUBSCRIBED" : "");
    fmt::print("{:62} {:>10} {:>10} {:>10}\n", "", "median", "least", "most");
    for (const auto& row : rows) {
        const auto s = spread(values[row]);
        fmt::print("{:62} {:10.2f} {:10.2f} {:10.2f}\n", row, s.median, s.least, s.most);
    }
    if (void_runs != 0) fmt::print("{} runs were void: the data was wrong or late\n", void_runs);
    if (!json_path.empty()) std::ofstream(json_path) << json.dump(1) << '\n';
    return void_runs == 0 ? 0 : 1;
}
