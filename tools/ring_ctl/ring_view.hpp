// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What the library does not tell its users but an operator's tool has to know: the participants and the settings of
// the groups, read from a queue's first ring. Read-only: no lock is taken, no participant made, nothing changed.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/snapshot_words.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"
#include "rondo/result.hpp"

namespace rondo::ctl {

using format::GroupInfo;

/// One who opened the queue and has not closed it.
struct ParticipantStatus {
    format::ParticipantInfo info;
    bool attached = false;  // its entry is in use, also after its death until somebody repairs
    bool alive = false;     // its lock is held
};

class RingView {
public:
    [[nodiscard]] static Result<RingView> open(const std::string& directory);

    /// Nothing when the queue has no such id.
    [[nodiscard]] std::optional<ParticipantStatus> participant(std::uint32_t id) const;
    /// All that are attached or alive.
    [[nodiscard]] std::vector<ParticipantStatus> participants() const;
    [[nodiscard]] std::optional<GroupInfo> group(std::string_view name) const;

private:
    RingView(os::UniqueFd file, os::Mapping mapping, const format::RingBytes& ring)
        : file_(std::move(file)), mapping_(std::move(mapping)), ring_(ring) {}

    os::UniqueFd file_;
    os::Mapping mapping_;
    format::RingBytes ring_;
};

}  // namespace rondo::ctl
