// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A file that another process truncates while it is mapped here raises SIGBUS at the next touch. ring-dump then says
// which file it was and exits with 3, instead of dying without a word.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace rondo::dump {

/// Installs the handler. Once, before the first mapping.
void install_bus_guard();

/// Names a mapping for the message. The name is copied (and cut to 255 bytes); mappings beyond the 128th stay
/// unnamed. Main thread only.
void name_mapping(std::span<const std::byte> mapping, std::string_view name);

}  // namespace rondo::dump
