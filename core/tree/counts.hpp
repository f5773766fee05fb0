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

// The path to the entry of a rank, sought from the nearer end: O(log d).
template <class Parts>
inline typename Tree<Parts>::Path Tree<Parts>::at_rank(size_t rank) const {
    Path path = finger_path(rank >= size() / 2);
    path.found = true;
    size_t behind = path.on_right ? size() - rank : rank + 1;  // entries up to it, itself included, from that end
    if (behind <= path.leaf->count()) {
        path.position = path.on_right ? path.leaf->end - static_cast<uint32_t>(behind)
                                      : path.leaf->begin + static_cast<uint32_t>(behind) - 1;
        return path;
    }
    behind -= path.leaf->count();
    for (uint32_t level = 1;; ++level) {
        Inner* node = inner(path.on_right ? spines_.right(level) : spines_.left(level));
        for (uint32_t i = 1; i < node->count; ++i) {  // the first one on the spine has been counted
            uint32_t child = path.on_right ? node->count - 1 - i : i;
            size_t count = count_below(node, child, level);
            if (behind <= count) {
                descend_to(path, node, child, level, path.on_right ? count - behind : behind - 1);
                return path;
            }
            behind -= count;
        }
    }
}

template <class Parts>
inline void Tree<Parts>::descend_to(Path& path, Inner* node, uint32_t child, uint32_t level, size_t rank) const {
    for (path.top = level;; --level) {
        path.nodes[level] = node;
        path.index[level] = child;
        if (level == 1) break;
        node = inner(node->children[child]);
        for (child = 0;; ++child) {
            size_t count = count_below(node, child, level - 1);
            if (rank < count) break;
            rank -= count;
        }
    }
    path.leaf = static_cast<Leaf*>(node->children[child]);
    path.position = path.leaf->begin + static_cast<uint32_t>(rank);
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
