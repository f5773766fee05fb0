#include "folds.hpp"

#include <algorithm>

// One copy for each width of vector, chosen when the module is loaded. (The sanitizers' runtime is not ready by then.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(SASH_SANITIZE)
#define SASH_WIDE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define SASH_WIDE
#endif

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

}  // namespace sash
