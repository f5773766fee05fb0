// A position in a tree, with its rank: it steps, skips, and seeks from its current place.
//
// A cursor is valid until the tree changes; repairing summaries does not count as a change.
#pragma once

#include "tree/tree.hpp"

namespace sash::tree {

template <class TreeType>
class Cursor {
   public:
    using Nodes = typename TreeType::Nodes;
    using Place = typename TreeType::Place;
    using Leaf = typename TreeType::Leaf;
    using Inner = typename TreeType::Inner;
    using Path = typename TreeType::Path;

    // At the first entry that is not before a place: O(log d). The tree is not empty.
    Cursor(const TreeType& tree, const Place& place) : tree_(tree), path_(tree.search(place)) {
        rank_ = tree_.rank(path_);
        leave_end();
    }

    // At the entry of a rank, or behind all of them: O(log d). The tree is not empty.
    static Cursor at_rank(const TreeType& tree, size_t rank) { return Cursor(tree, rank, 0); }

    bool at_end() const { return path_.position == path_.leaf->end; }
    // How many entries are before it.
    size_t rank() const { return rank_; }
    Leaf* leaf() const { return path_.leaf; }
    uint32_t position() const { return path_.position; }
    const Place& place() const { return tree_.nodes().place(path_.leaf, path_.position); }

    void next() {
        ++path_.position;
        ++rank_;
        leave_end();
    }

    // Skips a number of entries, a leaf at a time.
    void skip(size_t count) {
        for (;;) {
            uint32_t here = path_.leaf->end - path_.position;
            if (count < here) break;
            path_.position = path_.leaf->end;
            rank_ += here;
            count -= here;
            if (!next_leaf()) return;
        }
        path_.position += static_cast<uint32_t>(count);
        rank_ += count;
    }

    // To the entry of a rank, which is not before this one's: O(log d), or a step where it is near.
    void seek_rank(size_t rank) {
        constexpr size_t kNear = 4;  // leaves
        if (rank - rank_ <= kNear * tree_.nodes().capacity()) return skip(rank - rank_);
        path_ = path_at(rank);
        rank_ = rank;
    }

    // To the first entry that is not before a place, from this one on: O(log of the way).
    void seek(const Place& place) {
        if (!at_end() && tree_.nodes().less(this->place(), place)) seek_on(place);
    }

   private:
    Cursor(const TreeType& tree, size_t rank, int) : tree_(tree), path_(path_at(rank)), rank_(rank) {}
    Path path_at(size_t rank) const {
        if (rank < tree_.size()) return tree_.at_rank(rank);
        Path path = tree_.finger_path(true);
        path.position = path.leaf->end;
        return path;
    }

    // Most often it is near, in this leaf or the next.
    SASH_RARE void seek_on(const Place& place) {
        if (ends_before(place)) {
            rank_ += path_.leaf->end - path_.position;
            path_.position = path_.leaf->end;
            if (!next_leaf()) return;
            if (ends_before(place)) return seek_far(place);
        }
        uint32_t found = gallop(path_.leaf, path_.position, place);
        rank_ += found - path_.position;
        path_.position = found;
    }
    bool ends_before(const Place& place) const {
        return tree_.nodes().less(tree_.nodes().place(path_.leaf, path_.leaf->end - 1), place);
    }

    uint32_t gallop(const Leaf* leaf, uint32_t at, const Place& place) const {
        const Nodes& nodes = tree_.nodes();
        uint32_t step = 1;
        while (at + step < leaf->end && nodes.less(nodes.place(leaf, at + step - 1), place)) {
            at += step;
            step *= 2;
        }
        return lower_bound(nodes, leaf, at, std::min(leaf->end, at + step - 1), place);
    }

    void seek_far(const Place& place) {
        uint32_t level = 1;
        while (level < tree_.height() && !covers(level, place)) ++level;
        Inner* node = tree_.slot(path_, level).node;
        path_.top = std::max(path_.top, level);
        tree_.descend(path_, node, level, place);
        rank_ = tree_.rank(path_);
        leave_end();
    }
    // Is a place, which is not before this cursor, below the node of its way at a level?
    bool covers(uint32_t level, const Place& place) const {
        const Nodes& nodes = tree_.nodes();
        auto at = tree_.slot(path_, level);
        if (nodes.less(place, at.node->first[at.node->count - 1])) return true;
        auto above = tree_.slot(path_, level + 1);
        return above.index + 1 < above.node->count && nodes.less(place, above.node->first[above.index + 1]);
    }

    void leave_end() {
        if (at_end()) next_leaf();
    }

    bool next_leaf() {
        for (uint32_t level = 1; level <= tree_.height(); ++level) {
            auto at = tree_.slot(path_, level);
            if (at.index + 1 == at.node->count) continue;
            enter(at.node, level, at.index + 1);
            path_.position = path_.leaf->begin;
            return true;
        }
        return false;
    }
    // The way goes through a child of a node at `level`, and down its first children.
    void enter(Inner* node, uint32_t level, uint32_t index) {
        path_.top = std::max(path_.top, level);
        for (;; --level) {
            path_.nodes[level] = node;
            path_.index[level] = index;
            Node* child = node->children[index];
            if (level == 1) {
                path_.leaf = static_cast<Leaf*>(child);
                return;
            }
            node = static_cast<Inner*>(child);
            index = 0;
        }
    }

    TreeType tree_;
    Path path_;
    size_t rank_ = 0;
};

}  // namespace sash::tree
