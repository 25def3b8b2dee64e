// SPDX-License-Identifier: MIT
// Copyright the rondo authors
// ctest: SANITIZE asan tsan
//
// Credit: what holds the limit back, and that an advance which missed a join cannot be stored.
#include "flow/credit.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>

#include <functional>
#include <optional>
#include <thread>

#include "unit/ring_memory.hpp"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::uint64_t slots = 64;
constexpr Seq origin = 10 * slots;

/// `used` slots are published from `origin` on.
struct Full : RingMemory {
    explicit Full(std::uint64_t used = slots) : RingMemory(slots, origin) { view.tail().store(origin + used); }
};

/// What a join does before its group becomes active: pin the mark, then raise the limit's generation. Nothing when the
/// generations are used up (a join is refused then).
std::optional<Seq> pin(const RingMemory& m, std::size_t group) {
    m.groups[group].cursor.store(flow::floor_of(m.view), std::memory_order_seq_cst);
    std::uint64_t word = m.view.limit().load();
    do {
        if (format::limit_generation(word) + 1 == format::join_generations) return std::nullopt;
    } while (!m.view.limit().compare_exchange_weak(word, word + 1));
    return format::limit_position(word) - slots;
}

/// Handles whose first touch runs `hook`: somebody else's step in the middle of an advance, after it has read the
/// marks.
class Trap {
public:
    explicit Trap(std::function<void()> hook) : handles_(16), hook_(std::move(hook)) {
        for (auto& h : handles_.all()) h.borrow.store(format::nowhere);
        set = this;
        struct sigaction action {};
        action.sa_handler = [](int) { set->spring(); };
        sigaction(SIGSEGV, &action, &former_);
        REQUIRE(mprotect(handles_.data(), bytes(), PROT_NONE) == 0);
    }
    Trap(const Trap&) = delete;
    Trap& operator=(const Trap&) = delete;
    ~Trap() {
        mprotect(handles_.data(), bytes(), PROT_READ | PROT_WRITE);
        sigaction(SIGSEGV, &former_, nullptr);
    }
    std::span<const format::Handle> handles() const { return handles_.all(); }

private:
    void spring() {
        mprotect(handles_.data(), bytes(), PROT_READ | PROT_WRITE);
        hook_();
    }
    std::size_t bytes() const { return handles_.size() * sizeof(format::Handle); }
    static inline Trap* set = nullptr;
    PageArray<format::Handle> handles_;
    std::function<void()> hook_;
    struct sigaction former_ {};
};

}  // namespace

TEST_CASE("without a group everything is kept from keep_from on") {
    Full m;
    CHECK_FALSE(m.advance());
    CHECK(m.limit() == origin + slots);
    m.hot[0].keep_from.store(origin + 5);
    CHECK(m.advance());
    CHECK(m.limit() == origin + slots + 5);
    CHECK_FALSE(m.advance());
    CHECK(flow::floor_of(m.view) == origin + 5);
}

TEST_CASE("the slowest group holds the limit, an absent one does not, and the tail caps it") {
    Full m(40);
    m.start_group(0, origin + 10);
    m.start_group(2, origin + 3);
    CHECK(m.advance());
    CHECK(m.limit() == origin + 3 + slots);
    m.groups[2].cursor.store(origin + 40);
    CHECK(m.advance());
    CHECK(m.limit() == origin + 10 + slots);
    m.groups[0].cursor.store(format::nowhere);  // deleted
    CHECK(m.advance());
    CHECK(m.limit() == origin + 40 + slots);
    m.groups[2].cursor.store(format::nowhere);
    CHECK_FALSE(m.advance());  // never beyond what was claimed
    CHECK(m.limit() == origin + 40 + slots);
}

TEST_CASE("a borrow holds the limit though every group has settled the message") {
    Full m;
    m.start_group(0, origin + 20);
    m.handles[5].borrow.store(origin + 7);
    m.handles[3].borrow.store(origin + 9);
    CHECK(m.advance());
    CHECK(m.limit() == origin + 7 + slots);
    m.handles[5].borrow.store(format::nowhere);
    CHECK(m.advance());
    CHECK(m.limit() == origin + 9 + slots);
    m.handles[3].borrow.store(origin + 30);
    CHECK(m.advance());
    CHECK(m.limit() == origin + 20 + slots);
}

TEST_CASE("only handles that were ever used are looked at, however many there are now") {
    Full m;
    m.start_group(0, origin + 20);
    m.handles[6].borrow.store(origin + 4);
    m.hot[0].handles_high.store(6);
    CHECK(m.advance());
    CHECK(m.limit() == origin + 20 + slots);
    m.hot[0].handles_high.store(~std::uint64_t{0});  // damaged
    m.handles[6].borrow.store(format::nowhere);
    CHECK_FALSE(m.advance());
}

TEST_CASE("the limit never goes back, and a mark below the floor does no harm") {
    Full m;
    m.start_group(0, origin + 20);
    CHECK(m.advance());
    for (const Seq low : {origin + 19, origin, Seq{0}}) {
        m.handles[0].borrow.store(low);
        CHECK_FALSE(m.advance());
        CHECK(m.limit() == origin + 20 + slots);
    }
}

TEST_CASE("an advance that was computed before a join's pin cannot be stored after it") {
    Full m;
    m.start_group(0, origin + 20);
    // The first half of an advance: it has loaded the limit and the marks, and stops.
    std::uint64_t word = m.view.limit().load();
    const Seq next = flow::settled_floor(m.view, m.groups.all(), m.handles.all()) + slots;
    REQUIRE(next == origin + 20 + slots);
    CHECK(pin(m, 1) == origin);
    CHECK_FALSE(m.view.limit().compare_exchange_strong(word, format::pack_limit(next, 0)));
    CHECK(m.limit() == origin + slots);
    CHECK_FALSE(m.advance());  // the pin holds
    m.groups[1].cursor.store(origin + 4);
    CHECK(m.advance());
    CHECK(m.limit() == origin + 4 + slots);
    CHECK(format::limit_generation(m.view.limit().load()) == 0);
}

TEST_CASE("a join in the middle of an advance: the advance is not stored") {
    Full m;
    m.start_group(0, origin + 20);
    std::optional<Seq> start;
    const Trap trap([&] { start = pin(m, 1); });
    CHECK_FALSE(flow::advance_limit(m.view, m.groups.all(), trap.handles()));
    REQUIRE(start);
    CHECK(*start == origin);
    CHECK(m.limit() == origin + slots);
}

TEST_CASE("a deletion in the middle of an advance: what it kept is kept on") {
    Full m;
    m.start_group(0, origin + 8);
    const Trap trap([&] {
        m.hot[0].keep_from.store(flow::floor_of(m.view));
        m.groups[0].cursor.store(format::nowhere);
    });
    CHECK(flow::advance_limit(m.view, m.groups.all(), trap.handles()));
    CHECK(m.limit() == origin + 8 + slots);
}

TEST_CASE("an advance that was stored before a join's generation moves the joiner's floor, not below it") {
    Full m;
    m.start_group(0, origin + 20);
    m.groups[1].cursor.store(flow::floor_of(m.view));
    // The joiner has pinned; an advance that began before is stored now.
    std::uint64_t word = m.view.limit().load();
    REQUIRE(m.view.limit().compare_exchange_strong(word, format::pack_limit(origin + 20 + slots, 0)));
    word = m.view.limit().load();
    REQUIRE(m.view.limit().compare_exchange_strong(word, word + 1));
    CHECK(format::limit_position(word) - slots == origin + 20);  // where the group starts at the earliest
    CHECK_FALSE(m.advance());
}

TEST_CASE("joins while the ring stands still have a generation each") {
    Full m;
    m.start_group(0, origin);
    std::uint64_t stale = m.view.limit().load();
    for (std::uint64_t i = 1; i < format::join_generations; ++i) {
        CHECK(pin(m, 1) == origin);
        CHECK(format::limit_generation(m.view.limit().load()) == i);
        std::uint64_t word = stale;
        CHECK_FALSE(m.view.limit().compare_exchange_strong(word, format::pack_limit(origin + slots + 1, 0)));
        stale = m.view.limit().load();
    }
    CHECK(m.limit() == origin + slots);
    m.groups[0].cursor.store(origin + 2);
    m.groups[1].cursor.store(origin + 2);
    CHECK(m.advance());
    CHECK(m.view.limit().load() == format::pack_limit(origin + slots + 2, 0));
}

TEST_CASE("a deletion hands its hold to keep_from before it lets go") {
    Full m;
    m.start_group(0, origin + 8);
    CHECK(m.advance());
    m.hot[0].keep_from.store(flow::floor_of(m.view));
    m.groups[0].cursor.store(format::nowhere);
    CHECK_FALSE(m.advance());
    CHECK(m.limit() == origin + 8 + slots);
}

TEST_CASE("used and credit make up the capacity") {
    auto random = rng(1);
    for (int round = 0; round < 200; ++round) {
        Full m(random.below(slots + 1));
        m.start_group(0, origin + random.below(m.tail() - origin + 1));
        m.advance();
        const std::uint64_t used = m.tail() - flow::floor_of(m.view);
        const std::uint64_t credit = m.limit() - m.tail();
        CHECK(used + credit == slots);
        CHECK(used == m.tail() - m.groups[0].cursor.load());
    }
}

TEST_CASE("joins beside advances: a joined group's records are never given away") {
    // One thread settles and advances, two join at the earliest position again and again. Between a join's generation
    // and its leave the limit may not pass its start.
    RingMemory m(slots, origin);
    m.start_group(0, origin);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> wrong{0}, joins{0};
    std::thread mover([&] {
        Seq p = origin;
        while (!stop.load(std::memory_order_relaxed)) {
            // A producer and a consumer in one: everything that there is credit for is claimed and settled.
            const Seq limit = m.limit();
            p = std::max(p, limit - 1);
            m.view.tail().store(p, std::memory_order_release);
            m.groups[0].cursor.store(p, std::memory_order_release);
            m.advance();
        }
    });
    const auto join = [&](std::size_t group) {
        for (int i = 0; i < 2000; ++i) {
            if (i % 16 == 0) std::this_thread::yield();
            if (const auto start = pin(m, group)) {
                m.groups[group].cursor.store(*start, std::memory_order_release);
                for (int look = 0; look < 3; ++look) {
                    if (m.limit() > *start + slots) wrong.fetch_add(1);
                }
                joins.fetch_add(1);
            } else {
                std::this_thread::yield();
            }
            m.groups[group].cursor.store(format::nowhere, std::memory_order_release);
        }
    };
    std::thread second([&] { join(2); });
    join(1);
    second.join();
    stop.store(true);
    mover.join();
    CHECK(wrong == 0);
    CHECK(joins > 0);
}
