// SPDX-License-Identifier: MIT
// The lease tables of shared groups: mapped when they are needed, let go when their group is deleted.
#include <utility>

#include "format/layout.hpp"
#include "format/validate.hpp"
#include "os/file.hpp"
#include "queue/attachment.hpp"
#include "queue/files.hpp"

namespace rondo::detail {

namespace {

Result<LeaseFile> open_lease_file(int directory, const format::Superblock& super, const GroupRef& g,
                                  const os::MapOptions& options) {
    auto fd = os::open_file(directory, queue::lease_name(g.index, g.life), os::Access::read_write);
    if (!fd) return tl::unexpected(fd.error());
    auto info = os::info(fd->get());
    if (!info) return tl::unexpected(info.error());
    const auto l = format::lease_layout_of(super.slot_count);
    auto mapping = os::map(fd->get(), l.file_bytes, os::Access::read_write, options);
    if (!mapping) return tl::unexpected(mapping.error());
    auto header = format::validate_lease_header(mapping->bytes().first(format::page_bytes), info->size);
    if (!header) return tl::unexpected(header.error());
    if (auto ok = format::check_lease_owner(*header, super, g.index, g.life); !ok) return tl::unexpected(ok.error());
    LeaseFile file{std::move(*mapping), {}};
    file.table = {{reinterpret_cast<format::Entry*>(file.mapping.data() + l.entries), super.slot_count},
                  {reinterpret_cast<format::Note*>(file.mapping.data() + l.notes), l.note_count}};
    return file;
}

}  // namespace

Result<std::shared_ptr<const LeaseFile>> Attachment::lease_file(const GroupRef& g) {
    const std::lock_guard guard(lease_mutex_);
    const std::uint64_t key = std::uint64_t{g.life} << 32 | g.index;
    if (const auto it = lease_files_.find(key); it != lease_files_.end()) return it->second;
    auto opened = open_lease_file(dir_.get(), main_.super, g,
                                  {.prefault = options_.prefault, .lock_memory = options_.lock_memory});
    if (!opened) return tl::unexpected(opened.error());
    auto file = std::make_shared<const LeaseFile>(std::move(*opened));
    if (group_alive(g)) lease_files_.emplace(key, file);
    return file;
}

LeaseTables Attachment::lease_tables(const format::RingBytes& ring) {
    forget_deleted_groups();
    LeaseTables all;
    for (const auto& g : ring.groups()) {
        if (g.mode != format::GroupMode::shared) continue;
        const auto file = lease_file({g.index, g.life});
        if (!file) continue;
        const auto bytes = format::lease_bytes((*file)->mapping.bytes(), ring);
        if (!bytes) continue;
        all.bytes.push_back(*bytes);
        all.files.push_back(*file);
    }
    return all;
}

/// Waits for nobody: whoever is mapping a table now has housekeeping come by again.
void Attachment::forget_deleted_groups() {
    const std::unique_lock guard(lease_mutex_, std::try_to_lock);
    if (!guard) return;
    std::erase_if(lease_files_, [this](const auto& entry) {
        return !group_alive({static_cast<std::uint32_t>(entry.first), static_cast<std::uint32_t>(entry.first >> 32)});
    });
}

}  // namespace rondo::detail
