// Ops: the aggregates of a native record.
//
// A record is an array of 64-bit words, a range of them per aggregate, with a header of two: which aggregates have seen
// a value, and the number of rows. An op folds many rows, or joins many records, in one indirect call, inside which the
// types are known at compile time. An op is a semigroup: the header's bits stand for the identity, so that nulls and
// empty windows need no special value.
//
// To add one: a struct in ops_*.cpp with its state and its steps, and a line in that file's table.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/words.hpp"
#include "python/python.hpp"

namespace sash {

inline constexpr uint32_t kSeen = 0, kRows = 1, kHeader = 2;  // the words of a record's header
inline constexpr uint32_t kMostRead = 16;                     // inputs of a compiled monoid

// Rows of input words, row-major.
struct Rows {
    const int64_t* words;
    size_t stride;
    Rows from(size_t row) const { return {words + row * stride, stride}; }
};

// The time range of a result, in words as `Clock` reads them.
struct Span {
    int64_t start = 0, stop = 0;
};

// How time words are read: as float64 bits, or as ticks, `ticks` of which are one unit of time.
struct Clock {
    bool real = false;
    double ticks = 1;
    double between(int64_t from, int64_t to) const {
        if (real) return double_bits(to) - double_bits(from);
        return static_cast<double>(static_cast<__int128>(to) - from) / ticks;
    }
    bool before(int64_t a, int64_t b) const { return real ? double_bits(a) < double_bits(b) : a < b; }
    static double double_bits(int64_t word) {
        double value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
};

// The form of an op's result: words of `kinds`, one letter each, or a list of at most `most`, or the state's bytes.
//   i int64   f float64   b bool   I an integer in two words, the low one first
struct Outputs {
    enum class Shape { words, list, bytes } shape = Shape::words;
    std::string kinds;
    size_t most = 0;  // of a list
};

struct OpTable;
namespace quantile {
struct Scale;
}

// The common ops, whose steps are run without a call for each (monoids/ops_common.cpp).
enum class Step : uint32_t {
    other,
    sum_integers,
    sum_reals,
    min_integers,
    min_reals,
    max_integers,
    max_reals,
    mean_integers,
    mean_reals,
    variance,
};

// An array of records, `stride` words apart.
struct Records {
    const int64_t* words;
    size_t stride, count;
};
struct MutableRecords {
    int64_t* words;
    size_t stride, count;
};

// Many rounds of evict, insert and query in one go: the result of round i is that of a suffix, the middle, and the total
// after the rows up to i. All of them have seen a value, and order does not matter.
struct RecordRounds {
    Records suffixes;       // of each round
    const int64_t* middle;  // a record; null: there is none
    int64_t* total;         // a record, which the rows are added to
};

// A compiled monoid's functions; each pointer is passed twice, as int64 and as float64.
struct Compiled {
    void (*lift)(int64_t*, double*, const int64_t*, const double*) = nullptr;
    void (*fold)(int64_t*, double*, const int64_t*, const double*, int64_t) = nullptr;
    void (*join)(int64_t*, double*, const int64_t*, const double*, int64_t, int64_t) = nullptr;
    void (*lower)(const int64_t*, const double*, int64_t*, double*) = nullptr;
    uint32_t state_words = 0;
    std::string output_kinds;
};

struct alignas(64) Op {
    // The members that every fold and join reads, in one cache line.
    void (*fold)(const Op&, int64_t* state, const Rows&, size_t count) = nullptr;
    void (*join)(const Op&, int64_t* state, const int64_t* others, size_t stride, size_t count) = nullptr;
    uint64_t bit = 0;                // its bit of the header
    uint32_t offset = 0, words = 0;  // its state in the record
    uint32_t inputs[3] = {};         // the places of its inputs in a row: x, y, time
    Step step = Step::other;

    const OpTable* table = nullptr;
    std::vector<uint32_t> reads;    // all inputs without the time
    uint64_t needs = 0;             // the bits of inputs that must not be null
    size_t outputs = 0;             // words of a result
    bool counts = false;            // 0 instead of null if empty
    bool refuses_negative = false;  // of its input
    std::vector<double> parameters;
    Clock clock;
    std::shared_ptr<const Compiled> compiled;
    std::shared_ptr<const quantile::Scale> scale;
};

struct OpTable {
    const char* name;
    const char* kinds;  // of the inputs it is for; n any number, h a hash, - none
    bool commutes;      // order does not matter
    bool exact;         // nor does grouping
    bool timed;
    Step step;
    int degree;  // an inexact state is about as large as the inputs to this power, times rows
    uint32_t (*words)(const Op&);
    void (*set)(const Op&, int64_t* state, const Rows&);                 // the first row
    void (*fold)(const Op&, int64_t* state, const Rows&, size_t count);  // more rows
    void (*join)(const Op&, int64_t* state, const int64_t* others, size_t stride, size_t count);
    void (*prepend)(const Op&, int64_t* state, const int64_t* other);
    bool (*same)(const Op&, const int64_t* a, const int64_t* b, double tolerance);
    Outputs (*outputs)(const Op&);
    bool (*lower)(const Op&, const int64_t* record, const Span&, int64_t* out);  // false: null; a list's length first
    void (*lower_many)(const Op&, const Records&, int64_t* const* columns, uint8_t* there);
    // Every state from a row to the last, for rows before `records`' last one: the states are those of a commuting op.
    void (*scan_back)(const Op&, const Rows&, const MutableRecords&);
    // The results of many rounds, by the columns of the op's inputs; null for those that do not run together.
    void (*rounds)(const Op&, const int64_t* x, const int64_t* y, const RecordRounds&, int64_t* const* columns,
                   uint8_t* there);
    bool (*sound)(const Op&, const int64_t* state);  // can it be the state of any rows?
    void (*tidy)(const Op&, int64_t* state);         // the canonical form of equal states
    void (*prepare)(Op&);                            // once, when its parameters are known
    // Where a state may be smaller than `words`, how many are in use, and how many one of so many rows may need; or null.
    uint32_t (*used)(const Op&, const int64_t* state);
    uint32_t (*room)(const Op&, uint64_t rows);
};

// The words of a state that are in use.
inline uint32_t used_words(const Op& op, const int64_t* state) {
    return op.table->used ? op.table->used(op, state) : op.words;
}
inline void copy_state(const Op& op, const int64_t* from, int64_t* to) {
    std::memcpy(to, from, used_words(op, from) * sizeof(int64_t));
}

// The table of an op for inputs of these kinds, or null.
const OpTable* find_op(const std::string& name, const std::string& kinds);

// --- helpers for ops -------------------------------------------------------------------------------

inline double real(int64_t word) { return Clock::double_bits(word); }
inline int64_t bits_of(double value) {
    int64_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
}

inline bool near(double a, double b, double tolerance) {
    if (!(tolerance - tolerance == 0)) return true;  // a sum may overflow in one order and not in another
    if (!(a - a == 0) || !(b - b == 0)) return !(a - a == 0) && !(b - b == 0);  // neither is finite
    double difference = a < b ? b - a : a - b, size = (a < 0 ? -a : a) + (b < 0 ? -b : b);
    return difference <= tolerance || difference <= 1e-9 * size;
}

// Whether a float is a valid number of rows.
inline bool is_count(double n) { return n >= 1 && n <= 0x1p53 && n == static_cast<double>(static_cast<int64_t>(n)); }

// An op whose state is a small struct T::State of words:
//   of(op, x, y, t) -> State     add(op, state, x, y, t)     join(op, state, other)     lower(op, state, span, out)
template <class T>
struct SmallOp {
    using State = typename T::State;
    static_assert(sizeof(State) % sizeof(int64_t) == 0 && alignof(State) <= alignof(int64_t));

    // Words are reinterpreted member by member: copied as bytes they would go through memory. (So these files are
    // compiled with -fno-strict-aliasing.)
    static State load(const int64_t* words) { return *reinterpret_cast<const State*>(words); }
    static void store(int64_t* words, const State& state) { *reinterpret_cast<State*>(words) = state; }

    static uint32_t words(const Op&) { return sizeof(State) / sizeof(int64_t); }
    static void set(const Op& op, int64_t* at, const Rows& rows) {
        const int64_t* row = rows.words;
        store(at, T::of(op, row[op.inputs[0]], row[op.inputs[1]], row[op.inputs[2]]));
    }
    static void fold(const Op& op, int64_t* at, const Rows& rows, size_t count) {
        State state = load(at);
        const int64_t *x = rows.words + op.inputs[0], *y = rows.words + op.inputs[1], *t = rows.words + op.inputs[2];
        for (size_t i = 0, k = 0; i < count; ++i, k += rows.stride) T::add(op, state, x[k], y[k], t[k]);
        store(at, state);
    }
    static void fold_one(const Op& op, int64_t* at, const int64_t* row) {
        T::add(op, *reinterpret_cast<State*>(at), row[op.inputs[0]], row[op.inputs[1]], row[op.inputs[2]]);
    }
    static void join_into(const Op& op, int64_t* at, const int64_t* first, const int64_t* others, size_t stride,
                          size_t count) {
        State state = load(first);
        for (size_t i = 0; i < count; ++i) T::join(op, state, load(others + i * stride));
        store(at, state);
    }
    static void join(const Op& op, int64_t* at, const int64_t* others, size_t stride, size_t count) {
        State state = load(at);
        for (size_t i = 0; i < count; ++i) T::join(op, state, load(others + i * stride));
        store(at, state);
    }
    static void prepend(const Op& op, int64_t* at, const int64_t* other) {
        if constexpr (T::commutes) return join(op, at, other, 0, 1);
        State state = load(other);
        T::join(op, state, load(at));
        store(at, state);
    }
    static bool same(const Op& op, const int64_t* a, const int64_t* b, double tolerance) {
        if constexpr (T::exact)
            return (void)op, (void)tolerance, std::memcmp(a, b, sizeof(State)) == 0;
        else
            return T::same(op, load(a), load(b), tolerance);
    }
    static bool lower(const Op& op, const int64_t* record, const Span& span, int64_t* out) {
        return T::lower(op, load(record + op.offset), span, out);
    }
    // The result is null if no value was seen, but 0 for a count.
    static void lower_many(const Op& op, const Records& records, int64_t* const* columns, uint8_t* there) {
        const int64_t* record = records.words;
        uint64_t all = op.bit;
        for (size_t i = 0; i < records.count; ++i) all &= static_cast<uint64_t>(record[i * records.stride + kSeen]);
        if (all) return lower_all(op, records, columns, there);
        for (size_t i = 0; i < records.count; ++i, record += records.stride) {
            int64_t out[T::result_words] = {};
            bool seen = static_cast<uint64_t>(record[kSeen]) & op.bit;
            there[i] = seen ? T::lower(op, load(record + op.offset), {}, out) : op.counts;
            for (size_t j = 0; j < T::result_words; ++j) columns[j][i] = out[j];
        }
    }
    static void lower_all(const Op& op, const Records& records, int64_t* const* columns, uint8_t* there) {
        int64_t* column[T::result_words];
        std::copy(columns, columns + T::result_words, column);
        const int64_t* state = records.words + op.offset;
        for (size_t i = 0; i < records.count; ++i, state += records.stride) {
            int64_t out[T::result_words] = {};
            there[i] = T::lower(op, load(state), {}, out);
            for (size_t j = 0; j < T::result_words; ++j) column[j][i] = out[j];
        }
    }
    static void scan_back(const Op& op, const Rows& rows, const MutableRecords& records) {
        int64_t* at = records.words + records.count * records.stride + op.offset;
        State state = load(at);
        const int64_t *x = rows.words + op.inputs[0], *y = rows.words + op.inputs[1], *t = rows.words + op.inputs[2];
        for (size_t i = records.count; i-- > 0;) {
            T::add(op, state, x[i * rows.stride], y[i * rows.stride], t[i * rows.stride]);
            at -= records.stride;
            store(at, state);
        }
    }
    // The same steps as round by round, so that results are the same to the last bit.
    static void rounds(const Op& op, const int64_t* x, const int64_t* y, const RecordRounds& rounds,
                       int64_t* const* columns, uint8_t* there) {
        if (rounds.middle)
            run<true>(op, x, y, rounds, columns, there);
        else
            run<false>(op, x, y, rounds, columns, there);
    }
    template <bool some>
    static void run(const Op& op, const int64_t* x, const int64_t* y, const RecordRounds& rounds,
                    int64_t* const* columns, uint8_t* there) {
        int64_t* column[T::result_words];
        std::copy(columns, columns + T::result_words, column);
        const int64_t* suffix = rounds.suffixes.words + op.offset;
        const State middle = some ? load(rounds.middle + op.offset) : State{};
        State total = load(rounds.total + op.offset);
        for (size_t i = 0; i < rounds.suffixes.count; ++i, suffix += rounds.suffixes.stride) {
            T::add(op, total, x[i], y[i], 0);
            State all = load(suffix);
            if (some) T::join(op, all, middle);
            T::join(op, all, total);
            int64_t out[T::result_words] = {};
            there[i] = T::lower(op, all, {}, out);
            for (size_t j = 0; j < T::result_words; ++j) column[j][i] = out[j];
        }
        store(rounds.total + op.offset, total);
    }
    static Outputs outputs(const Op& op) { return {Outputs::Shape::words, T::outputs(op), 0}; }
    static bool sound(const Op&, const int64_t* state) { return T::possible(load(state)); }
    static void tidy(const Op&, int64_t*) {}
};

// An op that changes its words in place, words(op) of them:
//   words(op)   set(op, state, x, y, t)   add(...)   join(op, state, other)   outputs(op)   lower(op, state, span, out)
template <class T>
struct LargeOp {
    static uint32_t words(const Op& op) { return T::words(op); }
    static void set(const Op& op, int64_t* at, const Rows& rows) {
        const int64_t* row = rows.words;
        T::set(op, at, row[op.inputs[0]], row[op.inputs[1]], row[op.inputs[2]]);
    }
    static void fold(const Op& op, int64_t* at, const Rows& rows, size_t count) {
        const int64_t *x = rows.words + op.inputs[0], *y = rows.words + op.inputs[1], *t = rows.words + op.inputs[2];
        for (size_t i = 0, k = 0; i < count; ++i, k += rows.stride) T::add(op, at, x[k], y[k], t[k]);
    }
    static void join(const Op& op, int64_t* at, const int64_t* others, size_t stride, size_t count) {
        for (size_t i = 0; i < count; ++i) T::join(op, at, others + i * stride);
    }
    static void prepend(const Op& op, int64_t* at, const int64_t* other) {
        if constexpr (T::commutes) return T::join(op, at, other);
        std::vector<int64_t> state(other, other + op.words);  // those that do not commute use all of them
        T::join(op, state.data(), at);
        std::memcpy(at, state.data(), op.words * sizeof(int64_t));
    }
    static bool same(const Op& op, const int64_t* a, const int64_t* b, double tolerance) {
        return T::same(op, a, b, tolerance);
    }
    static bool lower(const Op& op, const int64_t* record, const Span& span, int64_t* out) {
        return T::lower(op, record + op.offset, span, out);
    }
    static void lower_many(const Op& op, const Records& records, int64_t* const* columns, uint8_t* there) {
        std::vector<int64_t> out(op.outputs);
        for (size_t i = 0; i < records.count; ++i) {
            const int64_t* record = records.words + i * records.stride;
            bool seen = static_cast<uint64_t>(record[kSeen]) & op.bit;
            std::fill(out.begin(), out.end(), 0);  // a list must not contain the rest of a longer one
            there[i] = seen ? op.table->lower(op, record, {}, out.data()) : op.counts;
            for (size_t j = 0; j < op.outputs; ++j) columns[j][i] = there[i] ? out[j] : 0;
        }
    }
    static void scan_back(const Op& op, const Rows& rows, const MutableRecords& records) {
        for (size_t i = records.count; i-- > 0;) {
            int64_t* at = records.words + i * records.stride + op.offset;
            copy_state(op, at + records.stride, at);
            fold(op, at, rows.from(i), 1);
        }
    }
    static Outputs outputs(const Op& op) { return T::outputs(op); }
    static bool sound(const Op& op, const int64_t* state) { return T::sound(op, state); }
    static void tidy(const Op& op, int64_t* state) { T::tidy(op, state); }
};

template <class T>
constexpr auto rounds_of() -> decltype(OpTable::rounds) {
    if constexpr (T::small && T::commutes && !T::timed)
        return SmallOp<T>::rounds;
    else
        return nullptr;
}

template <class T>
constexpr OpTable table_of(const char* name, const char* kinds) {
    using Of = std::conditional_t<T::small, SmallOp<T>, LargeOp<T>>;
    return {name,          kinds,          T::commutes, T::exact,    T::timed,   T::step,     T::degree, Of::words,
            Of::set,       Of::fold,       Of::join,    Of::prepend, Of::same,   Of::outputs, Of::lower, Of::lower_many,
            Of::scan_back, rounds_of<T>(), Of::sound,   Of::tidy,    T::prepare, T::used,     T::room};
}

// The defaults of an op.
struct Facts {
    static void tidy(const Op&, int64_t*) {}
    static void prepare(Op&) {}
    static constexpr std::nullptr_t used = nullptr, room = nullptr;
    template <class State>
    static bool possible(const State&) {  // of a small one: can it be the state of any rows?
        return true;
    }
    static constexpr bool small = true, commutes = true, exact = true, timed = false;
    static constexpr int degree = 1;
    static constexpr Step step = Step::other;
    static constexpr size_t result_words = 1;  // of a small one
};

// All ops of a record, one after the other.
void fold_ops(const std::vector<Op>& ops, int64_t* record, const Rows& rows, size_t count);
void fold_ops(const std::vector<Op>& ops, int64_t* record, const int64_t* row);
void join_ops(const std::vector<Op>& ops, int64_t* record, const int64_t* others, size_t stride, size_t count);
void join_ops_into(const std::vector<Op>& ops, int64_t* record, const int64_t* first, const int64_t* others,
                   size_t stride, size_t count);

// The rows of each window of a sorted table, from `from` to `to`, both of which are non-decreasing.
struct Frames {
    const uint32_t* from;
    const uint32_t* to;
    size_t count;
};
// Computes the results of one op for every frame. Row i of the frames is word `order[i]`, and result k goes to
// `places[k]`; null: they lie as they are. Returns false if the op is not one of the common ones.
bool slide_common(const Op& op, const int64_t* words, const uint32_t* order, const Frames& frames,
                  const uint32_t* places, int64_t* const* columns, uint8_t* there);

const std::vector<OpTable>& common_ops();
const std::vector<OpTable>& number_ops();
const std::vector<OpTable>& moment_ops();
const std::vector<OpTable>& wide_ops();
const std::vector<OpTable>& quantile_ops();

}  // namespace sash
