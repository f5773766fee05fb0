// Removal: leaves that become empty or thin, and inner nodes that merge or share above them.
#pragma once

#include "tree/tree.hpp"

namespace sash::tree {

// Removes the entry at `position` by moving the shorter side over it.
template <class Parts>
inline void Tree<Parts>::close_gap(Leaf* leaf, uint32_t position) {
    bool rightwards = position - leaf->begin < leaf->end - position - 1;
    if (rightwards) {
        nodes_.move_entries(leaf, leaf->begin, position, leaf, leaf->begin + 1);
        nodes_.clear_entries(leaf, leaf->begin, leaf->begin + 1);
        ++leaf->begin;
    } else {
        nodes_.move_entries(leaf, position + 1, leaf->end, leaf, position);
        --leaf->end;
        nodes_.clear_entries(leaf, leaf->end, leaf->end + 1);
    }
    aggregates_.moved(leaf, position, rightwards);
}

// An empty finger leaf is freed; its neighbor becomes the finger.
template <class Parts>
void Tree<Parts>::left_emptied() {
    Leaf* leaf = left_leaf();
    if (height() == 0) return reset_leaf(leaf);
    Inner* parent = inner(spines_.left(1));
    nodes_.free_leaf(leaf);
    close_slot(nodes_, parent, 0);
    nodes_.set_stale(parent, 0);
    spines_.left(0) = parent->children[0];
    if (parent->count > 1)  // the next to be emptied
        nodes_.prefetch_whole(static_cast<Leaf*>(parent->children[1]));
    aggregates_.left_finger_moved();
    child_removed(finger_path(false), 1);
}

template <class Parts>
void Tree<Parts>::right_emptied() {
    Leaf* leaf = right_leaf();
    Inner* parent = inner(spines_.right(1));
    nodes_.free_leaf(leaf);
    close_slot(nodes_, parent, parent->count - 1);
    nodes_.set_stale(parent, parent->count - 1);
    spines_.right(0) = parent->children[parent->count - 1];
    spines_.appends = 0;
    aggregates_.right_finger_moved();
    child_removed(finger_path(true), 1);
}

template <class Parts>
inline void Tree<Parts>::reset_leaf(Leaf* leaf) {
    leaf->begin = leaf->end = 0;
    spines_.appends = 0;
    aggregates_.finger_rewritten(leaf);
}

// A leaf that is not a finger and has too few entries merges with a neighbor, or takes entries from it.
template <class Parts>
void Tree<Parts>::mend_leaf(const Path& path) {
    Slot at = slot(path, 1);
    uint32_t left = at.index + 1 < at.node->count ? at.index : at.index - 1;
    Leaf* a = static_cast<Leaf*>(at.node->children[left]);
    Leaf* b = static_cast<Leaf*>(at.node->children[left + 1]);
    if constexpr (Nodes::grows) {  // the last leaf may be allocated small, without room for more
        if (nodes_.room(b) < nodes_.capacity()) b = with_whole_room(at.node, left + 1);
        if (nodes_.room(a) < nodes_.capacity()) a = with_whole_room(at.node, left);
    }
    bool merge = a->count() + b->count() <= nodes_.capacity() * 3 / 4;
    aggregates_.finger_rewritten(a);
    aggregates_.finger_rewritten(b);
    if (merge)
        merge_leaves(at.node, left, a, b);
    else
        share_entries(at.node, left, a, b);
    nodes_.set_stale(at.node, left);
    if (!merge) nodes_.set_stale(at.node, left + 1);
    recount(at.node, left, 1);
    if (!merge) recount(at.node, left + 1, 1);
    mark_changed(path, at.node, 1);
    if (merge) child_removed(path, 1);
}

template <class Parts>
inline typename Tree<Parts>::Leaf* Tree<Parts>::with_whole_room(Inner* parent, uint32_t index) {
    Leaf *old = static_cast<Leaf*>(parent->children[index]), *fresh = nodes_.resized(old, nodes_.capacity());
    parent->children[index] = fresh;
    if (spines_.left(0) == old) spines_.left(0) = fresh;
    if (spines_.right(0) == old) spines_.right(0) = fresh;
    nodes_.free_leaf(old);
    return fresh;
}

template <class Parts>
inline void Tree<Parts>::merge_leaves(Inner* parent, uint32_t left, Leaf* a, Leaf* b) {
    if (a->end + b->count() > nodes_.capacity()) slide_to(a, 0);
    nodes_.move_entries(b, b->begin, b->end, a, a->end);
    a->end += b->count();
    if (b == right_leaf()) {
        spines_.right(0) = a;
        spines_.appends = 0;
    }
    nodes_.free_leaf(b);
    close_slot(nodes_, parent, left + 1);
}

template <class Parts>
inline void Tree<Parts>::share_entries(Inner* parent, uint32_t left, Leaf* a, Leaf* b) {
    uint32_t total = a->count() + b->count(), keep = total / 2;
    if (a->count() > keep) {  // a's last entries move to the front of b
        uint32_t moved = a->count() - keep;
        slide_to(b, nodes_.capacity() - b->count());
        b->begin -= moved;
        nodes_.move_entries(a, a->end - moved, a->end, b, b->begin);
        a->end -= moved;
    } else {
        uint32_t moved = keep - a->count();
        slide_to(a, 0);
        nodes_.move_entries(b, b->begin, b->begin + moved, a, a->end);
        a->end += moved;
        b->begin += moved;
    }
    parent->first[left + 1] = nodes_.place(b, b->begin);
}

// Moves a leaf's entries so that they start at `to`.
template <class Parts>
inline void Tree<Parts>::slide_to(Leaf* leaf, uint32_t to) {
    nodes_.move_entries(leaf, leaf->begin, leaf->end, leaf, to);
    leaf->end = to + leaf->count();
    leaf->begin = to;
    aggregates_.finger_rewritten(leaf);
}

// --- inner nodes --------------------------------------------------------------------------------------

template <class Parts>
inline void Tree<Parts>::child_removed(const Path& path, uint32_t level) {
    Slot at = slot(path, level);
    bool spine = on_spine(at.node, level);
    mark_changed(path, at.node, level);
    if (is_root(level)) {
        if (at.node->count == 1) shrink();
        return;
    }
    if (at.node->count < (spine ? 2 : least_inner())) mend_inner(path, level);
}

template <class Parts>
inline void Tree<Parts>::shrink() {
    Inner* root = inner(spines_.root());
    spines_.lower(root->children[0]);
    nodes_.free_inner(root);
    aggregates_.height_changed();
}

template <class Parts>
void Tree<Parts>::mend_inner(const Path& path, uint32_t level) {
    Slot above = slot(path, level + 1);
    uint32_t left = above.index + 1 < above.node->count ? above.index : above.index - 1;
    Inner* a = inner(above.node->children[left]);
    Inner* b = inner(above.node->children[left + 1]);
    b->first[0] = above.node->first[left + 1];
    bool merge = a->count + b->count <= std::max(nodes_.fanout() * 3 / 4, 3u);
    if (merge)
        merge_inner(above.node, left, a, b, level);
    else
        share_children(above.node, left, a, b);
    nodes_.set_stale(above.node, left);
    if (!merge) nodes_.set_stale(above.node, left + 1);
    recount(above.node, left, level + 1);
    if (!merge) recount(above.node, left + 1, level + 1);
    aggregates_.level_changed(level);
    mark_changed(path, above.node, level + 1);
    if (merge) child_removed(path, level + 1);
}

template <class Parts>
inline void Tree<Parts>::merge_inner(Inner* parent, uint32_t left, Inner* a, Inner* b, uint32_t level) {
    move_children(nodes_, b, 0, b->count, a, a->count);
    a->count += b->count;
    if (b == spines_.right(level)) spines_.right(level) = a;
    nodes_.free_inner(b);
    close_slot(nodes_, parent, left + 1);
}

template <class Parts>
inline void Tree<Parts>::share_children(Inner* parent, uint32_t left, Inner* a, Inner* b) {
    uint32_t total = a->count + b->count, keep = total / 2;
    if (a->count > keep) {
        uint32_t moved = a->count - keep;
        move_children(nodes_, b, 0, b->count, b, moved);
        uint64_t own = b->valid & ~low_bits(moved);
        move_children(nodes_, a, keep, a->count, b, 0);
        b->valid |= own;
        b->count += moved;
        a->count = keep;
        a->valid &= low_bits(keep);
    } else {
        uint32_t moved = keep - a->count;
        move_children(nodes_, b, 0, moved, a, a->count);
        a->count = keep;
        for (uint32_t i = 0; i < moved; ++i) close_slot(nodes_, b, 0);
    }
    parent->first[left + 1] = b->first[0];
}

}  // namespace sash::tree
