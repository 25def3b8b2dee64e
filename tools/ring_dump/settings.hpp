// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What a queue and its groups were made with, under the names of their options.
#pragma once

#include "tools/ring_dump/views.hpp"

namespace rondo::dump {

[[nodiscard]] std::vector<Column> group_option_columns();
/// The stored options of a group of `ring`, in the order of the columns.
[[nodiscard]] Row group_options(const Ring& ring, const format::GroupInfo& group);

/// The queue's stored options, its files' owner, and how many have it open. Nothing without its main ring.
[[nodiscard]] Fields queue_properties(const Context& context);
/// The most of it in two lines, for people.
[[nodiscard]] std::string queue_properties_text(const Context& context);

}  // namespace rondo::dump
