// SPDX-License-Identifier: MIT
//
// Event: a descriptor that poll() and epoll see as readable while it is signalled (eventfd, within one process).
// SignalBlock: the calling thread takes no signals while it lives; threads that it starts meanwhile inherit that.
#pragma once

#include <csignal>

#include <rondo/result.hpp>

#include "os/fd.hpp"

namespace rondo::os {

// Move-only. signal() and drain() from any thread at once.
class Event {
public:
    Event() noexcept = default;

    [[nodiscard]] static Result<Event> create() noexcept;

    // Level-triggered readable until drained. Owned by the Event.
    [[nodiscard]] int fd() const noexcept { return fd_.get(); }
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

    // Signalling twice is signalling once. Async-signal-safe.
    void signal() noexcept;
    // Back to not readable; true when it was signalled. Never blocks.
    bool drain() noexcept;

private:
    explicit Event(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

    UniqueFd fd_;
};

// Must end on the thread that made it. The destructor restores the former mask.
class [[nodiscard]] SignalBlock {
public:
    SignalBlock() noexcept;
    ~SignalBlock();
    SignalBlock(const SignalBlock&) = delete;
    SignalBlock& operator=(const SignalBlock&) = delete;

private:
    sigset_t former_;
};

// Around the creation of a thread: `auto block = block_all_signals();`
[[nodiscard]] inline SignalBlock block_all_signals() noexcept { return SignalBlock(); }

}  // namespace rondo::os
