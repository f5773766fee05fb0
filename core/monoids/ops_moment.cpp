// Ops of moments: skewness and its like, of one column and of two. States are kept around their own means and merged as
// Chan and Pébay have it. A mean is stored as its difference from a value among the rows, the origin: rounding is then
// relative to the spread of the values and not to their distance from zero.
#include <cmath>
#include <limits>

#include "monoids/ops.hpp"

namespace sash {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool give(int64_t* out, double value) { return *out = bits_of(value), true; }

// Up to the fourth moment, which skewness does not use.
template <bool fourth>
struct Moments : Facts {
    static constexpr bool exact = false;
    static constexpr int degree = fourth ? 4 : 3;
    struct State {
        double n, origin, mean, m2, m3, m4;
    };
    static State of(const Op&, int64_t x, int64_t, int64_t) {
        double zero = real(x) - real(x);
        return {1, real(x), zero, zero, zero, zero};
    }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op&, State& a, const State& b) {
        double n = a.n + b.n, d = (b.origin - a.origin) + (b.mean - a.mean), d2 = d * d;
        double m2 = a.m2 + b.m2 + d2 * a.n * b.n / n;
        double m3 = a.m3 + b.m3 + d2 * d * a.n * b.n * (a.n - b.n) / (n * n) + 3 * d * (a.n * b.m2 - b.n * a.m2) / n;
        double m4 = 0;
        if (fourth)
            m4 = a.m4 + b.m4 + d2 * d2 * a.n * b.n * (a.n * a.n - a.n * b.n + b.n * b.n) / (n * n * n) +
                 6 * d2 * (a.n * a.n * b.m2 + b.n * b.n * a.m2) / (n * n) + 4 * d * (a.n * b.m3 - b.n * a.m3) / n;
        a = {n, a.origin, a.mean + d * b.n / n, m2, m3, m4};
    }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        return a.n == b.n && near(a.m2, b.m2, tolerance) && near(a.m3, b.m3, tolerance) && near(a.m4, b.m4, tolerance);
    }
    static bool possible(const State& s) { return is_count(s.n); }
    static std::string outputs(const Op&) { return "f"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        double m2 = s.m2 / s.n, power = m2 * (fourth ? m2 : std::sqrt(m2));
        if (power == 0) return give(out, kNan);
        return give(out, fourth ? s.m4 / s.n / power - 3 : s.m3 / s.n / power);
    }
};

struct TwoColumns : Facts {
    static constexpr bool exact = false;
    static constexpr int degree = 2;
    struct State {
        double n, origin_x, origin_y, mean_x, mean_y, xx, yy, xy;
    };
    static State of(const Op&, int64_t x, int64_t y, int64_t) {
        double zero_x = real(x) - real(x), zero_y = real(y) - real(y);
        return {1, real(x), real(y), zero_x, zero_y, zero_x, zero_y, zero_x + zero_y};
    }
    static void add(const Op& op, State& s, int64_t x, int64_t y, int64_t t) { join(op, s, of(op, x, y, t)); }
    static void join(const Op&, State& a, const State& b) {
        double n = a.n + b.n, share = b.n / n, both = a.n * share;
        double dx = (b.origin_x - a.origin_x) + (b.mean_x - a.mean_x);
        double dy = (b.origin_y - a.origin_y) + (b.mean_y - a.mean_y);
        a = {n,
             a.origin_x,
             a.origin_y,
             a.mean_x + dx * share,
             a.mean_y + dy * share,
             a.xx + b.xx + dx * dx * both,
             a.yy + b.yy + dy * dy * both,
             a.xy + b.xy + dx * dy * both};
    }
    static bool same(const Op&, const State& a, const State& b, double tolerance) {
        return a.n == b.n && near(a.xx, b.xx, tolerance) && near(a.yy, b.yy, tolerance) && near(a.xy, b.xy, tolerance);
    }
    static bool possible(const State& s) { return is_count(s.n); }
    static std::string outputs(const Op&) { return "f"; }
};
struct Covariance : TwoColumns {
    static bool lower(const Op& op, const State& s, const Span&, int64_t* out) {
        return s.n > op.parameters[0] && give(out, s.xy / (s.n - op.parameters[0]));
    }
};
struct Correlation : TwoColumns {
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        if (s.n < 2) return false;
        if (s.xx == 0 || s.yy == 0) return give(out, kNan);
        double r = s.xy / (std::sqrt(s.xx) * std::sqrt(s.yy));
        return give(out, r > 1 ? 1 : r < -1 ? -1 : r);  // rounding may go beyond; NaN stays
    }
};
struct Regression : TwoColumns {
    static constexpr size_t result_words = 2;
    static std::string outputs(const Op&) { return "ff"; }
    static bool lower(const Op&, const State& s, const Span&, int64_t* out) {
        double slope = s.xx == 0 ? kNan : s.xy / s.xx;
        give(out + 1, (s.origin_y + s.mean_y) - slope * (s.origin_x + s.mean_x));
        return s.n >= 2 && give(out, slope);
    }
};

}  // namespace

const std::vector<OpTable>& moment_ops() {
    static const std::vector<OpTable> tables = {
        table_of<Moments<false>>("skewness", "f"), table_of<Moments<true>>("kurtosis", "f"),
        table_of<Covariance>("covariance", "ff"),  table_of<Correlation>("correlation", "ff"),
        table_of<Regression>("regression", "ff"),
    };
    return tables;
}

}  // namespace sash
