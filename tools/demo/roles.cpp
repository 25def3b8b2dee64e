// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/demo/roles.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <span>

#include "rondo/rondo.hpp"

namespace rondo::demo {

namespace {

using namespace std::chrono_literals;

constexpr std::string_view number_header = "record";

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// The record's number in the stream, which travels with it.
std::optional<std::size_t> number_of(const Message& message, const Scene& scene) {
    const std::string_view text = message.header(number_header).value_or("");
    std::size_t number = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ptr != text.data() + text.size()) return {};
    if (text.empty() || number >= scene.stream.size()) return {};
    return number;
}

int report(const char* who, const char* call, const Queue& queue, const Error& error) {
    fmt::print(stderr, "{}: {}: {}: {}\n", who, call, to_string(error.code), queue.explain(error));
    return 1;
}

class Worker {
public:
    Worker(const Scene& scene, std::size_t number)
        : scene_(scene), shared_(scene.books.shared), own_(shared_.workers[number]), number_(number) {}

    int run(const Queue& queue, Consumer& consumer) {
        bool first = true;
        while (!shared_.stop.load()) {
            Result<Message> message = consumer.receive(50ms);
            if (!message && message.error().code == Errc::timeout) continue;
            if (!message) return report("worker", "receive", queue, message.error());
            own_.note_message(message->delivery_count(), first);
            first = false;
            const auto number = number_of(*message, scene_);
            if (!number) return fmt::print(stderr, "worker: a message without its number\n"), 1;
            handle(*message, *number);
        }
        return 0;
    }

private:
    void handle(Message& message, std::size_t number) {
        const std::string_view text = text_of(message.payload());
        RecordBook& book = scene_.books.records[number];
        if (shared_.killed_ns.load() != 0 && shared_.victim_record.load() == number &&
            shared_.came_again_to.load() == 0) {
            shared_.came_again_ns.store(now_ns());
            shared_.came_again_to.store(number_ + 1);
        }
        book.handed.fetch_add(1);
        if (text != scene_.stream[number].text) shared_.wrong_bytes.fetch_add(1);
        if (text.find(crash_field) != std::string_view::npos) crash();

        const auto paragraph = parse_paragraph(text);
        if (!paragraph) {
            book.rejected.fetch_add(1);
            settle(message.reject({.code = "malformed", .stage = "parse", .message = paragraph.error()}));
            return;
        }
        book.store(examine(text, *paragraph, scene_.names));
        shared_.processed_ns.store(now_ns());
        if (number >= scene_.stream.size() / 2 && !shared_.victim_chosen.exchange(true)) wait_to_be_killed(number);
        settle(message.ack());
    }

    void settle(const Result<void>& outcome) {
        if (!outcome) own_.stale.fetch_add(1);
    }

    /// The worst moment: the work is done and written down, the acknowledgement is not sent.
    void wait_to_be_killed(std::size_t record) {
        shared_.victim_record.store(record);
        shared_.victim.store(getpid());
        while (true) pause();
    }

    [[noreturn]] static void crash() {
        prctl(PR_SET_DUMPABLE, 0);  // no core file for a crash on purpose
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        _exit(1);
    }

    const Scene& scene_;
    Books::Shared& shared_;
    ConsumerBook& own_;
    std::size_t number_;
};

}  // namespace

int produce(const Scene& scene) {
    auto queue = Queue::open(scene.directory);
    if (!queue) return fmt::print(stderr, "producer: {}\n", Queue::explain(scene.directory, queue.error())), 1;
    auto producer = queue->producer({.name = "reader"});
    if (!producer) return report("producer", "producer", *queue, producer.error());

    Books::Shared& shared = scene.books.shared;
    shared.started_ns.store(now_ns());
    for (std::size_t number = 0; number < scene.stream.size(); ++number) {
        const StreamRecord& record = scene.stream[number];
        const std::string number_text = std::to_string(number);
        const std::array<Header, 1> headers{Header{number_header, number_text}};
        PublishOptions options;
        options.key = record.key;
        options.headers = headers;
        options.timeout = 30s;
        const Bytes payload = std::as_bytes(std::span(record.text));
        auto sent = producer->try_publish(payload, options);
        if (!sent && sent.error().code == Errc::no_credit) {
            shared.blocked.fetch_add(1);
            sent = producer->publish(payload, options);
        }
        if (!sent) return report("producer", "publish", *queue, sent.error());
        scene.books.records[number].seq.store(sent->seq);
        scene.books.records[number].published.fetch_add(1);
    }
    shared.published_ns.store(now_ns());
    return 0;
}

int work(const Scene& scene, std::size_t number) {
    auto queue = Queue::open(scene.directory);
    if (!queue) return fmt::print(stderr, "worker: {}\n", Queue::explain(scene.directory, queue.error())), 1;
    const std::string name = fmt::format("worker-{}", number + 1);
    auto consumer = queue->consumer(workers_group, ConsumerOptions{.name = name});
    if (!consumer) return report("worker", "consumer", *queue, consumer.error());
    return Worker(scene, number).run(*queue, *consumer);
}

int audit(const Scene& scene) {
    auto queue = Queue::open(scene.directory);
    if (!queue) return fmt::print(stderr, "auditor: {}\n", Queue::explain(scene.directory, queue.error())), 1;
    auto consumer = queue->consumer(auditors_group, ConsumerOptions{.name = "auditor"});
    if (!consumer) return report("auditor", "consumer", *queue, consumer.error());

    Books::Shared& shared = scene.books.shared;
    std::size_t expected = 0;  // records come in the order of the file, and so do their seqs
    std::optional<Seq> last_seq;
    while (expected < scene.stream.size()) {
        auto message = consumer->receive(50ms);
        if (!message && message.error().code == Errc::timeout && !shared.stop.load()) continue;
        if (!message) return report("auditor", "receive", *queue, message.error());
        shared.auditor.note_message(message->delivery_count(), expected == 0);
        const auto number = number_of(*message, scene);
        if (!number) return fmt::print(stderr, "auditor: a message without its number\n"), 1;
        if (text_of(message->payload()) != scene.stream[*number].text) shared.wrong_bytes.fetch_add(1);
        if (*number != expected || (last_seq && message->seq() <= *last_seq)) shared.out_of_order.fetch_add(1);
        last_seq = message->seq();
        expected = *number + 1;
        scene.books.records[*number].audited.fetch_add(1);
        if (!message->ack()) shared.auditor.stale.fetch_add(1);
    }
    shared.audited_ns.store(now_ns());
    return 0;
}

}  // namespace rondo::demo
