#include "monoids/folds.hpp"

#include <algorithm>
#include <cmath>

namespace sash {

// A 128-bit addition carries from word to word and so cannot be vectorised. Halves of words can be summed apart: their
// sums do not overflow for less than 2^32 words. Read without their sign, negative words are too large by 2^64 each.
SASH_WIDE __int128 sum_of(const int64_t* words, size_t count) {
    uint64_t low = 0, high = 0, negative = 0;
    for (size_t i = 0; i < count; ++i) {
        uint64_t word = static_cast<uint64_t>(words[i]);
        low += word & 0xFFFFFFFFu;
        high += word >> 32;
        negative += word >> 63;
    }
    unsigned __int128 total = (static_cast<unsigned __int128>(high) << 32) + low;
    return static_cast<__int128>(total - (static_cast<unsigned __int128>(negative) << 64));
}

SASH_WIDE int64_t least_of(const int64_t* words, size_t count) {
    int64_t least = words[0];
    for (size_t i = 1; i < count; ++i) least = std::min(least, words[i]);
    return least;
}

SASH_WIDE int64_t greatest_of(const int64_t* words, size_t count) {
    int64_t greatest = words[0];
    for (size_t i = 1; i < count; ++i) greatest = std::max(greatest, words[i]);
    return greatest;
}

// Powers of two as integers, whose sum is exact; what is shifted out is below the estimate's last digit.
SASH_WIDE Ranks ranks_of(const uint8_t* ranks, size_t count, uint8_t top) {
    constexpr size_t kLanes = 64, kBlock = kLanes * 255;  // a lane of bytes counts to 255
    int bits = 62;
    for (size_t size = count; size > 1; size /= 2) --bits;
    const uint64_t one = uint64_t{1} << bits;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += one >> ranks[i];
    size_t zeros = 0, full = 0, i = 0;
    while (i + kLanes <= count) {
        uint8_t zero[kLanes] = {}, high[kLanes] = {};
        for (size_t end = std::min(count, i + kBlock); i + kLanes <= end; i += kLanes)
            for (size_t j = 0; j < kLanes; ++j) {
                zero[j] += ranks[i + j] == 0;
                high[j] += ranks[i + j] == top;
            }
        for (size_t j = 0; j < kLanes; ++j) zeros += zero[j], full += high[j];
    }
    for (; i < count; ++i) zeros += ranks[i] == 0, full += ranks[i] == top;
    return {zeros, full, std::ldexp(static_cast<double>(sum), -bits)};
}

SASH_WIDE void raise_all(uint8_t* ranks, const uint8_t* others, size_t count) {
    for (size_t i = 0; i < count; ++i) ranks[i] = std::max(ranks[i], others[i]);
}

SASH_WIDE void add_all(uint32_t* counters, const uint32_t* others, size_t count) {
    for (size_t i = 0; i < count; ++i) counters[i] += others[i];
}

SASH_WIDE uint64_t total_of(const uint32_t* counters, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; ++i) total += counters[i];
    return total;
}

// First many counters at a time, then fewer, then one by one.
SASH_WIDE size_t counter_of(const uint32_t* counters, size_t at, size_t end, uint64_t& rank) {
    constexpr size_t kMany = 64, kFew = 8;
    uint64_t left = rank;
    for (; at + kMany <= end; at += kMany) {
        uint32_t here = 0;
        for (size_t i = 0; i < kMany; ++i) here += counters[at + i];
        if (left < here) break;
        left -= here;
    }
    for (; at + kFew <= end; at += kFew) {
        uint32_t here = 0;
        for (size_t i = 0; i < kFew; ++i) here += counters[at + i];
        if (left < here) break;
        left -= here;
    }
    for (; at + 1 < end && left >= counters[at]; ++at) left -= counters[at];
    rank = left;
    return at;
}

}  // namespace sash
