// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-dump PATH [VIEW] [ID]: shows what is in a queue. It only reads.
#include <array>
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "tools/common/cli.hpp"
#include "tools/common/format_text.hpp"
#include "tools/common/json.hpp"
#include "tools/ring_dump/bus_guard.hpp"
#include "tools/ring_dump/views.hpp"

namespace rondo::dump {
namespace {

struct View {
    const char* name;
    const char* help;
    Answer (*make)(const Context&);
    // Options beyond -o, --no-headers, --raw and --limit that make sense here.
    bool group, key, seq, payload, idle, state;
};

constexpr std::array<View, 10> views = {{
    {"overview", "marks of every ring, who holds them up, groups (default)", overview, false, false, false, false,
     false, false},
    {"records", "the main ring (or the given one), record by record", records, true, true, true, true, false, false},
    {"groups", "what each group has left to do", groups, true, false, false, false, false, false},
    {"inflight", "who has which message", in_flight, true, true, true, false, true, false},
    {"scheduled", "what waits for its next attempt", scheduled, true, false, true, false, false, false},
    {"consumers", "the members of the groups", consumers, true, false, false, false, false, false},
    {"producers", "the producers", producers, false, false, false, false, false, false},
    {"dlq", "dead letters; with an ID: one of them with its story", dead_letters, true, true, false, true, false, true},
    {"dlq-summary", "dead letters by cause", dead_letter_summary, true, true, false, false, false, true},
    {"verify", "checks everything, repairs nothing; CRC-CHECKED: records that have a checksum to compare", verify,
     false, false, false, false, false, false},
}};

constexpr const char* usage_footer =
    "Sizes: 4096, 64KiB, 8MiB, 1GiB. Times: 20us, 100ms, 5s, 2m, 1h. Without --limit a table has at most 1000 rows,\n"
    "other forms 100000; what was left off is said on standard error.\n"
    "Exit codes: 0 ok, 1 usage, 2 not found (also a group or a dead letter), 3 cannot open or bad format, 4 damage "
    "found\n(what is readable is shown).";

std::string view_list() {
    std::string text = "what to show:";
    for (const auto& view : views) text += fmt::format("\n  {:<12} {}", view.name, view.help);
    return text;
}

[[noreturn]] void usage(const std::string& text) { throw Failure{exit_usage, text + " (--help says more)"}; }

const View& find_view(const Request& request) {
    for (const auto& view : views) {
        if (request.view == view.name) return view;
    }
    usage(fmt::format("no such view: {}", tools::printable(request.view)));
}

/// An option that the view would ignore is refused.
void check_options(const Request& request, const View& view) {
    const auto refuse = [&](bool given, bool allowed, const char* option) {
        if (given && !allowed) usage(fmt::format("{} has no meaning for the view {}", option, view.name));
    };
    refuse(request.group.has_value(), view.group, "--group");
    refuse(request.key.has_value(), view.key, "--key");
    refuse(request.seq.has_value(), view.seq, "--seq");
    refuse(request.payload != PayloadForm::none, view.payload, "--payload");
    refuse(request.idle.has_value(), view.idle, "--idle");
    refuse(request.state.has_value(), view.state, "--state");
    refuse(request.id.has_value(), request.view == "dlq", "an ID");
}

constexpr tools::Choice<DeadState> dead_states[] = {{"open", DeadState::open},
                                                    {"redriving", DeadState::redriving},
                                                    {"redriven", DeadState::redriven},
                                                    {"discarded", DeadState::discarded}};
constexpr tools::Choice<Output> outputs[] = {
    {"table", Output::table}, {"json", Output::json}, {"jsonl", Output::jsonl}, {"csv", Output::csv}};
constexpr tools::Choice<PayloadForm> payload_forms[] = {{"none", PayloadForm::none},
                                                        {"text", PayloadForm::text},
                                                        {"hex", PayloadForm::hex},
                                                        {"base64", PayloadForm::base64}};

/// Nothing when all there is to say has been said (--help, --version, a mistake); the exit code is then set.
std::optional<Request> parse(int argc, char** argv, int& code) {
    using tools::choice;
    using tools::option;
    Request request;
    CLI::App app{"Shows what is in a rondo queue: live, dead, copied or damaged. Reads only, locks nothing."};
    tools::set_up(app, "ring-dump");
    app.footer(usage_footer);
    app.add_option("PATH", request.path, "a queue's directory, or one of its ring files")->required()->type_name("");
    app.add_option("VIEW", request.view, view_list())->type_name("");
    option(app, "ID", "", request.id, tools::parse_count, "dlq: the DLQ-ID of one dead letter");
    choice(app, "-o,--output", request.output, outputs, "default table");
    bool no_headers = false;
    app.add_flag("--no-headers", no_headers, "tables and CSV without the line of names");
    app.add_flag("--raw", request.raw, "tables: ages and times as ns, sizes as bytes");
    option(app, "--limit", "N", request.limit, tools::parse_count, "rows at most; 0 = all");
    option(app, "--seq", "A..B", request.seq, tools::parse_seq_range, "only records of these positions");
    app.add_option("--key", request.key, "only messages with this key")->type_name("KEY");
    choice(app, "--payload", request.payload, payload_forms, "default none");
    option(app, "--max-payload", "SIZE", request.max_payload, tools::parse_bytes,
           "how much of a payload to show; 0 = all; default 256");
    app.add_option("-g,--group", request.group, "only this group; of groups also its options")->type_name("NAME");
    option(app, "--idle", "TIME", request.idle, tools::parse_duration, "inflight: only leases at least this old");
    choice(app, "--state", request.state, dead_states,
           "dlq: only dead letters in this state; closed ones stay readable "
           "until dead.ring needs their room");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        code = app.exit(error) == 0 ? exit_ok : exit_usage;
        return std::nullopt;
    }
    request.headers = !no_headers;
    return request;
}

// ---- printing ------------------------------------------------------------------------------------------------

tools::Json rows_json(const Rows& rows) {
    tools::Json list = tools::Json::array();
    for (const Row& row : rows.rows) list.push_back(row_json(rows, row));
    return list;
}

std::string json_text(const Context& context, const Answer& answer) {
    tools::Json all = tools::json_envelope(context.request.view, context.source.path(), context.source.live());
    if (!answer.properties.empty()) all["properties"] = fields_json(answer.properties);
    all["rows"] = rows_json(answer.rows);
    for (const auto& section : answer.more) all[section.key] = rows_json(section.rows);
    if (!answer.notices.empty()) {
        all["notices"] = tools::Json::array();
        for (const auto& notice : answer.notices) all["notices"].push_back(tools::json_text(notice));
    }
    return tools::json_line(all) + "\n";
}

std::string jsonl_text(const Answer& answer) {
    std::string out;
    for (const Row& row : answer.rows.rows) out += tools::json_line(row_json(answer.rows, row)) + "\n";
    return out;
}

std::string table_form(const Context& context, const Answer& answer) {
    if (!answer.text.empty()) return answer.text;
    std::string out = context.style.headers ? answer.preamble : std::string();
    out += table_text(answer.rows, context.style);
    for (const auto& section : answer.more) {
        out += fmt::format("\n{}\n{}", section.title, table_text(section.rows, context.style));
    }
    return out;
}

std::string text_of(const Context& context, const Answer& answer) {
    switch (context.request.output) {
        case Output::table:
            return table_form(context, answer);
        case Output::json:
            return json_text(context, answer);
        case Output::jsonl:
            return jsonl_text(answer);
        case Output::csv:
            return csv_text(answer.rows, context.style);
    }
    return {};
}

int run(const Request& request) {
    const View& view = find_view(request);
    check_options(request, view);
    install_bus_guard();
    const Source source(request.path);
    const People people(source);
    const Context context{source, request, people, {request.headers, request.raw, source.wall_ns()}};
    Answer answer = request.id ? dead_letter(context) : view.make(context);
    int code = answer.damage ? exit_corrupt : exit_ok;
    for (const auto& bad : source.bad_files()) {
        if (view.make != verify) answer.notices.push_back(bad.problem);
        if (code != exit_corrupt) code = bad.code;
    }
    const std::string text = text_of(context, answer);
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    for (const auto& notice : answer.notices) fmt::print(stderr, "ring-dump: {}\n", notice);
    if (!written) throw Failure{exit_cannot_open, "the output cannot be written"};
    return code;
}

}  // namespace
}  // namespace rondo::dump

int main(int argc, char** argv) {
    using namespace rondo::dump;
    try {
        int code = exit_ok;
        const auto request = parse(argc, argv, code);
        return request ? run(*request) : code;
    } catch (const Failure& failure) {
        fmt::print(stderr, "ring-dump: {}\n", failure.text);
        return failure.code;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ring-dump: %s\n", error.what());
        return exit_cannot_open;
    }
}
