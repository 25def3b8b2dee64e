// SPDX-License-Identifier: MIT
#include "format/dead_state.hpp"

#include <cstring>
#include <utility>

namespace rondo::format {

namespace {

DeadState state_of(const LeaseWord& word, std::uint64_t lap1) {
    if (word.lap1 != lap1) return DeadState::open;
    switch (word.state) {
        case EntryState::ready:
        case EntryState::backoff:
            return DeadState::open;
        case EntryState::leased:
        case EntryState::handed:
        case EntryState::failing:
        case EntryState::moving:
        case EntryState::dead_pending:
            return DeadState::redriving;
        case EntryState::settled:
            break;
    }
    return word.attempts == static_cast<std::uint32_t>(Outcome::redriven) ? DeadState::redriven : DeadState::discarded;
}

}  // namespace

std::optional<DeadStatus> dead_status(const LeaseBytes& table, Seq position) {
    const auto entry = table.entry(position);
    if (!entry) return std::nullopt;
    DeadStatus s;
    s.state = state_of(entry->a, lap1_of(position, table.slot_count));
    if (s.state != DeadState::redriven && s.state != DeadState::discarded) return s;
    auto note = table.note(position);
    if (!note || note->attempts.empty()) return s;
    const Attempt& closing = note->attempts.back();
    if (static_cast<std::uint32_t>(closing.outcome) != entry->a.attempts) return s;  // left by somebody who was killed
    s.by.assign(closing.consumer.data(), ::strnlen(closing.consumer.data(), closing.consumer.size()));
    s.pid = closing.pid;
    s.at_ns = closing.ended_ns;
    s.note = std::move(note->message);
    return s;
}

void put_status(DeadStatus&& status, DeadLetter& letter) {
    letter.state = status.state;
    letter.state_by = std::move(status.by);
    letter.state_pid = status.pid;
    letter.state_ns = status.at_ns;
    letter.state_note = std::move(status.note);
}

}  // namespace rondo::format
