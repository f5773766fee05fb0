// The core's own errors, and where each becomes a Python exception.
//
// A core error is a class of `sash.errors` and a sentence; python/module.cpp turns it into a raised exception. A Python
// exception that a user's callback raised travels as PythonError: the interpreter holds the exception itself.
#pragma once

#include <string>
#include <utility>

namespace sash {

enum class ErrorKind {
    argument,     // ArgumentError: the type is right, the value is not
    kind,         // KindError: the type is wrong, or differs from what the window holds
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
    std::string argument;  // the one at fault, or empty
};

// The interpreter's error indicator is set; nothing else to say.
struct PythonError {};

[[noreturn]] inline void fail(ErrorKind kind, std::string message, std::string argument = "") {
    throw Error{kind, std::move(message), std::move(argument)};
}

inline void require(bool holds, const char* what) {
    if (!holds) fail(ErrorKind::invariant, std::string("broken invariant: ") + what + ".");
}

}  // namespace sash
