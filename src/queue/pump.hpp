// SPDX-License-Identifier: MIT
// The thread behind wait_fd(): sleeps on the ring's eventcount for the process and makes the consumers' descriptors
// readable. Started at the first wait_fd(), ended with the attachment. A consumer whose descriptor is readable
// already costs nothing until its program has drained it.
#pragma once

#include <atomic>
#include <thread>

namespace rondo::detail {

class Attachment;

class Pump {
public:
    explicit Pump(Attachment& a);
    ~Pump();
    Pump(const Pump&) = delete;
    Pump& operator=(const Pump&) = delete;

    /// A consumer found nothing: its descriptor has to become readable at the next message.
    void arm();

private:
    void run();

    Attachment& a_;
    std::atomic<bool> stop_{false};
    std::atomic<std::uint32_t> armed_{0};  // a futex of this process: counts arm() calls
    std::thread thread_;
};

}  // namespace rondo::detail
