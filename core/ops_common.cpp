#include "ops_common.hpp"

#include "sorted.hpp"

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

// Two stacks: suffixes of the older rows, and one running state of the newer ones.
template <class T>
class Sliding {
   public:
    using State = typename T::State;
    Sliding(const Op& op, const int64_t* words, const uint32_t* order) : op_(op), words_(words), order_(order) {}

    // The state of rows from `from` to `to`, which is not empty.
    State answer(uint32_t from, uint32_t to) {
        if (from >= fed_) {
            fed_ = middle_ = from;
            some_ = false;
        }
        for (; fed_ < to; ++fed_) feed();
        if (from > middle_) flip(from);
        if (from == middle_) return back_;
        State state = front_[from - front_from_];
        if (some_) T::join(op_, state, back_);
        return state;
    }

   private:
    State at(uint32_t row) const { return T::of(op_, words_[order_ ? order_[row] : row], 0, 0); }
    void feed() {
        if (some_)
            T::add(op_, back_, words_[order_ ? order_[fed_] : fed_], 0, 0);
        else
            back_ = at(fed_), some_ = true;
    }
    void flip(uint32_t from) {
        front_from_ = from;
        middle_ = fed_;
        front_.resize(middle_ - from);
        for (uint32_t row = middle_; row-- > from;) {
            State state = at(row);
            if (row + 1 < middle_) T::join(op_, state, front_[row + 1 - from]);
            front_[row - from] = state;
        }
        some_ = false;
    }

    const Op& op_;
    const int64_t* words_;
    const uint32_t* order_;
    std::vector<State> front_;
    State back_{};
    bool some_ = false;
    uint32_t front_from_ = 0, middle_ = 0, fed_ = 0;
};

template <class T>
void slide_rows(SmallOp<T>, const Op& op, const int64_t* words, const uint32_t* order, const Stretches& stretches,
                int64_t* const* columns, uint8_t* there) {
    Sliding<T> sliding(op, words, order);
    for (size_t k = 0; k < stretches.count; ++k) {
        int64_t out[T::result_words] = {};
        size_t place = order ? order[k] : k;
        uint32_t from = stretches.from[k], to = stretches.to[k];
        there[place] = from < to && T::lower(op, sliding.answer(from, to), {}, out);
        for (size_t j = 0; j < T::result_words; ++j) columns[j][place] = out[j];
    }
}

}  // namespace

bool slide_common(const Op& op, const int64_t* words, const uint32_t* order, const Stretches& stretches,
                  int64_t* const* columns, uint8_t* there) {
    return with_steps(op.step, [&](auto steps) { slide_rows(steps, op, words, order, stretches, columns, there); });
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
