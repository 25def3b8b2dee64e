// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/ring_dump/people.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tools/common/process_word.hpp"

namespace rondo::dump {

namespace {

using format::HandleKind;

bool is_member(const format::HandleInfo& h, const format::GroupInfo& group) {
    return h.kind == HandleKind::consumer && h.group == group.index && h.group_life == group.life;
}

}  // namespace

People::People(const Source& source) : source_(source), holds_lock_(format::max_participants, false) {
    if (source.main() == nullptr) return;
    participants_ = source.main()->bytes.participants();
    handles_ = source.main()->bytes.handles();
    for (const auto& p : participants_) holds_lock_[p.id] = source.holds_lock(p.id);
}

bool People::alive(std::uint32_t participant) const {
    return participant < holds_lock_.size() && holds_lock_[participant];
}

Person People::person(std::uint32_t participant, std::optional<std::uint32_t> handle) const {
    Person result;
    if (participant == 0 || source_.main() == nullptr) return result;
    const bool holds_lock = alive(participant);
    result.process = holds_lock ? "alive" : "dead";
    const auto p = std::find_if(participants_.begin(), participants_.end(),
                                [&](const auto& candidate) { return candidate.id == participant; });
    if (p != participants_.end()) {
        result.pid = p->pid;
        result.name = p->program;
        result.process = tools::process_word(*p, holds_lock);
    }
    for (const auto& h : handles_) {
        if (h.index == handle && h.participant == participant && !h.name.empty()) result.name = h.name;
    }
    return result;
}

std::optional<std::uint32_t> People::consumer_of(std::uint32_t participant, const format::GroupInfo& group) const {
    std::optional<std::uint32_t> found;
    for (const auto& h : handles_) {
        if (h.participant != participant || !is_member(h, group)) continue;
        if (found) return std::nullopt;
        found = h.index;
    }
    return found;
}

std::optional<std::uint32_t> People::producer_of(std::uint32_t participant) const {
    std::optional<std::uint32_t> found;
    for (const auto& h : handles_) {
        if (h.participant != participant || h.kind != HandleKind::producer) continue;
        if (found) return std::nullopt;
        found = h.index;
    }
    return found;
}

std::uint64_t People::members(const format::GroupInfo& group) const {
    const bool copied = source_.main() != nullptr && source_.main()->copied;
    return static_cast<std::uint64_t>(std::count_if(handles_.begin(), handles_.end(), [&](const auto& h) {
        return is_member(h, group) && (copied || alive(h.participant));
    }));
}

std::string person_text(const Person& person) {
    std::string text = person.name.empty() ? "process" : person.name;
    if (person.pid) return fmt::format("{} (pid {}, {})", text, *person.pid, person.process);
    return person.process.empty() ? text : fmt::format("{} ({})", text, person.process);
}

}  // namespace rondo::dump
