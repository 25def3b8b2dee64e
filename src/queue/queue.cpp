// SPDX-License-Identifier: MIT
// Queue, Producer, Claim and DeadLetters: thin fronts of the cores; create, open and destroy.
#include "rondo/queue.hpp"

#include <algorithm>
#include <utility>

#include "format/validate.hpp"
#include "os/clock.hpp"
#include "os/dir_lock.hpp"
#include "os/file.hpp"
#include "queue/attachment.hpp"
#include "queue/consumer_core.hpp"
#include "queue/create.hpp"
#include "queue/dead_letters_core.hpp"
#include "queue/files.hpp"
#include "queue/guard.hpp"
#include "queue/producer_core.hpp"

namespace rondo {

namespace {

constexpr Error gone{Errc::invalid_argument, 0, "this object was moved from"};

/// Does an existing queue have the options that were asked for?
Result<void> same_options(const detail::Attachment& a, const QueueOptions& o) {
    auto g = format::check_options(o);
    if (!g) return tl::unexpected(g.error());
    const auto& s = a.main().super;
    const auto differ = [](const char* what) { return fail(Errc::option_mismatch, what); };
    if (s.slot_count != g->slots) return differ("the existing queue has another capacity");
    if (s.producers != o.producers) return differ("the existing queue has another number of producers");
    if (s.max_record_bytes != g->max_record_bytes) return differ("the existing queue has another max_record_bytes");
    if (s.dead_slot_count != g->dead_slots) return differ("the existing queue has another dead_capacity_bytes");
    if (s.retry_slot_count != g->retry_slots) return differ("the existing queue has another retry_capacity_bytes");
    if (s.group_count != g->groups) return differ("the existing queue has another max_groups");
    if (s.checksum != o.checksum) return differ("the existing queue has another checksum setting");
    if (s.timestamps != o.timestamps) return differ("the existing queue has another timestamps setting");
    return {};
}

}  // namespace

Queue::Queue(Queue&&) noexcept = default;
Queue& Queue::operator=(Queue&&) noexcept = default;
Queue::~Queue() = default;

Result<Queue> Queue::create(const std::string& directory, const QueueOptions& options,
                            const OpenOptions& open_options) noexcept {
    return detail::guarded([&]() -> Result<Queue> {
        if (auto ok = queue::create_files(directory, options); !ok) return tl::unexpected(ok.error());
        return open(directory, open_options);
    });
}

Result<Queue> Queue::open(const std::string& directory, const OpenOptions& options) noexcept {
    return detail::guarded([&]() -> Result<Queue> {
        auto a = detail::Attachment::open(directory, options);
        if (!a) return tl::unexpected(a.error());
        return Queue(std::move(*a));
    });
}

Result<Queue> Queue::open_or_create(const std::string& directory, const QueueOptions& options,
                                    const OpenOptions& open_options) noexcept {
    return detail::guarded([&]() -> Result<Queue> {
        // Each turn that fails means that somebody else created or destroyed it in between.
        for (int turn = 0; turn < 1000; ++turn) {
            auto q = open(directory, open_options);
            if (q) {
                if (auto ok = same_options(*q->attachment_, options); !ok) return tl::unexpected(ok.error());
                return q;
            }
            if (q.error().code != Errc::not_found && q.error().code != Errc::closed) return q;
            auto made = queue::create_files(directory, options);
            if (!made && made.error().code != Errc::exists && made.error().code != Errc::not_found)
                return tl::unexpected(made.error());
        }
        return fail(Errc::busy, "the queue is created and destroyed over and over by others");
    });
}

Result<void> Queue::destroy(const std::string& directory, Force force) noexcept {
    return detail::guarded([&]() -> Result<void> {
        auto dir = os::open_dir(directory);
        if (!dir) return tl::unexpected(dir.error());
        if (auto ok = os::lock_directory(dir->get()); !ok) return ok;
        auto names = os::list(dir->get());
        if (!names) return tl::unexpected(names.error());
        if (std::none_of(names->begin(), names->end(), queue::is_queue_file))
            return fail(Errc::not_found, "there is no queue in this directory");
        // Without a main ring, or with a closed one, this goes on where a killed destroy stopped.
        if (os::info_at(dir->get(), queue::main_name) && !queue::is_closed(dir->get())) {
            auto a = detail::Attachment::open(directory, {.prefault = false});
            if (!a && force == Force::no) return tl::unexpected(a.error());
            if (a) {
                if (force == Force::no && (*a)->others_alive())
                    return fail(Errc::busy, "participants have the queue open");
                (*a)->mark_closed();
            }
        }
        if (auto ok = queue::remove_files(dir->get()); !ok) return ok;
        (void)os::remove_dir(directory);  // stays if something else is in it
        return {};
    });
}

Result<Producer> Queue::producer(const ProducerOptions& options) noexcept {
    if (!attachment_) return tl::unexpected(gone);
    return detail::guarded([&]() -> Result<Producer> {
        if (auto ok = attachment_->usable(); !ok) return tl::unexpected(ok.error());
        auto core = detail::ProducerCore::create(attachment_, options);
        if (!core) return tl::unexpected(core.error());
        return Producer(*core);
    });
}

Result<Consumer> Queue::consumer(std::string_view group, const ConsumerOptions& options) noexcept {
    if (!attachment_) return tl::unexpected(gone);
    return detail::guarded([&]() -> Result<Consumer> {
        if (auto ok = attachment_->usable(); !ok) return tl::unexpected(ok.error());
        if (auto ok = format::check_name(group); !ok) return tl::unexpected(ok.error());
        auto ref = attachment_->find_group(group);
        if (!ref) return tl::unexpected(ref.error());
        auto core = detail::ConsumerCore::create(attachment_, *ref, options);
        if (!core) return tl::unexpected(core.error());
        return Consumer(*core);
    });
}

Result<Consumer> Queue::consumer(std::string_view group, const GroupOptions& group_options,
                                 const ConsumerOptions& options) noexcept {
    if (!options.name.empty()) {  // before anything is changed
        if (auto ok = format::check_name(options.name); !ok) return tl::unexpected(ok.error());
    }
    auto made = create_group(group, group_options);
    if (!made && made.error().code != Errc::exists) return tl::unexpected(made.error());
    return consumer(group, options);
}

Result<void> Queue::create_group(std::string_view name, const GroupOptions& options) noexcept {
    if (!attachment_) return tl::unexpected(gone);
    return detail::guarded([&]() -> Result<void> {
        if (auto ok = attachment_->usable(); !ok) return ok;
        auto made = attachment_->create_group(name, options);
        if (!made) return tl::unexpected(made.error());
        return {};
    });
}

Result<void> Queue::delete_group(std::string_view name, Force force) noexcept {
    if (!attachment_) return tl::unexpected(gone);
    return detail::guarded([&]() -> Result<void> {
        if (auto ok = attachment_->usable(); !ok) return ok;
        return attachment_->delete_group(name, force);
    });
}

Result<DeadLetters> Queue::dead_letters() noexcept {
    if (!attachment_) return tl::unexpected(gone);
    return detail::guarded([&]() -> Result<DeadLetters> {
        if (auto ok = attachment_->usable(); !ok) return tl::unexpected(ok.error());
        return DeadLetters(new detail::DeadLettersCore(attachment_));
    });
}

Stats Queue::stats() const noexcept {
    Stats none;
    if (!attachment_ || attachment_->detached()) return none;
    auto s = detail::guarded([&]() -> Result<Stats> { return attachment_->stats(); });
    return s ? std::move(*s) : none;
}

std::uint64_t Queue::capacity() const noexcept {
    return attachment_ ? attachment_->main().super.slot_count * format::slot_bytes : 0;
}

std::size_t Queue::max_payload_bytes() const noexcept {
    return attachment_ ? detail::ProducerCore::max_payload_bytes(attachment_->main().super) : 0;
}

std::string Queue::explain(const Error& error) const {
    return attachment_ ? attachment_->explain(error) : std::string(error.what);
}

void Queue::close() noexcept {
    if (attachment_) attachment_->close();
}

// ---- Producer and Claim --------------------------------------------------------------------------------------

void Producer::Closer::operator()(detail::ProducerCore* core) const noexcept { core->close(); }

Producer::Producer(Producer&&) noexcept = default;
Producer& Producer::operator=(Producer&&) noexcept = default;
Producer::~Producer() = default;

Result<Published> Producer::publish(Bytes payload, const PublishOptions& options) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->publish(payload, options, true); });
}

Result<Published> Producer::try_publish(Bytes payload, const PublishOptions& options) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->publish(payload, options, false); });
}

Result<Published> Producer::publish_batch(std::span<const Outgoing> messages) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->publish_batch(messages); });
}

Result<Claim> Producer::claim(std::size_t bytes, const PublishOptions& options) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->claim(bytes, options); });
}

std::size_t Producer::max_payload_bytes() const noexcept { return core_ ? core_->max_payload_bytes() : 0; }

Claim::Claim(Claim&& other) noexcept
    : core_(std::exchange(other.core_, nullptr)), payload_(std::exchange(other.payload_, {})) {}

Claim& Claim::operator=(Claim&& other) noexcept {
    if (this == &other) return *this;
    abort();
    core_ = std::exchange(other.core_, nullptr);
    payload_ = std::exchange(other.payload_, {});
    return *this;
}

Claim::~Claim() { abort(); }

std::span<std::byte> Claim::payload() noexcept { return payload_; }

Result<Published> Claim::commit() noexcept { return commit(payload_.size()); }

Result<Published> Claim::commit(std::size_t used) noexcept {
    if (core_ == nullptr) return fail(Errc::invalid_argument, "nothing is claimed");
    auto sent = detail::guarded([&] { return core_->commit(used); });
    // Too many bytes: the claim stays open, for another try. Anything else ends it.
    if (sent || sent.error().code != Errc::invalid_argument) {
        core_ = nullptr;
        payload_ = {};
    }
    return sent;
}

void Claim::abort() noexcept {
    if (core_ != nullptr) std::exchange(core_, nullptr)->abort();
    payload_ = {};
}

// ---- DeadLetters ---------------------------------------------------------------------------------------------

void DeadLetters::Closer::operator()(detail::DeadLettersCore* core) const noexcept { delete core; }

DeadLetters::DeadLetters(DeadLetters&&) noexcept = default;
DeadLetters& DeadLetters::operator=(DeadLetters&&) noexcept = default;
DeadLetters::~DeadLetters() = default;

Result<std::vector<DeadLetter>> DeadLetters::list(const DeadFilter& filter) const noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->list(filter); });
}

Result<DeadLetter> DeadLetters::show(Seq id) const noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&]() -> Result<DeadLetter> {
        DeadFilter filter;
        filter.id = id;
        auto found = core_->list(filter);
        if (!found) return tl::unexpected(found.error());
        if (found->empty()) return fail(Errc::not_found, "no dead letter of that id is kept");
        return std::move(found->front());
    });
}

Result<Redriven> DeadLetters::redrive(const DeadFilter& filter, bool execute) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->redrive(filter, execute); });
}

Result<Redriven> DeadLetters::discard(const DeadFilter& filter, std::string_view reason, bool execute) noexcept {
    if (!core_) return tl::unexpected(gone);
    return detail::guarded([&] { return core_->discard(filter, reason, execute); });
}

}  // namespace rondo
