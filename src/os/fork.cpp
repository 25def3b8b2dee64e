// SPDX-License-Identifier: MIT
//
// The parts of process.hpp that concern fork.
#include <atomic>

#include <pthread.h>

#include "os/child_fds.hpp"
#include "os/process.hpp"

namespace rondo::os {

namespace {

using Handler = void (*)();

// All of this is process-private. A child starts with the parent's values and one thread.
std::atomic<std::uint64_t> generation{0};
std::array<std::atomic<Handler>, 8> handlers{};
int registration_errno = 0;

// Held by every fork() from before the copy until after it, and by each NoFork.
pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

void before_fork() noexcept { pthread_mutex_lock(&gate); }
void in_parent() noexcept { pthread_mutex_unlock(&gate); }

void in_child() noexcept {
    // ORD(none): relaxed; the child has one thread, later ones are created behind this.
    generation.fetch_add(1, std::memory_order_relaxed);
    for (const auto& slot : handlers) {
        // ORD(fork.handler): acquire; pairs with ORD(fork.handler) in on_fork_child(), which may have run on another
        // thread of the parent. Carries: what the handler needs, set up before it was registered.
        if (const Handler handler = slot.load(std::memory_order_acquire); handler != nullptr) handler();
    }
    pthread_mutex_unlock(&gate);
}

}  // namespace

Result<void> ensure_fork_tracking() noexcept {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, [] { registration_errno = pthread_atfork(before_fork, in_parent, in_child); });
    if (registration_errno != 0) return fail(Errc::no_memory, "cannot watch for fork", registration_errno);
    return {};
}

namespace {

// At load: a fork that is under way when the handlers are registered runs none of them.
[[maybe_unused]] const bool at_load = ensure_fork_tracking().has_value();

}  // namespace

NoFork::NoFork() noexcept { pthread_mutex_lock(&gate); }
NoFork::~NoFork() { pthread_mutex_unlock(&gate); }

Result<void> on_fork_child(Handler handler) noexcept {
    if (handler == nullptr) return fail(Errc::invalid_argument, "no fork handler given");
    if (const auto tracked = ensure_fork_tracking(); !tracked) return tracked;
    for (auto& slot : handlers) {
        Handler found = nullptr;
        // ORD(fork.handler): release; pairs with ORD(fork.handler) acquire in in_child().
        // ORD(none) CAS failure: relaxed; the value found is compared, not followed.
        if (slot.compare_exchange_strong(found, handler, std::memory_order_release, std::memory_order_relaxed) ||
            found == handler) {
            return {};
        }
    }
    return fail(Errc::no_memory, "too many fork handlers");
}

std::uint64_t fork_generation() noexcept {
    // ORD(none): relaxed; changes only between a fork and the child's first code.
    return generation.load(std::memory_order_relaxed);
}

}  // namespace rondo::os
