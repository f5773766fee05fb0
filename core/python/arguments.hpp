// Arguments from Python, read without copying.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "monoids/monoids.hpp"
#include "python/python.hpp"

namespace sash {

inline nanobind::object python(Ref ref) { return nanobind::steal(ref.release()); }

// Any contiguous Python buffer, read without copying.
class Bytes {
   public:
    explicit Bytes(nanobind::handle object, bool writable = false) {
        succeed(PyObject_GetBuffer(object.ptr(), &buffer_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE));
    }
    char* data() { return static_cast<char*>(buffer_.buf); }
    ~Bytes() { PyBuffer_Release(&buffer_); }
    Bytes(const Bytes&) = delete;
    std::string_view view() const { return {static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len)}; }

   private:
    Py_buffer buffer_{};
};

// A column as a list of objects, or as a contiguous buffer of int64 or float64 that stays alive with this.
class ColumnArgument {
   public:
    explicit ColumnArgument(nanobind::handle rows, bool writable = false) {
        if (PyTuple_Check(rows.ptr())) {
            read_record(rows.ptr());
            return;
        }
        if (PyList_Check(rows.ptr())) {
            column_.objects = rows.ptr();
            column_.size = static_cast<size_t>(PyList_GET_SIZE(rows.ptr()));
            return;
        }
        int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
        succeed(PyObject_GetBuffer(rows.ptr(), &buffer_, flags));
        open_ = true;
        bool reals = buffer_.format && buffer_.format[0] == 'd';
        (reals ? reinterpret_cast<const void*&>(column_.reals) : reinterpret_cast<const void*&>(column_.words)) =
            buffer_.buf;
        column_.size = buffer_.ndim ? static_cast<size_t>(buffer_.shape[0]) : 0;
    }
    ~ColumnArgument() {
        if (open_) PyBuffer_Release(&buffer_);
    }
    ColumnArgument(const ColumnArgument&) = delete;

    const Column& get() const { return column_; }
    Output output() const {
        return {static_cast<int64_t*>(buffer_.buf), static_cast<double*>(buffer_.buf), column_.objects};
    }

   private:
    // (number of rows, then (words, nulls or None) for each input)
    void read_record(PyObject* record) {
        column_.size = static_cast<size_t>(PyLong_AsSize_t(PyTuple_GetItem(record, 0)));
        for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(record); ++i) {
            PyObject* input = PyTuple_GET_ITEM(record, i);
            Column column;
            column.words = static_cast<const int64_t*>(open_part(PyTuple_GetItem(input, 0), sizeof(int64_t)));
            if (PyTuple_GetItem(input, 1) != Py_None)
                column.nulls = static_cast<const uint8_t*>(open_part(PyTuple_GetItem(input, 1), 1));
            inputs_.push_back(column);
        }
        column_.input_count = inputs_.size();
        static const Column nothing{};
        column_.inputs = inputs_.empty() ? &nothing : inputs_.data();
    }
    const void* open_part(PyObject* part, size_t item) {
        parts_.push_back(std::make_unique<Bytes>(nanobind::handle(part)));
        if (parts_.back()->view().size() != column_.size * item)
            fail(ErrorKind::argument, "values must have inputs of the same length.", "values");
        return parts_.back()->view().data();
    }

    Column column_;
    std::vector<Column> inputs_;
    std::vector<std::unique_ptr<Bytes>> parts_;
    Py_buffer buffer_{};
    bool open_ = false;
};

}  // namespace sash
