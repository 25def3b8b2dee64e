// SPDX-License-Identifier: MIT
// Message, Batch and Consumer: thin fronts of ConsumerCore.
#include "format/record.hpp"
#include "format/snapshot.hpp"
#include "os/clock.hpp"
#include "queue/consumer_core.hpp"
#include "queue/guard.hpp"
#include "rondo/consumer.hpp"

namespace rondo {

namespace {

constexpr Error gone{Errc::invalid_argument, 0, "this object was moved from"};

std::span<const std::byte> block(const std::byte* payload, std::uint32_t extension_bytes) {
    if (payload == nullptr) return {};
    return {payload - extension_bytes, extension_bytes};
}

}  // namespace

Message::Message(Message&& other) noexcept { *this = std::move(other); }

Message& Message::operator=(Message&& other) noexcept {
    if (this == &other) return *this;
    drop();
    core_ = std::exchange(other.core_, nullptr);
    slot_ = other.slot_;
    attempts_ = other.attempts_;
    seq_ = other.seq_;
    session_ = other.session_;
    lease_id_ = other.lease_id_;
    payload_ = std::exchange(other.payload_, nullptr);
    payload_bytes_ = std::exchange(other.payload_bytes_, 0);
    extension_bytes_ = std::exchange(other.extension_bytes_, 0);
    accepted_ = other.accepted_;
    epoch_ = other.epoch_;
    if (core_ != nullptr) core_->holder_changed(*this);
    return *this;
}

Message::~Message() { drop(); }

void Message::drop() noexcept {
    if (core_ != nullptr) std::exchange(core_, nullptr)->drop(*this);
}

Bytes Message::payload() const noexcept { return {payload_, payload_bytes_}; }

std::string_view Message::key() const noexcept {
    return format::ExtensionReader::find_text(block(payload_, extension_bytes_), format::Tag::key);
}

std::optional<std::uint64_t> Message::type() const noexcept {
    return format::ExtensionReader::find_number(block(payload_, extension_bytes_), format::Tag::message_type);
}

std::optional<std::array<std::uint8_t, 16>> Message::message_id() const noexcept {
    const auto value = format::ExtensionReader::find(block(payload_, extension_bytes_), format::Tag::message_id);
    std::array<std::uint8_t, 16> id{};
    if (!value || value->size() != id.size()) return std::nullopt;
    std::memcpy(id.data(), value->data(), id.size());
    return id;
}

std::size_t Message::header_count() const noexcept {
    std::size_t n = 0;
    format::ExtensionReader reader(block(payload_, extension_bytes_));
    while (const auto f = reader.next()) n += f->tag == format::Tag::header ? 1 : 0;
    return n;
}

Header Message::header(std::size_t index) const noexcept {
    format::ExtensionReader reader(block(payload_, extension_bytes_));
    while (const auto f = reader.next()) {
        if (f->tag != format::Tag::header) continue;
        if (index-- == 0) return format::ExtensionReader::as_header(f->value);
    }
    return {};
}

std::optional<std::string_view> Message::header(std::string_view name) const noexcept {
    format::ExtensionReader reader(block(payload_, extension_bytes_));
    while (const auto f = reader.next()) {
        if (f->tag != format::Tag::header) continue;
        const auto h = format::ExtensionReader::as_header(f->value);
        if (h.name == name) return h.value;
    }
    return std::nullopt;
}

std::uint32_t Message::redrive_count() const noexcept {
    return static_cast<std::uint32_t>(
        format::ExtensionReader::find_number(block(payload_, extension_bytes_), format::Tag::redrive_count)
            .value_or(0));
}

std::optional<std::uint64_t> Message::accepted_at_ns() const noexcept {
    if (core_ == nullptr) return std::nullopt;
    const auto& super = core_->super();
    if (super.timestamps == format::Timestamps::off) return std::nullopt;
    const auto exact = format::ExtensionReader::find_number(block(payload_, extension_bytes_), format::Tag::accepted_ns);
    return exact ? exact : format::accepted_wall_ns(super, accepted_, os::wall_coarse_ns());
}

Result<void> Message::ack() noexcept {
    return core_ == nullptr ? tl::unexpected(gone) : detail::guarded([&] { return core_->ack(*this); });
}
Result<void> Message::nack(const Reason& reason, std::optional<Duration> delay) noexcept {
    return core_ == nullptr ? tl::unexpected(gone) : detail::guarded([&] { return core_->nack(*this, reason, delay); });
}
Result<void> Message::reject(const Reason& reason) noexcept {
    return core_ == nullptr ? tl::unexpected(gone) : detail::guarded([&] { return core_->reject(*this, reason); });
}
Result<void> Message::release() noexcept {
    return core_ == nullptr ? tl::unexpected(gone) : detail::guarded([&] { return core_->release(*this); });
}
Result<void> Message::extend(Duration by) noexcept {
    return core_ == nullptr ? tl::unexpected(gone) : detail::guarded([&] { return core_->extend(*this, by); });
}

// ---- Batch ---------------------------------------------------------------------------------------------------

Batch::Batch(Batch&& other) noexcept { *this = std::move(other); }

Batch& Batch::operator=(Batch&& other) noexcept {
    if (this == &other) return *this;
    if (core_ != nullptr) core_->batch_end(*this);
    core_ = std::exchange(other.core_, nullptr);
    first_ = other.first_;
    size_ = std::exchange(other.size_, 0);
    handed_ = other.handed_;
    current_ = std::move(other.current_);
    other.current_.reset();
    return *this;
}

Batch::~Batch() {
    if (core_ != nullptr) core_->batch_end(*this);
}

Message* Batch::next() noexcept { return core_ == nullptr ? nullptr : core_->batch_next(*this); }

// ---- Consumer ------------------------------------------------------------------------------------------------

void Consumer::Closer::operator()(detail::ConsumerCore* core) const noexcept { core->close(); }

Consumer::Consumer(Consumer&&) noexcept = default;
Consumer& Consumer::operator=(Consumer&&) noexcept = default;
Consumer::~Consumer() = default;

Result<Message> Consumer::receive(Duration timeout) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->receive(timeout); });
}

Result<Message> Consumer::try_receive() noexcept { return receive(Duration::zero()); }

Result<Batch> Consumer::receive_batch(std::size_t max, Duration timeout) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->receive_batch(max, timeout); });
}

Result<void> Consumer::ack_through(Message& message) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->ack_through(message); });
}

Result<void> Consumer::ack(std::span<Message> messages) noexcept {
    Result<void> first{};
    for (auto& m : messages) {
        auto ok = m.ack();
        if (!ok && first) first = ok;
    }
    return first;
}

bool Consumer::active() const noexcept { return core_ && core_->active(); }

Result<Gap> Consumer::last_gap() const noexcept {
    if (!core_) return tl::unexpected(gone);
    return core_->last_gap();
}

Result<int> Consumer::wait_fd() noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->wait_fd(); });
}

}  // namespace rondo
