// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/demo/books.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <new>
#include <system_error>

namespace rondo::demo {

namespace {

constexpr std::size_t records_offset = (sizeof(Books::Shared) + 63) / 64 * 64;

void* share(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return memory;
}

}  // namespace

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
}

void RecordBook::store(const Findings& findings) {
    bytes.store(findings.bytes);
    fields.store(findings.fields);
    installed_kib.store(findings.installed_kib);
    depends.store(findings.depends);
    resolved.store(findings.resolved);
    processed.fetch_add(1);
}

Findings RecordBook::findings() const {
    return {1, bytes.load(), fields.load(), installed_kib.load(), depends.load(), resolved.load()};
}

void ConsumerBook::note_message(std::uint32_t delivery_count, bool first_in_life) {
    const std::uint64_t now = now_ns();
    const std::uint64_t pause = now - last_ns.exchange(now);
    if (!first_in_life && pause > longest_pause_ns.load()) longest_pause_ns.store(pause);
    handled.fetch_add(1);
    if (delivery_count > 1) redelivered.fetch_add(1);
}

Books::Books(std::size_t count)
    : shared(*new (share(records_offset + count * sizeof(RecordBook))) Shared()),
      memory_(&shared),
      bytes_(records_offset + count * sizeof(RecordBook)) {
    auto* first = reinterpret_cast<RecordBook*>(static_cast<std::byte*>(memory_) + records_offset);
    std::uninitialized_value_construct_n(first, count);
    records = std::span(first, count);
}

Books::~Books() { munmap(memory_, bytes_); }

}  // namespace rondo::demo
