// Many rounds of variance in one go, column by column, so that the divisions of several rounds run at once.
//
// The steps are those of Variance, in the same order: results are the same to the last bit. (So this file is compiled
// without fused multiplications, which would round otherwise.)
#include "base/hints.hpp"
#include "monoids/ops_common.hpp"

namespace sash {

namespace {

constexpr size_t kMost = 64;

struct States {
    double n[kMost], origin[kMost], sum[kMost], m2[kMost];
};

// The states of a total to which rows are added: each has one row more, and all have the same origin.
struct Totals {
    double n, origin;                      // before the first row
    double sum[kMost + 1], m2[kMost + 1];  // before each row, and after the last

    Variance::State at(size_t i) const { return {n + static_cast<double>(i), origin, sum[i], m2[i]}; }
};

// What each row adds to m2; Variance::add has the same in one step.
SASH_WIDE void shares_of(const int64_t* x, const Totals& totals, size_t count, double* shares) {
    for (size_t i = 0; i < count; ++i) {
        double n = totals.n + static_cast<double>(static_cast<int32_t>(i)), value = real(x[i]) - totals.origin;
        double t = n * value - totals.sum[i];
        shares[i] = (value - value) + t * (t * (1 / (n * (n + 1))));
    }
}

// Sums go from row to row; all else is computed side by side.
void add_rows(const Variance::State& total, const int64_t* x, size_t count, Totals& totals) {
    double shares[kMost] = {}, sum = total.sum, m2 = total.m2;
    totals.n = total.n;
    totals.origin = total.origin;
    totals.sum[0] = sum;
    totals.m2[0] = m2;
    for (size_t i = 0; i < count; ++i) totals.sum[i + 1] = sum += real(x[i]) - total.origin;
    shares_of(x, totals, count, shares);
    for (size_t i = 0; i < count; ++i) totals.m2[i + 1] = m2 += shares[i];
}

Variance::State state_at(const int64_t* words) { return SmallOp<Variance>::load(words); }

void gather(States& states, const int64_t* words, size_t stride, size_t count) {
    for (size_t i = 0; i < count; ++i, words += stride) {
        Variance::State state = state_at(words);
        states.n[i] = state.n;
        states.origin[i] = state.origin;
        states.sum[i] = state.sum;
        states.m2[i] = state.m2;
    }
}

// Variance::join of one state.
inline void join_at(States& states, size_t i, double n, double origin, double sum, double m2) {
    double mine = states.n[i], all = mine + n, moved = sum + n * (origin - states.origin[i]);
    double t = mine * moved - n * states.sum[i];
    states.n[i] = all;
    states.sum[i] += moved;
    states.m2[i] += m2 + t * (t / (mine * n * all));
}
SASH_WIDE void join_one(States& states, const Variance::State& other, size_t count) {
    const double n = other.n, origin = other.origin, sum = other.sum, m2 = other.m2;
    for (size_t i = 0; i < count; ++i) join_at(states, i, n, origin, sum, m2);
}
SASH_WIDE void join_totals(States& states, const Totals& totals, size_t count) {
    const double n = totals.n, origin = totals.origin;
    for (size_t i = 0; i < count; ++i) {
        double rows = n + static_cast<double>(static_cast<int32_t>(i + 1));
        join_at(states, i, rows, origin, totals.sum[i + 1], totals.m2[i + 1]);
    }
}

SASH_WIDE void lower_all(const States& states, double ddof, bool root, size_t count, double* results, uint8_t* there) {
    for (size_t i = 0; i < count; ++i) results[i] = states.m2[i] / (states.n[i] - ddof);
    if (root)
        for (size_t i = 0; i < count; ++i) results[i] = std::sqrt(results[i]);
    for (size_t i = 0; i < count; ++i) there[i] = states.n[i] > ddof;
}

}  // namespace

void rounds_of_variance(const Op& op, const int64_t* x, const int64_t*, const RecordRounds& rounds,
                        int64_t* const* columns, uint8_t* there) {
    Variance::State total = state_at(rounds.total + op.offset);
    States states;
    Totals totals;
    const Records& suffixes = rounds.suffixes;
    for (size_t done = 0, count; done < suffixes.count; done += count) {
        count = std::min(kMost, suffixes.count - done);
        gather(states, suffixes.words + done * suffixes.stride + op.offset, suffixes.stride, count);
        if (rounds.middle) join_one(states, state_at(rounds.middle + op.offset), count);
        add_rows(total, x + done, count, totals);
        join_totals(states, totals, count);
        double* results = reinterpret_cast<double*>(columns[0] + done);
        lower_all(states, op.parameters[0], op.parameters[1] != 0, count, results, there + done);
        total = totals.at(count);
    }
    SmallOp<Variance>::store(rounds.total + op.offset, total);
}

}  // namespace sash
