// Room for new entries: leaves that grow or split, and inner nodes that split above them.
#pragma once

#include "tree/tree.hpp"

namespace sash::tree {

// A leaf that was filled by appends stays full, and the next one starts empty: the tree is as dense as possible. Any
// other leaf is split in the middle, or alternating appends and evictions at a leaf's edge could make a new leaf each
// time.
template <class Parts>
typename Tree<Parts>::Leaf* Tree<Parts>::room_at_end(const Place& place) {
    Leaf* leaf = right_leaf();
    if constexpr (Nodes::grows)
        if (nodes_.room(leaf) < nodes_.capacity()) return larger_end(leaf);
    if (leaf->begin > 0 && leaf->begin >= nodes_.capacity() / 2)
        slide_to(leaf, 0);
    else if (spines_.appends >= nodes_.capacity() / 2)
        start_leaf(leaf, place);
    else if (leaf->end < nodes_.room(leaf))
        return leaf;  // appends leave some room in other leaves for late entries
    else
        split_leaf(finger_path(true));
    spines_.appends = 0;
    return right_leaf();
}

template <class Parts>
inline typename Tree<Parts>::Leaf* Tree<Parts>::larger_end(Leaf* leaf) {
    if (leaf->begin > 0 && leaf->begin >= nodes_.room(leaf) / 2) {
        slide_to(leaf, 0);
        return leaf;
    }
    Path path = finger_path(true);
    resize(path, leaf->count() + 1);
    return path.leaf;
}

// Replaces the leaf of a path by one with room for `wanted` entries, which start at 0.
template <class Parts>
inline void Tree<Parts>::resize(Path& path, uint32_t wanted) {
    Leaf *old = path.leaf, *fresh = nodes_.resized(old, wanted);
    path.position -= std::min(path.position, old->begin);
    if (height() > 0) {
        Slot at = slot(path, 1);
        at.node->children[at.index] = fresh;
    }
    if (spines_.left(0) == old) spines_.left(0) = fresh;
    if (spines_.right(0) == old) spines_.right(0) = fresh;
    nodes_.free_leaf(old);
    path.leaf = fresh;
}

// A full leaf grows, or shares entries with a neighbor that has room; if neither is possible the caller splits it.
template <class Parts>
void Tree<Parts>::make_space(Path& path, const Place& place) {
    if (nodes_.room(path.leaf) < nodes_.capacity()) return resize(path, path.leaf->count() + 1);
    if (height() == 0 || is_finger(path.leaf)) return;
    Slot at = slot(path, 1);
    for (bool behind : {true, false}) {
        if (behind ? at.index + 1 == at.node->count : at.index == 0) continue;
        uint32_t left = behind ? at.index : at.index - 1;
        Leaf* a = static_cast<Leaf*>(at.node->children[left]);
        Leaf* b = static_cast<Leaf*>(at.node->children[left + 1]);
        Leaf* other = behind ? b : a;
        if (is_finger(other) || nodes_.room(other) < nodes_.capacity()) continue;
        if (other->count() > nodes_.capacity() * 3 / 4) continue;
        share_entries(at.node, left, a, b);
        stale_pair(path, at.node, left);
        path = search(place);
        return;
    }
}

template <class Parts>
inline void Tree<Parts>::stale_pair(const Path& path, Inner* node, uint32_t left) {
    nodes_.set_stale(node, left);
    nodes_.set_stale(node, left + 1);
    recount(node, left, 1);
    recount(node, left + 1, 1);
    mark_changed(path, node, 1);
}

template <class Parts>
void Tree<Parts>::start_leaf(Leaf* full, const Place& place) {
    auto kept = aggregates_.keep_prefix();
    add_leaf(finger_path(true), nodes_.make_leaf(1), place, true);
    Inner* parent = inner(spines_.right(1));
    if (full != left_leaf()) aggregates_.give_prefix(kept, parent, parent->count - 2);
}

// Opens a gap at `position` by moving the shorter side; `position` becomes the gap. Returns whether the entries before
// it moved.
template <class Parts>
inline bool Tree<Parts>::make_room(Leaf* leaf, uint32_t& position) {
    uint32_t room = nodes_.room(leaf);
    bool leftwards = leaf->begin > 0 && (leaf->end == room || position - leaf->begin < leaf->end - position);
    if (leftwards) {
        nodes_.move_entries(leaf, leaf->begin, position, leaf, leaf->begin - 1);
        --leaf->begin;
        --position;
    } else {
        nodes_.move_entries(leaf, position, leaf->end, leaf, position + 1);
        ++leaf->end;
    }
    return leftwards;
}

// Moves the upper half of a full leaf to a new one after it.
template <class Parts>
typename Tree<Parts>::Leaf* Tree<Parts>::split_leaf(const Path& path) {
    Leaf *leaf = path.leaf, *fresh = nodes_.make_leaf(nodes_.capacity());
    uint32_t half = leaf->begin + (leaf->count() + 1) / 2;
    nodes_.move_entries(leaf, half, leaf->end, fresh, 0);
    fresh->end = leaf->end - half;
    leaf->end = half;
    add_leaf(path, fresh, nodes_.place(fresh, fresh->begin), false);
    return fresh;
}

// Adds a leaf after the one that `path` leads to; it has places from `edge` on, of which `more` entries are new.
template <class Parts>
void Tree<Parts>::add_leaf(const Path& path, Leaf* fresh, Place edge, bool appending, size_t more) {
    if (height() == 0) return grow(path.leaf, fresh, std::move(edge));
    bool was_left = path.leaf == left_leaf(), was_right = path.leaf == right_leaf();
    if (was_right) spines_.right(0) = fresh;
    add_child(path, 1, fresh, std::move(edge), appending, more);
    if (was_right) aggregates_.right_finger_moved();
    if (was_left) aggregates_.left_finger_moved();
}

// --- inner nodes --------------------------------------------------------------------------------------

template <class Parts>
inline void Tree<Parts>::grow(Node* left, Node* right, Place edge) {
    Inner* root = nodes_.make_inner();
    root->children[0] = left;
    root->children[1] = right;
    root->first[1] = std::move(edge);
    root->count = 2;
    spines_.raise(left, right, root);
    aggregates_.height_changed();
}

// Adds `child` after the child on the path at `level`.
template <class Parts>
void Tree<Parts>::add_child(const Path& path, uint32_t level, Node* child, Place edge, bool appending, size_t more) {
    Slot at = slot(path, level);
    // A split moves entries, but not out of the node above: where both halves get their summaries at once, those of all
    // nodes above them stay valid.
    bool kept = Aggregates::summarizes && at.node->is_valid(at.index) && aggregates_.joins();
    if (at.node->count < nodes_.fanout()) {
        open_slot(nodes_, at.node, at.index + 1, child, std::move(edge));
        nodes_.set_stale(at.node, at.index);
        recount(at.node, at.index, level);
        recount(at.node, at.index + 1, level);
        if (kept)
            aggregates_.summarize_pair(at.node, level, at.index);
        else
            mark_changed(path, at.node, level);
        if (more && !on_spine(at.node, level)) add_count(path, level + 1, static_cast<int64_t>(more));
        return;
    }
    bool last = at.index + 1 == at.node->count;
    // A split by an append moves two children to the new node and leaves the old one nearly full.
    uint32_t keep = appending && last ? at.node->count - 1 : at.node->count / 2;
    Inner* fresh = nodes_.make_inner();
    Place parting = at.node->first[keep];
    move_children(nodes_, at.node, keep, at.node->count, fresh, 0);
    fresh->count = at.node->count - keep;
    at.node->count = keep;
    at.node->valid &= low_bits(keep);
    Inner* into = at.index >= keep ? fresh : at.node;
    uint32_t index = at.index - (at.index >= keep ? keep : 0);
    open_slot(nodes_, into, index + 1, child, std::move(edge));
    nodes_.set_stale(into, index);
    recount(into, index, level);
    recount(into, index + 1, level);
    if (kept) aggregates_.summarize_pair(into, level, index);

    bool on_right = spines_.right(level) == at.node;
    if (is_root(level)) {
        grow(at.node, fresh, std::move(parting));
        return;
    }
    // The spine first, so that the level above knows which of its children are on it.
    if (on_right) spines_.right(level) = fresh;
    add_child(path, level + 1, fresh, std::move(parting), appending, more);
    if (!kept || on_spine(at.node, level) || on_spine(fresh, level)) aggregates_.level_changed(level);
}

}  // namespace sash::tree
