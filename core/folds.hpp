// Folds over many numbers at once, compiled for what the machine at hand can do.
#pragma once

#include <cstddef>
#include <cstdint>

// Kept out of line, so that the few instructions of the common case stay together.
#define SASH_RARE __attribute__((noinline))

namespace sash {

__int128 sum_of(const int64_t* words, size_t count);
int64_t least_of(const int64_t* words, size_t count);     // of one or more
int64_t greatest_of(const int64_t* words, size_t count);  // of one or more

}  // namespace sash
