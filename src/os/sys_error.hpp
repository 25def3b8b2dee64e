// SPDX-License-Identifier: MIT
//
// From errno to Error. Used only inside src/os.
#pragma once

#include <cerrno>

#include <rondo/result.hpp>

namespace rondo::os {

// The Errc that stands for an errno of a file or memory call. Anything without a better word is `system`.
[[nodiscard]] constexpr Errc errc_of(int sys_errno) noexcept {
    switch (sys_errno) {
        case EACCES:
        case EPERM:
        case EROFS:
            return Errc::permission;
        case ENOENT:
            return Errc::not_found;
        case EEXIST:
            return Errc::exists;
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
            return Errc::no_space;
        case ENOMEM:
            return Errc::no_memory;
        case ENOTEMPTY:
        case EBUSY:
        case ETXTBSY:
        case EAGAIN:
            return Errc::busy;
        case ELOOP:
        case ENOTDIR:
        case EISDIR:
        case ENXIO:
        case ENAMETOOLONG:
            return Errc::invalid_argument;
        case ENOSYS:
        case EOPNOTSUPP:
            return Errc::not_supported;
        default:
            return Errc::system;
    }
}

// The current errno as an error; `what` names the call or the rule it broke.
[[nodiscard]] inline tl::unexpected<Error> fail_errno(const char* what) noexcept {
    const int saved = errno;
    return fail(errc_of(saved), what, saved);
}

}  // namespace rondo::os
