// Times: three native forms, one order.
//
//   int64_t    ints; floats as order-preserving words; datetimes as ticks of their unit
//   Pair       (int64, int64) in lexicographic order, packed into one 128-bit integer
//   Ref        any Python object with a total order
//
// A TimeFormat is the kind of Python value that a window's times are, and converts between it and the native form.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "base/words.hpp"
#include "python/callbacks.hpp"

namespace sash {

using Pair = __int128;

enum class TimeKind { integer, real, instant, pair, object };

inline const char* name_of(TimeKind kind) {
    switch (kind) {
        case TimeKind::integer: return "int";
        case TimeKind::real: return "float";
        case TimeKind::instant: return "instant";
        case TimeKind::pair: return "pair";
        default: return "object";
    }
}

struct TimeFormat {
    TimeKind kind;
    Ref codec;  // instants only: a sash.times.Instants
    bool one_word() const { return kind != TimeKind::pair && kind != TimeKind::object; }
};

// Native rows from Python; exactly one of the first four is set. A pair takes two words.
struct Column {
    const int64_t* words = nullptr;
    const double* reals = nullptr;
    PyObject* objects = nullptr;     // a list
    const Column* inputs = nullptr;  // of a record, words each
    size_t size = 0, input_count = 0;
    const uint8_t* nulls = nullptr;  // of an input; null: there are none

    // Up to `count` rows of numbers, starting at `from`.
    Column part(size_t from, size_t count) const {
        Column rows;
        if (words) rows.words = words + from;
        if (reals) rows.reals = reals + from;
        rows.size = from < size ? std::min(count, size - from) : 0;
        return rows;
    }
};

// The words of a record's row, and the nulls among them as bits.
inline uint64_t read_inputs(const Column& column, size_t row, int64_t* words) {
    uint64_t nulls = 0;
    for (size_t i = 0; i < column.input_count; ++i) {
        const Column& input = column.inputs[i];
        words[i] = input.words[row];
        if (input.nulls && input.nulls[row]) nulls |= uint64_t{1} << i;
    }
    return nulls;
}

// --- order ---------------------------------------------------------------------------------------

inline bool less(int64_t a, int64_t b) { return a < b; }
inline bool less(Pair a, Pair b) { return a < b; }

// Two objects that do not compare are times of different kinds.
[[noreturn]] inline void fail_unordered(PyObject* a, PyObject* b) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError{};
    PyErr_Clear();
    fail(ErrorKind::kind, "time must compare with < to all other times, got " + shown(a) + " and " + shown(b) + ".",
         "time");
}

inline bool less(const Ref& a, const Ref& b) {
    int answer = PyObject_RichCompareBool(a.get(), b.get(), Py_LT);
    if (answer < 0) fail_unordered(a.get(), b.get());
    return answer;
}

// --- from Python ---------------------------------------------------------------------------------

[[noreturn]] inline void fail_time(const char* argument, PyObject* time, const char* requirement,
                                   ErrorKind kind = ErrorKind::kind) {
    fail(kind, std::string(argument) + " must " + requirement + ", got " + shown(time) + ".", argument);
}

inline int64_t integer_time(const char* argument, PyObject* time, const char* requirement) {
    Ref index;
    if (!PyLong_CheckExact(time)) {
        if (PyBool_Check(time) || !PyIndex_Check(time)) fail_time(argument, time, requirement);
        index = Ref::checked(PyNumber_Index(time));
        time = index.get();
    }
    int overflow = 0;
    int64_t value = PyLong_AsLongLongAndOverflow(time, &overflow);
    if (overflow) fail_time(argument, time, "fit int64, -2**63 to 2**63 - 1", ErrorKind::argument);
    return value;
}

inline int64_t real_time(const char* argument, PyObject* time) {
    double value;
    if (PyFloat_Check(time)) {
        value = PyFloat_AS_DOUBLE(time);
    } else if (!PyBool_Check(time) && PyIndex_Check(time)) {
        Ref index = Ref::checked(PyNumber_Index(time));
        value = PyLong_AsDouble(index.get());
        bool exact = !PyErr_Occurred();
        PyErr_Clear();
        Ref back = python_float(exact ? value : 0.0);
        if (!exact || PyObject_RichCompareBool(back.get(), index.get(), Py_EQ) != 1)
            fail_time(argument, time, "be exactly representable as a float", ErrorKind::argument);
    } else {
        Ref plain = callbacks::as_float(time);
        if (plain.is_none()) fail_time(argument, time, "be a float, as this window's times are");
        value = PyFloat_AsDouble(plain.get());
    }
    if (std::isnan(value)) fail_time(argument, time, "be a number", ErrorKind::argument);
    return word_of(value + 0.0);  // -0.0 + 0.0 is 0.0: one zero, one time
}

inline void require_ordered(const char* argument, PyObject* time) {
    Ref same = Ref::steal(PyObject_RichCompare(time, time, Py_EQ));
    int equal = same ? PyObject_IsTrue(same.get()) : -1;
    int ordered = equal < 0 ? -1 : PyObject_RichCompareBool(time, time, Py_LT);
    if (ordered < 0) {
        bool unordered = PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
                         PyErr_ExceptionMatches(PyExc_ArithmeticError);  // arrays and Decimal's NaN raise these
        if (!unordered) throw PythonError{};
        PyErr_Clear();
    }
    if (equal != 1 || ordered < 0 || PyBool_Check(time))
        fail_time(argument, time, "have an order, compare with < and equal itself");
}

inline int64_t single_time(const TimeFormat& format, PyObject* time, const char* argument) {
    if (format.kind == TimeKind::integer) return integer_time(argument, time, "be an int, as this window's times are");
    if (format.kind == TimeKind::real) return real_time(argument, time);
    Ref name = Ref::checked(PyUnicode_FromString(argument));
    Ref ticks = callbacks::encode(format.codec.get(), time, name.get());
    int64_t value = PyLong_AsLongLong(ticks.get());
    if (value == -1 && PyErr_Occurred()) throw PythonError{};
    return value;
}

inline Pair pair_of(int64_t first, int64_t second) {
    uint64_t low = static_cast<uint64_t>(second) ^ (uint64_t{1} << 63);
    return static_cast<Pair>((static_cast<unsigned __int128>(static_cast<uint64_t>(first)) << 64) | low);
}
inline int64_t first_of(Pair pair) { return static_cast<int64_t>(pair >> 64); }
inline int64_t second_of(Pair pair) { return static_cast<int64_t>(static_cast<uint64_t>(pair) ^ (uint64_t{1} << 63)); }

inline Pair pair_time(PyObject* time, const char* argument) {
    static const char* requirement = "be a pair of ints, as this window's times are";
    if (!PyTuple_Check(time) || PyTuple_GET_SIZE(time) != 2) fail_time(argument, time, requirement);
    int64_t first = integer_time(argument, PyTuple_GET_ITEM(time, 0), requirement);
    return pair_of(first, integer_time(argument, PyTuple_GET_ITEM(time, 1), requirement));
}

template <class Time>
Time time_of(const TimeFormat& format, PyObject* time, const char* argument = "time") {
    if constexpr (std::is_same_v<Time, int64_t>) {
        return single_time(format, time, argument);
    } else if constexpr (std::is_same_v<Time, Pair>) {
        return pair_time(time, argument);
    } else {
        require_ordered(argument, time);
        return Ref::borrow(time);
    }
}

template <class Time>
Time time_at(const TimeFormat& format, const Column& column, size_t row) {
    if constexpr (std::is_same_v<Time, int64_t>) {
        return format.kind == TimeKind::real ? word_of(column.reals[row] + 0.0) : column.words[row];
    } else if constexpr (std::is_same_v<Time, Pair>) {
        return pair_of(column.words[2 * row], column.words[2 * row + 1]);
    } else {
        PyObject* time = PyList_GET_ITEM(column.objects, static_cast<Py_ssize_t>(row));
        require_ordered("times", time);
        return Ref::borrow(time);
    }
}

// --- to Python -----------------------------------------------------------------------------------

inline Ref python_time(const TimeFormat& format, int64_t time) {
    if (format.kind == TimeKind::integer) return python_int(time);
    if (format.kind == TimeKind::real) return python_float(double_of(time));
    return callbacks::decode(format.codec.get(), python_int(time).get());
}
inline Ref python_time(const TimeFormat&, Pair time) {
    return python_pair(python_int(first_of(time)), python_int(second_of(time)));
}
inline Ref python_time(const TimeFormat&, const Ref& time) { return time; }

// A time as monoids see it: a number for native ones (monoids/ops.hpp's Clock reads it), a Python value for others.
template <class Time>
struct Moment {
    const TimeFormat& format;
    const Time& time;
    Ref python() const { return python_time(format, time); }
    int64_t word() const {
        if constexpr (std::is_same_v<Time, Pair>) {
            return first_of(time);
        } else if constexpr (std::is_same_v<Time, int64_t>) {
            if (format.kind != TimeKind::real) return time;
            double value = double_of(time);
            int64_t bits;
            std::memcpy(&bits, &value, sizeof bits);
            return bits;
        } else {
            return 0;  // objects have no native form
        }
    }
};

// --- the lower edge of a window of a given size --------------------------------------------------

// A size in the window's own time difference: ticks, a float, or any object that can be subtracted from a time.
struct Size {
    bool unbounded = false;  // larger than any difference of times: nothing ever leaves
    int64_t ticks = 0;
    double length = 0;
    Ref object;
};

// Everything up to this edge has left the window (newest - size, newest]. The newest time itself always stays, despite
// a float's rounding or int64's lower end. Returns false if nothing can have left.
inline bool far_edge(const TimeFormat& format, int64_t newest, const Size& size, int64_t& edge) {
    if (size.unbounded) return false;
    if (format.kind == TimeKind::real) {
        edge = std::min(word_of(double_of(newest) - size.length), newest - 1);
        return newest != INT64_MIN;
    }
    return !__builtin_sub_overflow(newest, size.ticks, &edge);
}

// A pair is (timestamp, id): its size is a difference of timestamps.
inline bool far_edge(const TimeFormat&, Pair newest, const Size& size, Pair& edge) {
    if (size.unbounded) return false;
    int64_t first;
    if (__builtin_sub_overflow(first_of(newest), size.ticks, &first)) return false;
    edge = pair_of(first, INT64_MAX);
    return true;
}

inline bool far_edge(const TimeFormat&, const Ref& newest, const Size& size, Ref& edge) {
    edge = Ref::steal(PyNumber_Subtract(newest.get(), size.object.get()));
    if (edge && !less(edge, newest))
        fail(ErrorKind::argument, "size must be positive, got " + shown(size.object.get()) + ".", "size");
    if (edge) return true;
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError{};
    PyErr_Clear();
    fail(ErrorKind::kind,
         "size must be subtractable from times such as " + shown(newest.get()) + ", got " + shown(size.object.get()) +
             "; use count= instead.",
         "size");
}

}  // namespace sash
