// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What the processes of the demo do. Each opens the queue anew, works until it is done or told to stop, and returns
// the exit code of its process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/demo/books.hpp"
#include "tools/demo/packages.hpp"

namespace rondo::demo {

inline constexpr const char* workers_group = "workers";
inline constexpr const char* auditors_group = "auditors";
inline constexpr std::uint32_t max_deliveries = 4;

enum class Kind {
    package,    // to be processed
    malformed,  // to be rejected
    crashing,   // kills whoever reads it
};

/// What is published, in this order.
struct StreamRecord {
    std::string_view text;
    std::string key;
    Kind kind;
};

struct Scene {
    std::string directory;
    std::vector<StreamRecord> stream;
    Names names;
    Books& books;
};

/// A paragraph with this field crashes the workers.
inline constexpr std::string_view crash_field = "X-Rondo-Demo-Crash:";

/// Publishes the stream in order.
int produce(const Scene& scene);
/// Processes records beside the other workers until the books say stop.
int work(const Scene& scene, std::size_t number);
/// Receives every record and checks content and order; ends by itself after the last one.
int audit(const Scene& scene);

}  // namespace rondo::demo
