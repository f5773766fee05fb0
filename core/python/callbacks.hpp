// Every function, method and class of Python that the core calls, one function each.
//
// The comment above each is its name in Python: tests/window/test_callbacks.py checks that it exists and is callable.
#pragma once

#include "base/error.hpp"
#include "python/python.hpp"

namespace sash::callbacks {

inline Ref imported(const char* module, const char* name) {
    return attribute(Ref::checked(PyImport_ImportModule(module)).get(), name);
}

// sash.times.as_float
inline Ref as_float(PyObject* value) { return call(imported("sash.times", "as_float").get(), value); }

// sash.times.as_number
inline Ref as_number(PyObject* value) { return call(imported("sash.times", "as_number").get(), value); }

// sash.times.Instants.encode
inline Ref encode(PyObject* codec, PyObject* time, PyObject* argument) {
    return call(attribute(codec, "encode").get(), time, argument);
}

// sash.times.Instants.decode
inline Ref decode(PyObject* codec, PyObject* ticks) { return call(attribute(codec, "decode").get(), ticks); }

// sash.inputs.batch.kinds_of
inline Ref kinds_of(PyObject* monoid, PyObject* entry) {
    return call(imported("sash.inputs.batch", "kinds_of").get(), monoid, entry);
}

// sash.monoid.Monoid.layout
inline Ref layout(PyObject* monoid) { return Ref::checked(PyObject_CallMethod(monoid, "layout", nullptr)); }

// sash.monoid.Monoid.empty
inline Ref empty(PyObject* monoid, PyObject* start, PyObject* stop) {
    return call(attribute(monoid, "empty").get(), start, stop);
}

// sash.numba_compile.Program.addresses
inline Ref addresses(PyObject* program) { return Ref::checked(PyObject_CallMethod(program, "addresses", nullptr)); }

// sash.monoids.stable_hash
inline Ref stable_hash(PyObject* value) { return call(imported("sash.monoids", "stable_hash").get(), value); }

// sash.monoids.Bloom
inline Ref bloom_class() { return imported("sash.monoids", "Bloom"); }

// zoneinfo.ZoneInfo
inline Ref zone_class() { return imported("zoneinfo", "ZoneInfo"); }

// datetime.datetime.utcoffset
inline Ref utcoffset(PyObject* time) {
    static PyObject* const name = PyUnicode_InternFromString("utcoffset");
    return Ref::checked(PyObject_CallMethodNoArgs(time, name));
}

// datetime.datetime.astimezone
inline Ref astimezone(PyObject* time, PyObject* zone) {
    static PyObject* const name = PyUnicode_InternFromString("astimezone");
    return Ref::checked(PyObject_CallMethodOneArg(time, name, zone));
}

// sash.equality.same
inline Ref same(PyObject* left, PyObject* right) { return call(imported("sash.equality", "same").get(), left, right); }

// sash.errors.ArgumentError
// sash.errors.KindError
// sash.errors.OutOfOrderError
// sash.errors.UnsupportedError
// sash.errors.ResultOverflowError
// sash.errors.ConcurrentUseError
// sash.errors.CorruptStateError
// sash.errors.InvariantError
inline Ref error_class(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::argument: return imported("sash.errors", "ArgumentError");
        case ErrorKind::kind: return imported("sash.errors", "KindError");
        case ErrorKind::order: return imported("sash.errors", "OutOfOrderError");
        case ErrorKind::unsupported: return imported("sash.errors", "UnsupportedError");
        case ErrorKind::overflow: return imported("sash.errors", "ResultOverflowError");
        case ErrorKind::concurrent: return imported("sash.errors", "ConcurrentUseError");
        case ErrorKind::corrupt: return imported("sash.errors", "CorruptStateError");
        default: return imported("sash.errors", "InvariantError");
    }
}

}  // namespace sash::callbacks
