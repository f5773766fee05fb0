#include "monoids/quantile_sketch.hpp"

#include <algorithm>
#include <cmath>

#include "monoids/folds.hpp"

namespace sash::quantile {

namespace {

constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
constexpr uint64_t kWide = uint64_t{1} << 32;  // as many values do not fit counters

uint64_t bits(double value) { return static_cast<uint64_t>(bits_of(value)); }

}  // namespace

// --- buckets ---------------------------------------------------------------------------------------

// The parameters: buckets of an octave, buckets of a state, values of a list, whether the result is a list, how many shares;
// the shares, their order, and the bounds from 1 to 2.
Scale::Scale(const std::vector<double>& parameters)
    : per_octave(static_cast<uint32_t>(parameters[0])),
      most(static_cast<uint32_t>(parameters[1])),
      list(static_cast<uint32_t>(parameters[2])),
      listed(parameters[3] != 0) {
    auto shares_at = parameters.begin() + 5;
    auto order_at = shares_at + static_cast<ptrdiff_t>(parameters[4]);
    auto bounds_at = order_at + static_cast<ptrdiff_t>(parameters[4]);
    shares.assign(shares_at, order_at);
    order.assign(order_at, bounds_at);
    for (uint32_t i = 0; i < per_octave; ++i) {
        double low = bounds_at[i], high = bounds_at[i + 1];
        bounds.push_back(bits(low) & kFraction);
        middles.push_back(2 * low * high / (low + high));
    }
    bounds.push_back(kFraction + 1);
    shift = 63 - static_cast<uint32_t>(__builtin_clzll(bounds[1]));  // a cell has at most one bound
    for (uint64_t cell = 0; cell <= kFraction >> shift; ++cell)
        nearest.push_back(
            static_cast<uint32_t>(std::upper_bound(bounds.begin(), bounds.end(), cell << shift) - bounds.begin() - 1));
}

uint32_t Scale::key_of(double value) const {
    uint64_t word = bits(std::fabs(value)), exponent = word >> 52;
    bool below = std::signbit(value);
    if (exponent == 0x7FF) return word & kFraction ? nan() : below ? 0 : infinity();
    uint32_t lift = 0;
    if (exponent == 0) {
        if (word == 0) return zero();
        word = bits(std::fabs(value) * 0x1p54);
        exponent = word >> 52;
        lift = 54;
    }
    uint64_t fraction = word & kFraction;
    uint32_t place = nearest[fraction >> shift];
    place += fraction >= bounds[place + 1];
    uint32_t distance = (static_cast<uint32_t>(exponent) + 51 - lift) * per_octave + place + 1;
    return below ? zero() - distance : zero() + distance;
}

double Scale::value_of(uint32_t key) const {
    if (key == zero()) return 0;
    if (key == nan()) return std::nan("");
    if (!counted(key)) return key ? HUGE_VAL : -HUGE_VAL;
    uint32_t place = from_zero(key) - 1;
    int exponent = static_cast<int>(place / per_octave) - 1074;
    double size = middles[place % per_octave];
    if (exponent >= -1022)  // as ldexp, without its call
        size = real(bits_of(size) + exponent * (int64_t{1} << 52));
    else
        size = std::ldexp(size, exponent);
    return key < zero() ? -size : size;
}

// --- forms -----------------------------------------------------------------------------------------

namespace {

int64_t& other_count(const Scale& scale, State& state, uint32_t key) {
    return state.body()[key == 0 ? 0 : key == scale.zero() ? 1 : key == scale.infinity() ? 2 : 3];
}

// Visits buckets and their counts in the order of keys.
template <class Visit>
void each_counter(const Run& run, const uint32_t* counters, Visit&& visit) {
    for (uint32_t i = 0; i < run.size; ++i)
        if (counters[i]) visit(Pair{run.first + i, counters[i]});
}
template <class Visit>
void each_dense(const Scale& scale, const State& state, Visit&& visit) {
    const int64_t* others = state.body();
    auto other = [&](uint32_t key, int64_t count) {
        if (count) visit(Pair{key, static_cast<uint64_t>(count)});
    };
    other(0, others[0]);
    each_counter(state.negative, state.counters(), visit);
    other(scale.zero(), others[1]);
    each_counter(state.positive, state.counters() + state.negative.size, visit);
    other(scale.infinity(), others[2]);
    other(scale.nan(), others[3]);
}

void append(Pairs& pairs, const Pair& pair) {
    if (!pairs.empty() && pairs.back().key == pair.key)
        pairs.back().count += pair.count;
    else
        pairs.push_back(pair);
}

Pairs pairs_of(const Scale& scale, const State& state) {
    Pairs pairs;
    if (state.form == State::list) {
        std::vector<uint32_t> keys(state.keys(), state.keys() + state.count);
        std::sort(keys.begin(), keys.end());
        for (uint32_t key : keys) append(pairs, {key, 1});
    } else if (state.form == State::dense) {
        each_dense(scale, state, [&](const Pair& pair) { pairs.push_back(pair); });
    } else {
        for (uint32_t i = 0; i < state.pair_count; ++i) pairs.push_back(pair_of(state.body()[i]));
    }
    return pairs;
}

Pairs merged(const Pairs& a, const Pairs& b) {
    Pairs both;
    both.reserve(a.size() + b.size());
    for (size_t i = 0, j = 0; i < a.size() || j < b.size();)
        append(both, j == b.size() || (i < a.size() && a[i].key <= b[j].key) ? a[i++] : b[j++]);
    return both;
}

// Of too many buckets those nearest to zero count as zero; of two as near, the negative one first.
void drop_least(const Scale& scale, Pairs& pairs) {
    size_t used = 0;
    for (const Pair& pair : pairs) used += scale.counted(pair.key);
    if (used <= scale.most) return;
    size_t left = 0;
    while (left < pairs.size() && pairs[left].key < scale.zero()) ++left;
    size_t right = left;
    Pair zero{scale.zero(), 0};
    if (right < pairs.size() && pairs[right].key == zero.key) zero.count += pairs[right++].count;
    for (; used > scale.most; --used) {
        bool negative = left > 0 && scale.counted(pairs[left - 1].key);
        if (negative && right < pairs.size() && scale.counted(pairs[right].key))
            negative = scale.from_zero(pairs[left - 1].key) <= scale.from_zero(pairs[right].key);
        zero.count += negative ? pairs[--left].count : pairs[right++].count;
    }
    pairs.erase(pairs.begin() + static_cast<ptrdiff_t>(left), pairs.begin() + static_cast<ptrdiff_t>(right));
    pairs.insert(pairs.begin() + static_cast<ptrdiff_t>(left), zero);
}

struct Runs {
    Run negative{}, positive{};
    bool fit(const Scale& scale) const { return negative.size + positive.size <= scale.most; }
    void cover(const Scale& scale, uint32_t key) {
        if (scale.counted(key)) (key < scale.zero() ? negative : positive).cover(key);
    }
    void cover(const Scale& scale, const State& state) {
        negative.cover(state.form == State::dense ? state.negative : Run{});
        positive.cover(state.form == State::dense ? state.positive : Run{});
        for (int64_t i = 0; state.form == State::list && i < state.count; ++i) cover(scale, state.keys()[i]);
    }
};

// Counters that are zero, in the place of what was there.
void clear_counters(State& state, const Runs& runs) {
    state.form = State::dense;
    state.pair_count = 0;
    state.negative = runs.negative;
    state.positive = runs.positive;
    std::fill(state.body(), state.body() + State::kOthers + (state.counter_count() + 1) / 2, 0);
}

uint32_t* counter(State& state, uint32_t key, uint32_t zero) {
    if (key < zero) return state.counters() + (key - state.negative.first);
    return state.counters() + state.negative.size + (key - state.positive.first);
}

// Counts a value of a bucket that has a counter.
void bump(const Scale& scale, State& state, uint32_t key, uint64_t count = 1) {
    if (scale.counted(key))
        *counter(state, key, scale.zero()) += static_cast<uint32_t>(count);
    else
        other_count(scale, state, key) += static_cast<int64_t>(count);
}

void add_counters(State& state, const State& other) {
    if (other.negative.size)
        add_all(state.counters() + (other.negative.first - state.negative.first), other.counters(),
                other.negative.size);
    if (other.positive.size)
        add_all(state.counters() + state.negative.size + (other.positive.first - state.positive.first),
                other.counters() + other.negative.size, other.positive.size);
    for (uint32_t i = 0; i < State::kOthers; ++i) state.body()[i] += other.body()[i];
}

// Gives counters to more buckets: all that are there move up, those of positive buckets first, to make way.
void widen(State& state, const Runs& runs) {
    const Run negative = state.negative, positive = state.positive;
    if (negative == runs.negative && positive == runs.positive) return;
    uint32_t* counters = state.counters();
    uint32_t low = negative.size ? negative.first - runs.negative.first : 0;
    uint32_t high = runs.negative.size + (positive.size ? positive.first - runs.positive.first : 0);
    std::memmove(counters + high, counters + negative.size, positive.size * sizeof *counters);
    std::memmove(counters + low, counters, negative.size * sizeof *counters);
    state.negative = runs.negative;
    state.positive = runs.positive;
    std::fill(counters, counters + low, 0);
    std::fill(counters + low + negative.size, counters + high, 0);
    std::fill(counters + high + positive.size, counters + (state.counter_count() + 1) / 2 * 2, 0);
}

void encode(const Scale& scale, State& state, Pairs pairs) {
    drop_least(scale, pairs);
    Runs runs;
    for (const Pair& pair : pairs) runs.cover(scale, pair.key);
    if (runs.fit(scale) && static_cast<uint64_t>(state.count) < kWide) {
        clear_counters(state, runs);
        for (const Pair& pair : pairs) bump(scale, state, pair.key, pair.count);
        return;
    }
    state.form = State::pairs;
    state.negative = state.positive = {};
    state.pair_count = static_cast<uint32_t>(pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) state.body()[i] = word_of(pairs[i]);
}

// A list whose values all have counters of one sign already, as almost always in a large window.
bool add_list_to_run(const Run& run, uint32_t* counters, const State& list) {
    const uint32_t* keys = list.keys();
    uint32_t count = static_cast<uint32_t>(list.count), outside = 0;
    for (uint32_t i = 0; i < count; ++i) outside += keys[i] - run.first >= run.size;
    if (outside) return false;
    for (uint32_t i = 0; i < count; ++i) ++counters[keys[i] - run.first];
    return true;
}
bool add_list_to_counters(State& state, const State& list) {
    if (state.form != State::dense || list.form != State::list) return false;
    return add_list_to_run(state.positive, state.counters() + state.negative.size, list) ||
           add_list_to_run(state.negative, state.counters(), list);
}

// The other way round: the counters are copied, and the keys of the list counted there.
bool add_counters_to_list(State& state, const State& other) {
    constexpr int64_t kMost = 128;
    if (state.form != State::list || other.form != State::dense || state.count > kMost) return false;
    int64_t list[State::kHead + kMost / 2];
    const int64_t* words = reinterpret_cast<const int64_t*>(&state);
    std::copy(words, words + state.words(), list);
    const State& keys = State::at(list);
    const Run* runs[] = {&other.positive, &other.negative};
    for (const Run* run : runs) {
        uint32_t outside = 0;
        for (int64_t i = 0; i < keys.count; ++i) outside += !run->has(keys.keys()[i]);
        if (outside) continue;
        state.form = State::dense;
        state.negative = other.negative;
        state.positive = other.positive;
        std::copy(other.body(), other.body() + (other.words() - State::kHead), state.body());
        return add_list_to_counters(state, keys);
    }
    return false;
}

// The counters of both, without going through pairs; false where there would be too many.
bool join_counters(const Scale& scale, State& state, const State& other) {
    if (state.form == State::pairs || other.form == State::pairs) return false;
    Runs runs;
    runs.cover(scale, state);
    runs.cover(scale, other);
    if (!runs.fit(scale)) return false;
    std::vector<uint32_t> keys;
    if (state.form == State::list) {
        keys.assign(state.keys(), state.keys() + state.count);
        clear_counters(state, runs);
    } else {
        widen(state, runs);
    }
    for (uint32_t key : keys) bump(scale, state, key);
    if (other.form == State::dense)
        add_counters(state, other);
    else
        for (int64_t i = 0; i < other.count; ++i) bump(scale, state, other.keys()[i]);
    return true;
}

bool add_to_list(const Scale& scale, State& state, const State& other) {
    if (state.form != State::list || other.form != State::list || state.count + other.count > scale.list) return false;
    std::copy(other.keys(), other.keys() + other.count, state.keys() + state.count);
    return true;
}

// Where the bucket has a counter already.
bool add_to_counter(const Scale& scale, State& state, uint32_t key) {
    if (state.form != State::dense || static_cast<uint64_t>(state.count) + 1 >= kWide) return false;
    if (scale.counted(key) && !(key < scale.zero() ? state.negative : state.positive).has(key)) return false;
    bump(scale, state, key);
    return true;
}

bool add_to_list(const Scale& scale, State& state, uint32_t key) {
    if (state.form != State::list || state.count >= scale.list) return false;
    state.keys()[state.count] = key;
    return true;
}

}  // namespace

// --- changes ---------------------------------------------------------------------------------------

void join(const Scale& scale, State& state, const State& other) {
    bool wide = static_cast<uint64_t>(state.count) + static_cast<uint64_t>(other.count) >= kWide;
    bool done = !wide && (add_to_list(scale, state, other) || add_list_to_counters(state, other) ||
                          add_counters_to_list(state, other) || join_counters(scale, state, other));
    Pairs pairs;
    if (!done) pairs = merged(pairs_of(scale, state), pairs_of(scale, other));
    state.count += other.count;
    state.least = std::min(state.least, other.least);
    state.greatest = std::max(state.greatest, other.greatest);
    if (!done) encode(scale, state, std::move(pairs));
}

void add(const Scale& scale, State& state, double value) {
    uint32_t key = scale.key_of(value);
    if (add_to_list(scale, state, key) || add_to_counter(scale, state, key)) {
        int64_t word = sash::word_of(value);
        ++state.count;
        state.least = std::min(state.least, word);
        state.greatest = std::max(state.greatest, word);
        return;
    }
    int64_t one[State::kHead + 1] = {1, sash::word_of(value), sash::word_of(value)};
    State::at(one).keys()[0] = key;
    join(scale, state, State::at(one));
}

// --- proof -----------------------------------------------------------------------------------------

void tidy(const Scale&, State& state, uint32_t words) {
    if (state.form == State::list) std::sort(state.keys(), state.keys() + state.count);
    int64_t* all = reinterpret_cast<int64_t*>(&state);
    uint32_t odd = state.form == State::list ? static_cast<uint32_t>(state.count) % 2 : state.counter_count() % 2;
    if (odd) reinterpret_cast<uint32_t*>(all + state.words())[-1] = 0;
    std::fill(all + state.words(), all + words, 0);
}

namespace {

bool sound_runs(const Scale& scale, const State& state) {
    uint64_t size = uint64_t{state.negative.size} + state.positive.size;
    if (size > scale.most) return false;
    const Run &low = state.negative, &high = state.positive;
    bool inside = !low.size || (low.first >= 1 && low.first < scale.zero() && scale.zero() - low.first >= low.size);
    if (high.size)
        inside &=
            high.first > scale.zero() && high.first < scale.infinity() && scale.infinity() - high.first >= high.size;
    inside &= (low.size || !low.first) && (high.size || !high.first);
    if (!inside) return false;
    const uint32_t *negative = state.counters(), *positive = negative + low.size;
    bool tight = !low.size || (negative[0] && negative[low.size - 1]);
    return tight && (!high.size || (positive[0] && positive[high.size - 1]));
}

// The form of a state, so far that its buckets can be visited.
bool sound_form(const Scale& scale, const State& state) {
    if (state.count < 1 || state.count > static_cast<int64_t>(kMostCounted)) return false;
    if (state.form != State::dense && !(state.negative == Run{} && state.positive == Run{})) return false;
    switch (state.form) {
        case State::list: return state.count <= scale.list && state.pair_count == 0;
        case State::dense:
            return state.pair_count == 0 && state.count > scale.list && static_cast<uint64_t>(state.count) < kWide &&
                   sound_runs(scale, state);
        case State::pairs:
            return state.count > scale.list && state.pair_count >= 1 && state.pair_count <= scale.most + State::kOthers;
    }
    return false;
}

bool sound_pairs(const Scale& scale, const State& state, const Pairs& pairs) {
    uint64_t total = 0, used = 0;
    for (size_t i = 0; i < pairs.size(); ++i) {
        if (pairs[i].key > scale.nan() || !pairs[i].count || (i && pairs[i].key <= pairs[i - 1].key)) return false;
        used += scale.counted(pairs[i].key);
        total += pairs[i].count;
        if (total > static_cast<uint64_t>(state.count)) return false;
    }
    if (total != static_cast<uint64_t>(state.count) || used > scale.most) return false;
    Runs runs;
    for (const Pair& pair : pairs) runs.cover(scale, pair.key);
    bool dense = runs.fit(scale) && total < kWide;
    return state.form == State::list || (state.form == State::dense) == dense;
}

// The ends are in the first and the last bucket, unless these were dropped.
bool sound_ends(const Scale& scale, const State& state, const Pairs& pairs) {
    double least = double_of(state.least), greatest = double_of(state.greatest);
    if (state.least > state.greatest) return false;
    if (sash::word_of(least) != state.least || sash::word_of(greatest) != state.greatest) return false;
    auto fits = [&](uint32_t key, double value) { return key == scale.zero() || key == scale.key_of(value); };
    return fits(pairs.front().key, least) && fits(pairs.back().key, greatest);
}

}  // namespace

bool sound(const Scale& scale, const State& state) {
    if (!sound_form(scale, state)) return false;
    if (state.form == State::dense)
        for (uint32_t i = 0; i < State::kOthers; ++i)
            if (state.body()[i] < 0 || state.body()[i] > state.count) return false;
    Pairs pairs = pairs_of(scale, state);
    return sound_pairs(scale, state, pairs) && sound_ends(scale, state, pairs);
}

// --- results ---------------------------------------------------------------------------------------

Ranks::Ranks(const Scale& scale, const State& state) : scale_(scale), state_(state) {
    if (state.form == State::list) {
        sorted_.assign(state.keys(), state.keys() + state.count);
        std::sort(sorted_.begin(), sorted_.end());
    }
    if (state.form == State::dense && state.negative.size) negatives_ = total_of(state.counters(), state.negative.size);
}

uint32_t Ranks::key_at(uint64_t rank) {
    if (state_.form == State::list) return sorted_[rank];
    return state_.form == State::pairs ? key_in_pairs(rank) : key_in_counters(rank);
}

uint32_t Ranks::key_in_pairs(uint64_t rank) {
    if (rank < before_) before_ = at_ = 0;
    for (; at_ + 1 < state_.pair_count; ++at_) {
        uint64_t here = pair_of(state_.body()[at_]).count;
        if (rank - before_ < here) break;
        before_ += here;
    }
    return pair_of(state_.body()[at_]).key;
}

uint32_t Ranks::key_in_counters(uint64_t rank) {
    const int64_t* others = state_.body();
    uint64_t low = static_cast<uint64_t>(others[0]), zeros = static_cast<uint64_t>(others[1]);
    uint64_t high = static_cast<uint64_t>(others[2]), nans = static_cast<uint64_t>(others[3]);
    if (rank < low) return 0;
    if (rank - low < negatives_) return counted_at(rank - low);
    if (rank - low - negatives_ < zeros) return scale_.zero();
    uint64_t behind = static_cast<uint64_t>(state_.count) - rank;
    if (behind > high + nans) return counted_at(rank - low - zeros);
    return behind > nans ? scale_.infinity() : scale_.nan();
}

// The bucket of a value that is neither zero nor infinite, by its rank among these.
uint32_t Ranks::counted_at(uint64_t rank) {
    const uint32_t* counters = state_.counters();
    uint32_t middle = state_.negative.size;
    if (rank < before_) before_ = at_ = 0;
    uint64_t left = rank - before_;
    if (left >= counters[at_]) at_ = static_cast<uint32_t>(counter_of(counters, at_, state_.counter_count(), left));
    before_ = rank - left;
    return at_ < middle ? state_.negative.first + at_ : state_.positive.first + (at_ - middle);
}

namespace {

// Between two values at a share of the way, rounded as NumPy does it; only their difference may be too large.
double between(double low, double high, double share) {
    if (share == 0 || low == high) return low;
    if (std::isinf(high - low) && std::isfinite(low) && std::isfinite(high)) return low * (1 - share) + high * share;
    return share < 0.5 ? low + (high - low) * share : high - (high - low) * (1 - share);
}

}  // namespace

void quantiles(const Scale& scale, const State& state, double* into) {
    Ranks ranks(scale, state);
    uint64_t last = static_cast<uint64_t>(state.count) - 1;
    uint32_t key = UINT32_MAX;  // of the last value
    double value = 0;
    auto value_at = [&](uint64_t rank) {
        if (rank == 0) return double_of(state.least);
        if (rank >= last) return double_of(state.greatest);
        uint32_t next = ranks.key_at(rank);
        if (next == key) return value;
        key = next;
        int64_t word = sash::word_of(scale.value_of(key));
        return value = double_of(std::min(std::max(word, state.least), state.greatest));
    };
    for (uint32_t i : scale.order) {
        double place = scale.shares[i] * static_cast<double>(last);
        uint64_t rank = static_cast<uint64_t>(place);
        double share = place - static_cast<double>(rank), low = value_at(rank);
        into[i] = share == 0 ? low : between(low, value_at(rank + 1), share);
    }
}

}  // namespace sash::quantile
