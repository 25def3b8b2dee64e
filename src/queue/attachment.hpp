// SPDX-License-Identifier: MIT
// One participant of a queue: its mappings, its lock, its place in the tables, and the housekeeping that every
// participant does for all. Everything public (Queue, Producer, Consumer, DeadLetters) stands on one of these and
// keeps it alive.
//
// Liveness: byte `id` of lane-00.ring is locked through this attachment's own open file description. The kernel
// frees it when the process is gone, whatever the reason; nothing else counts as death.
// Threads: any. Locks inside are of this process only. None is held while waiting for another process, but one:
// admin_mutex_ while the maker of a group waits for the directory, for a bounded time; it is only ever tried.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flow/credit.hpp"
#include "flow/dead_letters.hpp"
#include "flow/eventcount.hpp"
#include "flow/lease_table.hpp"
#include "format/snapshot_words.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"
#include "rondo/options.hpp"
#include "rondo/result.hpp"
#include "rondo/stats.hpp"

namespace rondo::detail {

class ConsumerCore;
class Pump;

/// A ring file, open and mapped.
struct RingFile {
    os::UniqueFd fd;
    os::Mapping mapping;
    format::Superblock super{};
    ring::RingView view{};

    std::byte* at(std::uint64_t offset) const { return mapping.data() + offset; }
    std::span<format::Group> groups() const {
        return {reinterpret_cast<format::Group*>(at(super.groups_offset)), super.group_count};
    }
};

/// Which group, in which life.
struct GroupRef {
    std::uint32_t index;
    std::uint32_t life;
};

/// A shared group's lease table, mapped. Whoever works on it holds it: the memory of a deleted group's table comes back
/// when the last one lets go.
struct LeaseFile {
    os::Mapping mapping;
    flow::LeaseTable table;
};

/// The lease tables of all groups, for a look at the whole queue.
struct LeaseTables {
    std::vector<std::shared_ptr<const LeaseFile>> files;
    std::vector<format::LeaseBytes> bytes;
};

class Attachment : public std::enable_shared_from_this<Attachment> {
public:
    static Result<std::shared_ptr<Attachment>> open(const std::string& directory, const OpenOptions& options);
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;
    ~Attachment();

    // ---- the rings ----
    const RingFile& main() const { return main_; }
    const RingFile& dead() const { return dead_; }
    const RingFile& retry() const { return retry_; }
    format::HotWords& hot() const { return *main_.view.hot; }
    std::span<format::Handle> handles() const;
    std::span<format::Handle> used_handles() const;
    std::span<format::Participant> participants() const;
    std::span<format::Group> groups() const { return main_.groups(); }
    flow::LeaseTable dead_table() const { return dead_table_; }
    std::span<const std::byte> dead_table_bytes() const { return dead_lease_.bytes(); }
    flow::EventCount data_event() const { return {hot().data_event, hot().fence_needed}; }
    flow::EventCount space_event() const { return {hot().space_event, hot().fence_needed}; }
    flow::DeadRing dead_ring(std::uint32_t participant) const {
        return {dead_.view, dead_.groups(), handles(), participant};
    }
    flow::DeadRing dead_ring() const { return dead_ring(id_); }

    std::uint32_t id() const { return id_; }
    /// Lease ids of this participant: base | count, taken in blocks by its consumers.
    std::uint64_t lease_base() const { return lease_base_; }
    std::uint64_t take_lease_block(std::uint64_t n) {
        // ORD(none): a count.
        return lease_count_.fetch_add(n, std::memory_order_relaxed);
    }
    const OpenOptions& options() const { return options_; }
    const std::string& program() const { return program_; }
    std::uint32_t pid() const { return pid_; }
    const std::string& directory() const { return directory_; }
    int directory_fd() const { return dir_.get(); }

    /// detached (after fork), closed (by this process or by destroy), or ok. Checked by every call.
    Result<void> usable() const;
    bool detached() const;
    bool closed() const;
    void close();

    // ---- handles ----
    std::uint32_t free_place() const;
    Result<std::uint32_t> take_handle(format::HandleKind kind, std::string_view name,
                                      std::optional<GroupRef> group);
    void free_handle(std::uint32_t index);

    // ---- groups ----
    Result<GroupRef> find_group(std::string_view name) const;
    Result<GroupRef> create_group(std::string_view name, const GroupOptions& options);
    Result<void> delete_group(std::string_view name, Force force);
    bool group_alive(const GroupRef& g) const;
    std::string group_name(std::uint32_t index) const;
    /// Of a shared group; mapped at first sight, kept until the group is deleted.
    Result<std::shared_ptr<const LeaseFile>> lease_file(const GroupRef& g);
    LeaseTables lease_tables(const format::RingBytes& ring);
    /// Lets go of the lease tables of deleted groups.
    void forget_deleted_groups();

    // ---- housekeeping ----
    /// Dead owners, half-made groups, the limit; at most once a tick for all processes together.
    void housekeep();
    void housekeep(std::uint64_t coarse_now_ns);
    /// The same at once, for who needs to know now.
    void housekeep_now();
    /// Moves the main ring's limit; wakes whoever waits for space if it moved.
    bool advance_credit();
    /// For a reader that finds no record at p, where one begins: was there one? Then it can be read now.
    bool restamp(Seq p);

    // ---- who waits, who holds ----
    void enroll(ConsumerCore* consumer);
    void dismiss(ConsumerCore* consumer);
    /// Does the calling thread hold a message of this queue?
    bool thread_holds_message() const;
    Pump& pump();
    /// Of the pump. When to look again, if some consumer's descriptor waits for a message.
    std::optional<std::chrono::nanoseconds> wake_consumers_with_messages();

    bool others_alive();
    bool others_attached();
    /// Of destroy: all rings closed, everyone woken.
    void mark_closed();
    Stats stats();
    std::string explain(const Error& error);
    std::string described_others() const;
    bool file_gone() const;

private:
    Attachment() = default;

    Result<void> open_files(const std::string& directory);
    Result<void> open_beside_main();
    Result<void> open_ring(RingFile& ring, std::string_view name, format::RingKind kind, bool prefault);
    Result<void> open_dead_table();
    Result<void> check_home();
    Result<void> attach();
    Result<bool> take_place(std::uint32_t id);
    void detach();
    bool claim_ended(std::uint32_t owner, Seq p) const;
    bool scavenge(std::uint32_t participant) noexcept;
    bool end_work_of(std::uint32_t participant);
    bool scavenge_group(const GroupRef& g, std::uint32_t participant, std::uint32_t handle);
    void reopen_dead_letters(std::uint32_t participant);
    void bury(std::uint32_t id) noexcept;
    void scan_participants();
    void repair_groups();
    void finish_delete(std::uint32_t index);
    Result<void> insist(const std::function<Result<bool>()>& attempt, const char* otherwise);
    std::optional<Error> clash(std::string_view name, const GroupOptions& options) const;
    Result<GroupRef> make_group(std::uint32_t index, std::string_view name, const GroupOptions& options);
    Result<void> make_lease_file(const GroupRef& ref);
    Result<Seq> start_position(const GroupOptions& options, Seq floor) const;
    Result<Seq> seek_boundary(Seq floor, Seq wanted, std::optional<std::uint64_t> accepted_from) const;
    std::uint64_t accepted_until_ns(Seq p, const ring::RecordView& r) const;
    bool group_has_handles(std::uint32_t index) const;
    bool any_active_group(std::uint32_t except) const;

    OpenOptions options_;
    std::string directory_, program_;
    std::uint32_t pid_ = 0;
    os::UniqueFd dir_;
    RingFile main_, retry_, dead_;
    os::Mapping dead_lease_;
    flow::LeaseTable dead_table_;
    std::uint32_t id_ = 0;
    std::uint64_t fork_generation_ = 0;
    std::atomic<bool> closed_{false};
    std::uint64_t lease_base_ = 0;
    std::atomic<std::uint64_t> lease_count_{1024};

    std::mutex scan_mutex_;   // housekeeping of this process: a lock on one descriptor does not exclude its threads
    std::mutex admin_mutex_;  // same for the admin byte
    std::mutex lease_mutex_;
    std::map<std::uint64_t, std::shared_ptr<const LeaseFile>> lease_files_;  // by life << 32 | index
    std::atomic<std::uint64_t> forgot_at_ns_{0};
    mutable std::mutex consumers_mutex_;
    std::vector<ConsumerCore*> consumers_;
    std::mutex pump_mutex_;
    std::unique_ptr<Pump> pump_;
};

/// A handle just taken: free again at the end of the scope, unless somebody keeps it.
class TakenHandle {
public:
    TakenHandle(Attachment& a, std::uint32_t index) : a_(&a), index_(index) {}
    TakenHandle(const TakenHandle&) = delete;
    TakenHandle& operator=(const TakenHandle&) = delete;
    ~TakenHandle() {
        if (a_ != nullptr) a_->free_handle(index_);
    }
    void keep() { a_ = nullptr; }

private:
    Attachment* a_;
    std::uint32_t index_;
};

/// A value that differs between the living threads of this process.
std::uint64_t thread_token();

}  // namespace rondo::detail
