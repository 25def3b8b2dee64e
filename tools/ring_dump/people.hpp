// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// Participants and handles of the main ring, by name: who is behind an id, and does its process run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/snapshot.hpp"
#include "tools/ring_dump/source.hpp"

namespace rondo::dump {

/// Who a participant, and perhaps a handle of it, is. Everything is unknown when the main ring is not at hand.
struct Person {
    std::string name;  // of the handle, otherwise of the program; may be empty
    std::optional<std::uint32_t> pid;
    std::string process;  // running, stopped, dead, alive (its lock is held, more cannot be seen from here)
};

class People {
public:
    explicit People(const Source& source);

    [[nodiscard]] Person person(std::uint32_t participant, std::optional<std::uint32_t> handle = {}) const;
    /// The handle of a participant in a group, if there is only one.
    [[nodiscard]] std::optional<std::uint32_t> consumer_of(std::uint32_t participant,
                                                           const format::GroupInfo& group) const;
    [[nodiscard]] std::optional<std::uint32_t> producer_of(std::uint32_t participant) const;

    [[nodiscard]] const std::vector<format::HandleInfo>& handles() const { return handles_; }
    [[nodiscard]] const std::vector<format::ParticipantInfo>& participants() const { return participants_; }
    /// Consumers of a group whose process lives (in a copy: all of them).
    [[nodiscard]] std::uint64_t members(const format::GroupInfo& group) const;

private:
    [[nodiscard]] bool alive(std::uint32_t participant) const;

    const Source& source_;
    std::vector<format::ParticipantInfo> participants_;
    std::vector<format::HandleInfo> handles_;
    std::vector<bool> holds_lock_;  // by participant
};

/// "worker (pid 4711, stopped)".
[[nodiscard]] std::string person_text(const Person& person);

}  // namespace rondo::dump
