// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-dump PATH [VIEW] [ID]: shows what is in a queue. It only reads.
#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "rondo/format.hpp"
#include "rondo/version.hpp"
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
    bool group, key, seq, payload, idle;
};

constexpr std::array<View, 10> views = {{
    {"overview", "marks of every ring, who holds them up, groups (default)", overview, false, false, false, false,
     false},
    {"records", "the main ring (or the given one), record by record", records, true, true, true, true, false},
    {"groups", "what each group has left to do", groups, true, false, false, false, false},
    {"inflight", "who has which message", in_flight, true, true, true, false, true},
    {"scheduled", "what waits for its next attempt", scheduled, true, false, true, false, false},
    {"consumers", "the members of the groups", consumers, true, false, false, false, false},
    {"producers", "the producers", producers, false, false, false, false, false},
    {"dlq", "dead letters; with an ID: one of them with its story", dead_letters, true, true, false, true, false},
    {"dlq-summary", "dead letters by cause", dead_letter_summary, true, true, false, false, false},
    {"verify", "checks everything, repairs nothing", verify, false, false, false, false, false},
}};

constexpr const char* usage_footer =
    "Sizes take KiB MiB GiB, durations ns us ms s m h. Without --limit a table has at most 1000 rows, other forms\n"
    "100000; what was left off is said on standard error.\n"
    "Exit codes: 0 ok, 1 usage, 2 not found, 3 cannot open or bad format, 4 damage found (what is readable is shown).";

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
    refuse(request.id.has_value(), request.view == "dlq", "an ID");
}

template <class T>
T parsed(const char* option, const tools::Parsed<T>& value) {
    if (!value) usage(fmt::format("{}: {}", option, tools::printable(value.error())));
    return *value;
}

/// Nothing when CLI11 has said all there is to say (--help, --version); its exit code is then set.
std::optional<Request> parse(int argc, char** argv, int& code) {
    Request request;
    CLI::App app{"Shows what is in a rondo queue: live, dead, copied or damaged. Reads only, locks nothing."};
    app.name("ring-dump");
    app.footer(usage_footer);
    std::string id, limit, seq, idle, max_payload;
    app.add_option("PATH", request.path, "a queue's directory, or one of its ring files")->required();
    app.add_option("VIEW", request.view, view_list());
    app.add_option("ID", id, "dlq: the DLQ-ID of one dead letter");
    const std::map<std::string, Output> outputs = {
        {"table", Output::table}, {"json", Output::json}, {"jsonl", Output::jsonl}, {"csv", Output::csv}};
    app.add_option("-o,--output", request.output, "table, json, jsonl or csv")
        ->transform(CLI::Transformer(outputs, CLI::ignore_case))
        ->type_name("FORM");
    bool no_headers = false;
    app.add_flag("--no-headers", no_headers, "tables and CSV without the line of names");
    app.add_flag("--raw", request.raw, "tables: ages and times as ns, sizes as bytes");
    app.add_option("--limit", limit, "rows at most; 0 = all")->type_name("N");
    app.add_option("--seq", seq, "only records of these positions")->type_name("A..B");
    app.add_option("--key", request.key, "only messages with this key")->type_name("K");
    const std::map<std::string, PayloadForm> forms = {{"none", PayloadForm::none},
                                                      {"text", PayloadForm::text},
                                                      {"hex", PayloadForm::hex},
                                                      {"base64", PayloadForm::base64}};
    app.add_option("--payload", request.payload, "none, text, hex or base64")
        ->transform(CLI::Transformer(forms, CLI::ignore_case))
        ->type_name("FORM");
    app.add_option("--max-payload", max_payload, "bytes of a payload to show; 0 = all; default 256")->type_name("N");
    app.add_option("-g,--group", request.group, "only this group")->type_name("G");
    app.add_option("--idle", idle, "inflight: only leases at least this old")->type_name("DURATION");
    app.set_version_flag("--version", fmt::format("ring-dump {} (format {})", linked_version(), format::version));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        code = app.exit(error) == 0 ? exit_ok : exit_usage;
        return std::nullopt;
    }
    request.headers = !no_headers;
    const auto given = [&](const char* option) { return app.count(option) != 0; };
    if (given("ID")) request.id = parsed("ID", tools::parse_count(id));
    if (given("--limit")) request.limit = parsed("--limit", tools::parse_count(limit));
    if (given("--seq")) request.seq = parsed("--seq", tools::parse_seq_range(seq));
    if (given("--max-payload")) request.max_payload = parsed("--max-payload", tools::parse_bytes(max_payload));
    if (given("--idle")) request.idle = parsed("--idle", tools::parse_duration(idle));
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
