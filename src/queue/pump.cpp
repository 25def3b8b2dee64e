// SPDX-License-Identifier: MIT
#include "queue/pump.hpp"

#include "os/event.hpp"
#include "os/futex.hpp"
#include "os/process.hpp"
#include "queue/attachment.hpp"

namespace rondo::detail {

Pump::Pump(Attachment& a) : a_(a) {
    const auto blocked = os::block_all_signals();  // inherited by the thread
    thread_ = std::thread([this] { run(); });
}

Pump::~Pump() {
    // ORD(pump.stop): release; pairs with run().
    stop_.store(true, std::memory_order_release);
    arm();
    a_.data_event().notify_always();
    thread_.join();
}

void Pump::arm() {
    // ORD(pump.armed): release; pairs with run().
    armed_.fetch_add(1, std::memory_order_release);
    os::futex_wake_all(armed_);
}

void Pump::run() {
    os::name_thread("rondo-pump");
    (void)os::reset_affinity_to_process();
    auto event = a_.data_event();
    // ORD(pump.stop): acquire; pairs with the destructor.
    while (!stop_.load(std::memory_order_acquire)) {
        // ORD(pump.armed): acquire; pairs with arm(). Read before the wake-ups: a consumer that arms meanwhile
        // changes it, and the sleep below returns at once.
        const std::uint32_t armed = armed_.load(std::memory_order_acquire);
        const std::uint32_t key = event.prepare();
        if (const auto due = a_.wake_consumers_with_messages()) {
            event.sleep(key, *due);
        } else {
            // Nobody's descriptor waits: no need to look at the ring until somebody arms.
            (void)os::futex_wait(armed_, armed, flow::tick);
        }
        a_.housekeep();
    }
}

}  // namespace rondo::detail
