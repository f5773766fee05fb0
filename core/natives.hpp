// The registry of native monoids; everything that `fiba` is compiled for is in here, and Objects.
#pragma once

#include "record.hpp"

namespace sash {

using NativeMonoids =
    std::tuple<SumInt64, SumWide, SumFloat64, Count, Min, Max, Geomean, Bloom, SmallRecord, WideRecord>;

// What the rivals of `fiba` are measured with.
using MeasuredMonoids = std::tuple<SumInt64, Geomean, Bloom>;

}  // namespace sash
