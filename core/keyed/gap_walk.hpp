// Goes along the rows of a key from a point until a gap is too wide: O(log n) to the end of a session, however long.
//
// A subtree whose widest gap is narrow enough is skipped by its summary, which is repaired if it is stale. The children
// on the spines have no summary, so they are entered: one on each level.
#pragma once

#include "keyed/rows.hpp"

namespace sash {

class GapWalk {
   public:
    // Starts at a time, from which the first row may be as far away as two rows from each other.
    GapWalk(RowTree& tree, uint64_t most, int64_t from)
        : reached(from),
          nodes_(tree.nodes()),
          tree_(tree),
          algebra_(tree.aggregates()),
          summaries_(nodes_, tree.spines(), algebra_),
          most_(most) {}

    bool any = false;     // was there a row that is near enough?
    int64_t nearest = 0;  // the first of them
    int64_t reached;      // the last of them, or where it started

    // Over the rows at and after a path's position; false: a gap stopped it.
    bool forward(const RowTree::Path& path) {
        if (!leaf(path.leaf, path.position, path.leaf->end, true)) return false;
        for (uint32_t level = 1; level <= tree_.height(); ++level) {
            RowTree::Slot at = tree_.slot(path, level);
            for (uint32_t i = at.index + 1; i < at.node->count; ++i)
                if (!child(at.node, level, i, true)) return false;
        }
        return true;
    }
    // Over the rows before it, backwards.
    bool backward(const RowTree::Path& path) {
        if (!leaf(path.leaf, path.leaf->begin, path.position, false)) return false;
        for (uint32_t level = 1; level <= tree_.height(); ++level) {
            RowTree::Slot at = tree_.slot(path, level);
            for (uint32_t i = at.index; i-- > 0;)
                if (!child(at.node, level, i, false)) return false;
        }
        return true;
    }
    // To an instant before all rows, if it is near enough; then on from another.
    bool step_back(int64_t last, int64_t start) {
        if (distance(last, reached) > most_) return false;
        step(last);
        reached = start;
        return true;
    }

   private:
    void step(int64_t time) {
        if (!any) nearest = time;
        any = true;
        reached = time;
    }
    bool is_near(int64_t time, bool on) const {
        return (on ? distance(reached, time) : distance(time, reached)) <= most_;
    }

    bool leaf(const tree::WordLeaf* leaf, uint32_t from, uint32_t to, bool on) {
        for (uint32_t i = 0; i < to - from; ++i) {
            int64_t time = nodes_.place(leaf, on ? from + i : to - 1 - i).time;
            if (!is_near(time, on)) return false;
            step(time);
        }
        return true;
    }

    bool child(tree::WordInner* node, uint32_t level, uint32_t i, bool on) {
        tree::Node* below = node->children[i];
        if (!tree_.on_spine(below, level - 1)) {
            summaries_.require_valid(node, level, i);
            Gaps gaps = algebra_.gaps(node, i);
            if (!is_near(on ? gaps.first : gaps.last, on)) return false;
            if (gaps.widest <= most_) {
                step(on ? gaps.first : gaps.last);
                reached = on ? gaps.last : gaps.first;
                return true;
            }
        }
        if (level == 1) {
            auto* rows = static_cast<tree::WordLeaf*>(below);
            return leaf(rows, rows->begin, rows->end, on);
        }
        auto* inner = static_cast<tree::WordInner*>(below);
        for (uint32_t k = 0; k < inner->count; ++k)
            if (!child(inner, level - 1, on ? k : inner->count - 1 - k, on)) return false;
        return true;
    }

    RowNodes& nodes_;
    const RowTree& tree_;
    RowAlgebra& algebra_;
    RowSummaries summaries_;
    uint64_t most_;
};

}  // namespace sash
