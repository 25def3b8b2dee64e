// SPDX-License-Identifier: MIT
#include "os/process.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os_seccomp.hpp"
#include "support/child.hpp"
#include "support/eventually.hpp"
#include "support/shared_block.hpp"

using namespace rondo;
using os::ProcessState;
using rondo::test::Child;

namespace {

struct Book {
    std::atomic<int> step{0};
    std::atomic<std::uint64_t> number{0};
};

ProcessState state_of(std::int32_t pid, std::uint64_t start_ticks = 0) {
    return os::process_state(pid, os::pid_namespace(), start_ticks);
}

std::vector<int> cpus_of_caller() {
    cpu_set_t set;
    CPU_ZERO(&set);
    REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
    return cpus;
}

bool pin_caller(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

int runs_a = 0;
int runs_b = 0;
void handler_a() { ++runs_a; }
void handler_b() { ++runs_b; }
template <int N>
void filler() {}

}  // namespace

TEST_CASE("a process is seen running, stopped, running again, a zombie and gone") {
    const test::SharedBlock<Book> book;
    Child child([&]() -> int {
        book->step = 1;
        for (;;) pause();
    });
    test::eventually([&] { return book->step == 1; });
    const auto start = os::process_start_ticks(child.pid());
    REQUIRE(start);
    CHECK(*start > 0);
    CHECK(state_of(child.pid(), *start) == ProcessState::running);
    CHECK(state_of(child.pid()) == ProcessState::running);
    child.stop();
    CHECK(state_of(child.pid(), *start) == ProcessState::stopped);
    child.cont();
    CHECK(state_of(child.pid(), *start) == ProcessState::running);
    CHECK(state_of(child.pid(), *start + 1) == ProcessState::dead);  // the number belongs to another process now
    child.kill();
    test::eventually([&] { return state_of(child.pid(), *start) == ProcessState::dead; });  // not reaped yet
    CHECK(child.wait().killed_by(SIGKILL));
    CHECK(state_of(child.pid(), *start) == ProcessState::dead);
    CHECK(os::process_start_ticks(child.pid()).error().code == Errc::not_found);
}

TEST_CASE("nothing is said of processes in another pid namespace") {
    const auto own = os::pid_namespace();
    REQUIRE(own != 0);
    CHECK(os::process_state(getpid(), own) == ProcessState::running);
    CHECK(os::process_state(getpid(), own + 1) == ProcessState::unknown);
    CHECK(os::process_state(getpid(), 0) == ProcessState::unknown);
    CHECK(os::process_state(0, own) == ProcessState::unknown);
    CHECK(os::process_state(-1, own) == ProcessState::unknown);
}

TEST_CASE("a container's process has another namespace number") {
    const auto outside = os::pid_namespace();
    Child child([&] {
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return 77;  // not allowed on this machine
        const pid_t inner = fork();  // its parent is outside: class Child would take that for a dead one
        if (inner == 0) _exit(os::pid_namespace() != outside && os::current_pid() == 1 ? 0 : 1);
        int status = -1;
        return waitpid(inner, &status, 0) == inner && status == 0 ? 0 : 1;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK((status.exited_with(0) || status.exited_with(77)));
}

TEST_CASE("the name of a process cannot fake its state") {
    const test::SharedBlock<Book> book;
    Child child([&]() -> int {
        prctl(PR_SET_NAME, "x) R 1 (y", 0, 0, 0);
        book->step = 1;
        for (;;) pause();
    });
    test::eventually([&] { return book->step == 1; });
    child.stop();
    CHECK(state_of(child.pid()) == ProcessState::stopped);
    CHECK(os::process_start_ticks(child.pid()).value() > 0);
}

TEST_CASE("a process whose main thread has ended lives on in the others") {
    const test::SharedBlock<Book> book;
    Child child([&] {
        std::thread([&] {
            book->step = 1;
            for (;;) pause();
        }).detach();
        test::eventually([&] { return book->step == 1; });
        syscall(SYS_exit, 0);  // this thread alone
        return 0;
    });
    test::eventually([&] {
        std::ifstream stat("/proc/" + std::to_string(child.pid()) + "/stat");
        std::string text;
        std::getline(stat, text);
        return text.find(") Z ") != std::string::npos;
    });
    CHECK(state_of(child.pid()) == ProcessState::running);
    child.kill();
    CHECK(child.wait().killed_by(SIGKILL));
    CHECK(state_of(child.pid()) == ProcessState::dead);
}

TEST_CASE("a process that /proc hides is unknown, not dead") {
    Child gone([] { return 0; });
    const auto gone_pid = gone.pid();
    gone.wait();
    Child child([&] {
        const auto own = os::pid_namespace();
        if (!test::deny_syscall(SYS_openat, ENOENT)) return test::no_seccomp;
        if (os::process_state(getppid(), own) != ProcessState::unknown) return 1;
        return os::process_state(gone_pid, own) == ProcessState::dead ? 0 : 2;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK((status.exited_with(0) || status.exited_with(test::no_seccomp)));
}

TEST_CASE("a process knows itself") {
    CHECK(os::current_pid() == getpid());
    CHECK(os::current_uid() == geteuid());
    CHECK(os::time_namespace() != 0);
    const std::string path = program_invocation_name;
    CHECK(os::exe_name() == path.substr(path.rfind('/') + 1));
}

TEST_CASE("a process with one processor is told from one with several") {
    const auto cpus = cpus_of_caller();
    CHECK(os::single_cpu() == (cpus.size() == 1));
    Child child([&] { return pin_caller(cpus.front()) && os::single_cpu() ? 0 : 1; });
    CHECK(child.wait().exited_with(0));
}

TEST_CASE("a thread gets back the processors of its process, whatever its maker was pinned to") {
    const auto cpus = cpus_of_caller();
    Child child([&] {
        if (!pin_caller(cpus.back())) return 1;  // the main thread of the child
        bool reset = false;
        std::vector<int> before;
        std::vector<int> after;
        std::thread thread([&] {
            before = cpus_of_caller();
            reset = os::reset_affinity_to_process();
            after = cpus_of_caller();
        });
        thread.join();
        if (before != std::vector<int>{cpus.back()}) return 2;
        return reset && after == cpus ? 0 : 3;
    });
    const auto status = child.wait();
    INFO(status.text());
    CHECK(status.exited_with(0));
}

TEST_CASE("a thread's name is cut to what the kernel takes") {
    std::string name(16, '\0');
    std::thread thread([&] {
        os::name_thread("rondo-a-name-that-is-too-long");
        pthread_getname_np(pthread_self(), name.data(), name.size());
    });
    thread.join();
    CHECK(std::string(name.c_str()) == "rondo-a-name-th");
}

TEST_CASE("the boot id is the kernel's") {
    const auto id = os::boot_id();
    REQUIRE(id);
    CHECK(*id == *os::boot_id());
    std::string text;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
    text.erase(std::remove(text.begin(), text.end(), '-'), text.end());
    std::string hex;
    for (const std::byte b : *id) {
        for (const int digit : {static_cast<int>(b) >> 4, static_cast<int>(b) & 15}) hex += "0123456789abcdef"[digit];
    }
    CHECK(hex == text);
}

TEST_CASE("random bytes fill the whole buffer and do not repeat") {
    std::vector<std::byte> first(100000);
    std::vector<std::byte> second(100000);
    REQUIRE(os::random_bytes(first));
    REQUIRE(os::random_bytes(second));
    CHECK((first != second));
    CHECK(std::count(first.end() - 1000, first.end(), std::byte{0}) < 100);
    CHECK(os::random_bytes({}));
}

TEST_CASE("fork handlers run once in each child and never in the parent") {
    REQUIRE(os::on_fork_child(handler_a));
    REQUIRE(os::on_fork_child(handler_b));
    REQUIRE(os::on_fork_child(handler_a));
    CHECK(os::on_fork_child(nullptr).error().code == Errc::invalid_argument);
    const auto generation = os::fork_generation();
    for (int i = 0; i < 2; ++i) {
        Child child([&] {
            if (runs_a != 1 || runs_b != 1 || os::fork_generation() != generation + 1) return 1;
            Child grandchild([&] { return runs_a == 2 && os::fork_generation() == generation + 2 ? 0 : 1; });
            return grandchild.wait().exited_with(0) ? 0 : 2;
        });
        CHECK(child.wait().exited_with(0));
    }
    CHECK(runs_a == 0);
    CHECK(os::fork_generation() == generation);
}

TEST_CASE("there is room for eight fork handlers") {
    Child child([] {
        void (*const fillers[])() = {filler<0>, filler<1>, filler<2>, filler<3>,
                                     filler<4>, filler<5>, filler<6>, filler<7>};
        int accepted = 0;
        for (auto* const handler : fillers) accepted += os::on_fork_child(handler) ? 1 : 0;
        const auto again = os::on_fork_child(fillers[0]);
        return accepted >= 6 && accepted <= 8 && again ? 0 : 1;
    });
    CHECK(child.wait().exited_with(0));
}
