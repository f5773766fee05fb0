// The invariants of a tree: order, occupancy, spines, counts, and every valid summary recomputed.
#pragma once

#include "base/error.hpp"
#include "tree/tree.hpp"

namespace sash::tree {

// `fresh(inner, level, i)` is called for each valid summary.
template <class TreeType, class Fresh>
class Check {
    using Place = typename TreeType::Place;
    using Leaf = typename TreeType::Leaf;
    using Inner = typename TreeType::Inner;
    using Nodes = typename TreeType::Nodes;

   public:
    Check(const TreeType& tree, Fresh& fresh) : tree_(tree), nodes_(tree.nodes()), fresh_(fresh) {}

    SASH_COLD void run() {
        if (!tree_.spines().root()) return require(tree_.size() == 0, "a tree without a root is empty");
        size_t entries = below(tree_.spines().root(), tree_.height(), nullptr, nullptr);
        require(entries == tree_.size(), "the size is the number of entries");
    }

   private:
    SASH_COLD size_t below(Node* node, uint32_t level, const Place* from, const Place* to) {
        const auto& spines = tree_.spines();
        bool left = node == spines.left(level), right = node == spines.right(level), root = level == tree_.height();
        if (level == 0) return leaf(static_cast<Leaf*>(node), root, left || right, from, to);
        auto* inner = static_cast<Inner*>(node);
        uint32_t least = root || left || right ? 2 : std::max(2u, nodes_.fanout() / 4);
        require(inner->count >= least && inner->count <= nodes_.fanout(), "a node has as many children as it must");
        size_t entries = 0;
        for (uint32_t i = 0; i < inner->count; ++i) {
            Node* child = inner->children[i];
            bool left_child = left && i == 0, right_child = right && i + 1 == inner->count;
            require(left_child == (child == spines.left(level - 1)), "the left spine is the leftmost path");
            require(right_child == (child == spines.right(level - 1)), "the right spine is the rightmost path");
            require(!inner->is_valid(i) || !(left_child || right_child), "a child on a spine has no summary");
            const Place* low = i ? &inner->first[i] : from;
            const Place* high = i + 1 < inner->count ? &inner->first[i + 1] : to;
            if (i && from) require(nodes_.less(*from, inner->first[i]), "edges ascend");
            size_t count = below(child, level - 1, low, high);
            if constexpr (Nodes::counts)
                require(left_child || right_child || inner->counts[i] == count, "a count is that of its entries");
            entries += count;
            if (inner->is_valid(i)) summary(inner, level, i);
        }
        require(inner->count == 64 || inner->valid >> inner->count == 0,
                "nothing is known of children that are not there");
        return entries;
    }

    // A valid summary requires all summaries below it to be valid, or an update could not stop early.
    void summary(Inner* inner, uint32_t level, uint32_t i) {
        if (level > 1) {
            auto* child = static_cast<Inner*>(inner->children[i]);
            require(child->valid == low_bits(child->count), "nothing stale is below what counts as known");
        }
        fresh_(inner, level, i);
    }

    SASH_COLD size_t leaf(const Leaf* leaf, bool root, bool finger, const Place* from, const Place* to) {
        uint32_t least = root ? 0 : finger ? 1 : std::max(1u, nodes_.capacity() / 4);
        require(leaf->begin <= leaf->end && leaf->end <= nodes_.room(leaf), "a leaf's entries are within it");
        require(nodes_.room(leaf) <= nodes_.capacity(), "a leaf has at most its capacity");
        require(leaf->count() >= least, "a leaf has as many entries as it must");
        for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
            const Place& place = nodes_.place(leaf, i);
            if (i > leaf->begin) require(nodes_.less(nodes_.place(leaf, i - 1), place), "places ascend");
            if (from) require(!nodes_.less(place, *from), "places are not before the edge of their leaf");
            if (to) require(nodes_.less(place, *to), "places are before the edge of the next leaf");
        }
        return leaf->count();
    }

    const TreeType& tree_;
    const Nodes& nodes_;
    Fresh& fresh_;
};

template <class TreeType, class Fresh>
void check(const TreeType& tree, Fresh&& fresh) {
    Check<TreeType, Fresh>(tree, fresh).run();
}

}  // namespace sash::tree
