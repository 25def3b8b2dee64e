// SPDX-License-Identifier: MIT
// A lock between threads of one process, for sections of a few instructions that never wait and run no user code.
// Never in shared memory.
#pragma once

#include <atomic>
#include <thread>

#include "base/cpu.hpp"

namespace rondo::base {

class SpinLock {
public:
    void lock() noexcept {
        for (unsigned turn = 0;; ++turn) {
            // ORD(spin.lock): acquire; pairs with unlock().
            if (!taken_.exchange(true, std::memory_order_acquire)) return;
            // ORD(none): looked at again by the exchange.
            while (taken_.load(std::memory_order_relaxed)) {
                if (++turn % 128 == 0) {
                    std::this_thread::yield();
                } else {
                    pause();
                }
            }
        }
    }
    // ORD(spin.lock): release; pairs with lock().
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

private:
    std::atomic<bool> taken_{false};
};

}  // namespace rondo::base
