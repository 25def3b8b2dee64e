// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_dump/source.hpp"

#include <pwd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "format/validate.hpp"
#include "os/clock.hpp"
#include "os/lock.hpp"
#include "os/process.hpp"
#include "queue/files.hpp"
#include "tools/common/format_text.hpp"
#include "tools/ring_dump/bus_guard.hpp"

namespace rondo::dump {

namespace {

namespace fs = std::filesystem;
using tools::printable;

std::string user_text(std::uint32_t uid) {
    const passwd* entry = ::getpwuid(uid);
    return entry == nullptr ? fmt::format("uid {}", uid) : fmt::format("uid {} ({})", uid, entry->pw_name);
}

std::string owner_text(const os::FileInfo& info) {
    return fmt::format("it belongs to {}, group {}, mode {:04o}; this is {}", user_text(info.uid), info.gid, info.mode,
                       user_text(os::current_uid()));
}

/// Owner and mode of what stands in the way of `path`: itself, or the nearest directory that lets nobody in.
std::string obstacle_text(const fs::path& path) {
    const auto parent = os::open_dir(path.has_parent_path() ? path.parent_path().string() : ".");
    if (!parent) {
        return path.has_parent_path() && path.parent_path() != path ? obstacle_text(path.parent_path()) : std::string();
    }
    const auto info = os::info_at(parent->get(), path.filename().string());
    return info ? fmt::format(" ({}: {})", printable(path.string()), owner_text(*info)) : std::string();
}

[[noreturn]] void fail_open(const std::string& path, const Error& error) {
    const std::string shown = printable(path);
    switch (error.code) {
        case Errc::not_found:
            throw Failure{exit_not_found, fmt::format("{}: no such file or directory", shown)};
        case Errc::permission:
            throw Failure{exit_cannot_open,
                          fmt::format("{}: {}: permission denied{}", shown, error.what, obstacle_text(path))};
        default:
            break;
    }
    const std::string cause = error.sys_errno == 0 ? "" : fmt::format(" ({})", std::strerror(error.sys_errno));
    throw Failure{exit_cannot_open, fmt::format("{}: {}{}", shown, error.what, cause)};
}

MappedFile open_mapped(int directory, const std::string& parent, const std::string& name) {
    MappedFile file;
    file.name = name;
    file.path = parent.empty() ? name : parent + "/" + name;
    auto fd = os::open_file(directory, name, os::Access::read_only);
    if (!fd) fail_open(file.path, fd.error());
    file.fd = std::move(*fd);
    const auto info = os::info(file.fd.get());
    if (!info) fail_open(file.path, info.error());
    file.info = *info;
    if (file.info.size == 0) {
        throw Failure{exit_cannot_open, fmt::format("{}: the file is empty", printable(file.path)), true};
    }
    auto mapping = os::map(file.fd.get(), file.info.size, os::Access::read_only, {.prefault = false});
    if (!mapping) fail_open(file.path, mapping.error());
    file.mapping = std::move(*mapping);
    name_mapping(file.mapping.bytes(), file.path);
    return file;
}

/// Why a superblock was refused, with both versions where that is the reason.
[[noreturn]] void fail_superblock(const std::string& path, const Error& error, std::uint64_t seen_version) {
    std::string text = fmt::format("{}: {}", printable(path), error.what);
    if (error.code == Errc::version_mismatch) {
        text += fmt::format(": the file has format version {}, this ring-dump reads version {}", seen_version,
                            format::version);
    }
    throw Failure{exit_cannot_open, text, error.code == Errc::corrupt};
}

bool is_table(std::string_view name) { return name.starts_with("lease-") && name.ends_with(".tab"); }

}  // namespace

Ring open_ring(int directory, const std::string& parent, const std::string& name) {
    MappedFile file = open_mapped(directory, parent, name);
    // One copy, checked: the bytes may change under this.
    std::array<std::byte, format::page_bytes> page{};
    const std::size_t have = std::min(page.size(), file.bytes().size());
    std::memcpy(page.data(), file.bytes().data(), have);
    // A file that is too short is looked at as far as it goes.
    std::uint64_t seen = 0;
    const auto super = format::validate_superblock(std::span(page).first(have), ~std::uint64_t{0}, &seen);
    if (!super) fail_superblock(file.path, super.error(), seen);
    const bool copied = super->device != file.info.device || super->inode != file.info.inode;
    const auto bytes = format::ring_bytes(file.bytes(), *super);
    return Ring{std::move(file), bytes, copied};
}

Source::Source(const std::string& path)
    : path_(path), wall_ns_(os::wall_ns()), mono_ns_(os::mono_ns()), time_namespace_(os::time_namespace()) {
    if (const auto boot = os::boot_id()) std::memcpy(boot_id_.data(), boot->data(), boot_id_.size());
    std::error_code error;
    const fs::path whole = fs::canonical(path, error);
    if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
        throw Failure{exit_not_found, fmt::format("{}: no such file or directory", printable(path))};
    }
    if (error) {
        throw Failure{exit_cannot_open,
                      error == std::errc::permission_denied
                          ? fmt::format("{}: permission denied{}", printable(path), obstacle_text(fs::path(path)))
                          : fmt::format("{}: {}", printable(path), error.message())};
    }
    directory_ = fs::is_directory(whole, error);
    if (directory_) {
        open_directory(whole.string());
    } else {
        open_single(whole.parent_path().string(), whole.filename().string());
    }
}

void Source::open_directory(const std::string& whole) {
    const auto fd = os::open_dir(whole);
    if (!fd) fail_open(path_, fd.error());
    if (!os::info_at(fd->get(), queue::main_name)) {
        const auto there = os::list(fd->get());
        const bool parts = there && std::any_of(there->begin(), there->end(), queue::is_queue_file);
        throw Failure{exit_not_found,
                      fmt::format("{}: no queue here: there is no {}{}", printable(path_), queue::main_name,
                                  parts ? " (but other files of a queue: give their names instead)" : "")};
    }
    main_ = std::make_unique<Ring>(open_ring(fd->get(), path_, std::string(queue::main_name)));
    open_siblings(fd->get(), path_);
    open_tables(fd->get(), path_);
}

void Source::open_single(const std::string& parent, const std::string& name) {
    const auto fd = os::open_dir(parent);
    if (!fd) fail_open(parent, fd.error());
    auto ring = std::make_unique<Ring>(open_ring(fd->get(), parent, name));
    single_ = ring.get();
    place_of(ring->super().kind) = std::move(ring);
    open_siblings(fd->get(), parent);
    open_tables(fd->get(), parent);
}

std::unique_ptr<Ring>& Source::place_of(format::RingKind kind) {
    return kind == format::RingKind::main ? main_ : kind == format::RingKind::retry ? retry_ : dead_;
}

/// A ring beside the one asked for: if it cannot be used, that is noted and no reason to stop.
std::unique_ptr<Ring> Source::try_ring(int directory, const std::string& parent, const std::string& name) {
    try {
        return std::make_unique<Ring>(open_ring(directory, parent, name));
    } catch (const Failure& failure) {
        // In a queue's directory a missing file is damage too.
        const bool damage = failure.damage || failure.code == exit_not_found;
        bad_.push_back({name, failure.text, damage ? exit_corrupt : exit_cannot_open});
        return nullptr;
    }
}

void Source::open_siblings(int directory, const std::string& parent) {
    const Ring& known = main_ ? *main_ : retry_ ? *retry_ : *dead_;
    const format::Uuid uuid = known.super().queue_uuid;
    struct Expected {
        std::string_view name;
        format::RingKind kind;
    };
    constexpr std::array<Expected, 3> all = {{{queue::main_name, format::RingKind::main},
                                              {queue::retry_name, format::RingKind::retry},
                                              {queue::dead_name, format::RingKind::dead}}};
    for (const auto& [name, kind] : all) {
        auto& place = place_of(kind);
        if (place) continue;
        // Beside a single file there may be anything, or nothing.
        if (!directory_ && !os::info_at(directory, name)) continue;
        const std::size_t before = bad_.size();
        auto ring = try_ring(directory, parent, std::string(name));
        if (!directory_) bad_.resize(before);
        if (!ring) continue;
        if (ring->super().queue_uuid == uuid && ring->super().kind == kind) {
            place = std::move(ring);
        } else if (directory_) {
            bad_.push_back(
                {std::string(name),
                 fmt::format("{}: belongs to another queue, or is another kind of ring", printable(ring->file.path)),
                 exit_corrupt});
        }
    }
}

void Source::open_tables(int directory, const std::string& parent) {
    const auto names = os::list(directory);
    if (!names) return;
    for (const auto& name : *names) {
        if (!is_table(name)) continue;
        try {
            add_table(directory, parent, name);
        } catch (const Failure& failure) {
            if (directory_) bad_.push_back({name, failure.text, failure.damage ? exit_corrupt : exit_cannot_open});
        }
    }
}

void Source::add_table(int directory, const std::string& parent, const std::string& name) {
    auto file = std::make_unique<MappedFile>(open_mapped(directory, parent, name));
    for (const Ring* ring : {main_.get(), retry_.get(), dead_.get()}) {
        if (ring == nullptr) continue;
        if (auto table = format::lease_bytes(file->bytes(), ring->bytes)) {
            if (file->bytes().size() < table->layout.file_bytes) {
                bad_.push_back({name,
                                fmt::format("{}: {} bytes of {} are there", printable(file->path), file->bytes().size(),
                                            table->layout.file_bytes),
                                exit_corrupt});
            }
            tables_.push_back(*table);
            table_files_.push_back(std::move(file));
            return;
        }
    }
    // The table of a ring that cannot be opened is not to blame.
    if (main_ == nullptr || retry_ == nullptr || dead_ == nullptr) return;
    throw Failure{exit_cannot_open, fmt::format("{}: not a lease table of this queue", printable(file->path)), true};
}

std::vector<const Ring*> Source::rings() const {
    if (single_ != nullptr) return {single_};
    std::vector<const Ring*> all;
    for (const Ring* ring : {main_.get(), retry_.get(), dead_.get()}) {
        if (ring != nullptr) all.push_back(ring);
    }
    return all;
}

bool Source::this_boot(const Ring& ring) const { return ring.super().boot_id == boot_id_; }

format::Now Source::now(const Ring& ring) const {
    const auto& super = ring.super();
    const bool same_clock = this_boot(ring) && (super.time_namespace == time_namespace_ || super.time_namespace == 0 ||
                                                time_namespace_ == 0);
    return {same_clock ? mono_ns_ : 0, wall_ns_};
}

bool Source::holds_lock(std::uint32_t participant) const {
    if (!main_ || main_->copied || participant == 0) return false;
    const auto held = os::is_held(main_->file.fd.get(), participant);
    return held && *held;
}

bool Source::live() const {
    if (!main_ || main_->copied) return false;
    for (const auto& p : main_->bytes.participants()) {
        if (holds_lock(p.id)) return true;
    }
    return false;
}

}  // namespace rondo::dump
