// The ops that most records are made of: sums, extremes, variance. And what others are made of.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "monoids/ops.hpp"

namespace sash {

// --- sums ------------------------------------------------------------------------------------------

// Exact: the result is an integer of two words, and is never too large.
struct SumIntegers : Facts {
    static constexpr Step step = Step::sum_integers;
    static constexpr size_t result_words = 2;
    struct __attribute__((packed)) State {
        __int128 sum;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {x}; }
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.sum += x; }
    static void join(const Op&, State& s, const State& o) { s.sum += o.sum; }
    static std::string outputs(const Op&) { return "I"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        std::memcpy(out, &s.sum, sizeof s.sum);
        return true;
    }
};

struct Reals : Facts {
    static constexpr bool exact = false;
    struct State {
        double value;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {real(x)}; }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        return near(a.value, b.value, tolerance);
    }
    static std::string outputs(const Op&) { return "f"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) { return *out = bits_of(s.value), true; }
};

struct SumReals : Reals {
    static constexpr Step step = Step::sum_reals;
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.value += real(x); }
    static void join(const Op&, State& s, const State& o) { s.value += o.value; }
};

// --- means -----------------------------------------------------------------------------------------

struct MeanIntegers : Facts {
    static constexpr Step step = Step::mean_integers;
    struct __attribute__((packed)) State {
        __int128 sum;
        int64_t n;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {x, 1}; }
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.sum += x, ++s.n; }
    static void join(const Op&, State& s, const State& o) { s.sum += o.sum, s.n += o.n; }
    static bool possible(const State& s) { return s.n >= 1; }
    // The nearest float; two words are converted by a function, and one by an instruction.
    static double real_of(__int128 sum) {
        int64_t word = static_cast<int64_t>(sum);
        return word == sum ? static_cast<double>(word) : static_cast<double>(sum);
    }
    static std::string outputs(const Op&) { return "f"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        return *out = bits_of(real_of(s.sum) / static_cast<double>(s.n)), true;
    }
};

struct SumAndCount : Facts {
    static constexpr bool exact = false;
    struct State {
        double sum;
        int64_t n;
    };
    static void join(const Op&, State& s, const State& o) { s.sum += o.sum, s.n += o.n; }
    static bool possible(const State& s) { return s.n >= 1; }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        return a.n == b.n && near(a.sum, b.sum, tolerance);
    }
    static std::string outputs(const Op&) { return "f"; }
};
struct MeanReals : SumAndCount {
    static constexpr Step step = Step::mean_reals;
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {real(x), 1}; }
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.sum += real(x), ++s.n; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        return *out = bits_of(s.sum / static_cast<double>(s.n)), true;
    }
};

// --- order -----------------------------------------------------------------------------------------

// Numbers as words in the same order, which the state stores.
template <bool reals>
struct Ordered : Facts {
    static int64_t key(int64_t x) { return reals ? word_of(real(x)) : x; }
    static int64_t value(int64_t word) { return reals ? bits_of(double_of(word)) : word; }
    static const char* letter() { return reals ? "f" : "i"; }
};

template <bool reals, bool largest>
struct Extreme : Ordered<reals> {
    static constexpr Step step =
        reals ? (largest ? Step::max_reals : Step::min_reals) : (largest ? Step::max_integers : Step::min_integers);
    using Base = Ordered<reals>;
    struct State {
        int64_t word;
    };
    static bool better(int64_t a, int64_t b) { return largest ? a > b : a < b; }
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {Base::key(x)}; }
    static void add(const Op& op, State& s, int64_t x, int64_t, int64_t) { join(op, s, {Base::key(x)}); }
    static void join(const Op&, State& s, const State& o) { s.word = better(o.word, s.word) ? o.word : s.word; }
    static std::string outputs(const Op&) { return Base::letter(); }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) { return *out = Base::value(s.word), true; }
};

// --- variance --------------------------------------------------------------------------------------

constexpr std::array<double, 129> step_shares() {
    std::array<double, 129> shares{};
    for (size_t i = 1; i < shares.size(); ++i) shares[i] = 1.0 / static_cast<double>(i * (i + 1));
    return shares;
}

struct Variance : Facts {
    static constexpr std::array<double, 129> shares = step_shares();
    static constexpr Step step = Step::variance;
    static constexpr bool exact = false;
    static constexpr int degree = 2;
    // Sums instead of means, as Chan, Golub and LeVeque first had it: no step then waits for the division of the last.
    // They are of differences from a value among the rows, so that rounding is relative to the spread and not to the
    // distance from zero.
    struct State {
        double n, origin, sum, m2;
    };
    // A value that is not finite makes every sum that includes it NaN.
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {1, real(x), 0, real(x) - real(x)}; }
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) {
        double value = real(x) - s.origin, t = s.n * value - s.sum;
        s = {s.n + 1, s.origin, s.sum + value, s.m2 + ((value - value) + t * (t * step_share(s.n)))};
    }
    // 1 / (n (n + 1)), from a table for the few entries of a leaf, because a division would delay each step.
    static double step_share(double n) {
        return n < static_cast<double>(shares.size()) ? shares[static_cast<size_t>(n)] : 1 / (n * (n + 1));
    }
    static void join(const Op&, State& s, const State& o) {
        double n = s.n + o.n, sum = o.sum + o.n * (o.origin - s.origin), t = s.n * sum - o.n * s.sum;
        s = {n, s.origin, s.sum + sum, s.m2 + (o.m2 + t * (t / (s.n * o.n * n)))};
    }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        double sum = b.sum + b.n * (b.origin - a.origin);
        // Of values that are not finite the first may be the origin of one and not of the other.
        bool lost = std::isnan(a.m2) && std::isnan(b.m2);
        return a.n == b.n && (lost || (near(a.sum, sum, std::sqrt(tolerance) * a.n) && near(a.m2, b.m2, tolerance)));
    }
    static bool possible(const State& s) { return is_count(s.n); }  // step_share looks it up
    static std::string outputs(const Op&) { return "f"; }
    static bool lower(const Op& op, const State& s, const Span&, int64_t* out) {
        double ddof = op.parameters[0], variance = s.m2 / (s.n - ddof);
        *out = bits_of(op.parameters[1] != 0 ? std::sqrt(variance) : variance);
        return s.n > ddof;
    }
};
// Of many rounds (ops_variance.cpp).
void rounds_of_variance(const Op&, const int64_t* x, const int64_t* y, const RecordRounds&, int64_t* const* columns,
                        uint8_t* there);

}  // namespace sash
