// Ops with a few numbers of state: sums, order, bits, and those that read the time.
#include <algorithm>
#include <cmath>

#include "monoids/ops_common.hpp"

namespace sash {

namespace {

// --- sums ------------------------------------------------------------------------------------------

// How many rows there were is in the header.
struct CountRows : Facts {
    static constexpr bool small = false;
    static uint32_t words(const Op&) { return 0; }
    static void set(const Op&, int64_t*, int64_t, int64_t, int64_t) {}
    static void add(const Op&, int64_t*, int64_t, int64_t, int64_t) {}
    static void join(const Op&, int64_t*, const int64_t*) {}
    static bool same(const Op&, const int64_t*, const int64_t*, double) { return true; }
    static bool sound(const Op&, const int64_t*) { return true; }
    static Outputs outputs(const Op&) { return {Outputs::Shape::words, "i", 0}; }
    static bool lower(const Op&, const int64_t* state, const Span&, int64_t* out) { return *out = state[kRows], true; }
};
// It has no state of its own to be given.
bool lower_rows(const Op& op, const int64_t* record, const Span& span, int64_t* out) {
    return CountRows::lower(op, record, span, out);
}
OpTable count_rows() {
    OpTable table = table_of<CountRows>("count", "");
    table.lower = lower_rows;
    return table;
}

struct Count : Facts {
    struct State {
        int64_t n;
    };
    static State of(const Op&, int64_t, int64_t, int64_t) { return {1}; }
    static void add(const Op&, State& s, int64_t, int64_t, int64_t) { ++s.n; }
    static bool possible(const State& s) { return s.n >= 0; }
    static void join(const Op&, State& s, const State& o) { s.n += o.n; }
    static std::string outputs(const Op&) { return "i"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) { return *out = s.n, true; }
};

struct CountIf : Count {
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {x != 0}; }
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.n += x != 0; }
};

struct Product : Reals {
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.value *= real(x); }
    static void join(const Op&, State& s, const State& o) { s.value *= o.value; }
    // A factor has no scale to be near by; products that pass through the smallest floats differ in any digit, and
    // those that pass through the largest may stay infinite, or become NaN, in one order of combining only.
    static bool same(const Op&, const State& a, const State& b, double) {
        bool finite = a.value - a.value == 0 && b.value - b.value == 0;
        return !finite || a.value == 0 || b.value == 0 || near(a.value, b.value, 1e-290);
    }
};

// The sum of the values for each second, or each unit of time, of the window.
struct Rate : SumReals {
    static constexpr bool timed = true;
    static bool lower(const Op& op, const State& s, const Span& span, int64_t* out) {
        double length = op.clock.between(span.start, span.stop);
        *out = bits_of(s.value / length);
        return length > 0;
    }
};

// The logarithm is taken when a value is folded: a leaf stores the value itself. A negative value has none: it marks
// the state by the sign of n, and the result is null, with 1 in the place of the value to tell it from that of no values.
struct Geomean : SumAndCount {
    static constexpr int64_t kNegative = INT64_MIN;
    static State of(const Op&, int64_t x, int64_t, int64_t) {
        return real(x) < 0 ? State{0, kNegative | 1} : State{std::log(real(x)), 1};
    }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op&, State& s, const State& o) {
        s = {s.sum + o.sum, ((s.n & ~kNegative) + (o.n & ~kNegative)) | ((s.n | o.n) & kNegative)};
    }
    static bool possible(const State& s) { return (s.n & ~kNegative) >= 1; }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        return a.n == b.n && near(a.sum, b.sum, tolerance + 1e-9 * static_cast<double>(a.n & ~kNegative));
    }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        *out = s.n < 0 ? 1 : bits_of(std::exp(s.sum / static_cast<double>(s.n)));
        return s.n >= 0;
    }
};

struct WeightedMean : Facts {
    static constexpr bool exact = false;
    static constexpr int degree = 2;
    struct State {
        double sum, weights;
    };
    static State of(const Op&, int64_t x, int64_t y, int64_t) { return {real(x) * real(y), real(y)}; }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op&, State& s, const State& o) { s.sum += o.sum, s.weights += o.weights; }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        return near(a.sum, b.sum, tolerance) && near(a.weights, b.weights, tolerance);
    }
    static std::string outputs(const Op&) { return "f"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        *out = bits_of(s.sum / s.weights);
        return s.weights != 0;
    }
};

// --- order -----------------------------------------------------------------------------------------

template <bool reals, bool largest>
struct ExtremeAndCount : Ordered<reals> {
    static constexpr size_t result_words = 2;
    using Base = Ordered<reals>;
    struct State {
        int64_t word, n;
    };
    static bool better(int64_t a, int64_t b) { return largest ? a > b : a < b; }
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {Base::key(x), 1}; }
    static void add(const Op& op, State& s, int64_t x, int64_t, int64_t) { join(op, s, {Base::key(x), 1}); }
    static void join(const Op&, State& s, const State& o) {
        if (o.word == s.word)
            s.n += o.n;
        else if (better(o.word, s.word))
            s = o;
    }
    static bool possible(const State& s) { return s.n >= 1; }
    static std::string outputs(const Op&) { return std::string(Base::letter()) + "i"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        out[0] = Base::value(s.word);
        out[1] = s.n;
        return true;
    }
};

template <bool reals>
struct RangeOf : Ordered<reals> {
    static constexpr size_t result_words = reals ? 1 : 2;
    using Base = Ordered<reals>;
    struct State {
        int64_t least, greatest;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {Base::key(x), Base::key(x)}; }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op&, State& s, const State& o) {
        s = {std::min(s.least, o.least), std::max(s.greatest, o.greatest)};
    }
    static std::string outputs(const Op&) { return reals ? "f" : "I"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        if (reals) return *out = bits_of(double_of(s.greatest) - double_of(s.least)), true;
        __int128 range = static_cast<__int128>(s.greatest) - s.least;
        std::memcpy(out, &range, sizeof range);
        return true;
    }
};

// Of ties the older one stays.
template <bool reals, bool largest, bool values>
struct ArgExtreme : Ordered<reals> {
    using Base = Ordered<reals>;
    static constexpr bool commutes = false;
    struct State {
        int64_t word, value;
    };
    static State of(const Op&, int64_t x, int64_t y, int64_t) { return {Base::key(x), y}; }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op&, State& s, const State& o) {
        if (largest ? o.word > s.word : o.word < s.word) s = o;
    }
    static std::string outputs(const Op&) { return values ? "f" : "i"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) { return *out = s.value, true; }
};

template <bool reals>
struct OneValue : Facts {
    static constexpr bool commutes = false;
    struct State {
        int64_t value;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {x}; }
    static std::string outputs(const Op&) { return reals ? "f" : "i"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) { return *out = s.value, true; }
};
template <bool reals>
struct First : OneValue<reals> {
    using State = typename OneValue<reals>::State;
    static void add(const Op&, State&, int64_t, int64_t, int64_t) {}
    static void join(const Op&, State&, const State&) {}
};
template <bool reals>
struct Last : OneValue<reals> {
    using State = typename OneValue<reals>::State;
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.value = x; }
    static void join(const Op&, State& s, const State& o) { s = o; }
};

template <bool reals>
struct Delta : Facts {
    static constexpr size_t result_words = reals ? 1 : 2;
    static constexpr bool commutes = false;
    struct State {
        int64_t first, last;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {x, x}; }
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.last = x; }
    static void join(const Op&, State& s, const State& o) { s.last = o.last; }
    static std::string outputs(const Op&) { return reals ? "f" : "I"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        if (reals) return *out = bits_of(real(s.last) - real(s.first)), true;
        __int128 delta = static_cast<__int128>(s.last) - s.first;
        std::memcpy(out, &delta, sizeof delta);
        return true;
    }
};

// --- bits and truths -------------------------------------------------------------------------------

struct OneWord : Facts {
    struct State {
        int64_t word;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t) { return {x}; }
    static std::string outputs(const Op&) { return "i"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) { return *out = s.word, true; }
};
struct BitAnd : OneWord {
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.word &= x; }
    static void join(const Op&, State& s, const State& o) { s.word &= o.word; }
};
struct BitOr : OneWord {
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.word |= x; }
    static void join(const Op&, State& s, const State& o) { s.word |= o.word; }
};
struct BitXor : OneWord {
    static void add(const Op&, State& s, int64_t x, int64_t, int64_t) { s.word ^= x; }
    static void join(const Op&, State& s, const State& o) { s.word ^= o.word; }
};
struct All : BitAnd {
    static std::string outputs(const Op&) { return "b"; }
};
struct Any : BitOr {
    static std::string outputs(const Op&) { return "b"; }
};

// --- with the time ---------------------------------------------------------------------------------

// What is left of a weight after a time.
double share_left(const Op& op, int64_t from, int64_t to) {
    return std::exp2(-op.clock.between(from, to) / op.parameters[0]);
}
// What is not finite does not fade.
double faded_sum(double sum, double share) { return sum - sum != 0 ? sum : sum * share; }

// The sum as it stands at the newest time; older states fade until they are added to it.
struct DecayedSum : Facts {
    static constexpr bool exact = false, timed = true;
    struct State {
        int64_t time;
        double sum;
    };
    static double faded(const Op& op, const State& s, int64_t to) {
        return faded_sum(s.sum, share_left(op, s.time, to));
    }
    static State of(const Op&, int64_t x, int64_t, int64_t t) { return {t, real(x)}; }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op& op, State& s, const State& o) {
        if (s.time == o.time)
            s.sum += o.sum;
        else if (op.clock.before(s.time, o.time))
            s = {o.time, faded(op, s, o.time) + o.sum};
        else
            s.sum += faded(op, o, s.time);
    }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        return a.time == b.time && near(a.sum, b.sum, tolerance);
    }
    static std::string outputs(const Op&) { return "f"; }
    static bool lower(const Op& op, const State& s, const Span& span, int64_t* out) {
        return *out = bits_of(faded(op, s, span.stop)), true;
    }
};

// The sum and the weights as they stand at the newest time, where the newest value weighs 1: nothing is divided by 0.
struct DecayedMean : Facts {
    static constexpr bool exact = false, timed = true;
    struct State {
        int64_t time;
        double sum, weight;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t t) { return {t, real(x), 1.0}; }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op& op, State& s, const State& o) {
        if (s.time == o.time)
            s = {s.time, s.sum + o.sum, s.weight + o.weight};
        else
            s = op.clock.before(s.time, o.time) ? later(op, s, o) : later(op, o, s);
    }
    static State later(const Op& op, const State& older, const State& newer) {
        double share = share_left(op, older.time, newer.time);
        return {newer.time, faded_sum(older.sum, share) + newer.sum, older.weight * share + newer.weight};
    }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        return a.time == b.time && near(a.sum, b.sum, tolerance) && near(a.weight, b.weight, tolerance);
    }
    static std::string outputs(const Op&) { return "f"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        return *out = bits_of(s.sum / s.weight), true;
    }
};

// Each value lasts until the next one.
struct TimeWeightedMean : Facts {
    static constexpr bool commutes = false, exact = false, timed = true;
    static constexpr int degree = 2;
    struct State {
        int64_t first, last;  // times
        double value;         // the last one
        double area;          // under all values from first to last
    };
    static State of(const Op&, int64_t x, int64_t, int64_t t) { return {t, t, real(x), 0.0}; }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static double held(const Op& op, const State& s, int64_t until) {
        double length = op.clock.between(s.last, until);
        return length == 0 ? s.area : s.area + s.value * length;
    }
    static void join(const Op& op, State& s, const State& o) {
        s = {s.first, o.last, o.value, held(op, s, o.first) + o.area};
    }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        bool times = a.first == b.first && a.last == b.last;
        return times && bits_of(a.value) == bits_of(b.value) && near(a.area, b.area, tolerance);
    }
    static std::string outputs(const Op&) { return "f"; }
    static bool lower(const Op& op, const State& s, const Span& span, int64_t* out) {
        double length = op.clock.between(s.first, span.stop);
        *out = bits_of(length > 0 ? held(op, s, span.stop) / length : s.value);
        return true;
    }
};

// --- functions -------------------------------------------------------------------------------------

// x -> a x + b; the older function is applied first.
struct Affine : Facts {
    static constexpr size_t result_words = 2;
    static constexpr bool commutes = false, exact = false;
    struct State {
        double a, b;
    };
    static State of(const Op&, int64_t x, int64_t y, int64_t) { return {real(x), real(y)}; }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op&, State& s, const State& o) { s = {o.a * s.a, o.a * s.b + o.b}; }
    static bool same(const Op&, const State& p, const State& q, double) {
        return near(p.a, q.a, 1e-290) && near(p.b, q.b, 1e-290);
    }
    static std::string outputs(const Op&) { return "ff"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        out[0] = bits_of(s.a);
        out[1] = bits_of(s.b);
        return true;
    }
};

}  // namespace

const std::vector<OpTable>& number_ops() {
    static const std::vector<OpTable> tables = {
        count_rows(),
        table_of<Count>("count", "n"),
        table_of<CountIf>("count_if", "i"),
        table_of<Product>("product", "f"),
        table_of<Rate>("rate", "f"),
        table_of<Geomean>("geomean", "f"),
        table_of<WeightedMean>("weighted_mean", "ff"),
        table_of<ExtremeAndCount<false, false>>("mincount", "i"),
        table_of<ExtremeAndCount<true, false>>("mincount", "f"),
        table_of<ExtremeAndCount<false, true>>("maxcount", "i"),
        table_of<ExtremeAndCount<true, true>>("maxcount", "f"),
        table_of<RangeOf<false>>("range", "i"),
        table_of<RangeOf<true>>("range", "f"),
        table_of<ArgExtreme<false, false, false>>("argmin", "ii"),
        table_of<ArgExtreme<false, false, true>>("argmin", "if"),
        table_of<ArgExtreme<true, false, false>>("argmin", "fi"),
        table_of<ArgExtreme<true, false, true>>("argmin", "ff"),
        table_of<ArgExtreme<false, true, false>>("argmax", "ii"),
        table_of<ArgExtreme<false, true, true>>("argmax", "if"),
        table_of<ArgExtreme<true, true, false>>("argmax", "fi"),
        table_of<ArgExtreme<true, true, true>>("argmax", "ff"),
        table_of<First<false>>("first", "i"),
        table_of<First<true>>("first", "f"),
        table_of<Last<false>>("last", "i"),
        table_of<Last<true>>("last", "f"),
        table_of<Delta<false>>("delta", "i"),
        table_of<Delta<true>>("delta", "f"),
        table_of<BitAnd>("bit_and", "i"),
        table_of<BitOr>("bit_or", "i"),
        table_of<BitXor>("bit_xor", "i"),
        table_of<All>("all", "i"),
        table_of<Any>("any", "i"),
        table_of<DecayedSum>("decayed_sum", "f"),
        table_of<DecayedMean>("decayed_mean", "f"),
        table_of<TimeWeightedMean>("time_weighted_mean", "f"),
        table_of<Affine>("affine", "ff"),
    };
    return tables;
}

const OpTable* find_op(const std::string& name, const std::string& kinds) {
    auto fits = [&](const OpTable& table) {
        std::string wanted = table.kinds;
        if (name != table.name || (wanted != "*" && wanted.size() != kinds.size())) return false;
        for (size_t i = 0; wanted != "*" && i < kinds.size(); ++i)
            if (wanted[i] != 'n' && wanted[i] != kinds[i]) return false;
        return true;
    };
    for (const auto* tables : {&common_ops(), &number_ops(), &moment_ops(), &wide_ops(), &quantile_ops()})
        for (const OpTable& table : *tables)
            if (fits(table)) return &table;
    return nullptr;
}

}  // namespace sash
