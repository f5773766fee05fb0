// Batches in `fiba`: a sorted run goes in leaf by leaf, and what is too old goes out subtree by subtree.
#pragma once

#include "fiba.hpp"

namespace sash {

// Inserts rows [done, size) in time order: `rows.time(i)`, `rows.entry(i)`. Each leaf that is met is searched once,
// merged once and marked stale once; what lies behind the newest entry is copied leaf by leaf. False: an entry cannot
// hold what was to be merged into it; then all rows before `done` are in and none after.
template <class Time, class Monoid>
template <class Rows>
bool Fiba<Time, Monoid>::insert_run(const Rows& rows, size_t& done) {
    while (done < rows.size() && size_ && !less(newest(), rows.time(done))) {
        Path path = search(rows.time(done));
        size_t stop = end_of_group(path, rows, done);
        if (!merge_group(path, rows, done, stop)) return false;
        done = stop;
    }
    return append_run(rows, done);
}

// The rows that belong into the leaf of `path`; of those in the last leaf only what is not an append.
template <class Time, class Monoid>
template <class Rows>
size_t Fiba<Time, Monoid>::end_of_group(const Path& path, const Rows& rows, size_t from) const {
    const Time* edge = edge_after(path);
    Time last = newest();
    size_t stop = from, most = std::min(rows.size(), from + 8 * pool_.capacity());  // what stays in cache
    while (stop < most && (edge ? less(rows.time(stop), *edge) : !less(last, rows.time(stop)))) ++stop;
    return stop;
}

template <class Time, class Monoid>
const Time* Fiba<Time, Monoid>::edge_after(const Path& path) const {
    for (uint32_t level = 1; level <= height(); ++level) {
        Slot at = slot(path, level);
        if (at.index + 1 < at.node->count) return &at.node->first[at.index + 1];
    }
    return nullptr;
}

template <class Time, class Monoid>
template <class Rows>
bool Fiba<Time, Monoid>::merge_group(Path& path, const Rows& rows, size_t from, size_t stop) {
    Leaf* leaf = path.leaf;
    run_times_.clear();
    run_entries_.clear();
    auto put = [&](const Time& time, Entry entry) {
        if (!run_times_.empty() && !less(run_times_.back(), time)) return monoid().merge(run_entries_.back(), entry);
        run_times_.push_back(time);
        run_entries_.push_back(std::move(entry));
        return true;
    };
    uint32_t old = leaf->begin;
    for (size_t row = from; row < stop; ++row) {
        Time time = rows.time(row);
        for (; old < leaf->end && !less(time, leaf->times()[old]); ++old) put(leaf->times()[old], leaf->entries[old]);
        if (!put(time, rows.entry(row))) return false;
    }
    for (; old < leaf->end; ++old) put(leaf->times()[old], leaf->entries[old]);
    size_ += run_times_.size() - leaf->count();
    spread(path);
    return true;
}

// Writes the merged entries back: over the leaf where they fit, else over it and new leaves behind it, each nearly full.
template <class Time, class Monoid>
void Fiba<Time, Monoid>::spread(Path& path) {
    Leaf* leaf = path.leaf;
    size_t total = run_times_.size(), roomy = std::max<size_t>(1, pool_.capacity() * 7 / 8);
    size_t leaves = total <= pool_.capacity() ? 1 : (total + roomy - 1) / roomy;
    if (aggregates_.is_finger(leaf))
        aggregates_.finger_rewritten(leaf);
    else
        mark_stale(path, 1);
    size_t written = 0;
    for (size_t i = 0; i < leaves; ++i) {
        size_t upto = total * (i + 1) / leaves;
        Leaf* into = i ? pool_.make_leaf() : leaf;
        std::move(run_times_.begin() + written, run_times_.begin() + upto, into->times());
        std::move(run_entries_.begin() + written, run_entries_.begin() + upto, into->entries);
        into->begin = 0;
        into->end = static_cast<uint32_t>(upto - written);
        written = upto;
        if (i == 0) continue;
        if (path.leaf == right_leaf()) appends_ = 0;
        add_leaf(path, into, into->front(), false);
        if (i + 1 < leaves) path = search(into->front());
    }
}

template <class Time, class Monoid>
template <class Rows>
bool Fiba<Time, Monoid>::append_run(const Rows& rows, size_t& done) {
    if (done < rows.size() && !spines_.root()) spines_.reset(pool_.make_leaf(), 0);
    for (; rows.has_ties() && done < rows.size(); ++done) {
        if (!size_ || less(newest(), rows.time(done)))
            append(rows.time(done), rows.entry(done));
        else if (!monoid().merge(right_leaf()->entries[right_leaf()->end - 1], rows.entry(done)))
            return false;
    }
    while (done < rows.size()) {
        Leaf* leaf = right_leaf();
        if (leaf->end == pool_.capacity()) leaf = room_at_end(rows.time(done));
        uint32_t count = static_cast<uint32_t>(std::min<size_t>(pool_.capacity() - leaf->end, rows.size() - done));
        rows.copy(done, count, leaf->times() + leaf->end, leaf->entries + leaf->end);
        leaf->end += count;
        size_ += count;
        appends_ += count;
        done += count;
    }
    return true;
}

// --- evict_until ----------------------------------------------------------------------------------

// Whole subtrees are freed along the left spine, from the lowest node that holds the edge; then the spine is mended.
template <class Time, class Monoid>
size_t Fiba<Time, Monoid>::evict_until(const Time& edge, bool inclusive) {
    size_t before = size_;
    if (!size_ || !(inclusive ? !less(edge, oldest()) : less(oldest(), edge))) return 0;
    if (inclusive ? !less(edge, newest()) : less(newest(), edge)) return clear();
    uint32_t top = 0;
    while (top < height() && !holds_edge(top, edge)) ++top;
    for (uint32_t level = top; level > 0; --level) drop_children(level, edge);
    if (top) mend_left_spine(top);
    drop_entries(edge, inclusive);
    return before - size_;
}

// The left leaf's own entries up to the edge; all of them may go, and none of the next leaf's.
template <class Time, class Monoid>
void Fiba<Time, Monoid>::drop_entries(const Time& edge, bool inclusive) {
    Leaf* leaf = left_leaf();
    uint32_t stays = lower_bound(leaf, edge);
    if (inclusive && stays < leaf->end && !less(edge, leaf->times()[stays])) ++stays;
    if (stays == leaf->begin) return;
    size_ -= stays - leaf->begin;
    leaf->begin = stays;
    aggregates_.popped_front(leaf);
    if (leaf->begin == leaf->end) left_emptied();
}

template <class Time, class Monoid>
void Fiba<Time, Monoid>::mend_left_spine(uint32_t top) {
    while (height() > 0 && inner(spines_.root())->count == 1) shrink();
    for (uint32_t level = top; level > 0; --level)
        if (level < height() && inner(spines_.left[level])->count < 2) mend_inner(finger_path(false), level);
}

template <class Time, class Monoid>
size_t Fiba<Time, Monoid>::clear() {
    size_t gone = size_;
    free_below(spines_.root(), height());
    size_ = 0;
    appends_ = 0;
    spines_.reset(pool_.make_leaf(), 0);
    aggregates_.height_changed();
    return gone;
}

// Is the last child of the left spine's node at this level all later than the edge?
template <class Time, class Monoid>
bool Fiba<Time, Monoid>::holds_edge(uint32_t level, const Time& edge) const {
    if (level == 0) return less(edge, left_leaf()->back());
    const Inner* node = inner(spines_.left[level]);
    return less(edge, node->first[node->count - 1]);
}

// Frees the children that are all at or before the edge: those whose next neighbour begins there or before. An entry at
// the edge itself can only be in the one that stays.
template <class Time, class Monoid>
void Fiba<Time, Monoid>::drop_children(uint32_t level, const Time& edge) {
    Inner* node = inner(spines_.left[level]);
    uint32_t gone = 0;
    while (gone + 1 < node->count && !less(edge, node->first[gone + 1])) ++gone;
    for (uint32_t i = 0; i < gone; ++i) size_ -= free_counted(node->children[i], level - 1);
    move_children(node, gone, node->count, node, 0);
    node->count -= gone;
    node->valid &= fiba::low_bits(node->count);
    node->set_stale(0);
    spines_.left[level - 1] = node->children[0];
    aggregates_.spine_changed(node, level);
    if (level == 1) aggregates_.left_finger_moved();
}

template <class Time, class Monoid>
size_t Fiba<Time, Monoid>::free_counted(Node* node, uint32_t level) {
    size_t entries = 0;
    if (level == 0) {
        entries = static_cast<Leaf*>(node)->count();
        pool_.free_leaf(static_cast<Leaf*>(node));
        return entries;
    }
    for (uint32_t i = 0; i < inner(node)->count; ++i) entries += free_counted(inner(node)->children[i], level - 1);
    pool_.free_inner(inner(node));
    return entries;
}

}  // namespace sash
