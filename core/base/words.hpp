// Numbers as 64-bit words whose integer order is the order of the numbers.
//
// An int64 is its own word. A float64 becomes the integer that sorts like it:
//   -inf < ... < -0.0 < 0.0 < ... < inf < NaN   (all NaNs are one)
// so that times and the order monoids need one native form, not two.
#pragma once

#include <cstdint>
#include <cstring>

namespace sash {

inline constexpr int64_t kNanWord = INT64_MAX;

inline int64_t word_of(double value) {
    if (value != value) return kNanWord;
    int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits ^ ((bits >> 63) & INT64_MAX);
}

inline double double_of(int64_t word) {
    int64_t bits = word ^ ((word >> 63) & INT64_MAX);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;  // kNanWord is the bit pattern of a NaN
}

// Whether a word is a valid float time: not NaN, and not -0.0.
inline bool is_real_time(int64_t word) {
    constexpr int64_t infinity = 0x7FF0000000000000;
    return word <= infinity && word >= ~infinity && word != -1;
}

}  // namespace sash
