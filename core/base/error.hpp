// The core's errors.
//
// An error is a class of `sash.errors`, a message and the name of an argument; python/module.cpp raises it in Python.
// A Python exception raised by a callback is thrown as PythonError: the interpreter holds the exception itself.
#pragma once

#include <string>
#include <utility>

namespace sash {

enum class ErrorKind {
    argument,     // ArgumentError: the right type, but an invalid value
    kind,         // KindError: an invalid type, or one that differs from the window's entries
    order,        // OutOfOrderError
    unsupported,  // UnsupportedError
    overflow,     // ResultOverflowError
    concurrent,   // ConcurrentUseError
    corrupt,      // CorruptStateError
    invariant,    // InvariantError
};

struct Error {
    ErrorKind kind;
    std::string message;
    std::string argument;  // the invalid one, or empty
};

// The interpreter's error indicator is set.
struct PythonError {};

[[noreturn]] inline void fail(ErrorKind kind, std::string message, std::string argument = "") {
    throw Error{kind, std::move(message), std::move(argument)};
}

inline void require(bool holds, const char* what) {
    if (!holds) fail(ErrorKind::invariant, std::string("broken invariant: ") + what + ".");
}

}  // namespace sash
