// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_ctl/ring_view.hpp"

#include <array>
#include <cstddef>

#include "format/validate.hpp"
#include "os/file.hpp"
#include "os/lock.hpp"

namespace rondo::ctl {

namespace {
constexpr std::string_view first_ring = "lane-00.ring";
}

Result<RingView> RingView::open(const std::string& directory) {
    const auto dir = os::open_dir(directory);
    if (!dir) return fail(dir.error());
    auto file = os::open_file(dir->get(), first_ring, os::Access::read_only);
    if (!file) return fail(file.error());
    const auto info = os::info(file->get());
    if (!info) return fail(info.error());
    std::array<std::byte, format::page_bytes> page{};
    const auto got = os::read_all(file->get(), page, 0);
    if (!got) return fail(got.error());
    const auto superblock = format::validate_superblock(std::span(page).first(*got), info->size);
    if (!superblock) return fail(superblock.error());
    // Everything of interest lies before the claim words.
    auto mapping = os::map(file->get(), superblock->claims_offset, os::Access::read_only, {.prefault = false});
    if (!mapping) return fail(mapping.error());
    const format::RingBytes ring = format::ring_bytes(mapping->bytes(), *superblock);
    return RingView(std::move(*file), std::move(*mapping), ring);
}

std::optional<ParticipantStatus> RingView::participant(std::uint32_t id) const {
    auto info = id == 0 ? std::nullopt : ring_.participant(id);
    if (!info) return std::nullopt;
    const bool attached = info->state == static_cast<std::uint32_t>(format::ParticipantState::attached);
    return ParticipantStatus{std::move(*info), attached, os::is_held(file_.get(), id).value_or(false)};
}

std::vector<ParticipantStatus> RingView::participants() const {
    std::vector<ParticipantStatus> result;
    for (std::uint32_t id = 1; auto status = participant(id); ++id) {
        if (status->attached || status->alive) result.push_back(std::move(*status));
    }
    return result;
}

std::optional<GroupInfo> RingView::group(std::string_view name) const {
    for (GroupInfo& group : ring_.groups()) {
        if (group.state == format::GroupState::active && group.name == name) return std::move(group);
    }
    return std::nullopt;
}

}  // namespace rondo::ctl
