// What the ends of `fiba` store, one aggregate at a time: for drawings, which show what each one covers.
#pragma once

#include "structures/fiba_ends.hpp"

namespace sash::fiba {

template <class Time, class Monoid>
template <class Visit>
void Ends<Time, Monoid>::each_part(Visit&& visit) const {
    if (suffix_to_ != kNone) {
        uint32_t begin = left_leaf()->begin;
        for (uint32_t i = std::max(suffix_from_, begin); i < suffix_to_; ++i)
            visit("suffix", 0u, i - begin, suffix_[i]);
    }
    if (prefix_to_ != kNone) {
        uint32_t begin = right_leaf()->begin, stacked = joins() ? std::min(stack_to_, prefix_to_) : prefix_to_;
        for (uint32_t i = prefix_from_; i < stacked; ++i) visit("prefix", 0u, i - begin, prefix_[i]);
        if (stacked < prefix_to_) visit("prefix", 0u, prefix_to_ - 1 - begin, total_);
    }
    uint32_t height = spines_.height();
    if (height == 0) return;
    for (uint32_t level = 1; level < height; ++level) {
        if (left_.own_valid >> level & 1) visit("left own", level, 0u, left_.own[level]);
        if (level >= left_.cum_from) visit("left cum", level, 0u, left_.cum[level]);
        if (right_.own_valid >> level & 1) visit("right own", level, 0u, right_.own[level]);
        if (level >= right_.cum_from) visit("right cum", level, 0u, right_.cum[level]);
    }
    if (inner_valid_ && inner_some_) visit("inner", height, 0u, inner_);
    if (middle_valid_ && middle_some_) visit("middle", height, 0u, middle_);
}

}  // namespace sash::fiba
