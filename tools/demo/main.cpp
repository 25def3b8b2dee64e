// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// rondo-demo [FILE]: Debian's package database through a queue, with accidents.
//
// One process publishes every paragraph of the file. Three workers share the work: they parse each paragraph and look
// up what it depends on. An auditor, in a group of its own, reads everything in order. One worker is killed with a
// message in hand; some records are malformed; one crashes every worker that touches it. At the end the books, which
// are kept outside the queue, must balance: the exit code says whether they do.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "tools/demo/report.hpp"

namespace rondo::demo {

namespace {

using namespace std::string_literals;

/// A new directory in shared memory that goes when this does.
class Directory {
public:
    Directory() {
        std::string name = "/dev/shm/rondo-demo-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
        path_ = name;
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    ~Directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

const std::string malformed_paragraphs[] = {
    "this line has no colon\nPackage: demo-broken-1\n",        " a continuation of nothing\nPackage: demo-broken-2\n",
    "Version: 1.0\nDescription: belongs to no package\n",      "Package: demo-broken-4\nVersion: 1\nVersion: 2\n",
    "Package: demo-broken-5\nDescription: a NUL \0 inside\n"s,
};
const std::string crashing_paragraph = fmt::format("Package: demo-crash\n{} yes\n", crash_field);

/// The stream in publishing order: the file's paragraphs, the malformed ones spread among them, the crashing one at
/// four fifths: until it is dead it holds up the ring, and the rest shall fit into it. Fills in what a single pass
/// finds.
std::vector<StreamRecord> make_stream(const std::vector<std::string_view>& paragraphs, Names& names,
                                      Expected& expected) {
    std::vector<StreamRecord> stream;
    const auto add_bad = [&](std::string_view text) {
        stream.push_back({text, fmt::format("malformed-{}", ++expected.malformed), Kind::malformed});
    };
    const std::size_t step = paragraphs.size() / std::size(malformed_paragraphs) + 1;
    for (std::size_t i = 0; i < paragraphs.size(); ++i) {
        if (i % step == step / 2) add_bad(malformed_paragraphs[i / step]);
        if (i == paragraphs.size() * 4 / 5) {
            stream.push_back({crashing_paragraph, "demo-crash", Kind::crashing});
            ++expected.crashing;
        }
        const auto paragraph = parse_paragraph(paragraphs[i]);
        if (!paragraph) {
            add_bad(paragraphs[i]);
            continue;
        }
        names.insert(paragraph->package);
        stream.push_back({paragraphs[i], std::string(paragraph->package.substr(0, 255)), Kind::package});
    }
    for (const StreamRecord& record : stream) {
        if (record.kind != Kind::package) continue;
        expected.totals += examine(record.text, *parse_paragraph(record.text), names);
        ++expected.packages;
    }
    return stream;
}

constexpr std::size_t kib = 1024;
constexpr std::size_t story_bytes = 16 * kib;  // what a dead letter takes beside its message, at most

/// A queue that takes the largest record, but far from all of them: the producer has to wait for its consumers.
QueueOptions options_for(const std::vector<StreamRecord>& stream, const Expected& expected) {
    std::size_t largest = 0;
    std::size_t dead_bytes = 0;
    for (const StreamRecord& record : stream) {
        largest = std::max(largest, record.text.size());
        if (record.kind != Kind::package) dead_bytes += record.text.size() + story_bytes;
    }
    QueueOptions options;
    options.capacity_bytes = std::bit_ceil(std::max(16 * (largest + kib), 256 * kib));
    options.max_record_bytes = options.capacity_bytes / 8;
    options.checksum = Checksum::xxh3;
    const std::size_t dead_capacity = std::max(2 * dead_bytes, 8 * (options.max_record_bytes + story_bytes));
    if (expected.malformed + expected.crashing > 0) options.dead_capacity_bytes = std::bit_ceil(dead_capacity);
    return options;
}

template <class T>
T value_of(const std::string& directory, Result<T>&& result) {
    if (!result)
        throw std::runtime_error(
            fmt::format("{}: {}", to_string(result.error().code), Queue::explain(directory, result.error())));
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

void make_queue(const std::string& directory, const QueueOptions& options) {
    Queue queue = value_of(directory, Queue::create(directory, options));
    GroupOptions group{.start = Start::earliest()};
    group.mode = GroupMode::exclusive;
    value_of(directory, queue.create_group(auditors_group, group));
    group.mode = GroupMode::shared;
    group.max_deliveries = static_cast<std::int32_t>(max_deliveries);
    group.backoff_initial = std::chrono::milliseconds(20);
    group.backoff_multiplier = 1.5;
    value_of(directory, queue.create_group(workers_group, group));
    fmt::print("queue       {}: {} KiB, groups {} (shared) and {} (exclusive)\n", directory, queue.capacity() / 1024,
               workers_group, auditors_group);
}

/// Is every record where it belongs, as far as the processes know?
bool all_done(const Scene& scene) {
    for (std::size_t number = 0; number < scene.stream.size(); ++number) {
        const RecordBook& book = scene.books.records[number];
        const Kind kind = scene.stream[number].kind;
        if (kind == Kind::package && book.processed.load() == 0) return false;
        if (kind == Kind::malformed && book.rejected.load() == 0) return false;
        if (kind == Kind::crashing && book.handed.load() < max_deliveries) return false;
    }
    return true;
}

/// Does the queue itself have nothing left to do?
bool settled(const Queue& queue, std::size_t dead_letters) {
    const Stats stats = queue.stats();
    return stats.dead_open >= dead_letters && std::all_of(stats.groups.begin(), stats.groups.end(),
                                                          [](const GroupStats& group) { return group.lag == 0; });
}

int run(const std::string& file) {
    const std::string text = read_file(file);
    Names names;
    Expected expected;
    std::vector<StreamRecord> stream = make_stream(split_paragraphs(text), names, expected);
    if (expected.packages < 10) throw std::runtime_error(fmt::format("{}: fewer than 10 packages", file));
    fmt::print("input       {}: {} packages; {} malformed records and {} that crashes its reader are mixed in\n", file,
               expected.packages, expected.malformed, expected.crashing);

    const Directory directory;
    make_queue(directory.path(), options_for(stream, expected));
    Books books(stream.size());
    const Scene scene{directory.path(), std::move(stream), std::move(names), books};

    Cast cast(scene);
    fmt::print("processes   1 producer, 1 auditor, {} workers; one worker is killed with a message in hand\n",
               worker_count);
    cast.play([&] { return !cast.running("producer") && !cast.running("auditor") && all_done(scene); });

    // Only now the parent looks into the queue: the processes had to manage without it.
    Queue queue = value_of(directory.path(), Queue::open(directory.path()));
    const std::size_t dead_letters = expected.malformed + expected.crashing;
    const std::uint64_t deadline = now_ns() + 5'000'000'000;
    cast.play([&] { return settled(queue, dead_letters) || now_ns() > deadline; });
    books.shared.stop.store(true);
    cast.play([&] { return cast.running_count() == 0; });

    fmt::print("\nthe books\n");
    bool good = books_balance(scene, expected, queue);
    print_numbers(scene, cast, queue);
    good = ring_dump({directory.path()}) && good;
    good = ring_dump({directory.path(), "dlq", std::to_string(dead_letter_to_show(queue))}) && good;
    fmt::print("\n{}\n", good ? "the books balance" : "THE BOOKS DO NOT BALANCE");
    return good ? 0 : 1;
}

}  // namespace

}  // namespace rondo::demo

int main(int argc, char** argv) {
    const std::string file = argc > 1 ? argv[1] : "/var/lib/dpkg/status";
    if (argc > 2 || file.starts_with('-')) {
        fmt::print(file == "--help" ? stdout : stderr,
                   "usage: rondo-demo [FILE]\n"
                   "FILE: paragraphs in the form of Debian's package database; default /var/lib/dpkg/status\n");
        return file == "--help" ? 0 : 2;
    }
    try {
        rondo::demo::catch_signals();
        return rondo::demo::run(file);
    } catch (const std::exception& error) {
        std::fflush(stdout);
        fmt::print(stderr, "rondo-demo: {}\n", error.what());
        return 1;
    }
}
