#include "ops_common.hpp"

namespace sash {

const std::vector<OpTable>& common_ops() {
    static const std::vector<OpTable> tables = {
        table_of<SumIntegers>("sum", "i"),           table_of<SumReals>("sum", "f"),
        table_of<Extreme<false, false>>("min", "i"), table_of<Extreme<true, false>>("min", "f"),
        table_of<Extreme<false, true>>("max", "i"),  table_of<Extreme<true, true>>("max", "f"),
        table_of<Variance>("variance", "f"),
    };
    return tables;
}

namespace {

// Calls run<T>() for an op that is known here; false for all others.
template <class Run>
bool with_steps(Step step, Run&& run) {
    switch (step) {
        case Step::sum_integers: return run(SmallOp<SumIntegers>()), true;
        case Step::sum_reals: return run(SmallOp<SumReals>()), true;
        case Step::min_integers: return run(SmallOp<Extreme<false, false>>()), true;
        case Step::min_reals: return run(SmallOp<Extreme<true, false>>()), true;
        case Step::max_integers: return run(SmallOp<Extreme<false, true>>()), true;
        case Step::max_reals: return run(SmallOp<Extreme<true, true>>()), true;
        case Step::variance: return run(SmallOp<Variance>()), true;
        default: return false;
    }
}

}  // namespace

void fold_ops(const std::vector<Op>& ops, int64_t* record, const Rows& rows, size_t count) {
    for (const Op& op : ops) {
        bool known = with_steps(op.step, [&](auto steps) { steps.fold(op, record + op.offset, rows, count); });
        if (!known) op.fold(op, record + op.offset, rows, count);
    }
}

void fold_ops(const std::vector<Op>& ops, int64_t* record, const int64_t* row) {
    for (const Op& op : ops) {
        bool known = with_steps(op.step, [&](auto steps) { steps.fold_one(op, record + op.offset, row); });
        if (!known) op.fold(op, record + op.offset, {row, 0}, 1);
    }
}

void join_ops_into(const std::vector<Op>& ops, int64_t* record, const int64_t* first, const int64_t* others,
                   size_t stride, size_t count) {
    for (const Op& op : ops) {
        const int64_t *state = first + op.offset, *states = others + op.offset;
        int64_t* at = record + op.offset;
        bool known = with_steps(op.step, [&](auto steps) { steps.join_into(op, at, state, states, stride, count); });
        if (known) continue;
        std::copy(state, state + op.words, at);
        op.join(op, at, states, stride, count);
    }
}

void join_ops(const std::vector<Op>& ops, int64_t* record, const int64_t* others, size_t stride, size_t count) {
    for (const Op& op : ops) {
        const int64_t* states = others + op.offset;
        bool known =
            with_steps(op.step, [&](auto steps) { steps.join(op, record + op.offset, states, stride, count); });
        if (!known) op.join(op, record + op.offset, states, stride, count);
    }
}

}  // namespace sash
