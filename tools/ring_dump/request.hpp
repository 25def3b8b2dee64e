// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// What the command line asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rondo/dead_letter.hpp"
#include "tools/common/sizes.hpp"
#include "tools/ring_dump/rows.hpp"

namespace rondo::dump {

enum class PayloadForm : std::uint8_t { none, text, hex, base64 };

inline constexpr std::uint64_t default_limit_table = 1000;
inline constexpr std::uint64_t default_limit_data = 100'000;

struct Request {
    std::string path;
    std::string view = "overview";
    std::optional<std::uint64_t> id;  // dlq
    Output output = Output::table;
    bool headers = true;
    bool raw = false;
    std::optional<std::uint64_t> limit;  // rows; 0 = all
    std::optional<tools::SeqRange> seq;
    std::optional<std::string> key;
    std::optional<std::string> group;
    std::optional<Duration> idle;
    std::optional<DeadState> state;
    PayloadForm payload = PayloadForm::none;
    std::uint64_t max_payload = 256;  // bytes; 0 = all

    [[nodiscard]] std::uint64_t row_limit() const {
        const std::uint64_t n = limit.value_or(output == Output::table ? default_limit_table : default_limit_data);
        return n == 0 ? ~std::uint64_t{0} : n;
    }
};

}  // namespace rondo::dump
