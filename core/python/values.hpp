// Python values as Arrow reads them into a column of a type, without Arrow: as words or bytes for the core, and as the
// Python values that such a column has.
//
// Only what is read the same beyond doubt is read here. For everything else `read` says no, and Arrow decides.
#pragma once

#include <cstdint>
#include <string>

#include "python/python.hpp"

namespace sash {

// What a column holds.
enum class ValueKind : char {
    nothing = 'n',  // nulls
    truth = 'b',
    integer = 'i',
    natural = 'u',  // an unsigned integer
    real = 'd',
    short_real = 'f',
    text = 's',
    bytes = 'z',
    instant = 't',
    date = 'D',
    other = 'x',  // which is not read here
};

struct ValueType {
    ValueKind kind = ValueKind::other;
    uint32_t bits = 64;              // of an integer
    int64_t per_second = 1'000'000;  // ticks of an instant
    bool zoned = false, in_utc = false;
    Ref zone;   // of the instants that a column returns
    Ref shown;  // from ticks to the value that a column returns, where that is not a datetime; or null
};

// A value that was read; it leans on the object that it was read from.
struct Value {
    bool null = true;
    int64_t word = 0;  // a number, a truth value, ticks or days; the bits of a float
    const char* data = nullptr;
    size_t size = 0;  // of a text or bytes
    double real() const {
        double value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
};

// Takes the types and the objects of datetime; once, before anything is read.
void open_values();

// Reads a value, which may have a null. False: Arrow must decide.
bool read_value(const ValueType& type, PyObject* object, Value& value);
// The value that a column of the type returns for one that was read.
Ref shown_value(const ValueType& type, PyObject* object, const Value& value);

// A value as a part of a key, as KeyColumns writes it (keyed/arrow_keys.cpp).
void append_key(const ValueType& type, const Value& value, std::string& key);
// The same for what deletes compare: floats too, with one NaN and one zero.
void append_compared(const ValueType& type, const Value& value, std::string& bytes);
// An id as a number that is ordered as the ids are; texts have none.
int64_t id_word(const ValueType& type, const Value& value);
// What an aggregate reads of a value, by the kind of its input: i f h, t a truth, a anything. False: Arrow must decide.
bool input_word(const ValueType& type, char kind, PyObject* object, const Value& value, int64_t& word);

}  // namespace sash
