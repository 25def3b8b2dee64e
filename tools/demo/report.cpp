// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/demo/report.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace rondo::demo {

namespace {

/// One line per check.
class Checks {
public:
    void check(bool ok, std::string_view what, const std::string& seen) {
        fmt::print("  {:<4} {:<72} {}\n", ok ? "ok" : "BAD", what, seen);
        all_ok_ = all_ok_ && ok;
    }
    [[nodiscard]] bool all_ok() const { return all_ok_; }

private:
    bool all_ok_ = true;
};

/// How many records of a kind, and how many of them satisfy `holds`.
struct Share {
    std::size_t of = 0;
    std::size_t good = 0;
    [[nodiscard]] bool all() const { return good == of; }
    [[nodiscard]] std::string text() const { return fmt::format("{} of {}", good, of); }
};

Share share_of(const Scene& scene, const std::function<bool(Kind)>& wanted,
               const std::function<bool(const RecordBook&)>& holds) {
    Share share;
    for (std::size_t number = 0; number < scene.stream.size(); ++number) {
        if (!wanted(scene.stream[number].kind)) continue;
        ++share.of;
        if (holds(scene.books.records[number])) ++share.good;
    }
    return share;
}

bool any(Kind) { return true; }
bool package(Kind kind) { return kind == Kind::package; }
bool malformed(Kind kind) { return kind == Kind::malformed; }
bool crashing(Kind kind) { return kind == Kind::crashing; }

void check_records(const Scene& scene, Checks& checks) {
    const auto published = share_of(scene, any, [](const RecordBook& r) { return r.published.load() == 1; });
    checks.check(published.all(), "published: each record once", published.text());
    const auto audited = share_of(scene, any, [](const RecordBook& r) { return r.audited.load() >= 1; });
    checks.check(audited.all(), "auditors: each record at least once", audited.text());
    const auto processed = share_of(scene, package, [](const RecordBook& r) { return r.processed.load() >= 1; });
    checks.check(processed.all(), "workers: each package at least once", processed.text());
    const auto rejected = share_of(
        scene, malformed, [](const RecordBook& r) { return r.rejected.load() >= 1 && r.processed.load() == 0; });
    checks.check(rejected.all(), "workers: each malformed record rejected, none processed", rejected.text());
    const auto crashed =
        share_of(scene, crashing, [](const RecordBook& r) { return r.handed.load() == max_deliveries; });
    checks.check(crashed.all(),
                 fmt::format("workers: the crashing record handed over exactly {} times", max_deliveries),
                 crashed.text());
    const Books::Shared& shared = scene.books.shared;
    checks.check(shared.out_of_order.load() == 0, "auditors: in the order of the file, seqs ascending",
                 fmt::format("{} out of order", shared.out_of_order.load()));
    checks.check(shared.wrong_bytes.load() == 0, "every record arrived byte for byte",
                 fmt::format("{} differ", shared.wrong_bytes.load()));
}

void check_totals(const Scene& scene, const Findings& expected, Checks& checks) {
    Findings totals;
    for (std::size_t number = 0; number < scene.stream.size(); ++number) {
        if (scene.stream[number].kind == Kind::package && scene.books.records[number].processed.load() > 0) {
            totals += scene.books.records[number].findings();
        }
    }
    const auto line = [&](std::string_view what, std::uint64_t Findings::*part) {
        checks.check(totals.*part == expected.*part, fmt::format("totals as of a single pass: {}", what),
                     totals.*part == expected.*part ? fmt::format("{}", totals.*part)
                                                    : fmt::format("{} instead of {}", totals.*part, expected.*part));
    };
    line("packages", &Findings::packages);
    line("bytes", &Findings::bytes);
    line("fields", &Findings::fields);
    line("installed size in KiB", &Findings::installed_kib);
    line("dependencies", &Findings::depends);
    line("dependencies that are packages of the file", &Findings::resolved);
}

/// Is this dead letter one that must be there, with its story?
bool is_right(const Scene& scene, const DeadLetter& letter) {
    for (std::size_t number = 0; number < scene.stream.size(); ++number) {
        if (scene.books.records[number].seq.load() != letter.original_seq) continue;
        const StreamRecord& record = scene.stream[number];
        const std::string_view payload(reinterpret_cast<const char*>(letter.payload.data()), letter.payload.size());
        if (payload != record.text || letter.key != record.key || letter.group != workers_group) return false;
        if (record.kind == Kind::malformed) {
            return letter.reason == DeadReason::rejected && letter.code == "malformed" && !letter.message.empty();
        }
        return record.kind == Kind::crashing && letter.reason == DeadReason::owner_died_limit &&
               letter.delivery_count == max_deliveries;
    }
    return false;
}

std::vector<DeadLetter> dead_letters_of(Queue& queue) {
    auto letters = queue.dead_letters();
    if (!letters) throw std::runtime_error("dead_letters: " + queue.explain(letters.error()));
    auto list = letters->list();
    if (!list) throw std::runtime_error("list of dead letters: " + queue.explain(list.error()));
    return std::move(*list);
}

void check_queue(const Scene& scene, const Expected& expected, Queue& queue, Checks& checks) {
    const std::vector<DeadLetter> letters = dead_letters_of(queue);
    const auto right = static_cast<std::size_t>(std::count_if(
        letters.begin(), letters.end(), [&](const DeadLetter& letter) { return is_right(scene, letter); }));
    const std::size_t wanted = expected.malformed + expected.crashing;
    checks.check(right == wanted && letters.size() == wanted,
                 "dead letters: those and no others, payload and story complete",
                 fmt::format("{} of {}, {} others", right, wanted, letters.size() - right));
    std::uint64_t lag = 0;
    for (const GroupStats& group : queue.stats().groups) lag += group.lag;
    checks.check(lag == 0, "the queue: nothing is left to do", fmt::format("lag {}", lag));
}

double ms(std::uint64_t ns) { return static_cast<double>(ns) / 1e6; }

void print_rate(const char* what, std::uint64_t count, std::uint64_t bytes, std::uint64_t ns) {
    const double seconds = static_cast<double>(std::max<std::uint64_t>(ns, 1)) / 1e9;
    fmt::print("  {:<12} {:>6} records, {:.1f} KiB in {:.1f} ms: {:.0f} records/s, {:.1f} MiB/s\n", what, count,
               static_cast<double>(bytes) / 1024, ms(ns), static_cast<double>(count) / seconds,
               static_cast<double>(bytes) / 1048576 / seconds);
}

void print_rates(const Scene& scene) {
    const Books::Shared& shared = scene.books.shared;
    std::uint64_t all_bytes = 0;
    std::uint64_t good_bytes = 0;
    std::uint64_t good = 0;
    std::uint64_t duplicates = 0;
    for (std::size_t number = 0; number < scene.stream.size(); ++number) {
        const StreamRecord& record = scene.stream[number];
        const RecordBook& book = scene.books.records[number];
        all_bytes += record.text.size();
        if (record.kind == Kind::package) good_bytes += record.text.size(), ++good;
        const std::uint64_t times = book.processed.load() + book.rejected.load();
        duplicates += times > 1 ? times - 1 : 0;
    }
    const std::uint64_t started = shared.started_ns.load();
    print_rate("published", scene.stream.size(), all_bytes, shared.published_ns.load() - started);
    print_rate("audited", scene.stream.size(), all_bytes, shared.audited_ns.load() - started);
    print_rate("processed", good, good_bytes, shared.processed_ns.load() - started);
    fmt::print("  the producer found the queue full {} times and waited\n", shared.blocked.load());
    fmt::print("  duplicates   {} (work that was done, but not acknowledged when its worker was killed)\n", duplicates);
}

}  // namespace

bool books_balance(const Scene& scene, const Expected& expected, Queue& queue) {
    Checks checks;
    check_records(scene, checks);
    check_totals(scene, expected.totals, checks);
    check_queue(scene, expected, queue, checks);
    return checks.all_ok();
}

void print_numbers(const Scene& scene, const Cast& cast, Queue& queue) {
    fmt::print("\nnumbers\n");
    print_rates(scene);
    for (const GroupStats& group : queue.stats().groups) {
        fmt::print(
            "  {:<12} {} hand-overs, {} of them redeliveries; {} acked, {} rejected, {} owners died, {} dead letters\n",
            group.name, group.delivered, group.redelivered, group.acked, group.rejected, group.owner_died,
            group.dead_lettered);
    }

    fmt::print("\nprocesses: {} killed from outside, {} crashed\n", cast.kills(), cast.crashes());
    for (const Actor& actor : cast.actors()) {
        std::string lives;
        for (const Life& life : actor.lives)
            lives += fmt::format("{}{} {}", lives.empty() ? "" : ", ", life.pid, life.end);
        fmt::print("  {:<10} {}\n", actor.name, lives);
    }
    const Books::Shared& shared = scene.books.shared;
    fmt::print("\nwhat the survivors noticed\n");
    fmt::print("  the record in the killed worker's hands came again after {:.1f} ms, to worker-{}\n",
               ms(shared.came_again_ns.load() - shared.killed_ns.load()), shared.came_again_to.load());
    fmt::print("  {:<10} {:>8} {:>12} {:>12} {:>13}\n", "", "messages", "redelivered", "longest wait", "acks too late");
    const auto line = [](const std::string& name, const ConsumerBook& book) {
        fmt::print("  {:<10} {:>8} {:>12} {:>9.1f} ms {:>13}\n", name, book.handled.load(), book.redelivered.load(),
                   ms(book.longest_pause_ns.load()), book.stale.load());
    };
    for (std::size_t i = 0; i < worker_count; ++i) line(fmt::format("worker-{}", i + 1), shared.workers[i]);
    line("auditor", shared.auditor);
}

Seq dead_letter_to_show(Queue& queue) {
    const std::vector<DeadLetter> letters = dead_letters_of(queue);
    if (letters.empty()) throw std::runtime_error("there is no dead letter to show");
    for (const DeadLetter& letter : letters) {
        if (letter.reason == DeadReason::owner_died_limit) return letter.id;
    }
    return letters.front().id;
}

bool ring_dump(std::initializer_list<std::string> arguments) {
    const std::string program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "ring-dump").string();
    std::vector<std::string> words{"ring-dump"};
    words.insert(words.end(), arguments);
    fmt::print("\n");
    for (const std::string& word : words) fmt::print("{} ", word);
    fmt::print("\n");
    std::fflush(stdout);
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawnattr_t attributes;  // it shall not inherit what this program does with signals
    posix_spawnattr_init(&attributes);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    pid_t pid = 0;
    const int failed = posix_spawn(&pid, program.c_str(), nullptr, &attributes, pointers.data(), environ);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
        fmt::print("{}: {}\n", program, std::strerror(failed));
        return false;
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace rondo::demo
