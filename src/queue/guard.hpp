// SPDX-License-Identifier: MIT
// The border of the library: what the standard library throws inside becomes a value here.
#pragma once

#include <new>
#include <system_error>

#include "rondo/result.hpp"

namespace rondo::detail {

/// Calls `body`, which returns a Result.
template <class Body>
auto guarded(Body&& body) noexcept -> decltype(body()) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return fail(Errc::no_memory, "not enough memory");
    } catch (const std::system_error& e) {
        return fail(Errc::system, "the system refused a thread", e.code().value());
    } catch (...) {
        return fail(Errc::system, "an unexpected exception inside the library");
    }
}

}  // namespace rondo::detail
