// The registry of native monoids.
#pragma once

#include <tuple>

#include "monoids/record.hpp"

namespace sash {

// The monoids of the figures: every structure has a template for these.
using MeasuredMonoids = std::tuple<SumInt64, Geomean, Bloom>;
// The monoids that `fiba` has templates for.
using NumberMonoids = std::tuple<SumInt64, SumFloat64, Count, Min, Max, Geomean, Bloom>;
using RecordMonoids = std::tuple<SmallRecord, WideRecord>;
// All of them, for AnyMonoid. A window moves to SumWide when two inputs of one time overflow; it has no template.
using NativeMonoids =
    std::tuple<SumInt64, SumWide, SumFloat64, Count, Min, Max, Geomean, Bloom, SmallRecord, WideRecord>;

template <class Monoid, class... Monoids>
constexpr bool is_one_of(std::tuple<Monoids...>*) {
    return (std::is_same_v<Monoid, Monoids> || ...);
}

}  // namespace sash
