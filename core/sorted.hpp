// Windows over rows that are all there and sorted: each op goes along them once, with two stacks of its own states.
#pragma once

#include "ops.hpp"

namespace sash {

// The rows in each anchor's window, from `from` to `to`, neither of which ever goes back.
struct Stretches {
    const uint32_t* from;
    const uint32_t* to;
    size_t count;
};

// The results of one op for every stretch, of input words that may lie in another order; result k goes to place k of
// that order. False where the op is none of the common ones.
bool slide_common(const Op& op, const int64_t* words, const uint32_t* order, const Stretches& stretches,
                  int64_t* const* columns, uint8_t* there);

}  // namespace sash
