// Loops that only measure: the paper's rounds with answers that stay in the core.
//
// They undo nothing, so that nothing may fail half way, and are compiled for what the figures measure alone.
// `rows.time(i)` and `rows.entry(i, time)` are those of a row.
#pragma once

#include <chrono>

#include "engine/engine.hpp"
#include "monoids/natives.hpp"

namespace sash {

template <class Time, class Monoid>
inline constexpr bool is_measured =
    std::is_same_v<Time, int64_t> && is_one_of<Monoid>(static_cast<MeasuredMonoids*>(nullptr));

namespace measure {

[[noreturn]] inline void fail_unmeasured() {
    fail(ErrorKind::unsupported,
         "monoid must be a native sum of ints, geomean or bloom, with int times, to be measured.", "monoid");
}

// A result that nothing reads must still be computed.
template <class S>
void ask(S& structure) {
    auto agg = structure.query();
    asm volatile("" : : "r"(&agg) : "memory");
}

template <class S>
void ask_from(S& structure, int64_t start) {
    if constexpr (S::ranges) {
        typename S::Agg agg;
        Range<int64_t> range;
        range.start = start;
        structure.query(range, agg);
        asm volatile("" : : "r"(&agg) : "memory");
    } else {
        fail(ErrorKind::unsupported, std::string("starts must be empty: ") + S::name + " has no range queries.",
             "starts");
    }
}

template <class Rows, class S>
void take(const Rows& rows, S& structure, size_t row, size_t count) {
    while (structure.size() >= count) structure.evict_oldest();
    int64_t time = rows.time(row);
    structure.insert(time, rows.entry(row, time));
}

// Each round by the clock: nanoseconds of the round and of its query.
template <class Rows, class S>
void time_rounds(const Rows& rows, S& structure, const Slide& slide, int64_t* rounds_ns, int64_t* queries_ns) {
    using Clock = std::chrono::steady_clock;
    auto since = [](Clock::time_point a, Clock::time_point b) {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(b - a).count();
    };
    for (size_t row = 0; row < slide.times.size; ++row) {
        auto start = Clock::now();
        take(rows, structure, row, slide.count);
        auto asked = Clock::now();
        ask(structure);
        auto end = Clock::now();
        rounds_ns[row] = since(start, end);
        queries_ns[row] = since(asked, end);
    }
}

// As slide() does, the structure runs many rounds at once where it can, if nothing else is asked for.
template <class Rows, class S>
void run_alone(const Rows& rows, S& structure, const Rounds& rounds, size_t& row) {
    if constexpr (S::runs) {
        if (structure.size() != rounds.count || rounds.starts.size) return;
        auto use = [](size_t, const typename S::Agg& agg) { asm volatile("" : : "m"(agg)); };
        structure.run(rows, row, rounds.times.size, use);
    }
}

template <class Rows, class S>
void run_rounds(const Rows& rows, S& structure, const Rounds& rounds, S* twin) {
    for (size_t row = 0; row < rounds.times.size; ++row) {
        if (!twin) run_alone(rows, structure, rounds, row);
        if (row == rounds.times.size) break;
        take(rows, structure, row, rounds.count);
        ask(structure);
        if (rounds.starts.size) ask_from(structure, rounds.starts.words[row]);
        if (!twin) continue;
        take(rows, *twin, row, rounds.twin_count);
        ask(*twin);
    }
}

}  // namespace measure
}  // namespace sash
