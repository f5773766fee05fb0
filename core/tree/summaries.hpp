// The summaries of a tree: one for each child that is not on a spine, computed on first use.
//
// An update only marks them stale (tree.hpp); a fold repairs what it reads. A summary is set only after everything that
// it is computed from, so a combine that raises leaves nothing wrong behind. `Algebra` defines the combining:
//   Total                              a running aggregate
//   total()                            an empty one
//   add_entries(total, leaf, from, to)
//   add_summaries(total, inner, from, to)
//   store(total, inner, i)             as the summary of child i
#pragma once

#include "monoids/folds.hpp"
#include "structures/contract.hpp"
#include "tree/nodes.hpp"

namespace sash::tree {

template <class NodesType, class Algebra>
class Summaries {
   public:
    using Nodes = NodesType;
    using Place = typename Nodes::Place;
    using Leaf = typename Nodes::Leaf;
    using Inner = typename Nodes::Inner;
    using Spines = typename Nodes::Spines;
    using Total = typename Algebra::Total;

    Summaries(const Nodes& nodes, const Spines& spines, Algebra& algebra)
        : nodes_(nodes), spines_(spines), algebra_(algebra) {}

    // Adds the entries of a range, in order: O(log d) of either end and of its length, and what was stale among it.
    void fold(const Range<Place>& range, Total& total) {
        uint32_t level = covering_level(range);
        fold_part(covering_node(range, level), level, range, range.start.has_value(), range.stop.has_value(), total);
    }

    // Adds whole children, none of which is on a spine.
    SASH_RARE void fold_children(Inner* node, uint32_t level, uint32_t begin, uint32_t end, Total& total) {
        for (uint64_t stale = low_bits(end) & ~low_bits(begin) & ~node->valid; stale; stale &= stale - 1)
            repair(node, level, static_cast<uint32_t>(__builtin_ctzll(stale)));
        algebra_.add_summaries(total, node, begin, end);
    }

    // Computes the summary of a child that is not on a spine, if it is stale.
    void require_valid(Inner* node, uint32_t level, uint32_t index) {
        if (!node->is_valid(index)) repair(node, level, index);
    }

    // Computes the summary of a child that is not on a spine.
    SASH_RARE void repair(Inner* node, uint32_t level, uint32_t index) {
        Total total = algebra_.total();
        if (level == 1) {
            auto* leaf = static_cast<Leaf*>(node->children[index]);
            algebra_.add_entries(total, leaf, leaf->begin, leaf->end);
        } else {
            auto* child = static_cast<Inner*>(node->children[index]);
            fold_children(child, level - 1, 0, child->count, total);
        }
        algebra_.store(total, node, index);
        node->set_valid(index);
    }

    // The aggregate of a subtree from its entries and the valid summaries below it; for checks.
    void recompute(Node* node, uint32_t level, Total& total) {
        if (level == 0) {
            auto* leaf = static_cast<Leaf*>(node);
            return algebra_.add_entries(total, leaf, leaf->begin, leaf->end);
        }
        auto* inner = static_cast<Inner*>(node);
        for (uint32_t i = 0; i < inner->count; ++i) recompute_child(inner, level, i, total);
    }
    void recompute_child(Inner* inner, uint32_t level, uint32_t i, Total& total) {
        if (inner->is_valid(i)) return algebra_.add_summaries(total, inner, i, i + 1);
        Total own = algebra_.total();
        recompute(inner->children[i], level - 1, own);
        algebra_.add_total(total, own);
    }

   private:
    // --- ranges ----------------------------------------------------------------------------------------

    // The lowest spine node that has all of a range.
    uint32_t covering_level(const Range<Place>& range) const {
        for (uint32_t level = 0; level < spines_.height(); ++level)
            if (right_covers(range, level) || left_covers(range, level)) return level;
        return spines_.height();
    }
    Node* covering_node(const Range<Place>& range, uint32_t level) const {
        bool right = level == spines_.height() || right_covers(range, level);
        return right ? spines_.right(level) : spines_.left(level);
    }
    bool right_covers(const Range<Place>& range, uint32_t level) const {
        if (!range.start) return false;
        auto* leaf = static_cast<const Leaf*>(spines_.right(0));
        const Place& edge =
            level ? static_cast<const Inner*>(spines_.right(level))->first[1] : nodes_.place(leaf, leaf->begin);
        return !nodes_.less(*range.start, edge);
    }
    bool left_covers(const Range<Place>& range, uint32_t level) const {
        if (!range.stop) return false;
        auto* leaf = static_cast<const Leaf*>(spines_.left(0));
        if (!level) return !nodes_.less(nodes_.place(leaf, leaf->end - 1), *range.stop);
        auto* node = static_cast<const Inner*>(spines_.left(level));
        return nodes_.less(*range.stop, node->first[node->count - 1]);
    }

    bool on_spine(const Node* node, uint32_t level) const {
        return node == spines_.left(level) || node == spines_.right(level);
    }

    // At most two chains of calls go down; between them whole children are taken. A child on a spine has no summary, but
    // lies at the edge of the tree and so of the range.
    void fold_part(Node* node, uint32_t level, const Range<Place>& range, bool below, bool above, Total& total) {
        if (level == 0) return fold_leaf(static_cast<Leaf*>(node), range, below, above, total);
        auto* at = static_cast<Inner*>(node);
        uint32_t low = below ? child_of(nodes_, at, *range.start) : 0;
        uint32_t high = above ? child_of(nodes_, at, *range.stop) : at->count - 1;
        auto is_part = [&](uint32_t i) {
            return (below && i == low) || (above && i == high) || on_spine(at->children[i], level - 1);
        };
        for (uint32_t i = low; i <= high;) {
            uint32_t first = i;
            while (i <= high && !is_part(i)) ++i;
            if (first < i) fold_children(at, level, first, i, total);
            if (i > high) break;
            fold_part(at->children[i], level - 1, range, below && i == low, above && i == high, total);
            ++i;
        }
    }

    void fold_leaf(Leaf* leaf, const Range<Place>& range, bool below, bool above, Total& total) {
        uint32_t from = leaf->begin, to = leaf->end;
        if (below) from = past(leaf, from, *range.start, range.start_inside);
        if (above) to = past(leaf, from, *range.stop, !range.stop_inside);
        if (from < to) algebra_.add_entries(total, leaf, from, to);
    }
    // The first entry that is at a place or after it, or only after it.
    uint32_t past(const Leaf* leaf, uint32_t begin, const Place& place, bool at) const {
        uint32_t found = lower_bound(nodes_, leaf, begin, leaf->end, place);
        bool same = !at && found < leaf->end && !nodes_.less(place, nodes_.place(leaf, found));
        return found + same;
    }

    const Nodes& nodes_;
    const Spines& spines_;
    Algebra& algebra_;
};

}  // namespace sash::tree
