// Batches: inserts of a sorted run leaf by leaf, and evictions of old entries subtree by subtree.
#pragma once

#include "tree/tree.hpp"

namespace sash::tree {

// The end of the rows from `from` that belong to the leaf of `path`; for the last leaf only those that are not appends.
// `rows.place(i)` must ascend.
template <class Parts>
template <class Rows>
size_t Tree<Parts>::end_of_group(const Path& path, const Rows& rows, size_t from) const {
    const Place* edge = edge_after(path);
    Place last = newest();
    size_t stop = from, most = std::min(rows.size(), from + 8 * nodes_.capacity());  // what stays in cache
    while (stop < most && (edge ? nodes_.less(rows.place(stop), *edge) : !nodes_.less(last, rows.place(stop)))) ++stop;
    return stop;
}

// Merges rows [from, stop), which belong to the leaf of `path`, with its entries. `scratch.add_entry(leaf, i)` and
// `scratch.add_row(rows, i)` take them in order. Returns false, with nothing changed, if a row cannot be merged into
// the entry of its place.
template <class Parts>
template <class Rows, class Scratch>
bool Tree<Parts>::merge_group(Path& path, const Rows& rows, size_t from, size_t stop, Scratch& scratch) {
    Leaf* leaf = path.leaf;
    scratch.clear();
    uint32_t old = leaf->begin;
    for (size_t row = from; row < stop; ++row) {
        const Place place = rows.place(row);
        for (; old < leaf->end && !nodes_.less(place, nodes_.place(leaf, old)); ++old) scratch.add_entry(leaf, old);
        if (!scratch.add_row(rows, row)) return false;
    }
    for (; old < leaf->end; ++old) scratch.add_entry(leaf, old);
    spread(path, scratch);
    return true;
}

// Writes merged entries back: to the leaf if they fit, else to it and new leaves after it, each nearly full.
template <class Parts>
template <class Scratch>
void Tree<Parts>::spread(Path& path, Scratch& scratch) {
    size_t total = scratch.size(), roomy = std::max<size_t>(1, nodes_.capacity() * 7 / 8);
    size_t leaves = total <= nodes_.capacity() ? 1 : (total + roomy - 1) / roomy;
    uint32_t before = path.leaf->count();
    if (is_finger(path.leaf))
        aggregates_.finger_rewritten(path.leaf);
    else
        mark_stale(path, 1);
    if constexpr (Nodes::grows)
        if (nodes_.room(path.leaf) < std::min<size_t>(total, nodes_.capacity()))
            resize(path, static_cast<uint32_t>(std::min<size_t>(total, nodes_.capacity())));
    size_t written = 0;
    for (size_t i = 0; i < leaves; ++i) {
        size_t upto = total * (i + 1) / leaves;
        Leaf* into = i ? nodes_.make_leaf(nodes_.capacity()) : path.leaf;
        scratch.write(written, upto, into);
        into->begin = 0;
        into->end = static_cast<uint32_t>(upto - written);
        written = upto;
        if (i == 0) {
            if constexpr (Nodes::counts) add_count(path, 1, static_cast<int64_t>(into->end) - before);
            continue;
        }
        if (path.leaf == right_leaf()) spines_.appends = 0;
        add_leaf(path, into, nodes_.place(into, 0), false, into->end);
        if (i + 1 < leaves) path = search(nodes_.place(into, 0));
    }
    spines_.size += total - before;
}

// --- evict_until -----------------------------------------------------------------------------------

// Frees whole subtrees along the left spine, from the lowest node that contains the edge, and then repairs the spine.
template <class Parts>
size_t Tree<Parts>::evict_until(const Place& edge, bool inclusive) {
    size_t before = size();
    if (!before || !(inclusive ? !nodes_.less(edge, oldest()) : nodes_.less(oldest(), edge))) return 0;
    if (height() == 0) {
        uint32_t stays = first_after(edge, inclusive);
        if (stays == left_leaf()->end) return clear();
        drop_until(stays);
        return before - size();
    }
    if (inclusive ? !nodes_.less(edge, newest()) : nodes_.less(newest(), edge)) return clear();
    uint32_t top = 0;
    while (top < height() && !holds_edge(top, edge)) ++top;
    for (uint32_t level = top; level > 0; --level) drop_children(level, edge);
    if (top) mend_left_spine(top);
    drop_until(first_after(edge, inclusive));
    return before - size();
}

// The position in the left leaf of the first entry that stays. Few leave as a rule, so it is looked for from the front,
// in steps that double: a leaf of rows is many cache lines long.
template <class Parts>
uint32_t Tree<Parts>::first_after(const Place& edge, bool inclusive) const {
    const Leaf* leaf = left_leaf();
    uint32_t from = leaf->begin, reach = 1;
    while (from + reach < leaf->end && nodes_.less(nodes_.place(leaf, from + reach), edge)) {
        from += reach;
        reach *= 2;
    }
    uint32_t stays = tree::lower_bound(nodes_, leaf, from, std::min(from + reach, leaf->end), edge);
    if (inclusive && stays < leaf->end && !nodes_.less(edge, nodes_.place(leaf, stays))) ++stays;
    return stays;
}

// Evicts the left leaf's entries before a position: possibly all of them.
template <class Parts>
void Tree<Parts>::drop_until(uint32_t stays) {
    Leaf* leaf = left_leaf();
    if (stays == leaf->begin) return;
    spines_.size -= stays - leaf->begin;
    leaf->begin = stays;
    aggregates_.popped_front(leaf);
    if (leaf->begin == leaf->end) left_emptied();
}

template <class Parts>
void Tree<Parts>::mend_left_spine(uint32_t top) {
    while (height() > 0 && inner(spines_.root())->count == 1) shrink();
    for (uint32_t level = top; level > 0; --level)
        if (level < height() && inner(spines_.left(level))->count < 2) mend_inner(finger_path(false), level);
}

template <class Parts>
size_t Tree<Parts>::clear() {
    size_t gone = size();
    free_below(spines_.root(), height());
    spines_.size = 0;
    spines_.appends = 0;
    spines_.reset(nodes_.make_leaf(1));
    aggregates_.height_changed();
    return gone;
}

// Whether the last child of the left spine's node at this level is entirely later than the edge.
template <class Parts>
bool Tree<Parts>::holds_edge(uint32_t level, const Place& edge) const {
    if (level == 0) return nodes_.less(edge, nodes_.place(left_leaf(), left_leaf()->end - 1));
    const Inner* node = inner(spines_.left(level));
    return nodes_.less(edge, node->first[node->count - 1]);
}

// Frees the children that lie entirely at or before the edge: those whose next neighbor starts there or before. An
// entry at the edge itself can only be in the child that stays.
template <class Parts>
void Tree<Parts>::drop_children(uint32_t level, const Place& edge) {
    Inner* node = inner(spines_.left(level));
    uint32_t gone = 0;
    while (gone + 1 < node->count && !nodes_.less(edge, node->first[gone + 1])) ++gone;
    for (uint32_t i = 0; i < gone; ++i) spines_.size -= free_counted(node->children[i], level - 1);
    move_children(nodes_, node, gone, node->count, node, 0);
    node->count -= gone;
    node->valid &= low_bits(node->count);
    nodes_.set_stale(node, 0);
    spines_.left(level - 1) = node->children[0];
    aggregates_.spine_changed(node, level);
    if (level == 1) aggregates_.left_finger_moved();
}

template <class Parts>
size_t Tree<Parts>::free_counted(Node* node, uint32_t level) {
    size_t entries = 0;
    if (level == 0) {
        entries = static_cast<Leaf*>(node)->count();
        nodes_.free_leaf(static_cast<Leaf*>(node));
        return entries;
    }
    for (uint32_t i = 0; i < inner(node)->count; ++i) entries += free_counted(inner(node)->children[i], level - 1);
    nodes_.free_inner(inner(node));
    return entries;
}

}  // namespace sash::tree
