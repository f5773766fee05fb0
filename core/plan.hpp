// A plan: how the rows of a window become a record, and a record a result. Made once from a Python monoid's parts and
// the kinds of its columns; shared by every record that follows it.
#pragma once

#include "ops.hpp"
#include "time.hpp"

namespace sash {

class Plan {
   public:
    // `kinds` names those of the inputs, "(int64,float64,hash)".
    Plan(PyObject* monoid, const std::string& kinds, const TimeFormat& format);

    // --- records ------------------------------------------------------------------------------------

    uint32_t words() const { return words_; }  // of a record
    uint32_t width() const { return width_; }  // of a row
    bool timed() const { return timed_; }
    uint32_t time_at() const { return width_ - 1; }
    bool commutes() const { return commutes_; }

    static void clear(int64_t* record) { record[kSeen] = record[kRows] = 0; }

    // Rows of which nothing is null.
    void fold(int64_t* record, const Rows& rows, size_t count) const {
        uint64_t seen = static_cast<uint64_t>(record[kSeen]);
        record[kRows] += static_cast<int64_t>(count);
        record[kSeen] = static_cast<int64_t>(all_);
        for (const Op& op : ops_) {
            if (seen & op.bit) {
                op.table->fold(op, record + op.offset, rows, count);
            } else {
                op.table->set(op, record + op.offset, rows);
                if (count > 1) op.table->fold(op, record + op.offset, rows.from(1), count - 1);
            }
        }
    }
    void fold_nulls(int64_t* record, const int64_t* row, uint64_t nulls) const;

    void join(int64_t* record, const int64_t* others, size_t stride, size_t count) const {
        uint64_t seen = static_cast<uint64_t>(record[kSeen]);
        int64_t rows = record[kRows];
        for (size_t i = 0; i < count; ++i) {
            seen &= static_cast<uint64_t>(others[i * stride + kSeen]);
            rows += others[i * stride + kRows];
        }
        if (seen != all_) return join_some(record, others, stride, count);
        record[kRows] = rows;
        for (const Op& op : ops_) op.table->join(op, record + op.offset, others + op.offset, stride, count);
    }
    void prepend(const int64_t* other, int64_t* record) const;

    // Whether two records are the same, but for what rounding in another order may do to rows up to this large.
    bool same(const int64_t* a, const int64_t* b, double largest) const;
    bool sound(const int64_t* record) const;  // could it be that of some rows?
    // Its one form: equal records have the same words. How many rows it is of may not matter.
    std::vector<int64_t> tidied(const int64_t* record, bool rows) const;

    // --- rows ---------------------------------------------------------------------------------------

    // A row of words from a Python value; the nulls among them as bits.
    uint64_t read(PyObject* value, int64_t* row) const;
    double size_of(const int64_t* row, uint64_t nulls) const;  // its largest float

    // --- results ------------------------------------------------------------------------------------

    bool plain() const { return plain_; }             // are all results words?
    size_t result_words() const { return results_; }  // of a row of results: for each part, is it there, and its words
    void store(int64_t* out, const int64_t* record, const Span& span) const;
    Ref result(const int64_t* record, const Span& span) const;
    Ref result_kinds() const;  // for each part a string of kinds
    Ref empty(const Ref& start, const Ref& stop) const;

   private:
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

    void add_part(PyObject* part, const TimeFormat& format);
    void join_some(int64_t* record, const int64_t* others, size_t stride, size_t count) const;
    bool lower(const Op& op, const int64_t* record, const Span& span, int64_t* out) const;
    Ref value_of(const Face& face, const int64_t* out) const;
    int64_t word_of_input(const Input& input, PyObject* value) const;
    Ref item_of(PyObject* value, size_t i) const;
    void require_shape(PyObject* value) const;

    Ref monoid_;
    std::vector<Input> inputs_;
    std::vector<Op> ops_;
    std::vector<Face> faces_;
    uint64_t all_ = 0;
    uint32_t words_ = kHeader, width_ = 0;
    size_t results_ = 0, most_words_ = 0;
    bool timed_ = false, commutes_ = true, plain_ = true, counts_rows_ = false;
    bool named_ = false, nullable_ = false, structured_ = false;
    size_t arity_ = 1;  // of a value that is read by position
};

}  // namespace sash
