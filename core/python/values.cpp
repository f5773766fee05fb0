#include "python/values.hpp"

#include <datetime.h>

#include <cmath>

#include "base/hash.hpp"
#include "base/words.hpp"
#include "monoids/monoids.hpp"
#include "monoids/ops.hpp"
#include "python/callbacks.hpp"

namespace sash {

namespace {

constexpr int64_t kSecondsPerDay = 86'400, kMicro = 1'000'000;
PyObject* zone_class = nullptr;  // zoneinfo.ZoneInfo

// --- civil dates ----------------------------------------------------------------------------------------

// Days since 1970 of a date of the proleptic Gregorian calendar, whose years begin in March here.
int64_t days_of(int64_t year, int64_t month, int64_t day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400, in_era = year - era * 400;
    int64_t in_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146'097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719'468;
}

struct Civil {
    int year, month, day;
};
Civil civil_of(int64_t days) {
    days += 719'468;
    int64_t era = (days >= 0 ? days : days - 146'096) / 146'097, in_era = days - era * 146'097;
    int64_t years = (in_era - in_era / 1'460 + in_era / 36'524 - in_era / 146'096) / 365;
    int64_t in_year = in_era - (365 * years + years / 4 - years / 100), part = (5 * in_year + 2) / 153;
    int month = static_cast<int>(part < 10 ? part + 3 : part - 9);
    int year = static_cast<int>(years + era * 400) + (month <= 2);
    return {year, month, static_cast<int>(in_year - (153 * part + 2) / 5 + 1)};
}

int64_t days_in(PyObject* date) {
    return days_of(PyDateTime_GET_YEAR(date), PyDateTime_GET_MONTH(date), PyDateTime_GET_DAY(date));
}

// --- instants -------------------------------------------------------------------------------------------

PyObject* zone_in(PyObject* time) { return PyDateTime_DATE_GET_TZINFO(time); }

// Microseconds since 1970 of a datetime: in UTC where it has a zone. False: its zone is one that Arrow must look at.
bool microseconds_of(PyObject* time, bool zoned, int64_t& micros) {
    PyObject* zone = zone_in(time);
    if ((zone != Py_None) != zoned) return false;
    int64_t seconds = days_in(time) * kSecondsPerDay + PyDateTime_DATE_GET_HOUR(time) * 3'600 +
                      PyDateTime_DATE_GET_MINUTE(time) * 60 + PyDateTime_DATE_GET_SECOND(time);
    micros = seconds * kMicro + PyDateTime_DATE_GET_MICROSECOND(time);
    if (!zoned || zone == PyDateTime_TimeZone_UTC) return true;
    bool fixed = Py_TYPE(zone) == Py_TYPE(PyDateTime_TimeZone_UTC);
    if (!fixed && reinterpret_cast<PyObject*>(Py_TYPE(zone)) != zone_class) return false;
    Ref offset = callbacks::utcoffset(time);
    if (!PyDelta_CheckExact(offset.get()) || PyDateTime_DELTA_GET_MICROSECONDS(offset.get())) return false;
    int64_t behind = PyDateTime_DELTA_GET_DAYS(offset.get()) * kSecondsPerDay;
    behind += PyDateTime_DELTA_GET_SECONDS(offset.get());
    if (fixed && behind % 60) return false;  // Arrow has no name for such a zone
    micros -= behind * kMicro;
    return true;
}

bool ticks_of(const ValueType& type, PyObject* time, int64_t& ticks) {
    int64_t micros;
    if (!microseconds_of(time, type.zoned, micros)) return false;
    if (type.per_second > kMicro) return !__builtin_mul_overflow(micros, type.per_second / kMicro, &ticks);
    int64_t each = kMicro / type.per_second;
    ticks = micros / each;
    return micros % each == 0;
}

Ref datetime_of(const ValueType& type, int64_t ticks, PyObject* zone) {
    int64_t each = kMicro / type.per_second, micros = ticks * each;
    int64_t days = micros / (kSecondsPerDay * kMicro), rest = micros % (kSecondsPerDay * kMicro);
    if (rest < 0) --days, rest += kSecondsPerDay * kMicro;
    Civil date = civil_of(days);
    int64_t seconds = rest / kMicro;
    return Ref::checked(PyDateTimeAPI->DateTime_FromDateAndTime(
        date.year, date.month, date.day, static_cast<int>(seconds / 3'600), static_cast<int>(seconds / 60 % 60),
        static_cast<int>(seconds % 60), static_cast<int>(rest % kMicro), zone, PyDateTimeAPI->DateTimeType));
}

Ref shown_instant(const ValueType& type, PyObject* time, const Value& value) {
    if (type.shown) return call(type.shown.get(), python_int(value.word).get());
    if (!type.zoned) return Ref::borrow(time);
    if (type.in_utc) {
        bool as_it_is = zone_in(time) == type.zone.get();
        return as_it_is ? Ref::borrow(time) : datetime_of(type, value.word, type.zone.get());
    }
    Ref utc = datetime_of(type, value.word, PyDateTime_TimeZone_UTC);
    return callbacks::astimezone(utc.get(), type.zone.get());
}

// --- numbers --------------------------------------------------------------------------------------------

bool read_integer(const ValueType& type, PyObject* object, int64_t& word) {
    if (!PyLong_CheckExact(object)) return false;
    int overflow = 0;
    word = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return false;
    if (type.kind == ValueKind::natural) return word >= 0 && (type.bits == 64 || word >> type.bits == 0);
    return type.bits == 64 || (word >= -(int64_t{1} << (type.bits - 1)) && word < int64_t{1} << (type.bits - 1));
}

bool read_real(const ValueType& type, PyObject* object, int64_t& word) {
    constexpr int64_t kExact = int64_t{1} << 53;
    double value;
    if (PyFloat_Check(object)) {
        value = PyFloat_AS_DOUBLE(object);
    } else {
        int64_t whole;
        if (!read_integer({ValueKind::integer, 64, 1, false, false, {}, {}}, object, whole)) return false;
        if (whole < -kExact || whole > kExact) return false;
        value = static_cast<double>(whole);
    }
    bool narrow = type.kind == ValueKind::short_real;
    if (narrow && value == value && static_cast<double>(static_cast<float>(value)) != value) return false;
    word = bits_of(narrow ? static_cast<double>(static_cast<float>(value)) : value);
    return true;
}

// As the hash of the float has it (monoids/hashes.py), for those that are no large integers.
bool hash_of_real(double value, int64_t& hash) {
    if (value == std::floor(value) && std::isfinite(value)) {
        if (!(value >= -0x1p63 && value < 0x1p63)) return false;
        hash = static_cast<int64_t>(mixed(static_cast<uint64_t>(static_cast<int64_t>(value))));
        return true;
    }
    if (value != value) value = std::nan("");
    hash = static_cast<int64_t>(hash64(&value, sizeof value, 'f'));
    return true;
}

bool input_hash(const ValueType& type, PyObject* object, const Value& value, int64_t& word) {
    switch (type.kind) {
        case ValueKind::truth:
        case ValueKind::integer: word = static_cast<int64_t>(mixed(static_cast<uint64_t>(value.word))); return true;
        case ValueKind::real:
        case ValueKind::short_real:
            if (hash_of_real(value.real(), word)) return true;
            break;
        case ValueKind::text: word = static_cast<int64_t>(hash64(value.data, value.size, 's')); return true;
        case ValueKind::bytes: word = static_cast<int64_t>(hash64(value.data, value.size, 'b')); return true;
        default: break;
    }
    word = static_cast<int64_t>(stable_hash(object));
    return true;
}

bool is_real(const ValueType& type) { return type.kind == ValueKind::real || type.kind == ValueKind::short_real; }

}  // namespace

void open_values() {
    if (!PyDateTimeAPI) PyDateTime_IMPORT;
    if (!PyDateTimeAPI) throw PythonError{};
    if (!zone_class) zone_class = callbacks::zone_class().release();
}

bool read_value(const ValueType& type, PyObject* object, Value& value) {
    value.null = object == Py_None;
    value.word = 0;
    if (value.null) return type.kind != ValueKind::other;
    switch (type.kind) {
        case ValueKind::truth: value.word = object == Py_True; return PyBool_Check(object);
        case ValueKind::integer:
        case ValueKind::natural: return read_integer(type, object, value.word);
        case ValueKind::real:
        case ValueKind::short_real: return read_real(type, object, value.word);
        case ValueKind::text: {
            if (!PyUnicode_CheckExact(object)) return false;
            Py_ssize_t size = 0;
            value.data = PyUnicode_AsUTF8AndSize(object, &size);
            value.size = static_cast<size_t>(size);
            if (!value.data) PyErr_Clear();  // a surrogate
            return value.data && size < INT32_MAX;
        }
        case ValueKind::bytes:
            if (!PyBytes_CheckExact(object)) return false;
            value.data = PyBytes_AS_STRING(object);
            value.size = static_cast<size_t>(PyBytes_GET_SIZE(object));
            return value.size < INT32_MAX;
        case ValueKind::instant: return PyDateTime_CheckExact(object) && ticks_of(type, object, value.word);
        case ValueKind::date:
            if (!PyDate_CheckExact(object)) return false;
            value.word = days_in(object);
            return true;
        default: return false;
    }
}

Ref shown_value(const ValueType& type, PyObject* object, const Value& value) {
    if (value.null) return none();
    if (is_real(type) && !PyFloat_CheckExact(object)) return python_float(value.real());
    return type.kind == ValueKind::instant ? shown_instant(type, object, value) : Ref::borrow(object);
}

void append_key(const ValueType& type, const Value& value, std::string& key) {
    bool there = !value.null && type.kind != ValueKind::nothing;
    key.push_back(there ? 1 : 0);
    if (!there) return;
    const char* word = reinterpret_cast<const char*>(&value.word);
    switch (type.kind) {
        case ValueKind::text:
        case ValueKind::bytes: {
            uint32_t size = static_cast<uint32_t>(value.size);
            key.append(reinterpret_cast<const char*>(&size), sizeof size);
            key.append(value.data, value.size);
            return;
        }
        case ValueKind::truth: return void(key.append(word, 1));
        case ValueKind::date: return void(key.append(word, 4));
        default: key.append(word, type.bits / 8);
    }
}

void append_compared(const ValueType& type, const Value& value, std::string& bytes) {
    if (value.null || !is_real(type)) return append_key(type, value, bytes);
    double number = value.real() + 0.0;
    if (number != number) number = std::nan("");
    Value plain;
    plain.null = false;
    plain.word = bits_of(number);
    append_key(type, plain, bytes);
}

int64_t id_word(const ValueType& type, const Value& value) {
    if (is_real(type)) {
        int64_t word = bits_of(value.real() + 0.0);  // -0.0 is 0.0
        return word < 0 ? word ^ INT64_MAX : word;
    }
    bool wide = type.kind == ValueKind::natural && type.bits == 64;
    return wide ? static_cast<int64_t>(static_cast<uint64_t>(value.word) - (uint64_t{1} << 63)) : value.word;
}

bool input_word(const ValueType& type, char kind, PyObject* object, const Value& value, int64_t& word) {
    bool null = value.null;
    word = 0;
    switch (kind) {
        case 'i': word = value.word; return true;
        case 'f':
            if (!null) word = is_real(type) ? value.word : bits_of(static_cast<double>(value.word));
            return true;
        case 'h':
            if (!null) return input_hash(type, object, value, word);
            word = static_cast<int64_t>(mixed(0));
            return true;
        case 't':
            if (type.kind == ValueKind::instant || type.kind == ValueKind::date) return null;
            if (!null) word = value.data ? value.size > 0 : is_real(type) ? value.real() != 0 : value.word != 0;
            return true;
        default: return true;
    }
}

}  // namespace sash
