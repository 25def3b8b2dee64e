// SPDX-License-Identifier: MIT
// Queue: a directory of rings that processes share. Create or open it, make producers and consumers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "rondo/consumer.hpp"
#include "rondo/dead_letter.hpp"
#include "rondo/options.hpp"
#include "rondo/producer.hpp"
#include "rondo/result.hpp"
#include "rondo/stats.hpp"
#include "rondo/types.hpp"

namespace rondo {

namespace detail {
class Attachment;
}

/// One Queue is one participant: a locked byte in the main ring's file says that it lives; the kernel frees it when
/// the process is gone. Any thread, at once. Producers, consumers, claims and messages keep the attachment alive,
/// so any order of destruction is legal. After fork the child's handles are dead (`detached`); it must open anew.
class Queue {
public:
    /// A new queue in `directory`, made if absent (0700; 2770 with a group). An existing directory must be owned by
    /// the caller or root, not world-writable, no symbolic link, and free of a queue (exists).
    /// Killed at any point, it leaves no queue or a whole one.
    [[nodiscard]] static Result<Queue> create(const std::string& directory, const QueueOptions& options = {},
                                              const OpenOptions& open = {}) noexcept;
    /// not_found, version_mismatch, corrupt, permission, too_many_participants, closed, busy (a copied queue).
    [[nodiscard]] static Result<Queue> open(const std::string& directory, const OpenOptions& open = {}) noexcept;
    /// Opens; creates what is not there. Races are retried. An existing queue with other options: option_mismatch.
    [[nodiscard]] static Result<Queue> open_or_create(const std::string& directory, const QueueOptions& options = {},
                                                      const OpenOptions& open = {}) noexcept;
    /// Marks the queue closed, wakes everyone, removes the files. busy while a participant lives, unless forced.
    /// Processes that have it open keep valid memory.
    [[nodiscard]] static Result<void> destroy(const std::string& directory, Force force = Force::no) noexcept;

    /// Why a create, open or destroy of `directory` failed, with path, owner and mode, both versions or holder.
    [[nodiscard]] static std::string explain(const std::string& directory, const Error& error);

    Queue(Queue&&) noexcept;
    Queue& operator=(Queue&&) noexcept;
    ~Queue();

    [[nodiscard]] Result<Producer> producer(const ProducerOptions& options = {}) noexcept;
    /// Opens a group; no_such_group.
    [[nodiscard]] Result<Consumer> consumer(std::string_view group, const ConsumerOptions& options = {}) noexcept;
    /// Opens or creates it. Opening takes no lock; creating as create_group().
    [[nodiscard]] Result<Consumer> consumer(std::string_view group, const GroupOptions& group_options,
                                            const ConsumerOptions& options = {}) noexcept;
    /// exists, option_mismatch. While another process makes or deletes a group it waits, for 5 s at most (or until the
    /// queue is closed): busy then, also if that process is stopped; nothing was changed.
    [[nodiscard]] Result<void> create_group(std::string_view name, const GroupOptions& options) noexcept;
    /// busy while it has members or messages in flight, unless forced: those become stale. Waits as create_group().
    [[nodiscard]] Result<void> delete_group(std::string_view name, Force force = Force::no) noexcept;
    [[nodiscard]] Result<DeadLetters> dead_letters() noexcept;

    [[nodiscard]] Stats stats() const noexcept;
    /// Bytes of message slots.
    [[nodiscard]] std::uint64_t capacity() const noexcept;
    [[nodiscard]] std::size_t max_payload_bytes() const noexcept;
    /// Path, holder or versions behind an error of this queue's calls: who is it waiting for?
    [[nodiscard]] std::string explain(const Error& error) const;

    /// Ends this process's use: its waiters return `closed` within 100 ms, later calls too.
    void close() noexcept;

private:
    explicit Queue(std::shared_ptr<detail::Attachment> attachment) noexcept : attachment_(std::move(attachment)) {}
    std::shared_ptr<detail::Attachment> attachment_;
};

}  // namespace rondo
