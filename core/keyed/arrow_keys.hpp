// Keys from Arrow columns, as bytes that are equal where the keys are: the C data interface, read where it lies.
//
// A key is its columns one after the other: a byte that says whether it is null, then its value, of which text comes with
// its length. Integers, booleans, dates, times, decimals, text and bytes are keys; floats are not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "python/python.hpp"

namespace sash {

struct ArrowSchema {
    const char* format;
    const char* name;
    const char* metadata;
    int64_t flags;
    int64_t n_children;
    ArrowSchema** children;
    ArrowSchema* dictionary;
    void (*release)(ArrowSchema*);
    void* private_data;
};
struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void** buffers;
    ArrowArray** children;
    ArrowArray* dictionary;
    void (*release)(ArrowArray*);
    void* private_data;
};

class KeyColumns {
   public:
    // What `__arrow_c_array__()` of a record batch of the key columns gives: two capsules.
    KeyColumns(PyObject* schema_capsule, PyObject* array_capsule);

    size_t rows() const { return rows_; }
    void append(std::string& key, size_t row) const {
        for (const Column& column : columns_) append(key, column, row);
    }

   private:
    struct Column {
        const uint8_t* valid;
        const char* values;
        const void* offsets;
        uint32_t width;  // of a value, or one of those below
        int64_t offset;
        bool nothing;  // all null
    };
    enum : uint32_t { kText = UINT32_MAX - 2, kLongText, kBits };  // no width of a value

    static Column column_of(const ArrowSchema& schema, const ArrowArray& array, int64_t offset);
    static void append(std::string& key, const Column& column, size_t row);

    std::vector<Column> columns_;
    size_t rows_ = 0;
};

// A key column again: which of its values are there, their bytes, and of text where each begins.
struct KeyParts {
    std::vector<uint8_t> there;
    std::vector<char> values;
    std::vector<int64_t> offsets;
};
// Whether bytes are those of a key whose values have these widths; 0 is text.
bool is_key(std::string_view key, const std::vector<uint32_t>& widths);
// The columns of keys, by the widths of their values.
std::vector<KeyParts> split_keys(const std::vector<const std::string*>& keys, const std::vector<uint32_t>& widths);

}  // namespace sash
