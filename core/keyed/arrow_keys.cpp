#include "keyed/arrow_keys.hpp"

#include <algorithm>
#include <cstring>

namespace sash {

namespace {

bool bit_at(const void* bits, int64_t i) { return static_cast<const uint8_t*>(bits)[i / 8] >> (i % 8) & 1; }

// The bytes of a value of a fixed width, by Arrow's name of the type; 0 for others.
uint32_t width_of(const std::string& format) {
    switch (format[0]) {
        case 'c':
        case 'C': return 1;
        case 's':
        case 'S': return 2;
        case 'i':
        case 'I': return 4;
        case 'l':
        case 'L': return 8;
        default: break;
    }
    if (format == "tdD" || format == "tts" || format == "ttm") return 4;
    if (format == "tdm" || format == "ttu" || format == "ttn" || format.rfind("ts", 0) == 0) return 8;
    if (format[0] == 'd') {
        size_t comma = format.rfind(',');
        bool two = std::count(format.begin(), format.end(), ',') == 2;
        return two ? static_cast<uint32_t>(std::stoi(format.substr(comma + 1)) / 8) : 16;
    }
    if (format.rfind("w:", 0) == 0) return static_cast<uint32_t>(std::stoi(format.substr(2)));
    return 0;
}

}  // namespace

KeyColumns::KeyColumns(PyObject* schema_capsule, PyObject* array_capsule) {
    auto* schema = static_cast<ArrowSchema*>(PyCapsule_GetPointer(schema_capsule, "arrow_schema"));
    auto* array = schema ? static_cast<ArrowArray*>(PyCapsule_GetPointer(array_capsule, "arrow_array")) : nullptr;
    if (!array) throw PythonError{};
    rows_ = static_cast<size_t>(array->length);
    for (int64_t i = 0; i < array->n_children; ++i)
        columns_.push_back(column_of(*schema->children[i], *array->children[i], array->offset));
}

KeyColumns::Column KeyColumns::column_of(const ArrowSchema& schema, const ArrowArray& array, int64_t offset) {
    std::string format = schema.format;
    Column column{};
    column.offset = array.offset + offset;
    if (array.null_count != 0) column.valid = static_cast<const uint8_t*>(array.buffers[0]);
    if (format == "n") {
        column.nothing = true;
        return column;
    }
    column.values = static_cast<const char*>(array.buffers[1]);
    column.width = width_of(format);
    if (format == "b") column.width = kBits;
    if (format == "u" || format == "z" || format == "U" || format == "Z") {
        column.width = format == "u" || format == "z" ? kText : kLongText;
        column.offsets = array.buffers[1];
        column.values = static_cast<const char*>(array.buffers[2]);
    } else if (column.width == 0) {
        fail(ErrorKind::kind,
             std::string("keys must be integers, booleans, text, dates, timestamps or decimals; column '") +
                 schema.name + "' is of another type.",
             "keys");
    }
    return column;
}

void KeyColumns::append(std::string& key, const Column& column, size_t row) {
    int64_t at = static_cast<int64_t>(row) + column.offset;
    bool there = !column.nothing && (!column.valid || bit_at(column.valid, at));
    key.push_back(there ? 1 : 0);
    if (!there) return;
    if (column.width == kBits) {
        key.push_back(bit_at(column.values, at) ? 1 : 0);
    } else if (column.width == kText || column.width == kLongText) {
        int64_t from, to;
        if (column.width == kText) {
            const auto* offsets = static_cast<const int32_t*>(column.offsets);
            from = offsets[at], to = offsets[at + 1];
        } else {
            const auto* offsets = static_cast<const int64_t*>(column.offsets);
            from = offsets[at], to = offsets[at + 1];
        }
        uint32_t size = static_cast<uint32_t>(to - from);
        key.append(reinterpret_cast<const char*>(&size), sizeof size);
        if (size) key.append(column.values + from, size);
    } else {
        key.append(column.values + at * column.width, column.width);
    }
}

bool is_key(std::string_view key, const std::vector<uint32_t>& widths) {
    for (uint32_t size : widths) {
        if (key.empty() || static_cast<unsigned char>(key[0]) > 1) return false;
        bool there = key[0];
        key.remove_prefix(1);
        if (!there) continue;
        if (size == 0) {
            if (key.size() < sizeof size) return false;
            std::memcpy(&size, key.data(), sizeof size);
            key.remove_prefix(sizeof size);
        }
        if (key.size() < size) return false;
        key.remove_prefix(size);
    }
    return key.empty();
}

std::vector<KeyParts> split_keys(const std::vector<const std::string*>& keys, const std::vector<uint32_t>& widths) {
    std::vector<KeyParts> columns(widths.size());
    for (const std::string* key : keys) {
        const char* at = key->data();
        for (size_t i = 0; i < widths.size(); ++i) {
            KeyParts& column = columns[i];
            bool there = *at++;
            column.there.push_back(there);
            uint32_t size = widths[i];
            if (size == 0) {
                column.offsets.push_back(static_cast<int64_t>(column.values.size()));
                if (there) std::memcpy(&size, at, sizeof size), at += sizeof size;
            }
            if (there)
                column.values.insert(column.values.end(), at, at + size), at += size;
            else
                column.values.resize(column.values.size() + size);
        }
    }
    for (KeyParts& column : columns) column.offsets.push_back(static_cast<int64_t>(column.values.size()));
    return columns;
}

}  // namespace sash
