// The invariants of fiba's ends: everything that is marked as valid equals a recomputation from its parts.
#pragma once

#include "structures/fiba_ends.hpp"

namespace sash::fiba {

template <class Time, class Monoid>
void Ends<Time, Monoid>::check() {
    if (suffix_to_ != kNone) check_suffix();
    if (prefix_to_ != kNone) check_prefix();
    for (uint32_t level = 1; level < spines_.height(); ++level) check_spines(level);
    if (spines_.height() > 0) check_middle();
}

template <class Time, class Monoid>
void Ends<Time, Monoid>::check_suffix() {
    Fold<Monoid> fold(monoid_);
    const LeafNode* leaf = left_leaf();
    require(suffix_to_ <= leaf->end, "the suffix ends within its leaf");
    require(spines_.height() == 0 || suffix_to_ == leaf->end, "the left finger's suffix reaches to its end");
    for (uint32_t i = suffix_to_; i-- > std::max(suffix_from_, leaf->begin);) {
        fold.prepend(monoid_.of(leaf->entries[i]));
        require(monoid_.same(suffix_[i], fold.get()), "a suffix aggregate is that of its entries");
    }
}

template <class Time, class Monoid>
void Ends<Time, Monoid>::check_prefix() {
    Fold<Monoid> fold(monoid_);
    const LeafNode* leaf = right_leaf();
    require(prefix_to_ <= leaf->end, "the prefix ends within its leaf");
    require(prefix_from_ == (spines_.height() == 0 ? suffix_to_ : leaf->begin), "the prefix starts where it must");
    for (uint32_t i = prefix_from_; i < prefix_to_; ++i) {
        fold.append_entry(leaf->entries[i]);
        if (i < stack_to_ || !joins())
            require(monoid_.same(prefix_[i], fold.get()), "a prefix aggregate is that of its entries");
    }
    if (joins() && fold.some()) require(monoid_.same(total_, fold.get()), "the prefix's total is that of all of it");
}

// The aggregate of children [begin, end), recomputed from the entries below them.
template <class Time, class Monoid>
auto Ends<Time, Monoid>::recomputed(Node* node, uint32_t level, uint32_t begin, uint32_t end) -> std::optional<Agg> {
    Fold<Monoid> fold(monoid_);
    for (uint32_t i = begin; i < end; ++i) summaries_.recompute_child(static_cast<InnerNode*>(node), level, i, fold);
    return fold.some() ? std::optional<Agg>(fold.get()) : std::nullopt;
}

template <class Time, class Monoid>
void Ends<Time, Monoid>::check_spines(uint32_t level) {
    uint32_t height = spines_.height();
    auto *l = static_cast<InnerNode*>(spines_.left(level)), *r = static_cast<InnerNode*>(spines_.right(level));
    if (left_.own_valid >> level & 1)
        require(monoid_.same(left_.own[level], *recomputed(l, level, 1, l->count)), "the left spine's own");
    if (right_.own_valid >> level & 1)
        require(monoid_.same(right_.own[level], *recomputed(r, level, 0, r->count - 1)), "the right spine's own");
    if (level >= left_.cum_from) {
        Agg agg = left_.own[level];
        if (level + 1 < height) monoid_.append(agg, left_.cum[level + 1]);
        require(monoid_.same(left_.cum[level], agg), "the left spine's cumulative aggregate");
    }
    if (level >= right_.cum_from) {
        Agg agg = level + 1 < height ? right_.cum[level + 1] : right_.own[level];
        if (level + 1 < height) monoid_.append(agg, right_.own[level]);
        require(monoid_.same(right_.cum[level], agg), "the right spine's cumulative aggregate");
    }
}

template <class Time, class Monoid>
void Ends<Time, Monoid>::check_middle() {
    uint32_t height = spines_.height();
    if (inner_valid_) {
        auto* root = static_cast<InnerNode*>(spines_.root());
        std::optional<Agg> inside = recomputed(root, height, 1, root->count - 1);
        require(inside.has_value() == inner_some_, "the root knows whether it has inner children");
        if (inner_some_) require(monoid_.same(inner_, *inside), "the root's inner aggregate");
    }
    if (!middle_valid_) return;
    require(inner_valid_ && left_.cum_from <= 1 && right_.cum_from <= 1, "the middle's parts are valid");
    Fold<Monoid> fold(monoid_);
    if (height > 1) fold.append(left_.cum[1]);
    if (inner_some_) fold.append(inner_);
    if (height > 1) fold.append(right_.cum[1]);
    require(fold.some() == middle_some_, "the middle knows whether it is empty");
    if (middle_some_) require(monoid_.same(middle_, fold.get()), "the middle is that of its parts");
}

}  // namespace sash::fiba
