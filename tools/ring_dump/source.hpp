// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The files that are looked at: opened read-only, mapped read-only, checked. Nothing is locked and no participant's
// slot is taken; whether a participant lives is asked of its lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/snapshot.hpp"
#include "os/fd.hpp"
#include "os/file.hpp"
#include "os/mapping.hpp"
#include "tools/ring_dump/failure.hpp"

namespace rondo::dump {

struct MappedFile {
    std::string name;  // in its directory
    std::string path;  // as shown
    os::UniqueFd fd;
    os::FileInfo info;
    os::Mapping mapping;
    [[nodiscard]] std::span<const std::byte> bytes() const { return mapping.bytes(); }
};

struct Ring {
    MappedFile file;
    format::RingBytes bytes;
    bool copied;  // another device or inode than where it was made: its locks mean nothing

    [[nodiscard]] const format::Superblock& super() const { return bytes.super; }
    [[nodiscard]] std::string_view name() const { return file.name; }
};

/// A file that is there but cannot be used, and why.
struct BadFile {
    std::string name;
    std::string problem;
    ExitCode code;
};

/// What PATH leads to.
class Source {
public:
    /// Throws Failure when there is nothing to look at. Rings and tables beside the one asked for that cannot be
    /// used are kept in bad_files().
    explicit Source(const std::string& path);

    [[nodiscard]] const std::string& path() const { return path_; }
    /// The queue's files; PATH may be one of them alone.
    [[nodiscard]] const Ring* main() const { return main_.get(); }
    [[nodiscard]] const Ring* dead() const { return dead_.get(); }
    /// What PATH asks for: all rings of a directory, or the one.
    [[nodiscard]] std::vector<const Ring*> rings() const;
    [[nodiscard]] bool is_directory() const { return directory_; }
    [[nodiscard]] const std::vector<format::LeaseBytes>& tables() const { return tables_; }
    [[nodiscard]] const std::vector<BadFile>& bad_files() const { return bad_; }

    /// Clocks for `ring`: monotonic time is 0 when the ring is of another boot or time namespace.
    [[nodiscard]] format::Now now(const Ring& ring) const;
    [[nodiscard]] std::uint64_t wall_ns() const { return wall_ns_; }
    [[nodiscard]] bool this_boot(const Ring& ring) const;
    /// Is the lock of a participant held? Nobody's is in a copy.
    [[nodiscard]] bool holds_lock(std::uint32_t participant) const;
    /// Is any participant attached and alive?
    [[nodiscard]] bool live() const;

private:
    void open_directory(const std::string& whole);
    void open_single(const std::string& parent, const std::string& name);
    void open_siblings(int directory, const std::string& parent);
    void open_tables(int directory, const std::string& parent);
    void add_table(int directory, const std::string& parent, const std::string& name);
    std::unique_ptr<Ring>& place_of(format::RingKind kind);
    std::unique_ptr<Ring> try_ring(int directory, const std::string& parent, const std::string& name);

    std::string path_;
    bool directory_ = false;
    std::unique_ptr<Ring> main_, retry_, dead_;
    const Ring* single_ = nullptr;
    std::vector<std::unique_ptr<MappedFile>> table_files_;
    std::vector<format::LeaseBytes> tables_;
    std::vector<BadFile> bad_;
    std::uint64_t wall_ns_, mono_ns_, time_namespace_;
    format::Uuid boot_id_{};
};

/// Opens a ring and throws Failure with the reason, also for damaged superblocks. A file that is merely too short is
/// returned; its bytes().complete() is false.
[[nodiscard]] Ring open_ring(int directory, const std::string& parent, const std::string& name);

}  // namespace rondo::dump
