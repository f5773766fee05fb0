// One sliding pass over rows in order: two stacks, written once for tables and for streams.
//
// Windows are [from, to) in positions of rows, neither of which ever goes back. Older rows are kept as suffixes, one state
// for each row at which a window may still start; newer ones as one running state. A pass costs O(1) combines for each row
// that enters or leaves. `States` says what the rows are and how states are combined:
//   restart(from)            nothing is kept
//   feed(from, to)           these rows join the running state
//   flip(from, to)           suffixes of these rows, and nothing running
//   answer(k, from, back)    the result of window k: the suffix at `from`, with the running state behind it where `back`
//   answer_back(k)           the running state alone
//   answer_none(k)           nothing
#pragma once

#include <cstddef>

namespace sash {

template <class States>
class SlidingPass {
   public:
    explicit SlidingPass(States& states) : states_(states) {}

    // Suffixes of all rows up to `upto` stand already; each of them reaches up to row `to`.
    void begin(size_t upto, size_t to) {
        front_end_ = upto + 1;
        middle_ = fed_ = to;
    }

    void answer(size_t k, size_t from, size_t to) {
        if (from >= to) return states_.answer_none(k);
        if (from >= fed_) {
            states_.restart(from);
            front_end_ = middle_ = fed_ = from;
        }
        if (fed_ < to) {
            states_.feed(fed_, to);
            fed_ = to;
        }
        if (from >= front_end_ && from != middle_) {
            states_.flip(from, fed_);
            front_end_ = middle_ = fed_;
        }
        if (from < front_end_)
            states_.answer(k, from, middle_ < fed_);
        else
            states_.answer_back(k);
    }

   private:
    States& states_;
    size_t front_end_ = 0;         // rows before it have a suffix
    size_t middle_ = 0, fed_ = 0;  // where suffixes end, and the running state
};

}  // namespace sash
