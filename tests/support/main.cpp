// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// The main() of every test program. It prints the seed (RONDO_SEED=n repeats a run), limits the whole run to
// RONDO_WATCHDOG_S seconds (default 120, 0 for a debugger): when they are over it names the running test case and
// aborts. Whatever way the run ends, the children and directories in the registry are cleared away.
//
// The watchdog is a signal, not a thread: the tests fork, count threads and run under ThreadSanitizer.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/registry.hpp"
#include "support/seed.hpp"

#ifdef DOCTEST_CONFIG_NO_POSIX_SIGNALS  // a sanitizer build
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

namespace {

std::atomic<const char*> running_test_case{"(none yet)"};
std::atomic<pid_t> runner{0};
char watchdog_text[32] = "120";

void write_text(const char* text) noexcept {
    // Nothing can be done about a failing write here.
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void on_watchdog(int) noexcept {
    const char* const parts[] = {"\nwatchdog: test case \"", running_test_case.load(), "\" still runs after ",
                                 watchdog_text, " s: aborting\n"};
    for (const char* part : parts) write_text(part);
    rondo::test::clean_up();
    signal(SIGABRT, SIG_DFL);  // not doctest's handler: it allocates, and a hanging test may hold the allocator's lock
    std::abort();
}

void start_watchdog() {
    if (const char* text = std::getenv("RONDO_WATCHDOG_S"))
        std::snprintf(watchdog_text, sizeof watchdog_text, "%s", text);
    char* end = nullptr;
    const unsigned long seconds = std::strtoul(watchdog_text, &end, 10);
    if (end == watchdog_text || *end != '\0' || seconds > 86400) {
        std::fprintf(stderr, "RONDO_WATCHDOG_S: \"%s\" is not a number of seconds\n", watchdog_text);
        std::exit(2);
    }
    struct sigaction action = {};
    action.sa_handler = on_watchdog;
    sigaction(SIGALRM, &action, nullptr);
    alarm(static_cast<unsigned>(seconds));
}

#ifdef DOCTEST_CONFIG_NO_POSIX_SIGNALS
// Does what doctest's handler of fatal signals does in the other builds.
void on_death() noexcept {
    if (getpid() != runner.load()) return;
    const char* const parts[] = {"\ntest case \"", running_test_case.load(), "\" crashed\n"};
    for (const char* part : parts) write_text(part);
    rondo::test::clean_up();
}

void on_abort(int) noexcept {
    on_death();
    signal(SIGABRT, SIG_DFL);
    std::abort();
}

void watch_for_death() {
    __sanitizer_set_death_callback(on_death);
    signal(SIGABRT, on_abort);
}
#else
void watch_for_death() {}
#endif

// No core files of large mappings; a test that wants one may raise the soft limit again.
void limit_core_files() {
    rlimit limit = {};
    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = 0;
        setrlimit(RLIMIT_CORE, &limit);
    }
}

// Follows the test cases for the watchdog; its test_run_end() is also called by doctest's handler of fatal signals.
struct Follower : doctest::IReporter {
    explicit Follower(const doctest::ContextOptions&) {}
    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats&) override {
        if (getpid() != runner.load()) return;
        if (rondo::test::clean_up() > 0) write_text("test support: killed child processes that a test left behind\n");
    }
    void test_case_start(const doctest::TestCaseData& data) override { running_test_case.store(data.m_name); }
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_end(const doctest::CurrentTestCaseStats&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData&) override {}
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("rondo", 1, Follower);

}  // namespace

int main(int argc, char** argv) {
    runner.store(getpid());
    limit_core_files();
    start_watchdog();
    watch_for_death();
    doctest::Context context(argc, argv);
    std::printf("seed: RONDO_SEED=%llu\n", static_cast<unsigned long long>(rondo::test::seed()));
    std::fflush(stdout);
    const int result = context.run();
    if (rondo::test::skip_reason() != nullptr && result == 0) {
        std::printf("skipped: %s\n", rondo::test::skip_reason());
        return 77;
    }
    return result;
}
