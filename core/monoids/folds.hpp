// Folds over many numbers at once, compiled for the instruction sets of common machines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hints.hpp"

namespace sash {

__int128 sum_of(const int64_t* words, size_t count);
int64_t least_of(const int64_t* words, size_t count);     // of one or more
int64_t greatest_of(const int64_t* words, size_t count);  // of one or more

// What HyperLogLog's estimate needs of its registers: how many are zero, how many at the top, the sum of 2^-rank.
struct Ranks {
    size_t zeros, full;
    double inverse_powers;
};
Ranks ranks_of(const uint8_t* ranks, size_t count, uint8_t top);
void raise_all(uint8_t* ranks, const uint8_t* others, size_t count);  // each to the larger of the two

// Counters of buckets.
void add_all(uint32_t* counters, const uint32_t* others, size_t count);
uint64_t total_of(const uint32_t* counters, size_t count);
// Of counters [at, end), whose total is less than 2^32, the one that counts value number `rank`, or else the last one; the
// values of all before it are subtracted from the rank.
size_t counter_of(const uint32_t* counters, size_t at, size_t end, uint64_t& rank);

}  // namespace sash
