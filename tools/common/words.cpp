// SPDX-License-Identifier: MIT
// Copyright the rondo authors
#include "tools/common/words.hpp"

#include "tools/common/format_text.hpp"

namespace rondo::tools {

std::string start_text(format::StartKind kind, std::uint64_t value) {
    switch (kind) {
        case format::StartKind::earliest:
            return "earliest";
        case format::StartKind::latest:
            return "latest";
        case format::StartKind::seq:
            return fmt::format("seq:{}", value);
        case format::StartKind::time:
            return fmt::format("time:{}", value == 0 ? "@0" : rfc3339(value));
    }
    return "unknown";
}

}  // namespace rondo::tools
