// The native monoids, and the one for Python objects.
//
// A monoid policy provides the structures with three types and a few in-place operations:
//   Input   what insert receives            Entry   what a window stores per time
//   Agg     a partial aggregate; wider than an entry where that keeps it exact or small
//
//   lift(input) -> Entry                    merge(entry, more)      entry = entry (x) more, false if it cannot hold it
//   of(entry) -> Agg
//   append(agg, other)  append_entry(agg, entry)     agg = agg (x) other
//   prepend(other, agg) prepend_entry(entry, agg)    agg = other (x) agg
//   result(agg) -> Python value             empty() -> the result for an empty window
//   state(agg), thaw(object) -> Entry       the unlowered state as a Python value, and back
//
// `may_throw` means that combining runs Python code; structures then keep an undo log. To add a native monoid, add a
// struct here and its name to NativeMonoids (monoids/natives.hpp), or, if its speed matters less, an op
// (monoids/ops.hpp).
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/hash.hpp"
#include "base/time.hpp"
#include "monoids/folds.hpp"

namespace sash {

// What a policy is built from: the Python monoid, and whether its words are floats.
class Plan;
struct MonoidSpec {
    Ref monoid;
    bool reals = false;
    std::shared_ptr<const Plan> plan;  // of a record
};

// Where slide() writes its results; a monoid's `out` is the one that it fills.
enum class Out { integer, real, word, record, object };
struct Output {
    int64_t* words = nullptr;  // also float64 bits
    double* reals = nullptr;
    PyObject* objects = nullptr;  // a list, filled by index
    class RecordOutput* records = nullptr;
};

[[noreturn]] inline void fail_value(PyObject* value, const std::string& requirement, ErrorKind kind = ErrorKind::kind) {
    fail(kind, "value must " + requirement + ", got " + shown(value) + ".", "value");
}

inline int64_t integer_value(PyObject* value) {
    Ref plain;
    if (!PyLong_CheckExact(value)) {
        plain = callbacks::as_number(value);
        if (!PyIndex_Check(plain.get()))
            fail_value(value, "be an int because this window aggregates int64 (dtype=float accepts all numbers)");
        value = plain.get();
    }
    int overflow = 0;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        fail_value(value, "fit int64, -2**63 to 2**63 - 1 (dtype=object accepts all ints)", ErrorKind::argument);
    return number;
}

inline double real_value(PyObject* value) {
    if (PyFloat_Check(value)) return PyFloat_AS_DOUBLE(value);
    Ref plain = callbacks::as_number(value);
    if (plain.is_none()) fail_value(value, "be a number");
    double number = PyFloat_AsDouble(plain.get());
    if (number == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        fail_value(value, "fit float64", ErrorKind::argument);
    }
    return number;
}

// A 64-bit hash of a value that is the same in every process.
uint64_t stable_hash(PyObject* value);

// A monoid used in a loop. Counting each combine in memory would make every one wait for the previous one, so a small
// monoid is copied, counts in a register, and adds up at the end.
template <class Monoid, bool copied = std::is_trivially_copyable_v<Monoid>>
class AtWork {
   public:
    explicit AtWork(Monoid& home) : home_(home), copy_(home) { copy_.combines = 0; }
    AtWork(const AtWork&) = delete;
    ~AtWork() { home_.combines += copy_.combines; }
    Monoid* operator->() { return &copy_; }

   private:
    Monoid& home_;
    Monoid copy_;
};
template <class Monoid>
class AtWork<Monoid, false> {
   public:
    explicit AtWork(Monoid& home) : home_(home) {}
    AtWork(const AtWork&) = delete;
    Monoid* operator->() { return &home_; }

   private:
    Monoid& home_;
};

// --- bases ---------------------------------------------------------------------------------------

// An insert that joins valid summaries folds no leaf, so leaves can be wide.
inline constexpr uint32_t kWideLeaf = 128;

struct Counted {
    uint64_t combines = 0;
    static bool regroups() { return true; }    // is the result (nearly) the same however states are grouped?
    static constexpr bool may_throw = false;   // do combines run Python code?
    static constexpr bool validates = false;   // can an input of the right type be invalid?
    static constexpr bool commutes = false;    // native, exact, and order does not matter
    static constexpr bool folds = false;       // does it have append_entries and append_aggs for many at once?
    static constexpr bool takes_time = false;  // can a lift or a result depend on times? if so, see timed()
    static constexpr bool is_record = false;   // can it have a plan? then joins() tells whether it commutes
    static constexpr bool is_erased = false;   // does it stand for another one? (monoids/erased.hpp)
    static constexpr bool in_place = false;    // is an aggregate better built in place than moved?

    // Do nearly all aggregates fit a smaller type, Narrow? Then narrow(agg, narrow) converts and tells whether it fits, and
    // widened(narrow) converts back.
    static constexpr bool narrows = false;

    // Suitable for a monoid that costs no more than moving its entries; more expensive ones override these.
    static constexpr uint32_t leaf_capacity = 64;
    static constexpr uint32_t fanout = 16;

    // Entries loaded from bytes may be any bytes; if some of them are invalid, valid(entry) tells which.
    static constexpr bool checks_entries = false;
};

// A monoid whose entries are aggregates: Self has combine(a, b).
template <class Self, class State>
struct Plain : Counted {
    using Entry = State;
    using Agg = State;
    bool merge(Entry& entry, const Entry& more) { return append(entry, more), true; }
    Agg of(const Entry& entry) const { return entry; }
    void append(Agg& agg, const Agg& other) {
        ++combines;
        agg = Self::combine(agg, other);
    }
    void prepend(const Agg& other, Agg& agg) {
        ++combines;
        agg = Self::combine(other, agg);
    }
    void append_entry(Agg& agg, const Entry& entry) { append(agg, entry); }
    void prepend_entry(const Entry& entry, Agg& agg) { prepend(entry, agg); }
};

// --- sums ----------------------------------------------------------------------------------------

[[noreturn]] SASH_COLD inline void fail_sum() {
    fail(ErrorKind::overflow, "the sum does not fit int64; use monoids.sum(dtype=object) for larger integers.");
}
inline int64_t checked_sum(__int128 total) {
    int64_t sum = static_cast<int64_t>(total);
    if (sum != total) fail_sum();
    return sum;
}

// Exact integer sums: partials are 128 bits wide, so no partial overflows and no answer depends on the tree's shape.
template <class EntryType>
struct IntegerSum : Counted {
    using Input = int64_t;
    using Entry = EntryType;
    using Agg = __int128;
    static constexpr Out out = Out::integer;

    explicit IntegerSum(const MonoidSpec&) {}
    static Input input(PyObject* value) { return integer_value(value); }
    static Input input_at(const Column& column, size_t row) { return column.words[row]; }
    static Entry lift(Input value) { return value; }
    bool merge(Entry& entry, const Entry& more) {
        ++combines;
        Entry both;
        if (__builtin_add_overflow(entry, more, &both)) return false;
        entry = both;
        return true;
    }
    static Agg of(Entry entry) { return entry; }
    void append(Agg& agg, Agg other) { ++combines, agg += other; }
    void prepend(Agg other, Agg& agg) { append(agg, other); }
    void append_entry(Agg& agg, Entry entry) { append(agg, entry); }
    void prepend_entry(Entry entry, Agg& agg) { append(agg, entry); }

    static Ref result(Agg agg) { return python_int(checked_sum(agg)); }
    static Ref empty() { return python_int(int64_t{0}); }
    static void store(Output& out, size_t row, Agg agg) { out.words[row] = checked_sum(agg); }
    static Ref state(Agg agg) { return python_int(agg); }
    static bool same(Agg a, Agg b) { return a == b; }
};

struct SumInt64 : IntegerSum<int64_t> {
    using IntegerSum::IntegerSum;
    static constexpr const char* name = "sum_int64";
    static constexpr bool commutes = true;
    static constexpr uint32_t leaf_capacity = kWideLeaf;
    static constexpr bool folds = true;
    static constexpr bool narrows = true;
    using Narrow = int64_t;
    static bool narrow(Agg agg, Narrow& word) { return (word = static_cast<int64_t>(agg)) == agg; }
    static Agg widened(Narrow word) { return word; }
    void append_entries(Agg& agg, const Entry* entries, size_t count) {
        combines += count;
        agg += sum_of(entries, count);
    }
    // Two chains that do not wait for each other.
    void append_aggs(Agg& agg, const Agg* aggs, size_t count) {
        combines += count;
        Agg a = 0, b = 0;
        size_t i = 0;
        for (; i + 2 <= count; i += 2) {
            a += aggs[i];
            b += aggs[i + 1];
        }
        if (i < count) a += aggs[i];
        agg += a + b;
    }
    static Entry thaw(PyObject* state) { return integer_value(state); }
};

// Where two inputs of one time overflow int64 the window moves to this one: the same sums, entries as wide as partials.
struct SumWide : IntegerSum<__int128> {
    using IntegerSum::IntegerSum;
    static constexpr const char* name = "sum_wide";
    static constexpr bool commutes = true;
    static constexpr uint32_t leaf_capacity = kWideLeaf;
    static Entry thaw(PyObject* state) {
        Ref shift = python_int(int64_t{64});
        Ref high = Ref::checked(PyNumber_Rshift(state, shift.get()));
        uint64_t low = PyLong_AsUnsignedLongLongMask(state);
        if (PyErr_Occurred()) throw PythonError{};
        uint64_t top = static_cast<uint64_t>(integer_value(high.get()));
        return static_cast<__int128>((static_cast<unsigned __int128>(top) << 64) | low);
    }
};

struct SumFloat64 : Plain<SumFloat64, double> {
    using Input = double;
    static constexpr const char* name = "sum_float64";
    static constexpr Out out = Out::real;

    explicit SumFloat64(const MonoidSpec&) {}
    static double combine(double a, double b) { return a + b; }
    static Input input(PyObject* value) { return real_value(value); }
    static Input input_at(const Column& column, size_t row) { return column.reals[row]; }
    static Entry lift(Input value) { return value; }
    static Ref result(Agg agg) { return python_float(agg); }
    static Ref empty() { return python_float(0.0); }
    static void store(Output& out, size_t row, Agg agg) { out.reals[row] = agg; }
    static Ref state(Agg agg) { return python_float(agg); }
    static Entry thaw(PyObject* state) { return real_value(state); }
    static bool same(Agg a, Agg b) { return word_of(a) == word_of(b); }
    static bool regroups() { return false; }
};

struct Count : Plain<Count, int64_t> {
    struct Input {};
    static constexpr bool checks_entries = true;
    static constexpr const char* name = "count";
    static constexpr bool commutes = true;
    static constexpr uint32_t leaf_capacity = kWideLeaf;
    static constexpr Out out = Out::integer;

    explicit Count(const MonoidSpec&) {}
    static int64_t combine(int64_t a, int64_t b) { return a + b; }
    static Input input(PyObject*) { return {}; }
    static Input input_at(const Column&, size_t) { return {}; }
    static Entry lift(Input) { return 1; }
    static bool valid(Entry entry) { return entry > 0; }
    static Ref result(Agg agg) { return python_int(agg); }
    static Ref empty() { return python_int(int64_t{0}); }
    static void store(Output& out, size_t row, Agg agg) { out.words[row] = agg; }
    static Ref state(Agg agg) { return python_int(agg); }
    static Entry thaw(PyObject* state) { return integer_value(state); }
    static bool same(Agg a, Agg b) { return a == b; }
};

// --- order: min, max, first, last over words -----------------------------------------------------

// Words come from ints or floats (base/words.hpp), known at construction.
struct Words {
    bool reals;
    explicit Words(const MonoidSpec& spec) : reals(spec.reals) {}
    int64_t input(PyObject* value) const { return reals ? word_of(real_value(value)) : integer_value(value); }
    int64_t input_at(const Column& column, size_t row) const {
        return reals ? word_of(column.reals[row]) : column.words[row];
    }
    bool valid_word(int64_t word) const { return !reals || word_of(double_of(word)) == word; }
    Ref python(int64_t word) const { return reals ? python_float(double_of(word)) : python_int(word); }
    int64_t stored(int64_t word) const {
        if (!reals) return word;
        double value = double_of(word);
        std::memcpy(&word, &value, sizeof word);
        return word;
    }
};

template <class Self>
struct OneWord : Plain<Self, int64_t>, Words {
    using Input = int64_t;
    static constexpr bool checks_entries = true;
    static constexpr Out out = Out::word;

    using Words::Words;
    static int64_t lift(Input word) { return word; }
    bool valid(int64_t word) const { return valid_word(word); }
    Ref result(int64_t word) const { return python(word); }
    static Ref empty() { return none(); }
    void store(Output& out, size_t row, int64_t word) const { out.words[row] = stored(word); }
    Ref state(int64_t word) const { return python(word); }
    int64_t thaw(PyObject* state) const { return input(state); }
    static bool same(int64_t a, int64_t b) { return a == b; }
};

// The smallest or the largest; Self also has extreme(words, count) of many.
template <class Self>
struct ExtremeWord : OneWord<Self> {
    using OneWord<Self>::OneWord;
    static constexpr bool commutes = true;
    static constexpr uint32_t leaf_capacity = kWideLeaf;
    static constexpr bool folds = true;
    void append_entries(int64_t& agg, const int64_t* words, size_t count) { append_aggs(agg, words, count); }
    void append_aggs(int64_t& agg, const int64_t* words, size_t count) {
        this->combines += count;
        if (count) agg = Self::combine(agg, Self::extreme(words, count));
    }
};
struct Min : ExtremeWord<Min> {
    using ExtremeWord::ExtremeWord;
    static constexpr const char* name = "min";
    static int64_t combine(int64_t a, int64_t b) { return b < a ? b : a; }
    static int64_t extreme(const int64_t* words, size_t count) { return least_of(words, count); }
};
struct Max : ExtremeWord<Max> {
    using ExtremeWord::ExtremeWord;
    static constexpr const char* name = "max";
    static int64_t combine(int64_t a, int64_t b) { return a < b ? b : a; }
    static int64_t extreme(const int64_t* words, size_t count) { return greatest_of(words, count); }
};
// --- geometric mean ------------------------------------------------------------------------------

struct LogsAndCount {
    double logs;
    int64_t count;
};

// The logarithm is taken once, by lift; combines only add.
struct Geomean : Plain<Geomean, LogsAndCount> {
    using Input = double;
    static constexpr bool checks_entries = true;
    static constexpr const char* name = "geomean";
    static constexpr Out out = Out::real;
    static constexpr bool validates = true;

    explicit Geomean(const MonoidSpec&) {}
    static LogsAndCount combine(LogsAndCount a, LogsAndCount b) { return {a.logs + b.logs, a.count + b.count}; }
    static Input accepted(double value) {
        if (value < 0)
            fail_value(python_float(value).get(), "not be negative for a geometric mean", ErrorKind::argument);
        return value;
    }
    static Input input(PyObject* value) { return accepted(real_value(value)); }
    static Input input_at(const Column& column, size_t row) { return accepted(column.reals[row]); }
    static Entry lift(Input value) { return {std::log(value), 1}; }
    static bool valid(const Entry& entry) { return entry.count > 0; }
    static double mean(Agg agg) { return std::exp(agg.logs / static_cast<double>(agg.count)); }
    static Ref result(Agg agg) { return python_float(mean(agg)); }
    static Ref empty() { return none(); }
    static void store(Output& out, size_t row, Agg agg) { out.reals[row] = mean(agg); }
    static Ref state(Agg agg) { return python_pair(python_float(agg.logs), python_int(agg.count)); }
    static Entry thaw(PyObject* state) {
        if (!PyTuple_Check(state) || PyTuple_GET_SIZE(state) != 2) fail_value(state, "be a pair (logs, count)");
        return {real_value(PyTuple_GET_ITEM(state, 0)), integer_value(PyTuple_GET_ITEM(state, 1))};
    }
    static bool same(Agg a, Agg b) { return word_of(a.logs) == word_of(b.logs) && a.count == b.count; }
    static bool regroups() { return false; }
};

// --- any Python monoid ---------------------------------------------------------------------------

struct Objects : Counted {
    using Input = Ref;
    using Entry = Ref;
    using Agg = Ref;
    static constexpr const char* name = "object";
    static constexpr uint32_t leaf_capacity = 16;  // every combine is a call into the interpreter
    static constexpr uint32_t fanout = 8;
    static constexpr Out out = Out::object;
    static constexpr bool may_throw = true;
    static constexpr bool takes_time = true;

    explicit Objects(const MonoidSpec& spec)
        : identity_(attribute(spec.monoid.get(), "identity")),
          combine_(attribute(spec.monoid.get(), "combine")),
          lift_(attribute(spec.monoid.get(), "lift")),
          lower_(attribute(spec.monoid.get(), "lower")),
          timed_(attribute(spec.monoid.get(), "timed").get() == Py_True),
          exact_(attribute(spec.monoid.get(), "exact").get() == Py_True) {}

    bool timed() const { return timed_; }

    static Input input(PyObject* value) { return Ref::borrow(value); }
    static Input input_at(const Column& column, size_t row) {
        return Ref::borrow(PyList_GET_ITEM(column.objects, static_cast<Py_ssize_t>(row)));
    }
    Entry lift(const Input& value) const { return lift_.is_none() ? value : call(lift_.get(), value.get()); }
    template <class Moment>
    Entry lift(const Input& value, const Moment& moment) const {
        if (!timed_ || lift_.is_none()) return lift(value);
        return call(lift_.get(), value.get(), moment.python().get());
    }
    bool merge(Entry& entry, const Entry& more) { return append(entry, more), true; }
    static Agg of(const Entry& entry) { return entry; }
    void append(Agg& agg, const Agg& other) {
        ++combines;
        agg = call(combine_.get(), agg.get(), other.get());
    }
    void prepend(const Agg& other, Agg& agg) {
        ++combines;
        agg = call(combine_.get(), other.get(), agg.get());
    }
    void append_entry(Agg& agg, const Entry& entry) { append(agg, entry); }
    void prepend_entry(const Entry& entry, Agg& agg) { prepend(entry, agg); }

    Ref result(const Agg& agg) const { return lower_.is_none() ? agg : call(lower_.get(), agg.get()); }
    // The result for a time range, whose ends are Python values.
    Ref result(const Agg& agg, const Ref& start, const Ref& stop) const {
        if (!timed_ || lower_.is_none()) return result(agg);
        PyObject* arguments[] = {agg.get(), start.get(), stop.get()};
        return Ref::checked(PyObject_Vectorcall(lower_.get(), arguments, 3, nullptr));
    }
    Ref empty() const { return empty(none(), none()); }
    Ref empty(const Ref& start, const Ref& stop) const { return result(identity_, start, stop); }
    void store(Output& out, size_t row, const Agg& agg) const { put(out, row, result(agg)); }
    void store(Output& out, size_t row, const Agg& agg, const Ref& start, const Ref& stop) const {
        put(out, row, result(agg, start, stop));
    }
    static void put(Output& out, size_t row, Ref value) {
        succeed(PyList_SetItem(out.objects, static_cast<Py_ssize_t>(row), value.release()));
    }
    static Ref state(const Agg& agg) { return agg; }
    static Entry thaw(PyObject* state) { return Ref::borrow(state); }

    bool regroups() const { return exact_; }
    // Equal, where NaN equals NaN also inside a state, or of a type without equality.
    bool same(const Agg& a, const Agg& b) const {
        if (!exact_ && PyBytes_Check(a.get())) return true;  // a sketch's bytes are random
        if (Py_TYPE(a.get())->tp_richcompare == PyBaseObject_Type.tp_richcompare) return true;
        int equal = PyObject_RichCompareBool(a.get(), b.get(), Py_EQ);
        succeed(equal);
        return equal || callbacks::same(a.get(), b.get()).get() == Py_True;
    }

    template <class Visit>
    void visit(Visit&& visit) const {
        for (const Ref* ref : {&identity_, &combine_, &lift_, &lower_}) visit(*ref);
    }

   private:
    Ref identity_, combine_, lift_, lower_;
    bool timed_, exact_;
};

}  // namespace sash
