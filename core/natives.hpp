// The registry of native monoids; everything that `fiba` is compiled for is in here, and Objects.
#pragma once

#include "record.hpp"

namespace sash {

using NativeMonoids =
    std::tuple<SumInt64, SumWide, SumFloat64, Count, Min, Max, Geomean, Bloom, SmallRecord, WideRecord>;
// All but the one that a window moves to when two inputs of one time overflow; that is compiled in less time.
using QuickMonoids = std::tuple<SumInt64, SumFloat64, Count, Min, Max, Geomean, Bloom, SmallRecord, WideRecord>;

// What the rivals of `fiba` are measured with.
using MeasuredMonoids = std::tuple<SumInt64, Geomean, Bloom>;

template <class Monoid, class... Monoids>
constexpr bool is_one_of(std::tuple<Monoids...>*) {
    return (std::is_same_v<Monoid, Monoids> || ...);
}

}  // namespace sash
