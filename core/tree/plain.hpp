// A node as a Python dict, for tests and drawings.
#pragma once

#include "python/python.hpp"
#include "tree/nodes.hpp"

namespace sash {

// Which spine a node is on; null: neither.
template <class Spines>
const char* spine_name(const Spines& spines, const tree::Node* node, uint32_t level) {
    if (level == spines.height()) return "root";
    if (node == spines.left(level)) return "left";
    return node == spines.right(level) ? "right" : nullptr;
}

// Identifies a node as long as it exists.
inline Ref node_id(const void* node) { return python_int(static_cast<int64_t>(reinterpret_cast<intptr_t>(node))); }

inline Ref node_dict(const Ref& keys, const Ref& values, const Ref& aggregate, const char* spine, const Ref& children) {
    Ref dict = Ref::checked(PyDict_New());
    set_item(dict, "keys", keys);
    set_item(dict, "values", values);
    set_item(dict, "aggregate", aggregate);
    set_item(dict, "spine", spine ? Ref::checked(PyUnicode_FromString(spine)) : none());
    set_item(dict, "children", children);
    return dict;
}

}  // namespace sash
