// Counts of entries: ranks, and the counts in inner nodes.
#pragma once

#include "tree/tree.hpp"

namespace sash::tree {

// The number of entries before, and at or after, the place where a path leads: O(log d) on that side.
template <class Parts>
inline size_t Tree<Parts>::before(const Path& path) const {
    size_t found = path.position - path.leaf->begin;
    for (uint32_t level = 1; level <= height(); ++level) {
        Slot at = slot(path, level);
        for (uint32_t i = 0; i < at.index; ++i) found += count_below(at.node, i, level);
        if (level >= path.top && !path.on_right) break;  // above it the left spine goes through first children
    }
    return found;
}

template <class Parts>
inline size_t Tree<Parts>::after(const Path& path) const {
    size_t found = path.leaf->end - path.position;
    for (uint32_t level = 1; level <= height(); ++level) {
        Slot at = slot(path, level);
        for (uint32_t i = at.index + 1; i < at.node->count; ++i) found += count_below(at.node, i, level);
        if (level >= path.top && path.on_right) break;
    }
    return found;
}

// The number of entries before a path's place, counted from the nearer end.
template <class Parts>
inline size_t Tree<Parts>::rank(const Path& path) const {
    return path.on_right ? size() - after(path) : before(path);
}

template <class Parts>
inline size_t Tree<Parts>::count_below(const Inner* node, uint32_t index, uint32_t level) const {
    Node* child = node->children[index];
    if (!on_spine(child, level - 1)) return node->counts[index];
    return level == 1 ? static_cast<Leaf*>(child)->count() : total_below(inner(child), level - 1);
}

template <class Parts>
inline size_t Tree<Parts>::total_below(const Inner* node, uint32_t level) const {
    size_t total = 0;
    for (uint32_t i = 0; i < node->count; ++i) total += count_below(node, i, level);
    return total;
}

// Recomputes the count of child `index`; for one on a spine it is not used.
template <class Parts>
inline void Tree<Parts>::recount(Inner* node, uint32_t index, uint32_t level) {
    if constexpr (Nodes::counts) {
        Node* child = node->children[index];
        size_t count = level == 1 ? static_cast<Leaf*>(child)->count() : total_below(inner(child), level - 1);
        node->counts[index] = static_cast<uint32_t>(count);
    } else {
        (void)node, (void)index, (void)level;
    }
}

// Adds to the counts of the children on a path, from `level` up to the spine.
template <class Parts>
inline void Tree<Parts>::add_count(const Path& path, uint32_t level, int64_t more) {
    if constexpr (Nodes::counts)
        for (; level <= height(); ++level) {
            Slot at = slot(path, level);
            at.node->counts[at.index] = static_cast<uint32_t>(at.node->counts[at.index] + more);
            if (on_spine(at.node, level)) return;
        }
}

}  // namespace sash::tree
