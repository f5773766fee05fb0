// The state of an approximate quantile: how many values there are in each bucket, and the smallest and largest value.
//
// Buckets divide the floats by powers of 2^(1/per_octave), for each sign; zero, the infinities and NaN have buckets of
// their own. Keys number all buckets in the order of their values. This is the idea of DDSketch (Masson, Rim and Lee, VLDB
// 2019), with bounds that are compared and not computed, so that every machine finds the same bucket.
//
// A state has one of three forms, by what is in it and not by how it came about:
//   list    the keys of up to 128 values
//   dense   a counter of 32 bits for each bucket from the least to the greatest that is in use, for each sign
//   pairs   buckets and their counts in the order of keys, where there would be too many counters, or too many values
// At most `most` buckets are in use besides those of zero, the infinities and NaN: of more, those nearest to zero count as
// zero. A bucket that is dropped from a part is also among those dropped from the whole, so order and grouping still do not
// matter.
#pragma once

#include <vector>

#include "monoids/ops.hpp"

namespace sash::quantile {

inline constexpr uint32_t kExponents = 2098;  // from 2^-1074 to 2^1023

// The numbering of buckets.
struct Scale {
    uint32_t per_octave, most, list;  // buckets of an octave, of a state; values of a list
    std::vector<uint64_t> bounds;     // the lower end of each bucket of an octave, as the bits behind the leading one
    std::vector<uint32_t> nearest;    // by the first of these bits, the bucket or the one before it
    uint32_t shift;                   // that leaves these
    std::vector<double> middles;      // of each bucket, in [1, 2): as far from its ends in proportion to them
    std::vector<double> shares;       // the quantiles that are asked for
    std::vector<uint32_t> order;      // of these, from the smallest to the largest
    bool listed;                      // is the result a list?

    explicit Scale(const std::vector<double>& parameters);

    uint32_t zero() const { return kExponents * per_octave + 1; }
    uint32_t infinity() const { return 2 * zero(); }
    uint32_t nan() const { return infinity() + 1; }
    bool counted(uint32_t key) const { return key > 0 && key < infinity() && key != zero(); }
    uint32_t from_zero(uint32_t key) const { return key < zero() ? zero() - key : key - zero(); }
    uint32_t key_of(double value) const;
    double value_of(uint32_t key) const;
};

struct Pair {
    uint32_t key;
    uint64_t count;
};
using Pairs = std::vector<Pair>;

// Adjacent buckets with counters.
struct Run {
    uint32_t first, size;
    uint32_t end() const { return first + size; }
    bool has(uint32_t key) const { return key - first < size; }
    void cover(const Run& other) {
        if (!other.size) return;
        uint32_t stop = size ? std::max(end(), other.end()) : other.end();
        first = size ? std::min(first, other.first) : other.first;
        size = stop - first;
    }
    void cover(uint32_t key) {
        if (!has(key)) cover(Run{key, 1});
    }
    bool operator==(const Run& other) const { return first == other.first && size == other.size; }
};

// A state's words.
struct State {
    enum Form : uint32_t { list, dense, pairs };
    static constexpr uint32_t kHead = 6, kOthers = 4;  // words of the head; minus infinity, zero, infinity, NaN

    int64_t count, least, greatest;  // of the values; the last two are words that sort as they do
    Form form;
    uint32_t pair_count;
    Run negative, positive;

    static State& at(int64_t* words) { return *reinterpret_cast<State*>(words); }
    static const State& at(const int64_t* words) { return *reinterpret_cast<const State*>(words); }
    const int64_t* body() const { return reinterpret_cast<const int64_t*>(this) + kHead; }
    int64_t* body() { return reinterpret_cast<int64_t*>(this) + kHead; }
    const uint32_t* keys() const { return reinterpret_cast<const uint32_t*>(body()); }
    uint32_t* keys() { return reinterpret_cast<uint32_t*>(body()); }
    const uint32_t* counters() const { return reinterpret_cast<const uint32_t*>(body() + kOthers); }
    uint32_t* counters() { return reinterpret_cast<uint32_t*>(body() + kOthers); }
    uint32_t counter_count() const { return negative.size + positive.size; }
    uint32_t words() const {
        if (form == list) return kHead + (static_cast<uint32_t>(count) + 1) / 2;
        return kHead + (form == dense ? kOthers + (counter_count() + 1) / 2 : pair_count);
    }
};
static_assert(sizeof(State) == State::kHead * sizeof(int64_t));

// A pair in a word, the key first.
inline constexpr uint32_t kCountBits = 43;
inline constexpr uint64_t kMostCounted = (uint64_t{1} << kCountBits) - 1;
inline Pair pair_of(int64_t word) {
    return {static_cast<uint32_t>(static_cast<uint64_t>(word) >> kCountBits),
            static_cast<uint64_t>(word) & kMostCounted};
}
inline int64_t word_of(const Pair& pair) {
    return static_cast<int64_t>(uint64_t{pair.key} << kCountBits | std::min(pair.count, kMostCounted));
}

// Goes up the buckets of a state, to the ones of given ranks.
class Ranks {
   public:
    Ranks(const Scale& scale, const State& state);
    uint32_t key_at(uint64_t rank);  // quickest where ranks do not decrease

   private:
    uint32_t key_in_pairs(uint64_t rank);
    uint32_t key_in_counters(uint64_t rank);
    uint32_t counted_at(uint64_t rank);

    const Scale& scale_;
    const State& state_;
    std::vector<uint32_t> sorted_;  // a list's keys
    uint64_t negatives_ = 0;
    uint64_t before_ = 0;  // the values of all buckets before this one
    uint32_t at_ = 0;
};

void add(const Scale& scale, State& state, double value);
void join(const Scale& scale, State& state, const State& other);
void tidy(const Scale& scale, State& state, uint32_t words);
bool sound(const Scale& scale, const State& state);
// The quantile at each share, interpolated between two ranks as NumPy does it.
void quantiles(const Scale& scale, const State& state, double* into);

}  // namespace sash::quantile
