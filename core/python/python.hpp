// The Python C API as the core uses it: an owning reference, calls that throw, and conversions of values.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace sash {

// An owning reference. Assignment releases the old object last, because its destructor may run any Python code and
// must find this reference already changed.
class Ref {
   public:
    Ref() noexcept = default;
    Ref(const Ref& other) noexcept : object_(other.object_) { Py_XINCREF(object_); }
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    ~Ref() { Py_XDECREF(object_); }
    Ref& operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }

    static Ref borrow(PyObject* object) noexcept {
        Py_XINCREF(object);
        return steal(object);
    }
    static Ref steal(PyObject* object) noexcept {
        Ref ref;
        ref.object_ = object;
        return ref;
    }
    // Takes ownership of a call's result, or throws what the call raised.
    static Ref checked(PyObject* object) {
        if (!object) throw PythonError{};
        return steal(object);
    }

    PyObject* get() const noexcept { return object_; }
    PyObject* release() noexcept { return std::exchange(object_, nullptr); }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    bool is_none() const noexcept { return object_ == Py_None; }

   private:
    PyObject* object_ = nullptr;
};

template <class T>
void clear(T& slot) {
    slot = T();
}

// Sets a raised exception aside while Python code runs that must not see it.
class Aside {
   public:
    Aside() { PyErr_Fetch(&type_, &value_, &trace_); }
    ~Aside() { PyErr_Restore(type_, value_, trace_); }
    Aside(const Aside&) = delete;

   private:
    PyObject *type_, *value_, *trace_;
};

// Pauses the collector of cycles while a loop makes objects that cannot be part of one: it would walk through all of them
// again and again.
class CollectorPause {
   public:
    explicit CollectorPause(bool pause) : paused_(pause && PyGC_Disable()) {}
    ~CollectorPause() {
        if (paused_) PyGC_Enable();
    }
    CollectorPause(const CollectorPause&) = delete;

   private:
    const bool paused_;
};

inline Ref none() { return Ref::borrow(Py_None); }

// None or pandas.NA, without importing pandas.
inline bool is_null(PyObject* object) {
    if (object == Py_None) return true;
    if (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object)) return false;
    const char *name = Py_TYPE(object)->tp_name, *dot = std::strrchr(name, '.');
    return std::strcmp(dot ? dot + 1 : name, "NAType") == 0;
}

inline void succeed(int status) {
    if (status < 0) throw PythonError{};
}

inline Ref call(PyObject* function, PyObject* a) { return Ref::checked(PyObject_CallOneArg(function, a)); }

inline Ref call(PyObject* function, PyObject* a, PyObject* b) {
    PyObject* arguments[] = {a, b};
    return Ref::checked(PyObject_Vectorcall(function, arguments, 2, nullptr));
}

inline Ref attribute(PyObject* object, const char* name) { return Ref::checked(PyObject_GetAttrString(object, name)); }

// The repr of a value for an error message, shortened. Never raises.
inline std::string shown(PyObject* object) {
    Ref text = Ref::steal(PyObject_Repr(object));
    Py_ssize_t size = 0;
    const char* bytes = text ? PyUnicode_AsUTF8AndSize(text.get(), &size) : nullptr;
    if (!bytes) {
        PyErr_Clear();
        return std::string("an object of type ") + Py_TYPE(object)->tp_name;
    }
    std::string shown(bytes, static_cast<size_t>(size));
    if (shown.size() > 80) {
        size_t end = 77;
        while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;
        shown = shown.substr(0, end) + "...";
    }
    for (char& c : shown)
        if (c == '\n') c = ' ';
    return shown;
}

inline Ref python_int(int64_t value) { return Ref::checked(PyLong_FromLongLong(value)); }
inline Ref python_float(double value) { return Ref::checked(PyFloat_FromDouble(value)); }

inline Ref python_int(__int128 value) {
    if (value >= INT64_MIN && value <= INT64_MAX) return python_int(static_cast<int64_t>(value));
    Ref high = python_int(static_cast<int64_t>(value >> 64));
    Ref bits = python_int(int64_t{64});
    Ref low = Ref::checked(PyLong_FromUnsignedLongLong(static_cast<uint64_t>(value)));
    Ref shifted = Ref::checked(PyNumber_Lshift(high.get(), bits.get()));
    return Ref::checked(PyNumber_Or(shifted.get(), low.get()));
}

inline Ref python_text(const std::string& text) {
    return Ref::checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

inline Ref python_pair(Ref first, Ref second) { return Ref::checked(PyTuple_Pack(2, first.get(), second.get())); }

inline Ref python_list() { return Ref::checked(PyList_New(0)); }
inline void append(Ref& list, const Ref& item) { succeed(PyList_Append(list.get(), item.get())); }

inline void set_item(Ref& dict, const char* key, const Ref& value) {
    succeed(PyDict_SetItemString(dict.get(), key, value.get()));
}

}  // namespace sash
