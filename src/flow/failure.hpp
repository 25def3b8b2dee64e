// SPDX-License-Identifier: MIT
// The story of a failing message: what an attempt looked like, kept in shared memory between attempts (format::Note).
// A note is written only by the one who owns the message's entry at that moment, so plain stores suffice; readers
// of a live note (ring-dump) check nothing but bounds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/utf8.hpp"
#include "rondo/dead_letter.hpp"
#include "rondo/format.hpp"
#include "rondo/options.hpp"

namespace rondo::flow {

/// Who handled the message.
struct Handler {
    std::string_view consumer{};
    std::string_view program{};
    std::uint32_t pid = 0;
};

/// One failed attempt.
struct Failure {
    format::Outcome outcome = format::Outcome::none;
    Reason reason{};
    bool damaged = false;  // the message's bytes are: it dies as corrupt
    std::optional<std::uint64_t> delay_ns{};  // nack's own; otherwise the group's backoff
    std::uint64_t started_ns = 0, ended_ns = 0;  // wall clock; 0: not known
    std::uint64_t started_mono_ns = 0;           // same moment, monotonic
    Handler handler{};
};

template <std::size_t N>
std::uint32_t put_text(std::array<char, N>& to, std::string_view text, bool& cut) {
    const auto piece = base::cut_utf8(text, N);
    cut = cut || piece.cut;
    std::memset(to.data(), 0, N);
    std::copy(piece.text.begin(), piece.text.end(), to.begin());
    return static_cast<std::uint32_t>(piece.text.size());
}

/// Set in a note's position while the former message's story is removed.
inline constexpr std::uint64_t note_emptied = std::uint64_t{1} << 63;

/// Empties `note` for the message at `position`. Killed in between, the next one finds no note of that message.
inline void begin_note(format::Note& note, Seq position) {
    // ORD(note.position): release; pairs with probe(). A half emptied note is nobody's.
    note.position.store(position << 1 | 1 | note_emptied, std::memory_order_release);
    note.attempt_count = note.release_count = 0;
    note.first_delivered_ns = note.last_delivered_ns = 0;
    note.code_size = note.type_size = note.stage_size = note.message_size = 0;
    note.flags = note.reason = 0;
    note.first_mono_ns = 0;
    note.attempts = {};
    // ORD(note.position): release; pairs with the lookup's acquire.
    note.position.store(position << 1 | 1, std::memory_order_release);
}

/// When it was handed over for the first and the last time.
inline void note_hand_over(format::Note& note, const Failure& f) {
    if (note.first_delivered_ns == 0) note.first_delivered_ns = f.started_ns;
    if (note.first_mono_ns == 0) note.first_mono_ns = f.started_mono_ns;
    note.last_delivered_ns = f.started_ns;
}

/// For how long the message has been tried, by the monotonic clock; 0: nobody knows.
inline std::uint64_t age_of(const format::Note& note, std::uint64_t mono_ns) {
    return note.first_mono_ns != 0 && mono_ns > note.first_mono_ns ? mono_ns - note.first_mono_ns : 0;
}

/// Adds attempt `number` (from 1). Repeating the last one replaces it: a repairer may come twice.
inline void note_attempt(format::Note& note, std::uint32_t number, const Failure& f, std::uint64_t delay_ns) {
    format::Attempt& a = note.attempts[(number - 1) % format::attempts_kept];
    bool cut = false;
    a = {};
    a.number = number;
    a.outcome = f.outcome;
    a.pid = f.handler.pid;
    a.started_ns = f.started_ns;
    a.ended_ns = f.ended_ns;
    a.delay_ns = delay_ns;
    put_text(a.consumer, f.handler.consumer, cut);
    put_text(a.error_code, f.reason.code, cut);
    note.attempt_count = std::max(note.attempt_count, number);
    note_hand_over(note, f);
    bool text_cut = false;
    note.code_size = put_text(note.code, f.reason.code, text_cut);
    note.type_size = put_text(note.type, f.reason.type, text_cut);
    note.stage_size = put_text(note.stage, f.reason.stage, text_cut);
    note.message_size = put_text(note.message, f.reason.message, text_cut);
    note.flags = (text_cut ? format::note_message_cut : 0U) | (f.reason.detail.empty() ? 0U : format::note_detail_lost);
}

/// The texts of the last failure as the note kept them.
inline Reason noted_reason(const format::Note& n) {
    const auto text = [](const auto& a, std::uint32_t size) {
        return std::string_view(a.data(), std::min<std::size_t>(size, a.size()));
    };
    return {text(n.code, n.code_size), text(n.type, n.type_size), text(n.stage, n.stage_size),
            text(n.message, n.message_size), {}};
}

}  // namespace rondo::flow
