// SPDX-License-Identifier: MIT
#include "queue/create.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>

#include "format/layout.hpp"
#include "format/validate.hpp"
#include "os/clock.hpp"
#include "os/dir_lock.hpp"
#include "os/file.hpp"
#include "os/mapping.hpp"
#include "os/process.hpp"
#include "queue/files.hpp"

namespace rondo::queue {

namespace {

using format::GroupState;

/// A file under a temporary name: gone again unless it was published.
class NewFile {
public:
    NewFile(int directory, std::string name) : directory_(directory), name_(std::move(name)) {}
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    ~NewFile() {
        if (!name_.empty()) (void)os::remove(directory_, name_);
    }

    Result<void> create(std::uint64_t bytes, std::uint32_t mode, std::optional<std::uint32_t> gid) {
        auto fd = os::create_exclusive(directory_, name_, 0600);
        if (!fd) return tl::unexpected(fd.error());
        fd_ = std::move(*fd);
        if (auto ok = os::allocate_fully(fd_.get(), bytes); !ok) return ok;
        if (auto ok = os::set_owner_mode(fd_.get(), mode, gid); !ok) return ok;
        auto mapping = os::map(fd_.get(), bytes, os::Access::read_write, {.prefault = false});
        if (!mapping) return tl::unexpected(mapping.error());
        mapping_ = std::move(*mapping);
        return {};
    }
    Result<void> publish(std::string_view final_name) {
        if (auto ok = os::publish(directory_, name_, final_name); !ok) return ok;
        name_.clear();
        return {};
    }
    int fd() const { return fd_.get(); }
    std::byte* data() const { return mapping_.data(); }

private:
    int directory_;
    std::string name_;
    os::UniqueFd fd_;
    os::Mapping mapping_;
};

Result<std::string> temp_name() {
    std::array<std::byte, 8> random{};
    if (auto ok = os::random_bytes(random); !ok) return tl::unexpected(ok.error());
    std::string name(temp_prefix);
    for (const auto b : random) {
        constexpr char digits[] = "0123456789abcdef";
        name += digits[static_cast<unsigned>(b) >> 4];
        name += digits[static_cast<unsigned>(b) & 15];
    }
    return name;
}

Result<format::Uuid> new_uuid() {
    format::Uuid uuid{};
    if (auto ok = os::random_bytes(std::as_writable_bytes(std::span(uuid))); !ok) return tl::unexpected(ok.error());
    uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x40);
    uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);
    return uuid;
}

/// What all files of the queue share.
struct Common {
    const QueueOptions& options;
    format::Geometry geometry;
    format::Uuid queue_uuid;
    format::Uuid boot_id;
    std::uint64_t now_ns;
};

Result<format::Superblock> superblock_of(const Common& c, format::RingKind kind, int fd) {
    using format::RingKind;
    format::Superblock s{};
    s.magic = format::magic;
    s.version = format::version;
    s.byte_order = format::byte_order_mark;
    s.queue_uuid = c.queue_uuid;
    auto uuid = new_uuid();
    if (!uuid) return tl::unexpected(uuid.error());
    s.ring_uuid = *uuid;
    s.boot_id = c.boot_id;
    std::array<std::uint64_t, 1> salt{};
    if (auto ok = os::random_bytes(std::as_writable_bytes(std::span(salt))); !ok) return tl::unexpected(ok.error());
    // mix64(0) is 0: with the top bit set no position equals the salt, and a slot of zeros is never a record.
    s.salt = salt[0] | std::uint64_t{1} << 63;
    s.kind = kind;
    s.producers = kind == RingKind::main ? c.options.producers : format::Producers::many;
    s.checksum = c.options.checksum;
    s.timestamps = c.options.timestamps;
    s.durability = format::Durability::none;
    const auto& g = c.geometry;
    s.slot_count = kind == RingKind::main ? g.slots : kind == RingKind::retry ? g.retry_slots : g.dead_slots;
    s.slot_bytes = format::slot_bytes;
    s.participant_count = kind == RingKind::main ? format::max_participants : 0;
    s.handle_count = kind == RingKind::main ? format::max_handles : 0;
    s.group_count = kind == RingKind::main ? g.groups : 1;
    s.max_record_bytes = kind == RingKind::main ? g.max_record_bytes : g.side_max_record_bytes;
    const auto l = format::layout_of({s.slot_count, s.participant_count, s.handle_count, s.group_count});
    s.file_bytes = l.file_bytes;
    s.hot_offset = l.hot;
    s.queue_offset = l.queue;
    s.participants_offset = l.participants;
    s.handles_offset = l.handles;
    s.groups_offset = l.groups;
    s.claims_offset = l.claims;
    s.slots_offset = l.slots;
    s.retry_slot_count = g.retry_slots;
    s.dead_slot_count = g.dead_slots;
    s.time_base_ns = c.now_ns - 2 * 4'000'000;  // so that no message is accepted in unit 0, which means unknown
    s.created_ns = c.now_ns;
    auto info = os::info(fd);
    if (!info) return tl::unexpected(info.error());
    s.device = info->device;
    s.inode = info->inode;
    s.time_namespace = os::time_namespace();
    s.mode = c.options.mode;
    s.gid = c.options.group.value_or(~0U);
    format::seal_superblock(s);
    return s;
}

/// The words that are not zero in a new ring. Plain stores: nobody else has the file yet.
void fill_ring(std::byte* file, const format::Superblock& s, format::Overflow overflow) {
    const auto put = [](auto& word, auto value) {
        // ORD(none): before the file has a name.
        word.store(value, std::memory_order_relaxed);
    };
    auto* hot = reinterpret_cast<format::HotWords*>(file + s.hot_offset);
    put(hot->limit, format::pack_limit(s.slot_count, 0));
    put(hot->state, static_cast<std::uint32_t>(format::RingState::open));
    put(hot->participants_high, 1U);
    auto* queue = reinterpret_cast<format::QueueBlock*>(file + s.queue_offset);
    put(queue->overflow, static_cast<std::uint32_t>(overflow));
    auto* handles = reinterpret_cast<format::Handle*>(file + s.handles_offset);
    for (std::uint32_t i = 0; i < s.handle_count; ++i) put(handles[i].borrow, format::nowhere);
    auto* groups = reinterpret_cast<format::Group*>(file + s.groups_offset);
    for (std::uint32_t i = 0; i < s.group_count; ++i) put(groups[i].cursor, format::nowhere);
    std::memcpy(file, &s, sizeof s);
}

/// dead.ring's only group, which keeps the work state of each dead letter.
void fill_operator_group(std::byte* file, const format::Superblock& s) {
    const auto put = [](auto& word, auto value) {
        // ORD(none): before the file has a name.
        word.store(value, std::memory_order_relaxed);
    };
    auto& g = *reinterpret_cast<format::Group*>(file + s.groups_offset);
    constexpr std::string_view name = "operator";
    for (std::size_t i = 0; i < name.size(); ++i) put(g.name[i], name[i]);
    put(g.life, 1U);
    put(g.mode, static_cast<std::uint32_t>(format::GroupMode::shared));
    put(g.kind, static_cast<std::uint32_t>(format::GroupKind::durable));
    put(g.start_kind, static_cast<std::uint32_t>(format::StartKind::earliest));
    put(g.lease_timeout_ns, std::uint64_t{3600} * 1'000'000'000);
    put(g.created_ns, s.created_ns);
    put(g.cursor, std::uint64_t{0});
    put(g.state, static_cast<std::uint32_t>(GroupState::active));
    put(reinterpret_cast<format::HotWords*>(file + s.hot_offset)->keep_from, format::nowhere);
}

Result<void> create_ring(int directory, const Common& c, format::RingKind kind, std::string_view name) {
    auto temp = temp_name();
    if (!temp) return tl::unexpected(temp.error());
    NewFile file(directory, std::move(*temp));
    const auto& g = c.geometry;
    const bool main = kind == format::RingKind::main;
    const std::uint64_t slots = main ? g.slots : kind == format::RingKind::retry ? g.retry_slots : g.dead_slots;
    const auto l = format::layout_of({slots, main ? format::max_participants : 0, main ? format::max_handles : 0,
                                      main ? g.groups : 1});
    if (auto ok = file.create(l.file_bytes, c.options.mode, c.options.group); !ok) return ok;
    auto super = superblock_of(c, kind, file.fd());
    if (!super) return tl::unexpected(super.error());
    fill_ring(file.data(), *super, c.options.overflow);
    if (kind == format::RingKind::dead) {
        fill_operator_group(file.data(), *super);
        if (auto ok = create_lease_file(directory, std::string(dead_lease_name), *super, 0, 1); !ok) return ok;
    }
    return file.publish(name);
}

Result<os::UniqueFd> prepare_directory(const std::string& path, const QueueOptions& options, bool& was_made) {
    const std::uint32_t mode = options.group ? 02770 : 0700;
    auto made = os::make_dir(path, mode);
    was_made = made.has_value();
    if (!made && made.error().code != Errc::exists) return tl::unexpected(made.error());
    auto dir = os::open_dir(path);
    if (!dir) return dir;
    if (made && options.group) {
        if (auto ok = os::set_owner_mode(dir->get(), mode, options.group); !ok) return tl::unexpected(ok.error());
    }
    auto info = os::info(dir->get());
    if (!info) return tl::unexpected(info.error());
    if (info->uid != os::current_uid() && info->uid != 0)
        return fail(Errc::permission, "the directory belongs to another user");
    if ((info->mode & 0002) != 0)
        return fail(Errc::permission, "the directory is writable for everybody");
    if (auto ok = os::lock_directory(dir->get()); !ok) return tl::unexpected(ok.error());
    // Somebody may have destroyed the queue and the directory while this waited for the lock.
    auto now = os::info(dir->get());
    if (!now) return tl::unexpected(now.error());
    if (now->nlink == 0) return fail(Errc::not_found, "the directory was removed meanwhile");
    return dir;
}

}  // namespace

Result<void> create_lease_file(int directory, const std::string& name, const format::Superblock& ring,
                               std::uint32_t group, std::uint32_t life) {
    auto temp = temp_name();
    if (!temp) return tl::unexpected(temp.error());
    NewFile file(directory, std::move(*temp));
    const auto l = format::lease_layout_of(ring.slot_count);
    const std::optional<std::uint32_t> gid = ring.gid == ~0U ? std::nullopt : std::optional(ring.gid);
    if (auto ok = file.create(l.file_bytes, ring.mode, gid); !ok) return ok;
    format::LeaseHeader h{};
    h.magic = format::lease_magic;
    h.version = format::version;
    h.group = group;
    h.life = life;
    h.note_count = l.note_count;
    h.slot_count = ring.slot_count;
    h.queue_uuid = ring.queue_uuid;
    h.ring_uuid = ring.ring_uuid;
    h.file_bytes = l.file_bytes;
    std::memcpy(file.data(), &h, sizeof h);
    return file.publish(name);
}

bool is_closed(int directory) {
    auto fd = os::open_file(directory, main_name, os::Access::read_only);
    if (!fd) return false;
    auto info = os::info(fd->get());
    std::array<std::byte, format::page_bytes> page{};
    auto read = os::read_all(fd->get(), page, 0);
    if (!info || !read) return false;
    auto super = format::validate_superblock(std::span(page).first(*read), info->size);
    if (!super) return false;
    std::array<std::byte, sizeof(std::uint32_t)> state{};
    auto got = os::read_all(fd->get(), state, super->hot_offset + offsetof(format::HotWords, state));
    std::uint32_t value = 0;
    std::memcpy(&value, state.data(), sizeof value);
    return got && *got == state.size() && value == static_cast<std::uint32_t>(format::RingState::closed);
}

void remove_leftovers(int directory, bool locked) {
    auto names = os::list(directory);
    if (!names) return;
    const auto temporary = [](const std::string& name) { return name.starts_with(temp_prefix); };
    if (std::none_of(names->begin(), names->end(), temporary)) return;
    os::UniqueFd own;
    if (!locked) {
        // A description of its own: a lock on `directory` itself would be shared with this process's other threads.
        auto dir = os::open_dir(os::full_path(directory));
        if (!dir) return;
        own = std::move(*dir);
        const auto taken = os::try_lock_directory(own.get());
        if (!taken || !*taken) return;
    }
    for (const auto& name : *names)
        if (temporary(name)) (void)os::remove(directory, name);
}

Result<void> remove_files(int directory) {
    auto names = os::list(directory);
    if (!names) return tl::unexpected(names.error());
    Result<void> first{};
    const auto remove = [&](const std::string& name) {
        auto ok = os::remove(directory, name);
        if (!ok && ok.error().code != Errc::not_found && first) first = ok;
    };
    remove(std::string(main_name));
    for (const auto& name : *names) {
        if (is_queue_file(name) && name != main_name) remove(name);
    }
    return first;
}

namespace {

Result<void> create_in(int dir, const QueueOptions& options, const format::Geometry& geometry) {
    // A closed queue under the free lock: whoever was destroying it is dead. This goes on where it stopped.
    if (os::info_at(dir, main_name) && !is_closed(dir)) return fail(Errc::exists, "there is a queue in this directory");
    auto kind = os::fs_kind(dir);
    if (!kind) return tl::unexpected(kind.error());
    if (*kind != os::FsKind::tmpfs && *kind != os::FsKind::hugetlbfs)
        return fail(Errc::not_supported, "a volatile queue lies on tmpfs or hugetlbfs, for example in /dev/shm");
    // Under the lock, what is here without a main ring was left by a creator that was killed.
    if (auto ok = remove_files(dir); !ok) return ok;
    auto uuid = new_uuid();
    if (!uuid) return tl::unexpected(uuid.error());
    auto boot = os::boot_id();
    if (!boot) return tl::unexpected(boot.error());
    Common c{options, geometry, *uuid, {}, os::wall_ns()};
    std::memcpy(c.boot_id.data(), boot->data(), c.boot_id.size());
    const auto all = [&]() -> Result<void> {
        if (auto ok = create_ring(dir, c, format::RingKind::dead, dead_name); !ok) return ok;
        if (auto ok = create_ring(dir, c, format::RingKind::retry, retry_name); !ok) return ok;
        return create_ring(dir, c, format::RingKind::main, main_name);
    };
    auto done = all();
    if (!done) (void)remove_files(dir);
    return done;
}

}  // namespace

Result<void> create_files(const std::string& directory, const QueueOptions& options) {
    auto geometry = format::check_options(options);
    if (!geometry) return tl::unexpected(geometry.error());
    bool made = false;
    auto dir = prepare_directory(directory, options, made);
    auto done = dir ? create_in(dir->get(), options, *geometry) : Result<void>(tl::unexpected(dir.error()));
    if (!done && made) (void)os::remove_dir(directory);  // stays if somebody put something into it
    return done;
}

}  // namespace rondo::queue
