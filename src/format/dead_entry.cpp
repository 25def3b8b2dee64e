// SPDX-License-Identifier: MIT
// Dead entries, to and from bytes. See dead_entry.hpp.
#include "format/dead_entry.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/checksum.hpp"
#include "base/racy_copy.hpp"
#include "base/utf8.hpp"

namespace rondo {

const char* to_string(DeadReason reason) noexcept {
    switch (reason) {
        case DeadReason::rejected:
            return "rejected";
        case DeadReason::max_deliveries:
            return "max_deliveries";
        case DeadReason::retry_timeout:
            return "retry_timeout";
        case DeadReason::owner_died_limit:
            return "owner_died_limit";
        case DeadReason::lease_expired_limit:
            return "lease_expired_limit";
        case DeadReason::corrupt:
            return "corrupt";
        case DeadReason::operator_request:
            return "operator";
    }
    return "unknown";
}

const char* to_string(DeadState state) noexcept {
    switch (state) {
        case DeadState::open:
            return "open";
        case DeadState::redriving:
            return "redriving";
        case DeadState::redriven:
            return "redriven";
        case DeadState::discarded:
            return "discarded";
    }
    return "unknown";
}

const char* to_string(format::Outcome outcome) noexcept {
    switch (outcome) {
        case format::Outcome::none:
            return "none";
        case format::Outcome::acked:
            return "acked";
        case format::Outcome::nacked:
            return "nacked";
        case format::Outcome::rejected:
            return "rejected";
        case format::Outcome::released:
            return "released";
        case format::Outcome::lease_expired:
            return "lease_expired";
        case format::Outcome::owner_died:
            return "owner_died";
        case format::Outcome::dead_lettered:
            return "dead_lettered";
        case format::Outcome::redriven:
            return "redriven";
        case format::Outcome::discarded:
            return "discarded";
        case format::Outcome::skipped:
            return "skipped";
    }
    return "unknown";
}

namespace format {
namespace {

constexpr std::size_t checksum_at = offsetof(DeadEntryHead, entry_checksum);
constexpr std::size_t align = 16;

bool known(DeadReason reason) { return reason >= DeadReason::rejected && reason <= DeadReason::operator_request; }
bool known(Outcome outcome) { return outcome <= Outcome::skipped; }

// Where the parts of an entry lie. 64-bit sums of 32-bit numbers: they cannot wrap.
struct Places {
    std::uint64_t attempts, texts, texts_end, extensions, extensions_end, payload, end;
};

Places places_of(const DeadEntryHead& h) {
    Places at{};
    at.attempts = sizeof(DeadEntryHead);
    at.texts = at.attempts + std::uint64_t{h.attempt_count} * sizeof(Attempt);
    at.texts_end = at.texts;
    for (const std::uint16_t n : h.text_bytes) at.texts_end += n;
    at.extensions = base::round_up(at.texts_end, align);
    at.extensions_end = at.extensions + h.extension_bytes;
    at.payload = base::round_up(at.extensions_end, align);
    at.end = at.payload + h.payload_bytes;
    return at;
}

struct Plan {
    DeadEntryHead head{};
    std::array<std::string_view, dead_text_count> texts{};
    std::span<const Attempt> attempts{};
};

// Everything but the checksums and the fingerprint.
Plan plan_of(const DeadEntry& e) {
    Plan plan;
    DeadEntryHead& h = plan.head;
    h.magic = dead_entry_magic;
    h.version = dead_entry_version;
    h.flags = (e.payload_damaged ? dead_flag_payload_damaged : 0) |
              (e.message_cut ? dead_flag_cut(DeadText::message) : 0) |
              (e.detail_cut ? dead_flag_cut(DeadText::detail) : 0);
    h.ring_uuid = e.ring_uuid;
    h.epoch = e.epoch;
    h.seq = e.seq;
    h.lane = e.lane;
    h.group = e.group;
    h.group_life = e.group_life;
    h.reason = e.reason;
    h.accepted_ns = e.accepted_ns;
    h.first_delivered_ns = e.first_delivered_ns;
    h.last_delivered_ns = e.last_delivered_ns;
    h.dead_ns = e.dead_ns;
    h.delivery_count = e.delivery_count;
    h.release_count = e.release_count;
    h.max_deliveries = e.max_deliveries;
    plan.attempts = e.attempts.last(std::min(e.attempts.size(), attempts_kept));
    h.attempt_count = static_cast<std::uint32_t>(plan.attempts.size());
    h.consumer_pid = e.consumer_pid;
    h.redrive_count = e.redrive_count;
    h.first_dead_ns = e.first_dead_ns != 0 ? e.first_dead_ns : e.dead_ns;
    const std::string_view first_reason = e.first_reason.empty() ? to_string(e.reason) : e.first_reason;
    const std::array<std::string_view, dead_text_count> given = {
        e.group_name, e.consumer, e.program, e.producer, first_reason, e.code, e.type, e.stage, e.message, e.detail};
    for (std::size_t i = 0; i < dead_text_count; ++i) {
        const base::Utf8Cut cut = base::cut_utf8(given[i], max_dead_text_bytes[i]);
        plan.texts[i] = cut.text;
        h.text_bytes[i] = static_cast<std::uint16_t>(cut.text.size());
        if (cut.cut) h.flags |= dead_flag_cut(static_cast<DeadText>(i));
    }
    h.extension_bytes = static_cast<std::uint32_t>(e.extensions.size());
    h.payload_bytes = e.payload.size();
    return plan;
}

std::string_view text_of(const Plan& plan, DeadText text) { return plan.texts[static_cast<std::size_t>(text)]; }

void copy_in(std::byte* to, const void* from, std::size_t size) {
    base::copy_in(to, static_cast<const std::byte*>(from), size);
}

std::uint32_t entry_checksum_of(std::span<const std::byte> entry) {
    return base::checksum32(entry.first(checksum_at), entry.subspan(checksum_at + sizeof(std::uint32_t)), 0);
}

bool all_zero(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// What is wrong with the head of an entry of `size` bytes, apart from checksums; null if nothing is.
const char* bad_head(const DeadEntryHead& h, std::size_t size) {
    if (!known(h.reason)) return "dead entry: unknown reason";
    if (h.epoch > Epoch(~0U)) return "dead entry: epoch out of range";
    if ((h.flags & ~dead_flags_known) != 0) return "dead entry: unknown flag";
    if (h.attempt_count > attempts_kept) return "dead entry: too many attempts";
    for (std::size_t i = 0; i < dead_text_count; ++i) {
        if (h.text_bytes[i] > max_dead_text_bytes[i]) return "dead entry: text too long";
    }
    if (h.payload_bytes > size) return "dead entry: payload larger than the entry";  // first: the sum must not wrap
    if (places_of(h).end != size) return "dead entry: sizes do not add up";
    if (h.reserved0 != 0 || h.reserved1[0] != 0 || h.reserved1[1] != 0)
        return "dead entry: reserved bytes are not zero";
    return nullptr;
}

void read_extensions(std::span<const std::byte> block, DeadLetter& out) {
    out.key = ExtensionReader::find_text(block, Tag::key);
    out.type = ExtensionReader::find_number(block, Tag::message_type);
    out.original_seq = ExtensionReader::find_number(block, Tag::original_seq).value_or(out.seq);
    out.first_accepted_ns = ExtensionReader::find_number(block, Tag::first_accepted_ns).value_or(out.accepted_ns);
    if (const auto id = ExtensionReader::find(block, Tag::message_id); id && id->size() == 16) {
        std::memcpy(out.message_id.emplace().data(), id->data(), 16);
    }
    ExtensionReader reader(block);
    while (const auto field = reader.next()) {
        if (field->tag != Tag::header) continue;
        const Header header = ExtensionReader::as_header(field->value);
        if (!header.name.empty()) out.headers.emplace_back(header.name, header.value);
    }
}

// ---- fingerprint ---------------------------------------------------------------------------------------------

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// 8-4-4-4-12 hexadecimal digits. Looked for as a whole: a part of one may happen to have letters only.
bool starts_with_uuid(std::string_view text) {
    constexpr std::string_view shape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (text.size() < shape.size() || (text.size() > shape.size() && is_word(text[shape.size()]))) return false;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == '-' ? text[i] != '-' : !is_hex(text[i])) return false;
    }
    return true;
}

// An address, a hash, a number: hexadecimal digits only, and either 0x before them or a decimal digit among them
// ("added" and "cafe" are words).
bool is_number_word(std::string_view word) {
    const bool prefixed = word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
    if (prefixed) word.remove_prefix(2);
    return std::all_of(word.begin(), word.end(), is_hex) &&
           (prefixed || std::any_of(word.begin(), word.end(), is_digit));
}

// `text` with every number replaced by '#'; never longer than `text`. Returns the end of what was written.
char* normalise(std::string_view text, char* out) {
    for (std::size_t i = 0; i < text.size();) {
        if (!is_word(text[i])) {
            *out++ = text[i++];
            continue;
        }
        if (starts_with_uuid(text.substr(i))) {
            *out++ = '#';
            i += 36;
            continue;
        }
        std::size_t end = i;
        while (end < text.size() && is_word(text[end])) ++end;
        if (is_number_word(text.substr(i, end - i))) {
            *out++ = '#';
            i = end;
        }
        while (i < end) {
            const bool digit = is_digit(text[i]);
            *out++ = digit ? '#' : text[i];
            ++i;
            while (digit && i < end && is_digit(text[i])) ++i;
        }
    }
    return out;
}

}  // namespace

std::size_t dead_entry_bytes(const DeadEntry& entry) noexcept {
    return static_cast<std::size_t>(places_of(plan_of(entry).head).end);
}

bool encode_dead_entry(const DeadEntry& entry, std::span<std::byte> out) noexcept {
    Plan plan = plan_of(entry);
    DeadEntryHead& h = plan.head;
    const Places at = places_of(h);
    if (out.size() != at.end) return false;
    h.fingerprint = fingerprint_of(h.reason, text_of(plan, DeadText::type), text_of(plan, DeadText::code),
                                   text_of(plan, DeadText::stage), text_of(plan, DeadText::message));

    std::byte* to = out.data() + at.attempts;
    for (const Attempt& attempt : plan.attempts) {
        Attempt copy;
        std::memcpy(&copy, &attempt, sizeof copy);
        if (!known(copy.outcome)) copy.outcome = Outcome::none;
        copy.reserved0 = 0;
        copy_in(to, &copy, sizeof copy);
        to += sizeof copy;
    }
    for (const std::string_view text : plan.texts) {
        copy_in(to, text.data(), text.size());
        to += text.size();
    }
    base::zero_in(out.data() + at.texts_end, at.extensions - at.texts_end);
    copy_in(out.data() + at.extensions, entry.extensions.data(), entry.extensions.size());
    base::zero_in(out.data() + at.extensions_end, at.payload - at.extensions_end);
    copy_in(out.data() + at.payload, entry.payload.data(), entry.payload.size());
    h.payload_checksum = base::checksum32(out.subspan(at.payload), 0);

    copy_in(out.data(), &h, sizeof h);
    const std::uint32_t checksum = entry_checksum_of(out);
    copy_in(out.data() + checksum_at, &checksum, sizeof checksum);
    return true;
}

Result<DeadLetter> decode_dead_entry(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(DeadEntryHead)) return fail(Errc::corrupt, "dead entry: too short");
    const std::vector<std::byte> copy(bytes.begin(), bytes.end());
    const std::span<const std::byte> all(copy);
    DeadEntryHead h;
    std::memcpy(&h, copy.data(), sizeof h);
    if (h.magic != dead_entry_magic) return fail(Errc::corrupt, "dead entry: not one, or its first bytes are damaged");
    if (h.version != dead_entry_version) return fail(Errc::version_mismatch, "dead entry of another format version");
    if (h.entry_checksum != entry_checksum_of(all)) return fail(Errc::corrupt, "dead entry: checksum does not match");
    if (const char* what = bad_head(h, all.size())) return fail(Errc::corrupt, what);

    const Places at = places_of(h);
    if (!all_zero(all.subspan(at.texts_end, at.extensions - at.texts_end)) ||
        !all_zero(all.subspan(at.extensions_end, at.payload - at.extensions_end))) {
        return fail(Errc::corrupt, "dead entry: padding is not zero");
    }
    const auto payload = all.subspan(at.payload);
    if (h.payload_checksum != base::checksum32(payload, 0)) {
        return fail(Errc::corrupt, "dead entry: checksum of the payload does not match");
    }

    DeadLetter d;
    d.attempts.resize(h.attempt_count);
    for (std::size_t i = 0; i < h.attempt_count; ++i) {
        std::memcpy(&d.attempts[i], copy.data() + at.attempts + i * sizeof(Attempt), sizeof(Attempt));
        if (!known(d.attempts[i].outcome)) return fail(Errc::corrupt, "dead entry: attempt with an unknown outcome");
        if (d.attempts[i].reserved0 != 0) return fail(Errc::corrupt, "dead entry: attempt with reserved bytes set");
    }
    std::string* const texts[dead_text_count] = {&d.group, &d.consumer,   &d.program, &d.producer, &d.first_reason,
                                                 &d.code,  &d.error_type, &d.stage,   &d.message,  &d.detail};
    const char* from = reinterpret_cast<const char*>(copy.data()) + at.texts;
    for (std::size_t i = 0; i < dead_text_count; ++i) {
        texts[i]->assign(from, h.text_bytes[i]);
        from += h.text_bytes[i];
    }
    d.seq = h.seq;
    d.accepted_ns = h.accepted_ns;
    read_extensions(all.subspan(at.extensions, h.extension_bytes), d);
    d.payload.assign(payload.begin(), payload.end());
    d.payload_checksum = h.payload_checksum;
    d.payload_damaged = (h.flags & dead_flag_payload_damaged) != 0;
    d.texts_cut = (h.flags & ~dead_flag_payload_damaged) != 0;
    d.ring_uuid = h.ring_uuid;
    d.epoch = static_cast<Epoch>(h.epoch);
    d.lane = h.lane;
    d.reason = h.reason;
    d.first_delivered_ns = h.first_delivered_ns;
    d.last_delivered_ns = h.last_delivered_ns;
    d.dead_ns = h.dead_ns;
    d.delivery_count = h.delivery_count;
    d.release_count = h.release_count;
    d.max_deliveries = h.max_deliveries;
    d.consumer_pid = h.consumer_pid;
    d.redrive_count = h.redrive_count;
    d.first_dead_ns = h.first_dead_ns;
    d.fingerprint = h.fingerprint;
    d.bytes = header_bytes + h.extension_bytes + payload.size();
    return d;
}

std::optional<DeadIdentity> dead_entry_identity(std::span<const std::byte> bytes) noexcept {
    if (bytes.size() < sizeof(DeadEntryHead)) return std::nullopt;
    DeadEntryHead h;
    std::memcpy(&h, bytes.data(), sizeof h);
    if (h.magic != dead_entry_magic || h.version != dead_entry_version) return std::nullopt;
    return DeadIdentity{{h.ring_uuid, h.epoch, h.seq}, h.group, h.group_life};
}

std::uint64_t fingerprint_of(DeadReason reason, std::string_view type, std::string_view code, std::string_view stage,
                             std::string_view message) noexcept {
    constexpr std::size_t room =
        sizeof(reason) + max_type_bytes + max_code_bytes + max_stage_bytes + max_message_bytes + 3;
    std::array<char, room> text;
    std::memcpy(text.data(), &reason, sizeof reason);
    char* end = text.data() + sizeof reason;
    const auto add = [&end](std::string_view part, std::size_t limit) {
        part = base::cut_utf8(part, limit).text;
        end = std::copy(part.begin(), part.end(), end);
        *end++ = '\0';
    };
    add(type, max_type_bytes);
    add(code, max_code_bytes);
    add(stage, max_stage_bytes);
    end = normalise(base::cut_utf8(message, max_message_bytes).text, end);
    const auto size = static_cast<std::size_t>(end - text.data());
    return base::hash64(std::as_bytes(std::span(text.data(), size)), 0);
}

std::optional<DeadReason> dead_reason_of(std::string_view word) noexcept {
    for (auto i = static_cast<std::uint32_t>(DeadReason::rejected); known(static_cast<DeadReason>(i)); ++i) {
        if (word == to_string(static_cast<DeadReason>(i))) return static_cast<DeadReason>(i);
    }
    return std::nullopt;
}

}  // namespace format
}  // namespace rondo
