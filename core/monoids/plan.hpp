// A plan: how rows are folded into a record, and a record is lowered to a result. It is built once from a Python
// monoid's layout and the kinds of its columns, and shared by all its records.
#pragma once

#include "base/time.hpp"
#include "monoids/ops.hpp"

namespace sash {

class Plan;

// The output of a slide over records: a column for each word of a result, and for each part whether it is not null.
// Small records are collected and lowered together.
class RecordOutput {
   public:
    int64_t* words = nullptr;
    uint8_t* there = nullptr;
    size_t rows = 0;
    const uint32_t* places = nullptr;  // where each row goes; null: where it is
    int64_t min_rows = 0;              // records of fewer rows have no results

    int64_t* slot(const Plan& plan, size_t row, uint32_t size) {
        if (count_ == kMost || count_ == 0 || row != first_ + count_) start(plan, row, size);
        return records_.data() + count_++ * size;
    }
    // Whether rows can be written without being collected.
    bool takes_columns() const { return !places && !min_rows; }
    void flush();
    void row(const Plan& plan, size_t at, std::vector<int64_t>& into) const;  // all words of a row, and what is there
    void clear_row(const Plan& plan, size_t at);                              // nothing is there

   private:
    void start(const Plan& plan, size_t row, uint32_t size);
    void scatter();
    void store(RecordOutput& out, size_t row) const;

    static constexpr size_t kMost = 64;
    const Plan* plan_ = nullptr;
    std::vector<int64_t> records_, scratch_;
    std::vector<uint8_t> scratch_there_;
    size_t first_ = 0, count_ = 0;
    uint32_t size_ = 0;
};

class Plan {
   public:
    // `kinds` names those of the inputs, "(int64,float64,hash)".
    Plan(PyObject* monoid, const std::string& kinds, const TimeFormat& format);
    Plan(const Plan&) = delete;

    // --- records ------------------------------------------------------------------------------------

    uint32_t words() const { return words_; }  // of a record
    uint32_t width() const { return width_; }  // of a row
    bool timed() const { return timed_; }
    bool regroups() const { return regroups_; }  // can records be compared that were grouped otherwise?
    uint32_t time_at() const { return width_ - 1; }
    bool commutes() const { return commutes_; }

    // The words of a record that are in use, and those that one of so many rows may need.
    bool trims() const { return trimmed_ != nullptr; }
    uint32_t used(const int64_t* record) const {
        if (!trimmed_) return words_;
        bool some = static_cast<uint64_t>(record[kSeen]) & trimmed_->bit;
        return trimmed_->offset + (some ? trimmed_->table->used(*trimmed_, record + trimmed_->offset) : 0);
    }
    uint32_t room(uint64_t rows) const {
        return trimmed_ ? trimmed_->offset + trimmed_->table->room(*trimmed_, rows) : words_;
    }
    void copy(const int64_t* from, int64_t* to) const { std::memcpy(to, from, used(from) * sizeof(int64_t)); }

    static void clear(int64_t* record) { record[kSeen] = record[kRows] = 0; }

    // Rows without nulls.
    void fold(int64_t* record, const Rows& rows, size_t count) const {
        uint64_t seen = static_cast<uint64_t>(record[kSeen]);
        record[kRows] += static_cast<int64_t>(count);
        if (seen == all_) {
            if (count == 1) return fold_ops(active_, record, rows.words);
            return fold_ops(active_, record, rows, count);
        }
        record[kSeen] = static_cast<int64_t>(all_);
        for (const Op& op : active_) {
            if (seen & op.bit) {
                op.fold(op, record + op.offset, rows, count);
            } else {
                op.table->set(op, record + op.offset, rows);
                if (count > 1) op.fold(op, record + op.offset, rows.from(1), count - 1);
            }
        }
    }
    void fold_nulls(int64_t* record, const int64_t* row, uint64_t nulls) const;

    // record = first (x) others, for a record that was empty before
    void join_into(int64_t* record, const int64_t* first, const int64_t* others, size_t stride, size_t count) const {
        uint64_t seen = static_cast<uint64_t>(first[kSeen]);
        int64_t rows = first[kRows];
        for (size_t i = 0; i < count; ++i) {
            seen &= static_cast<uint64_t>(others[i * stride + kSeen]);
            rows += others[i * stride + kRows];
        }
        if (seen != all_) {
            copy(first, record);
            return join_some(record, others, stride, count);
        }
        record[kSeen] = static_cast<int64_t>(seen);
        record[kRows] = rows;
        join_ops_into(active_, record, first, others, stride, count);
    }
    void join(int64_t* record, const int64_t* others, size_t stride, size_t count) const {
        uint64_t seen = static_cast<uint64_t>(record[kSeen]);
        int64_t rows = record[kRows];
        for (size_t i = 0; i < count; ++i) {
            seen &= static_cast<uint64_t>(others[i * stride + kSeen]);
            rows += others[i * stride + kRows];
        }
        if (seen != all_) return join_some(record, others, stride, count);
        record[kRows] = rows;
        join_ops(active_, record, others, stride, count);
    }
    // Each of the records before the last becomes that of its row and all later ones; nothing is null, and it commutes.
    void scan_back(const Rows& rows, const MutableRecords& records) const {
        const int64_t* last = records.words + records.count * records.stride;
        for (size_t i = records.count; i-- > 0;) {
            int64_t* record = records.words + i * records.stride;
            record[kSeen] = static_cast<int64_t>(all_);
            record[kRows] = last[kRows] + static_cast<int64_t>(records.count - i);
        }
        for (const Op& op : active_) op.table->scan_back(op, rows, records);
    }
    // Whether many rounds can be run in one go, and the results of as many from `row` on, whose words are in `values`.
    bool runs() const { return runs_; }
    void run(const RecordRounds& rounds, const Column& values, size_t row, RecordOutput& out) const;
    bool saw_all(const int64_t* record) const { return static_cast<uint64_t>(record[kSeen]) == all_; }
    void prepend(const int64_t* other, int64_t* record) const;

    // Whether two records are the same, but for what rounding in another order may do to rows up to this large.
    bool same(const int64_t* a, const int64_t* b, double largest) const;
    bool sound(const int64_t* record) const;  // could it be that of some rows?
    bool sound_nulls(uint64_t nulls) const;   // could a row have these?
    // Its one form: equal records have the same words. How many rows it is of may not matter.
    std::vector<int64_t> tidied(const int64_t* record, bool rows) const;

    // --- rows ---------------------------------------------------------------------------------------

    // A row of words from a Python value; the nulls among them as bits.
    uint64_t read(PyObject* value, int64_t* row) const;
    double size_of(const int64_t* row, uint64_t nulls) const;  // its largest float

    // --- results ------------------------------------------------------------------------------------

    bool plain() const { return plain_; }  // are all results words?
    size_t result_words() const { return result_words_; }
    int64_t shown_word(size_t j, int64_t word) const;                        // equal where results look equal
    bool overflows(size_t part, const int64_t* words, size_t stride) const;  // is a part's result out of range?
    bool is_list(size_t part) const { return faces_[part].outputs.shape == Outputs::Shape::list; }
    // The step of a plan of one common op, whose records have no nulls; otherwise other.
    Step alone() const { return ops_.size() == 1 && !nullable_ ? ops_[0].step : Step::other; }
    size_t parts() const { return ops_.size(); }
    const std::vector<Op>& ops() const { return ops_; }
    void store(const Records& records, RecordOutput& out, size_t row) const;
    void store(const int64_t* record, const Span& span, RecordOutput& out, size_t row) const;
    Ref result(const int64_t* record, const Span& span) const;
    Ref result_kinds() const;  // for each part a string of kinds
    Ref empty(const Ref& start, const Ref& stop) const;

   private:
    void add_real_results(const Outputs& outputs);
    static constexpr int64_t kMostRows = int64_t{1} << 48;  // of one time, in a state that is read
    struct Input {
        Ref where;  // the name of a column, or a position in the value
        char kind;  // i f h; t a truth, a anything
    };
    // What a part looks like to the user.
    struct Face {
        Ref name, finish;
        bool fields;
        Outputs outputs;
        size_t words;  // of its outputs
    };

    Op op_of(PyObject* part, const std::string& name, const TimeFormat& format) const;
    void add_part(PyObject* part, const TimeFormat& format);
    void place_states();
    void join_some(int64_t* record, const int64_t* others, size_t stride, size_t count) const;
    bool lower(const Op& op, const int64_t* record, const Span& span, int64_t* out) const;
    Ref value_of(const Face& face, const int64_t* out) const;
    int64_t word_of_input(const Input& input, PyObject* value) const;
    Ref item_of(PyObject* value, size_t i) const;
    void require_shape(PyObject* value) const;

    PyObject*
        monoid_;  // the window's own, which outlives this; one more reference would hide cycles from the collector
    std::vector<Input> inputs_;
    std::vector<Op> ops_, active_;  // all of them; those with a state
    std::vector<Face> faces_;
    const Op* trimmed_ = nullptr;  // the last op of a record, if its state may be smaller than its room
    uint64_t all_ = 0;
    uint32_t words_ = kHeader, width_ = 0;
    size_t most_words_ = 0, result_words_ = 0;
    std::vector<bool> real_results_;  // by word
    bool timed_ = false, regroups_ = true, commutes_ = true, plain_ = true, counts_rows_ = false;
    bool runs_ = true;
    bool named_ = false, nullable_ = false, structured_ = false;
    size_t arity_ = 1;  // of a value that is read by position
};

}  // namespace sash
