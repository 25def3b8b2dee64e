// SPDX-License-Identifier: MIT
// Sleeping until something changed, between processes: a 32-bit word, bit 0 = somebody sleeps, the rest a sequence.
//
//   sleeper   prepare(): set bit 0 (locked), then look again; sleep(): futex while the word is what prepare() saw
//   notifier  change, then notify(): if bit 0 is set, move the sequence and clear it (one CAS), wake all
//
// The change and the look at bit 0 must not pass each other. The sleeper pays: prepare() runs a barrier on every
// registered process. If some participant could not register, the notifier uses a locked read instead.
// A notifier killed before its wake costs the sleeper its timeout, never more: every sleep is at most one tick.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "os/barrier.hpp"
#include "os/futex.hpp"
#include "rondo/format.hpp"

namespace rondo::flow {

inline constexpr std::chrono::nanoseconds tick = std::chrono::milliseconds(50);

class EventCount {
public:
    EventCount(format::Half& word, const format::Half& fence_needed) : word_(&word), fence_needed_(&fence_needed) {}

    /// Announces a sleeper. The caller looks at its condition once more, then sleeps on the returned key.
    std::uint32_t prepare() {
        // ORD(event.waiters): acq_rel; pairs with notify(). Either the notifier sees the bit, or this sees its change.
        const std::uint32_t seen = word_->fetch_or(1, std::memory_order_acq_rel) | 1;
        (void)os::barrier_all_publishers();
        return seen;
    }

    /// Sleeps until the word moves on, at most `limit` and at most one tick.
    void sleep(std::uint32_t key, std::chrono::nanoseconds limit) {
        (void)os::futex_wait(*word_, key, std::min(limit, tick));
    }

    /// After a change that a sleeper may wait for. No system call when nobody sleeps.
    void notify() {
        // ORD(none): keeps the compiler from swapping the change and the look; the sleeper's barrier does the rest.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        // ORD(none): set at attach by a participant that could not register; its own changes see it.
        if (fence_needed_->load(std::memory_order_relaxed) != 0) {
            // ORD(event.waiters): acq_rel; pairs with prepare(): a locked read orders the change before it.
            wake_if(word_->fetch_add(0, std::memory_order_acq_rel));
            return;
        }
        // ORD(event.waiters): acquire; pairs with prepare(), whose barrier orders the change before this load.
        wake_if(word_->load(std::memory_order_acquire));
    }

    /// For what must be seen by all: close, a dead owner's repair.
    void notify_always() {
        // ORD(event.waiters): acq_rel; pairs with prepare().
        word_->fetch_add(2, std::memory_order_acq_rel);
        os::futex_wake_all(*word_);
    }

private:
    void wake_if(std::uint32_t seen) {
        if ((seen & 1) == 0) return;
        // ORD(event.waiters): acq_rel; pairs with prepare(). Clearing the bit before the wake keeps it from being
        // lost; a failure means that another notifier, or a new sleeper, was faster: then it is its turn.
        while ((seen & 1) != 0) {
            if (word_->compare_exchange_weak(seen, (seen + 2) & ~1U, std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
                os::futex_wake_all(*word_);
                return;
            }
        }
    }

    format::Half* word_;
    const format::Half* fence_needed_;
};

}  // namespace rondo::flow
