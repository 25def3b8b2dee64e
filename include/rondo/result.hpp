// SPDX-License-Identifier: MIT
//
// Result<T>: how every rondo call reports. Nothing in rondo throws; a call returns its value or an Error.
//
// - An Error is 16 trivially copyable bytes and is built only on failure. `what` is a static string, never null, in
//   the library's words: it names the mistake or the system call, not the path (Queue::explain adds path and holder).
// - `sys_errno` is the errno behind the error, 0 when no system call was involved.
// - tl::expected is not [[nodiscard]]: the functions that return a Result carry the attribute themselves, all but the
//   outcomes of a message (ignoring a stale lease is legal).
// - Threads: plain values, no shared state.
#pragma once

#include <cstdint>
#include <type_traits>

#include <tl/expected.hpp>

namespace rondo {

// Why a call failed, and what it left behind. The numbers are not part of any file format.
enum class Errc : std::uint16_t {
    // Nothing came of it. Effect: nothing published, nothing leased.
    empty,    // try_receive found no message
    timeout,  // no message, or no credit, before the deadline; a standby consumer whose turn did not come

    // No room. Effect: nothing published.
    no_credit,  // policy `fail`, try_publish, or drop_oldest with a leased message at the floor

    // The caller's mistake, named in `what`. Effect: none.
    too_large,         // larger than this queue takes, a batch above 1/8 of the ring
    invalid_argument,  // a value outside its range, a malformed name, a wrong file type
    not_supported,     // an option that this build, kernel or file system does not offer
    claim_open,        // the producer's previous claim is still open
    not_first,         // exclusive group: an earlier message is not settled yet
    would_deadlock,    // blocking publish on a full queue by a thread that holds one of its messages

    // The lease is another's, lapsed and taken, or already settled. Effect: none, counted.
    stale_lease,

    // Set-up. Effect: nothing changed.
    exists,            // the name is taken
    not_found,         // no such queue, file or directory
    no_such_group,     // the group does not exist, or was deleted meanwhile
    option_mismatch,   // an option was given and differs from the stored one
    version_mismatch,  // another format version or byte order
    role_taken,        // a single-producer queue has its producer
    busy,              // in use by a living participant
    live_elsewhere,    // a durable queue's ring is mapped by others where this process cannot see it

    // The environment; sys_errno is set. Effect: nothing left behind.
    permission,             // the system or the owner of a file refuses
    no_space,               // the file system, a quota, RLIMIT_FSIZE or the memory behind tmpfs has no room
    no_memory,              // private memory could not be allocated
    too_many_participants,  // all participant ids are in use
    system,                 // any other failed system call

    // The end of something. Effect: none.
    closed,    // the queue was closed or destroyed
    paused,    // the group is paused
    fenced,    // this producer's or consumer's identity was taken over
    detached,  // the handle was inherited by fork: it is dead in the child

    // Something is missing or broken: that range or position is skipped, counted and told once.
    // Effect: the next call goes on behind it.
    gap,      // messages were overwritten, or lie below the floor
    corrupt,  // bytes that fail validation; a file shorter than it says

    // Published and visible, but not confirmed. Effect: **published**; repeat only with the same dedup key.
    durability_lost,  // storage failed: this and later messages are not durable
    unknown,          // the confirmation did not come; the message may or may not be durable or settled

    // Positions end at 2^40 laps; publish then returns this for ever. Effect: nothing published.
    exhausted,
};

// The enumerator's own name, as shown by tools and in JSON. Never null.
[[nodiscard]] constexpr const char* to_string(Errc code) noexcept {
    switch (code) {
        case Errc::empty:
            return "empty";
        case Errc::timeout:
            return "timeout";
        case Errc::no_credit:
            return "no_credit";
        case Errc::too_large:
            return "too_large";
        case Errc::invalid_argument:
            return "invalid_argument";
        case Errc::not_supported:
            return "not_supported";
        case Errc::claim_open:
            return "claim_open";
        case Errc::not_first:
            return "not_first";
        case Errc::would_deadlock:
            return "would_deadlock";
        case Errc::stale_lease:
            return "stale_lease";
        case Errc::exists:
            return "exists";
        case Errc::not_found:
            return "not_found";
        case Errc::no_such_group:
            return "no_such_group";
        case Errc::option_mismatch:
            return "option_mismatch";
        case Errc::version_mismatch:
            return "version_mismatch";
        case Errc::role_taken:
            return "role_taken";
        case Errc::busy:
            return "busy";
        case Errc::live_elsewhere:
            return "live_elsewhere";
        case Errc::permission:
            return "permission";
        case Errc::no_space:
            return "no_space";
        case Errc::no_memory:
            return "no_memory";
        case Errc::too_many_participants:
            return "too_many_participants";
        case Errc::system:
            return "system";
        case Errc::closed:
            return "closed";
        case Errc::paused:
            return "paused";
        case Errc::fenced:
            return "fenced";
        case Errc::detached:
            return "detached";
        case Errc::gap:
            return "gap";
        case Errc::corrupt:
            return "corrupt";
        case Errc::durability_lost:
            return "durability_lost";
        case Errc::unknown:
            return "unknown";
        case Errc::exhausted:
            return "exhausted";
    }
    return "invalid Errc";
}

struct Error {
    Errc code;
    int sys_errno;     // 0: no system call was involved
    const char* what;  // static string, never null
};

static_assert(std::is_trivially_copyable_v<Error> && sizeof(Error) <= 16);

template <class T>
using Result = tl::expected<T, Error>;

// `return fail(Errc::busy, "...")` from any function that returns a Result. `what` must be a static string.
[[nodiscard]] constexpr tl::unexpected<Error> fail(Errc code, const char* what, int sys_errno = 0) noexcept {
    return tl::unexpected<Error>(Error{code, sys_errno, what != nullptr ? what : ""});
}

// Passes another Result's error on.
[[nodiscard]] constexpr tl::unexpected<Error> fail(const Error& error) noexcept { return tl::unexpected<Error>(error); }

}  // namespace rondo
