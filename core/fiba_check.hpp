// The proof of `fiba`: order, occupancy, spines, and every stored aggregate recomputed.
#pragma once

#include "fiba.hpp"

namespace sash {

namespace fiba {

template <class S>
class Check {
    using Time = typename S::Time;
    using Monoid = typename S::Monoid;
    using Leaf = typename S::Leaf;
    using Inner = typename S::Inner;

   public:
    Check(const S& tree, typename S::Aggregates& aggregates, uint32_t capacity, uint32_t fanout)
        : tree_(tree), aggregates_(aggregates), capacity_(capacity), fanout_(fanout) {}

    void run(Node* root) {
        entries_ = below(root, tree_.height(), nullptr, nullptr);
        require(entries_ == tree_.size(), "the size is the number of entries");
        aggregates_.check();
    }

   private:
    size_t below(Node* node, uint32_t level, const Time* from, const Time* to) {
        bool left = node == tree_.spines().left[level], right = node == tree_.spines().right[level];
        bool root = level == tree_.height();
        if (level == 0) return leaf(static_cast<Leaf*>(node), root, left || right, from, to);
        auto* inner = static_cast<Inner*>(node);
        uint32_t least = root || left || right ? 2 : std::max(2u, fanout_ / 4);
        require(inner->count >= least && inner->count <= fanout_, "a node has as many children as it must");
        size_t entries = 0;
        for (uint32_t i = 0; i < inner->count; ++i) {
            Node* child = inner->children[i];
            bool left_child = left && i == 0, right_child = right && i + 1 == inner->count;
            require(left_child == (child == tree_.spines().left[level - 1]), "the left spine is the leftmost path");
            require(right_child == (child == tree_.spines().right[level - 1]), "the right spine is the rightmost path");
            require(!inner->is_valid(i) || !(left_child || right_child), "a child on a spine has no aggregate");
            const Time* low = i ? &inner->first[i] : from;
            const Time* high = i + 1 < inner->count ? &inner->first[i + 1] : to;
            if (i && from) require(less(*from, inner->first[i]), "edges ascend");
            entries += below(child, level - 1, low, high);
            if (inner->is_valid(i)) fresh(child, level - 1, inner->aggs[i]);
        }
        require(inner->count == 64 || inner->valid >> inner->count == 0,
                "nothing is known of children that are not there");
        return entries;
    }

    // What is known of a child rests on everything below it being known, or else an update could not stop early.
    void fresh(Node* child, uint32_t level, const typename S::Agg& agg) {
        if (level > 0) {
            auto* inner = static_cast<Inner*>(child);
            require(inner->valid == low_bits(inner->count), "nothing stale is below what counts as known");
        }
        require(aggregates_.monoid().same(agg, aggregates_.recomputed(child, level)),
                "an aggregate is that of what it covers");
    }

    size_t leaf(const Leaf* leaf, bool root, bool finger, const Time* from, const Time* to) {
        uint32_t least = root ? 0 : finger ? 1 : std::max(1u, capacity_ / 4);
        require(leaf->begin <= leaf->end && leaf->end <= capacity_, "a leaf's entries are within it");
        require(leaf->count() >= least, "a leaf has as many entries as it must");
        const Time* times = leaf->times();
        for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
            if (i > leaf->begin) require(less(times[i - 1], times[i]), "times ascend");
            if (from) require(!less(times[i], *from), "times are not before the edge of their leaf");
            if (to) require(less(times[i], *to), "times are before the edge of the next leaf");
        }
        return leaf->count();
    }

    const S& tree_;
    typename S::Aggregates& aggregates_;
    uint32_t capacity_, fanout_;
    size_t entries_ = 0;
};

}  // namespace fiba

template <class Time, class Monoid>
void Fiba<Time, Monoid>::check() {
    if (!spines_.root()) return require(size_ == 0, "a window without a root is empty");
    uint64_t combines = monoid().combines;
    fiba::Check<Fiba>(*this, aggregates_, pool_.capacity(), pool_.fanout()).run(spines_.root());
    monoid().combines = combines;
}

}  // namespace sash
