// Ops with many words of state: k values, histograms, the exact sum of floats, sets, and compiled monoids.
#include <algorithm>
#include <cmath>

#include "monoids/folds.hpp"
#include "monoids/ops.hpp"

namespace sash {

namespace {

struct Wide : Facts {
    static constexpr bool small = false;
    static bool same(const Op& op, const int64_t* a, const int64_t* b, double) {
        return std::memcmp(a, b, op.words * sizeof(int64_t)) == 0;
    }
    static bool sound(const Op&, const int64_t*) { return true; }
};

// --- k values: how many, then the values -----------------------------------------------------------

template <bool reals>
struct SomeValues : Wide {
    static int64_t most(const Op& op) { return static_cast<int64_t>(op.parameters[0]); }
    static uint32_t words(const Op& op) { return 1 + static_cast<uint32_t>(most(op)); }
    static void set(const Op&, int64_t* s, int64_t x, int64_t, int64_t) {
        s[0] = 1;
        s[1] = x;
    }
    static bool same(const Op&, const int64_t* a, const int64_t* b, double) {
        return std::memcmp(a, b, (1 + a[0]) * sizeof(int64_t)) == 0;
    }
    static bool sound(const Op& op, const int64_t* s) { return s[0] >= 1 && s[0] <= most(op); }
    static void tidy(const Op& op, int64_t* s) { std::fill(s + 1 + s[0], s + op.words, 0); }
    static Outputs outputs(const Op& op) {
        return {Outputs::Shape::list, reals ? "f" : "i", static_cast<size_t>(most(op))};
    }
    static bool lower(const Op&, const int64_t* s, const Span&, int64_t* out) {
        return std::memcpy(out, s, (1 + s[0]) * sizeof(int64_t)), true;
    }
};

template <bool reals>
struct FirstK : SomeValues<reals> {
    static constexpr bool commutes = false;
    static void add(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) {
        if (s[0] < FirstK::most(op)) s[++s[0]] = x;
    }
    static void join(const Op& op, int64_t* s, const int64_t* o) {
        int64_t more = std::min(o[0], FirstK::most(op) - s[0]);
        std::memcpy(s + 1 + s[0], o + 1, more * sizeof(int64_t));
        s[0] += more;
    }
};

template <bool reals>
struct LastK : SomeValues<reals> {
    static constexpr bool commutes = false;
    static void add(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) { take(op, s, &x, 1); }
    static void join(const Op& op, int64_t* s, const int64_t* o) { take(op, s, o + 1, o[0]); }
    static void take(const Op& op, int64_t* s, const int64_t* values, int64_t count) {
        int64_t kept = std::min(s[0], LastK::most(op) - count);
        std::memmove(s + 1, s + 1 + s[0] - kept, kept * sizeof(int64_t));
        std::memcpy(s + 1 + kept, values, count * sizeof(int64_t));
        s[0] = kept + count;
    }
};

// Sorted, the best first; the words are those that sort like the numbers.
template <bool reals, bool largest>
struct TopK : SomeValues<reals> {
    static bool better(int64_t a, int64_t b) { return largest ? a > b : a < b; }
    static int64_t key(int64_t x) { return reals ? word_of(real(x)) : x; }
    static void set(const Op&, int64_t* s, int64_t x, int64_t, int64_t) {
        s[0] = 1;
        s[1] = key(x);
    }
    static void add(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) { put(op, s, key(x)); }
    static void join(const Op& op, int64_t* s, const int64_t* o) {
        for (int64_t i = 1; i <= o[0] && put(op, s, o[i]); ++i) continue;
    }
    static bool put(const Op& op, int64_t* s, int64_t word) {
        bool full = s[0] == TopK::most(op);
        if (full && !better(word, s[s[0]])) return false;
        int64_t at = full ? s[0] : ++s[0];
        for (; at > 1 && better(word, s[at - 1]); --at) s[at] = s[at - 1];
        s[at] = word;
        return true;
    }
    static bool lower(const Op&, const int64_t* s, const Span&, int64_t* out) {
        out[0] = s[0];
        for (int64_t i = 1; i <= s[0]; ++i) out[i] = reals ? bits_of(double_of(s[i])) : s[i];
        return true;
    }
};

// --- histogram -------------------------------------------------------------------------------------

// Counts of [edge, next edge), the last one closed; what lies outside is not counted.
struct Histogram : Wide {
    static uint32_t words(const Op& op) { return static_cast<uint32_t>(op.parameters.size() - 1); }
    static void set(const Op& op, int64_t* s, int64_t x, int64_t y, int64_t t) {
        std::fill(s, s + op.words, 0);
        add(op, s, x, y, t);
    }
    static void add(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) {
        const std::vector<double>& edges = op.parameters;
        double value = real(x);
        if (!(value >= edges.front() && value <= edges.back())) return;
        auto above = std::upper_bound(edges.begin(), edges.end(), value) - edges.begin();
        ++s[std::min<size_t>(above, op.words) - 1];
    }
    static void join(const Op& op, int64_t* s, const int64_t* o) {
        for (uint32_t i = 0; i < op.words; ++i) s[i] += o[i];
    }
    static Outputs outputs(const Op& op) { return {Outputs::Shape::list, "i", op.words}; }
    static bool lower(const Op& op, const int64_t* s, const Span&, int64_t* out) {
        out[0] = op.words;
        return std::copy(s, s + op.words, out + 1), true;
    }
};

// --- the exact sum of floats -----------------------------------------------------------------------

// One integer wide enough for every float64: its lowest bit is worth 2^-1074, and there is room for 2^63 additions of
// the largest. Then a word of what no integer is: NaN and the infinities.
struct ExactSum : Wide {
    static constexpr uint32_t kWords = 34;
    static constexpr int64_t kNan = 1, kUp = 2, kDown = 4;
    using Word = uint64_t;

    static uint32_t words(const Op&) { return kWords + 1; }
    static void set(const Op& op, int64_t* s, int64_t x, int64_t y, int64_t t) {
        std::fill(s, s + kWords + 1, 0);
        add(op, s, x, y, t);
    }
    static void add(const Op&, int64_t* s, int64_t x, int64_t, int64_t) {
        Word bits = static_cast<Word>(x), exponent = bits >> 52 & 0x7FF, mantissa = bits & 0xFFFFFFFFFFFFF;
        if (exponent == 0x7FF) {
            s[kWords] |= mantissa ? kNan : x < 0 ? kDown : kUp;
            return;
        }
        if (exponent) mantissa |= Word{1} << 52;
        Word shift = exponent ? exponent - 1 : 0, at = shift / 64;
        unsigned __int128 wide = static_cast<unsigned __int128>(mantissa) << (shift % 64);
        Word low = static_cast<Word>(wide), high = static_cast<Word>(wide >> 64);
        x < 0 ? subtract(s, at, low, high) : plus(s, at, low, high);
    }
    static void plus(int64_t* s, Word at, Word low, Word high) {
        Word* w = reinterpret_cast<Word*>(s);
        bool carry = __builtin_add_overflow(w[at], low, &w[at]);
        unsigned __int128 next = static_cast<unsigned __int128>(w[at + 1]) + high + carry;
        w[at + 1] = static_cast<Word>(next);
        carry = next >> 64 != 0;
        for (Word i = at + 2; carry && i < kWords; ++i) carry = ++w[i] == 0;
    }
    static void subtract(int64_t* s, Word at, Word low, Word high) {
        Word* w = reinterpret_cast<Word*>(s);
        bool borrow = __builtin_sub_overflow(w[at], low, &w[at]);
        Word before = w[at + 1];
        w[at + 1] = before - high - borrow;
        borrow = before < high || (before == high && borrow);
        for (Word i = at + 2; borrow && i < kWords; ++i) borrow = w[i]-- == 0;
    }
    static void join(const Op&, int64_t* s, const int64_t* o) {
        Word carry = 0;
        for (uint32_t i = 0; i < kWords; ++i) {
            unsigned __int128 both = static_cast<unsigned __int128>(static_cast<Word>(s[i])) + static_cast<Word>(o[i]);
            both += carry;
            s[i] = static_cast<int64_t>(static_cast<Word>(both));
            carry = static_cast<Word>(both >> 64);
        }
        s[kWords] |= o[kWords];
    }
    // The nearest float, and of two the even one.
    static double rounded(const int64_t* s) {
        Word w[kWords];
        std::memcpy(w, s, sizeof w);
        bool negative = s[kWords - 1] < 0;
        if (negative) {
            bool carry = true;
            for (Word& word : w) word = ~word + carry, carry = carry && word == 0;
        }
        int top = kWords - 1;
        while (top >= 0 && w[top] == 0) --top;
        if (top < 0) return 0.0;
        int highest = top * 64 + 63 - __builtin_clzll(w[top]);
        int lowest = std::max(0, highest - 52);  // the bit that a float's last one is
        auto bit = [&](int i) { return w[i / 64] >> (i % 64) & 1; };
        Word mantissa = w[lowest / 64] >> (lowest % 64);
        if (lowest % 64 && lowest / 64 + 1 < static_cast<int>(kWords))
            mantissa |= w[lowest / 64 + 1] << (64 - lowest % 64);
        if (highest - lowest < 63) mantissa &= (Word{1} << (highest - lowest + 1)) - 1;
        if (lowest > 0 && bit(lowest - 1)) {
            bool below = false;
            for (int i = 0; i < lowest - 1 && !below; i += 64 - i % 64) {
                int stop = std::min(lowest - 1, (i / 64 + 1) * 64);
                Word word = w[i / 64];
                if (stop % 64) word &= (Word{1} << (stop % 64)) - 1;
                below = word != 0;
            }
            if (below || (mantissa & 1)) ++mantissa;
        }
        double value = std::ldexp(static_cast<double>(mantissa), lowest - 1074);
        return negative ? -value : value;
    }
    static Outputs outputs(const Op&) { return {Outputs::Shape::words, "f", 0}; }
    static bool lower(const Op&, const int64_t* s, const Span&, int64_t* out) {
        int64_t special = s[kWords];
        double value = special == 0                                   ? rounded(s)
                       : (special & kNan) || special == (kUp | kDown) ? std::nan("")
                       : special == kUp                               ? HUGE_VAL
                                                                      : -HUGE_VAL;
        return *out = bits_of(value), true;
    }
};

// --- sets ------------------------------------------------------------------------------------------

// Bits by double hashing; parameters are how many bits, a multiple of 64, and how many hashes.
struct Bloom : Wide {
    static uint32_t words(const Op& op) { return static_cast<uint32_t>(op.parameters[0] / 64); }
    static void set(const Op& op, int64_t* s, int64_t x, int64_t y, int64_t t) {
        std::fill(s, s + op.words, 0);
        add(op, s, x, y, t);
    }
    static void add(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) {
        uint64_t hash = static_cast<uint64_t>(x), step = (hash >> 32) | 1, bits = uint64_t{op.words} * 64;
        for (int i = 0; i < static_cast<int>(op.parameters[1]); ++i, hash += step) {
            uint64_t at = hash % bits;
            s[at / 64] = static_cast<int64_t>(static_cast<uint64_t>(s[at / 64]) | uint64_t{1} << (at % 64));
        }
    }
    static void join(const Op& op, int64_t* s, const int64_t* o) {
        for (uint32_t i = 0; i < op.words; ++i) s[i] |= o[i];
    }
    static Outputs outputs(const Op& op) { return {Outputs::Shape::bytes, "", op.words}; }
    static bool lower(const Op& op, const int64_t* s, const Span&, int64_t* out) {
        return std::copy(s, s + op.words, out), true;
    }
};

// Each of 2^lg_k registers stores the longest run of zeros it has seen. While few values were seen a state is a list of
// them, which is quicker to join; it becomes registers when the list is full.
struct HyperLogLog : Wide {
    static constexpr int64_t kDense = -1;
    static int lg(const Op& op) { return static_cast<int>(op.parameters[0]); }
    static uint32_t registers(const Op& op) { return uint32_t{1} << lg(op); }
    static int64_t most(const Op& op) { return std::max<int64_t>(1, registers(op) / 16); }
    static uint32_t words(const Op& op) { return 1 + std::max(registers(op) / 8, uint32_t{1}); }

    static uint32_t coupon(const Op& op, int64_t x) {
        uint64_t hash = static_cast<uint64_t>(x), rest = hash << lg(op);
        uint32_t rank = rest ? static_cast<uint32_t>(__builtin_clzll(rest)) + 1 : 65 - lg(op);
        return static_cast<uint32_t>(hash >> (64 - lg(op))) << 8 | std::min<uint32_t>(rank, 65 - lg(op));
    }
    static uint8_t* dense(int64_t* s) { return reinterpret_cast<uint8_t*>(s + 1); }
    static const uint8_t* dense(const int64_t* s) { return reinterpret_cast<const uint8_t*>(s + 1); }
    static uint32_t* sparse(int64_t* s) { return reinterpret_cast<uint32_t*>(s + 1); }
    static const uint32_t* sparse(const int64_t* s) { return reinterpret_cast<const uint32_t*>(s + 1); }
    static void raise(uint8_t* at, uint32_t c) { at[c >> 8] = std::max(at[c >> 8], static_cast<uint8_t>(c)); }

    static void set(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) {
        s[0] = 0;
        take(op, s, coupon(op, x));
    }
    static void add(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) { take(op, s, coupon(op, x)); }
    static void take(const Op& op, int64_t* s, uint32_t c) {
        if (s[0] != kDense && s[0] >= most(op)) spread(op, s);
        if (s[0] == kDense)
            raise(dense(s), c);
        else
            sparse(s)[s[0]++] = c;
    }
    static void spread(const Op& op, int64_t* s) {
        std::vector<uint32_t> coupons(sparse(s), sparse(s) + s[0]);
        std::fill(dense(s), dense(s) + registers(op), uint8_t{0});
        for (uint32_t c : coupons) raise(dense(s), c);
        s[0] = kDense;
    }
    static void join(const Op& op, int64_t* s, const int64_t* o) {
        if (o[0] != kDense) {
            for (int64_t i = 0; i < o[0]; ++i) take(op, s, sparse(o)[i]);
            return;
        }
        if (s[0] != kDense) spread(op, s);
        raise_all(dense(s), dense(o), registers(op));
    }
    static std::vector<uint8_t> seen(const Op& op, const int64_t* s) {
        std::vector<uint8_t> all(registers(op));
        if (s[0] == kDense) all.assign(dense(s), dense(s) + registers(op));
        for (int64_t i = 0; i < s[0]; ++i) raise(all.data(), sparse(s)[i]);
        return all;
    }
    static bool same(const Op& op, const int64_t* a, const int64_t* b, double) { return seen(op, a) == seen(op, b); }
    static void tidy(const Op& op, int64_t* s) {
        if (s[0] != kDense) spread(op, s);
    }

    static bool sound(const Op& op, const int64_t* s) {
        bool sound = s[0] == kDense || (s[0] >= 1 && s[0] <= most(op));
        for (uint32_t i = 0; s[0] == kDense && i < registers(op); ++i) sound &= dense(s)[i] <= 65 - lg(op);
        for (int64_t i = 0; sound && i < s[0]; ++i)
            sound = sparse(s)[i] >> 8 < registers(op) && (sparse(s)[i] & 0xFF) <= 65u - lg(op);
        return sound;
    }

    // Ertl's improved estimator: right from a single value to the largest, without tables.
    static double estimate(const Op& op, const int64_t* s) {
        if (s[0] == kDense) return estimate(op, dense(s));
        return estimate(op, seen(op, s).data());
    }
    static double estimate(const Op& op, const uint8_t* ranks) {
        int q = 64 - lg(op);
        Ranks sums = ranks_of(ranks, registers(op), static_cast<uint8_t>(q + 1));
        double m = registers(op), zeros = static_cast<double>(sums.zeros), full = static_cast<double>(sums.full);
        double z = sums.inverse_powers - zeros - std::ldexp(full, -(q + 1));  // of the ranks from 1 to q
        z += m * tau(1 - full / m) * std::ldexp(1.0, -q) + m * sigma(zeros / m);
        return m * m / (2 * std::log(2.0)) / z;
    }
    static double sigma(double x) {
        if (x == 1) return HUGE_VAL;
        double z = x, y = 1, before;
        do {
            x *= x;
            before = z;
            z += x * y;
            y += y;
        } while (z != before);
        return z;
    }
    static double tau(double x) {
        if (x == 0 || x == 1) return 0;
        double z = 1 - x, y = 1, before;
        do {
            x = std::sqrt(x);
            before = z;
            y *= 0.5;
            z -= (1 - x) * (1 - x) * y;
        } while (z != before);
        return z / 3;
    }
    static Outputs outputs(const Op&) { return {Outputs::Shape::words, "i", 0}; }
    static bool lower(const Op& op, const int64_t* s, const Span&, int64_t* out) {
        return *out = std::llrint(estimate(op, s)), true;
    }
};

// --- compiled monoids ------------------------------------------------------------------------------

struct CompiledOp : Wide {
    static constexpr bool commutes = false, exact = false;
    static double* reals(int64_t* words) { return reinterpret_cast<double*>(words); }
    static const double* reals(const int64_t* words) { return reinterpret_cast<const double*>(words); }

    static uint32_t words(const Op& op) { return op.compiled->state_words; }
    static bool same(const Op& op, const int64_t* a, const int64_t* b, double) {
        // The meaning of the words is the user's; a float may have been rounded differently.
        for (uint32_t i = 0; i < op.words; ++i)
            if (a[i] != b[i] && !near(real(a[i]), real(b[i]), 1e-290)) return false;
        return true;
    }
    static Outputs outputs(const Op& op) { return {Outputs::Shape::words, op.compiled->output_kinds, 0}; }
    static bool lower(const Op& op, const int64_t* s, const Span&, int64_t* out) {
        if (op.compiled->lower)
            op.compiled->lower(s, reals(s), out, reals(out));
        else
            std::copy(s, s + op.words, out);
        return true;
    }
};
void gather(const Op& op, const int64_t* row, int64_t* into) {
    for (size_t i = 0; i < op.reads.size(); ++i) into[i] = row[op.reads[i]];
}
void set_compiled(const Op& op, int64_t* s, const Rows& rows) {
    int64_t row[kMostRead];
    gather(op, rows.words, row);
    op.compiled->lift(s, CompiledOp::reals(s), row, CompiledOp::reals(row));
}
void fold_compiled(const Op& op, int64_t* s, const Rows& rows, size_t count) {
    int64_t block[64 * kMostRead];
    for (size_t done = 0; done < count;) {
        size_t size = std::min<size_t>(64, count - done);
        for (size_t i = 0; i < size; ++i) gather(op, rows.from(done + i).words, block + i * op.reads.size());
        op.compiled->fold(s, CompiledOp::reals(s), block, CompiledOp::reals(block), static_cast<int64_t>(size));
        done += size;
    }
}
void join_compiled(const Op& op, int64_t* s, const int64_t* others, size_t stride, size_t count) {
    stride = std::max<size_t>(stride, 1);  // of one there may be none
    op.compiled->join(s, CompiledOp::reals(s), others, CompiledOp::reals(others), static_cast<int64_t>(stride),
                      static_cast<int64_t>(count));
}
void prepend_compiled(const Op& op, int64_t* s, const int64_t* other) {
    int64_t both[64];
    std::vector<int64_t> large;
    int64_t* state = both;
    if (op.words > 64) {
        large.resize(op.words);
        state = large.data();
    }
    std::copy(other, other + op.words, state);
    join_compiled(op, state, s, 0, 1);
    std::copy(state, state + op.words, s);
}
void scan_back_compiled(const Op& op, const Rows& rows, const MutableRecords& records) {
    for (size_t i = records.count; i-- > 0;) {
        int64_t* at = records.words + i * records.stride + op.offset;
        std::copy(at + records.stride, at + records.stride + op.words, at);
        fold_compiled(op, at, rows.from(i), 1);
    }
}
// Its steps are in functions of its own; these are never called.
struct CompiledSteps : CompiledOp {
    static void set(const Op&, int64_t*, int64_t, int64_t, int64_t) {}
    static void add(const Op&, int64_t*, int64_t, int64_t, int64_t) {}
    static void join(const Op&, int64_t*, const int64_t*) {}
};
OpTable compiled_table() {
    OpTable table = table_of<CompiledSteps>("compiled", "*");
    table.set = set_compiled;
    table.fold = fold_compiled;
    table.join = join_compiled;
    table.prepend = prepend_compiled;
    table.scan_back = scan_back_compiled;
    table.rounds = nullptr;
    return table;
}

}  // namespace

const std::vector<OpTable>& wide_ops() {
    static const std::vector<OpTable> tables = {
        table_of<FirstK<false>>("first_k", "i"),
        table_of<FirstK<true>>("first_k", "f"),
        table_of<LastK<false>>("last_k", "i"),
        table_of<LastK<true>>("last_k", "f"),
        table_of<TopK<false, true>>("top_k", "i"),
        table_of<TopK<true, true>>("top_k", "f"),
        table_of<TopK<false, false>>("bottom_k", "i"),
        table_of<TopK<true, false>>("bottom_k", "f"),
        table_of<Histogram>("histogram", "f"),
        table_of<ExactSum>("sum_exact", "f"),
        table_of<Bloom>("bloom", "h"),
        table_of<HyperLogLog>("hyperloglog", "h"),
        compiled_table(),
    };
    return tables;
}

}  // namespace sash
