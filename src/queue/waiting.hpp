// SPDX-License-Identifier: MIT
// The one way to wait: try, spin a little, then announce, look again, sleep at most a tick, keep house, try again.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/bits.hpp"
#include "base/cpu.hpp"
#include "flow/eventcount.hpp"
#include "os/clock.hpp"
#include "queue/attachment.hpp"

namespace rondo::detail {

/// A moment on the monotonic clock, saturated.
class Deadline {
public:
    explicit Deadline(Duration timeout)
        : at_(timeout == forever ? ~std::uint64_t{0}
                                 : base::saturating_add(os::mono_ns(), timeout.count() < 0
                                                                           ? 0
                                                                           : static_cast<std::uint64_t>(timeout.count()))) {}
    bool over() const { return at_ != ~std::uint64_t{0} && os::mono_ns() >= at_; }
    /// At most a tick.
    std::chrono::nanoseconds left() const {
        const std::uint64_t now = os::mono_ns();
        const std::uint64_t left = at_ > now ? at_ - now : 0;
        return std::chrono::nanoseconds(
            static_cast<std::int64_t>(std::min(left, static_cast<std::uint64_t>(flow::tick.count()))));
    }

private:
    std::uint64_t at_;
};

/// Shows in the handle, for ring-dump, that and since when its owner waits.
class ShownWait {
public:
    ShownWait(format::Handle& h, format::Waiting why) : handle_(&h), since_(os::mono_ns()) {
        // ORD(none): for people.
        h.waiting_since_ns.store(since_, std::memory_order_relaxed);
        h.waiting.store(static_cast<std::uint32_t>(why), std::memory_order_relaxed);
    }
    ShownWait(const ShownWait&) = delete;
    ShownWait& operator=(const ShownWait&) = delete;
    // ORD(none): for people.
    ~ShownWait() { handle_->waiting.store(0, std::memory_order_relaxed); }
    std::uint64_t elapsed_ns() const { return os::mono_ns() - since_; }

private:
    format::Handle* handle_;
    std::uint64_t since_;
};

/// `attempt()` returns true when there is nothing left to wait for (success or a final error). `due()` is how long a
/// sleep may be beside the tick. False: the deadline passed.
template <class Attempt, class Due>
bool wait_until(Attachment& a, flow::EventCount event, const Deadline& deadline, format::Handle& handle,
                format::Waiting why, Attempt&& attempt, Due&& due) {
    const auto spin = static_cast<std::uint64_t>(std::max<std::int64_t>(a.options().spin.count(), 0));
    const std::uint64_t start = spin == 0 ? 0 : os::mono_ns();
    for (std::uint32_t turn = 1; spin != 0; ++turn) {
        base::pause();
        if (attempt()) return true;
        if (turn % 32 != 0) continue;
        const std::uint64_t now = os::mono_ns();
        if (now - start >= spin) break;
        if (deadline.over()) return false;
        if (turn % 4096 == 0) a.housekeep();
    }
    const ShownWait shown(handle, why);
    for (;;) {
        const std::uint32_t key = event.prepare();
        if (attempt()) return true;
        if (deadline.over()) return false;
        event.sleep(key, std::min<std::chrono::nanoseconds>(deadline.left(), due()));
        a.housekeep();
        if (attempt()) return true;
        if (deadline.over()) return false;
    }
}

}  // namespace rondo::detail
