// SPDX-License-Identifier: MIT
//
// The sleeper pays: membarrier instead of a fence in every publish.
//
// A publisher stores its record and then reads the waiter flag; a waiter sets the flag and then reads the record. Each
// side needs its store to be seen before its load. If every publisher's process is registered here, the waiter's call
// to barrier_all_publishers() between its store and its load acts as a full barrier on every running thread of all of
// them, and publishers need none. Where a process cannot register (old kernel, seccomp), publishers must fence.
// Threads: any. Registration is per process, survives fork, ends with exec; repeating it is free.
#pragma once

namespace rondo::os {

// false: not available here.
[[nodiscard]] bool register_publisher() noexcept;

// A full barrier on each running thread of each registered process of the host. false: not available, no barrier.
[[nodiscard]] bool barrier_all_publishers() noexcept;

}  // namespace rondo::os
