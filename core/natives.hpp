// The registry of native monoids; everything that a structure is compiled for is in here, and Objects.
#pragma once

#include "record.hpp"

namespace sash {

using NativeMonoids =
    std::tuple<SumInt64, SumWide, SumFloat64, Count, Min, Max, Geomean, Bloom, SmallRecord, WideRecord>;

}  // namespace sash
