#include "monoids/ops_common.hpp"

#include "keyed/sliding.hpp"

namespace sash {

namespace {

OpTable variance() {
    OpTable table = table_of<Variance>("variance", "f");
    table.rounds = rounds_of_variance;
    return table;
}

}  // namespace

const std::vector<OpTable>& common_ops() {
    static const std::vector<OpTable> tables = {
        table_of<SumIntegers>("sum", "i"),
        table_of<SumReals>("sum", "f"),
        table_of<Extreme<false, false>>("min", "i"),
        table_of<Extreme<true, false>>("min", "f"),
        table_of<Extreme<false, true>>("max", "i"),
        table_of<Extreme<true, true>>("max", "f"),
        table_of<MeanIntegers>("mean", "i"),
        table_of<MeanReals>("mean", "f"),
        variance(),
    };
    return tables;
}

namespace {

// Calls run<T>() for the common ops; returns false for all others.
template <class Run>
bool with_steps(Step step, Run&& run) {
    switch (step) {
        case Step::sum_integers: return run(SmallOp<SumIntegers>()), true;
        case Step::sum_reals: return run(SmallOp<SumReals>()), true;
        case Step::min_integers: return run(SmallOp<Extreme<false, false>>()), true;
        case Step::min_reals: return run(SmallOp<Extreme<true, false>>()), true;
        case Step::max_integers: return run(SmallOp<Extreme<false, true>>()), true;
        case Step::max_reals: return run(SmallOp<Extreme<true, true>>()), true;
        case Step::mean_integers: return run(SmallOp<MeanIntegers>()), true;
        case Step::mean_reals: return run(SmallOp<MeanReals>()), true;
        case Step::variance: return run(SmallOp<Variance>()), true;
        default: return false;
    }
}

// The states of one op along a column of words, which may lie in another order.
template <class T>
class ColumnStates {
   public:
    using State = typename T::State;
    ColumnStates(const Op& op, const int64_t* words, const uint32_t* order, const uint32_t* places,
                 int64_t* const* columns, uint8_t* there)
        : op_(op), words_(words), order_(order), places_(places), columns_(columns), there_(there) {}

    void restart(size_t) { some_ = false; }
    void feed(size_t from, size_t to) {
        if (!some_) back_ = at(from++), some_ = true;
        for (; from < to; ++from) T::add(op_, back_, word(from), 0, 0);
    }
    void flip(size_t from, size_t to) {
        front_from_ = from;
        front_.resize(to - from);
        for (size_t row = to; row-- > from;) {
            State state = at(row);
            if (row + 1 < to) T::join(op_, state, front_[row + 1 - from]);
            front_[row - from] = state;
        }
        some_ = false;
    }
    void answer(size_t k, size_t from, bool back) {
        State state = front_[from - front_from_];
        if (back) T::join(op_, state, back_);
        put(k, state);
    }
    void answer_back(size_t k) { put(k, back_); }
    void answer_none(size_t k) {
        size_t place = place_of(k);
        there_[place] = 0;
        for (size_t j = 0; j < T::result_words; ++j) columns_[j][place] = 0;
    }

   private:
    int64_t word(size_t row) const { return words_[order_ ? order_[row] : row]; }
    size_t place_of(size_t k) const { return places_ ? places_[k] : k; }
    State at(size_t row) const { return T::of(op_, word(row), 0, 0); }
    void put(size_t k, const State& state) {
        int64_t out[T::result_words] = {};
        size_t place = place_of(k);
        there_[place] = T::lower(op_, state, {}, out);
        for (size_t j = 0; j < T::result_words; ++j) columns_[j][place] = out[j];
    }

    const Op& op_;
    const int64_t* words_;
    const uint32_t* order_;
    const uint32_t* places_;
    int64_t* const* columns_;
    uint8_t* there_;
    std::vector<State> front_;
    State back_{};
    bool some_ = false;
    size_t front_from_ = 0;
};

template <class T>
void slide_rows(SmallOp<T>, const Op& op, const int64_t* words, const uint32_t* order, const Frames& frames,
                const uint32_t* places, int64_t* const* columns, uint8_t* there) {
    ColumnStates<T> states(op, words, order, places, columns, there);
    SlidingPass<ColumnStates<T>> pass(states);
    for (size_t k = 0; k < frames.count; ++k) pass.answer(k, frames.from[k], frames.to[k]);
}

}  // namespace

bool slide_common(const Op& op, const int64_t* words, const uint32_t* order, const Frames& frames,
                  const uint32_t* places, int64_t* const* columns, uint8_t* there) {
    return with_steps(op.step,
                      [&](auto steps) { slide_rows(steps, op, words, order, frames, places, columns, there); });
}

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
        copy_state(op, state, at);
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
