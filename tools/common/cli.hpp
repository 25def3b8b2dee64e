// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The command line, as both tools read it: options with parsers of our own, words for enumerations, one form of help,
// version and complaint. For main.cpp alone: CLI11 is large.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "rondo/format.hpp"
#include "rondo/version.hpp"
#include "tools/common/format_text.hpp"
#include "tools/common/words.hpp"

namespace rondo::tools {

/// An option whose text `parse` turns into `target`.
template <class T, class Parse>
CLI::Option* option(CLI::App& app, const std::string& flag, const char* type, T& target, Parse parse,
                    const std::string& help) {
    const std::string shown = flag.substr(flag.rfind(',') + 1);  // of "-o,--output" the long name
    const auto store = [&target, parse, shown](const std::string& text) {
        auto parsed = parse(text);
        if (!parsed) throw CLI::ValidationError(shown, parsed.error());
        target = *parsed;
    };
    return app.add_option_function<std::string>(flag, store, help)->type_name(type);
}

/// An option that takes one of some words. Help lists those that are offered, and names the others as what they are.
template <class T, class Value, std::size_t N>
CLI::Option* choice(CLI::App& app, const std::string& flag, T& target, const Choice<Value> (&choices)[N],
                    std::string help) {
    const std::string later = words_of(choices, ", ", false);
    if (!later.empty()) help += fmt::format(" (not supported yet: {})", later);
    const auto parse = [&choices](std::string_view text) { return parse_choice(text, choices); };
    return option(app, flag, words_of(choices, "|").c_str(), target, parse, help);
}

/// Help without CLI11's remarks on which options exclude which.
class HelpFormatter : public CLI::Formatter {
public:
    HelpFormatter() { column_width(34); }
    std::string make_option_opts(const CLI::Option* option) const override {
        const std::string type = option->get_type_name();
        return (type.empty() ? "" : " " + type) + (option->get_required() && !type.empty() ? " (required)" : "");
    }
};

/// To be called before options and commands are added: commands inherit.
inline void set_up(CLI::App& app, const std::string& name) {
    app.name(name);
    app.set_version_flag("--version", fmt::format("{} {} (format {})", name, linked_version(), format::version));
    app.formatter(std::make_shared<HelpFormatter>());
    app.failure_message([name](const CLI::App*, const CLI::Error& error) {
        return fmt::format("{}: {} (--help says more)\n", name, printable(error.what()));
    });
}

}  // namespace rondo::tools
