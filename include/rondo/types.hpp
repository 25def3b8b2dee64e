// SPDX-License-Identifier: MIT
// The words that every interface of rondo shares: positions, epochs, durations, bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo {

/// A position in a ring, counted in slots of 64 bytes from the ring's first one. Never decreases, never reused
/// within an epoch. Messages of several slots are named by their first slot, so seqs have gaps.
using Seq = std::uint64_t;

/// How often the ring was rebuilt from its image. (epoch, seq) is never used twice.
using Epoch = std::uint16_t;

/// All durations of the interface are relative.
using Duration = std::chrono::nanoseconds;

/// Wait without end. Such a wait still looks for dead owners at every tick and ends when the queue is closed.
inline constexpr Duration forever = Duration::max();

/// What is published: borrowed for the length of the call.
using Bytes = std::span<const std::byte>;

}  // namespace rondo
