// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// ring-ctl publish: standard input into the queue, one message per line.
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ring_ctl/commands.hpp"
#include "tools/ring_ctl/line_reader.hpp"
#include "tools/ring_ctl/os_stream.hpp"

namespace rondo::ctl {

namespace {

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// The n-th field, counted from 1, of a line split at runs of spaces and tabs, as awk does it.
std::optional<std::string_view> field_of(std::string_view line, std::uint64_t n) {
    constexpr std::string_view blanks = " \t";
    std::size_t begin = line.find_first_not_of(blanks);
    for (; begin != std::string_view::npos; begin = line.find_first_not_of(blanks, line.find_first_of(blanks, begin))) {
        const std::size_t end = line.find_first_of(blanks, begin);
        if (--n == 0) return line.substr(begin, end == std::string_view::npos ? end : end - begin);
        if (end == std::string_view::npos) break;
    }
    return std::nullopt;
}

std::vector<Header> headers_of(const std::vector<std::string>& texts) {
    std::vector<Header> headers;
    for (const std::string_view text : texts) {
        const std::size_t split = text.find('=');
        if (split == std::string_view::npos) {
            throw Failure{exit_usage, fmt::format("--header {}: expected NAME=VALUE", text)};
        }
        headers.push_back({text.substr(0, split), text.substr(split + 1)});
    }
    return headers;
}

class Publishing {
public:
    explicit Publishing(const PublishArgs& args)
        : args_(args),
          headers_(headers_of(args.headers)),
          queue_(open_queue(args.directory)),
          producer_(value_of(queue_, queue_.producer({.name = args.name}))),
          lines_(standard_input, queue_.max_payload_bytes()) {
        options_.headers = headers_;
        options_.type = args.type;
        options_.confirm = args.confirm;
        options_.timeout = args.timeout;
        if (args.key) options_.key = *args.key;
    }

    ExitCode run() {
        if (args_.raw) {
            one(lines_.rest());
            return exit_ok;
        }
        while (one(lines_.next())) {
        }
        return exit_ok;
    }

private:
    bool one(LineReader::Status status) {
        if (status == LineReader::Status::end) return false;
        ++line_;
        if (status == LineReader::Status::failed) {
            stop(exit_cannot_open, fmt::format("cannot read standard input: {}", std::strerror(lines_.sys_errno())));
        }
        if (status == LineReader::Status::too_long) {
            stop(exit_usage,
                 fmt::format("too_large: this queue takes messages of at most {} bytes", queue_.max_payload_bytes()));
        }
        const Bytes payload = lines_.line();
        if (args_.key_field) {
            const auto key = field_of(as_text(payload), *args_.key_field);
            if (!key) stop(exit_usage, fmt::format("has no field {} to be the key", *args_.key_field));
            options_.key = *key;
        }
        const Result<Published> published = producer_.publish(payload, options_);
        if (!published) {
            stop(exit_code_of(published.error().code), describe(published.error(), queue_.explain(published.error())));
        }
        ++published_;
        if (args_.report) report(published->seq);
        return true;
    }

    void report(Seq seq) const {
        const Transfer written = write_all(standard_output, fmt::format("{}\n", seq));
        if (written.sys_errno != 0) {
            throw Failure{exit_cannot_open, fmt::format("cannot write the report: {}; {} published, the last as seq {}",
                                                        std::strerror(written.sys_errno), published_, seq)};
        }
    }

    /// The first failure ends it, and says how far it came.
    [[noreturn]] void stop(ExitCode code, std::string_view text) const {
        const std::string where = args_.raw ? "the message" : fmt::format("line {}", line_);
        throw Failure{published_ > 0 ? exit_partial : code,
                      fmt::format("{}: {} ({} published before)", where, text, published_)};
    }

    const PublishArgs& args_;
    std::vector<Header> headers_;
    Queue queue_;
    Producer producer_;
    LineReader lines_;
    PublishOptions options_;
    std::uint64_t line_ = 0;
    std::uint64_t published_ = 0;
};

}  // namespace

ExitCode publish(const PublishArgs& args) { return Publishing(args).run(); }

}  // namespace rondo::ctl
