// The records of a sliding pass: suffixes of the rows that windows start in, and one running record.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "keyed/rows.hpp"
#include "keyed/sliding.hpp"

namespace sash {

inline constexpr size_t kMostSuffixes = size_t{1} << 26;  // bytes of a pass

// Rows that lie side by side.
struct Block {
    const int64_t* row;
    size_t count;
};

// Records along rows: suffixes, and one that is running. `Emit(k)` is where the record of window k is wanted.
template <class Source, class Emit>
class RecordStates {
   public:
    RecordStates(const Plan& plan, const RowShape& shape, RowAlgebra& algebra, Source source, Emit emit)
        : plan_(plan),
          shape_(shape),
          algebra_(algebra),
          source_(std::move(source)),
          emit_(std::move(emit)),
          words_(plan.words()),
          back_(words_) {
        Plan::clear(back_.data());
    }

    void restart(size_t) { Plan::clear(back_.data()); }
    void feed(size_t from, size_t to) {
        algebra_.combines += to - from;
        source_.feed(from, to, [&](const int64_t* row, size_t count) { algebra_.fold(back_.data(), row, count); });
    }
    void flip(size_t from, size_t to) {
        make_suffixes(from, to, nullptr);
        Plan::clear(back_.data());
    }
    // Suffixes of the rows [from, to), and one more: each reaches to the end of a record that covers what follows them.
    void make_suffixes(size_t from, size_t to, const int64_t* following) {
        front_from_ = from;
        make_room((to - from + 1) * words_);
        int64_t* later = front_.get() + (to - from) * words_;
        Plan::clear(later);
        if (following) plan_.copy(following, later);
        blocks_.clear();
        source_.collect(from, to, blocks_);
        algebra_.combines += to - from;
        for (size_t i = blocks_.size(); i-- > 0; later -= blocks_[i].count * words_) scan(blocks_[i], later);
    }

    void answer(size_t k, size_t from, bool back) {
        int64_t* record = emit_.room(k);
        const int64_t* front = front_.get() + (from - front_from_) * words_;
        if (back) {
            ++algebra_.combines;
            plan_.join_into(record, front, back_.data(), 0, 1);
        } else {
            plan_.copy(front, record);
        }
        emit_.put(k, record);
    }
    void answer_back(size_t k) {
        int64_t* record = emit_.room(k);
        plan_.copy(back_.data(), record);
        emit_.put(k, record);
    }
    void answer_none(size_t k) {
        int64_t* record = emit_.room(k);
        Plan::clear(record);
        emit_.put(k, record);
    }

   private:
    // Not cleared: of a large record little may be in use.
    void make_room(size_t words) {
        if (words <= room_) return;
        room_ = std::max(words, 2 * room_);
        front_.reset(new int64_t[room_]);
    }
    // The suffixes of a block's rows, before the one that stands at `later`: all at once where order does not matter and
    // nothing is null.
    void scan(const Block& block, int64_t* later) {
        size_t count = block.count;
        if (count && !later[kRows]) {
            one(block.row + (count - 1) * shape_.stride, later - words_, later);
            later -= words_;
            --count;
        }
        if (count && is_plain(block.row, count) && plan_.saw_all(later)) {
            plan_.scan_back({block.row + shape_.inputs_at, shape_.stride}, {later - count * words_, words_, count});
            return;
        }
        for (; count-- > 0; later -= words_) one(block.row + count * shape_.stride, later - words_, later);
    }
    void one(const int64_t* row, int64_t* record, const int64_t* later) {
        Plan::clear(record);
        algebra_.fold(record, row, 1);
        if (later[kRows]) plan_.join(record, later, 0, 1);
    }
    bool is_plain(const int64_t* row, size_t count) const {
        if (!plan_.commutes() || shape_.merged) return false;
        for (size_t i = 0; i < count; ++i)
            if (shape_.nulls_of(row + i * shape_.stride)) return false;
        return true;
    }

    const Plan& plan_;
    const RowShape& shape_;
    RowAlgebra& algebra_;
    Source source_;
    Emit emit_;
    size_t words_;
    std::unique_ptr<int64_t[]> front_;
    size_t room_ = 0;
    std::vector<int64_t> back_;
    std::vector<Block> blocks_;
    size_t front_from_ = 0;
};

}  // namespace sash
