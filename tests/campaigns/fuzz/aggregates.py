"""What each built-in aggregate must return, by brute force, from docs/monoids.md alone."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

NAMES = {"nan": math.nan, "inf": math.inf, "Fraction": Fraction}
ANY = object()  # an answer that the documentation leaves open
INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Agg:
    """An aggregate: the call that makes it, with `{c}` for its columns, and its answer.

    `answer(values, times, start, stop)` has the values oldest first, and numbers for the times. `kinds` are the values
    that it is defined for. If it is not `exact`, answers are compared within a tolerance.
    """

    call: str
    answer: Callable[[list, list, Any, Any], Any]
    kinds: tuple[str, ...]
    exact: bool = True
    timed: bool = False
    counts: bool = False

    def source(self, columns: list[str] | None = None) -> str:
        """Return the Python call that makes the monoid, for these columns or for the value itself."""
        names = [repr(name) for name in columns] if columns else ["None"] * (2 if "pair" in self.kinds[0] else 1)
        return self.call.format(c=", ".join(names))


def order(value: Any) -> Any:
    """Return the sort key of the documented order: -inf < … < -0.0 < 0.0 < … < inf < NaN, all NaNs equal."""
    if isinstance(value, float):
        return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1.0, value))
    if isinstance(value, int | Fraction):
        return (0, value, 1.0)
    return value


def total(values: list) -> Any:
    """Return the sum, of floats as nearly as possible; NaN and infinities propagate as in IEEE 754."""
    if not any(isinstance(value, float) for value in values):
        return sum(values)
    if not all(math.isfinite(value) for value in values):
        return math.fsum(0.0 if math.isfinite(v) else v for v in values) if not clash(values) else math.nan
    return float(sum(map(Fraction, values)))


def clash(values: list) -> bool:
    """Return whether a sum of these floats is NaN."""
    return any(math.isnan(v) for v in values) or (math.inf in values and -math.inf in values)


def middle(values: list) -> float:
    """Return the mean."""
    whole = total(values)
    return float(whole / len(values)) if isinstance(whole, float) else float(Fraction(whole) / len(values))


def minus(a: Any, b: Any) -> Any:
    """Return a difference, NaN for two equal infinities."""
    return a - b


def power_sum(values: list, power: int) -> Fraction:
    """Return the exact sum of a power of the distances to the mean."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return sum((value - mean) ** power for value in exact)


def variance(values: list, ddof: int) -> float | None:
    """Return the variance, None for `ddof` values or fewer, NaN if one is not finite."""
    if len(values) <= ddof:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    return float(power_sum(values, 2) / (len(values) - ddof))


def std(values: list, ddof: int) -> float | None:
    """Return the square root of the variance."""
    found = variance(values, ddof)
    return None if found is None else math.sqrt(found)


def shape(values: list, power: int, less: float) -> float | None:
    """Return a standardized moment: skewness, or excess kurtosis."""
    if not values:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    n, second = len(values), power_sum(values, 2)
    if second == 0:
        return math.nan
    return float(power_sum(values, power) / n) / float(second / n) ** (power / 2) - less


def co_moments(pairs: list) -> tuple[Fraction, Fraction, Fraction]:
    """Return the exact sums of squares of x and y, and of their products, around the means."""
    xs, ys = ([Fraction(pair[i]) for pair in pairs] for i in (0, 1))
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return (
        sum((x - mx) ** 2 for x in xs),
        sum((y - my) ** 2 for y in ys),
        sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)),
    )


def covariance(pairs: list, ddof: int) -> float | None:
    """Return the covariance, None for `ddof` pairs or fewer."""
    return None if len(pairs) <= ddof else float(co_moments(pairs)[2] / (len(pairs) - ddof))


def correlation(pairs: list) -> float | None:
    """Return Pearson's correlation; NaN if x or y is constant, None for fewer than two pairs."""
    if len(pairs) < 2:
        return None
    xx, yy, xy = co_moments(pairs)
    return math.nan if xx == 0 or yy == 0 else float(xy) / math.sqrt(float(xx) * float(yy))


def regression(pairs: list) -> tuple[float, float] | None:
    """Return slope and intercept; None for fewer than two pairs, both NaN if x is constant."""
    if len(pairs) < 2:
        return None
    xx, _, xy = co_moments(pairs)
    if xx == 0:
        return (math.nan, math.nan)
    slope = xy / xx
    mx, my = (sum(Fraction(pair[i]) for pair in pairs) / len(pairs) for i in (0, 1))
    return (float(slope), float(my - slope * mx))


def geomean(values: list) -> float | None:
    """Return the geometric mean of values that are not negative."""
    if not values or min(values) == 0:
        return 0.0 if values else None
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def weighted(pairs: list) -> float | None:
    """Return the weighted mean of (value, weight); None if the weights sum to 0."""
    weight = sum(Fraction(pair[1]) for pair in pairs)
    return None if weight == 0 else float(sum(Fraction(a) * Fraction(b) for a, b in pairs) / weight)


def affine(pairs: list) -> tuple[float, float]:
    """Return the composition of x -> a*x + b, oldest applied first."""
    a, b = Fraction(1), Fraction(0)
    for factor, shift in pairs:
        a, b = Fraction(factor) * a, Fraction(factor) * b + Fraction(shift)
    return (float(a), float(b))


def best(pairs: list, largest: bool) -> Any:
    """Return the value of the pair (by, value) with the extreme `by`, the oldest of ties."""
    if not pairs:
        return None
    extreme = (max if largest else min)(order(by) for by, _ in pairs)
    return next(value for by, value in pairs if order(by) == extreme)


def extreme(values: list, largest: bool) -> Any:
    """Return the largest or smallest value; None if empty."""
    return (max if largest else min)(values, key=order) if values else None


def with_count(values: list, largest: bool) -> tuple | None:
    """Return the extreme value and how often it occurs."""
    found = extreme(values, largest)
    return (found, sum(order(v) == order(found) for v in values)) if values else None


def quantile(values: list, q: float) -> float | None:
    """Return the quantile with linear interpolation; NaN is the largest value."""
    if not values:
        return None
    ranked = sorted(map(float, values), key=order)
    at = q * (len(ranked) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] if at == low else ranked[low] + (ranked[high] - ranked[low]) * (at - low)


def rank(values: list, q: float) -> Any:
    """Return the smallest value whose rank is at least q; a sketch is exact up to 200 values."""
    if len(values) > 200:
        return ANY
    return float(sorted(values)[max(math.ceil(q * len(values)) - 1, 0)]) if values else None


def histogram(values: list, edges: list) -> list[int]:
    """Return the number of values in each bin; bins include their lower edge, the last one both."""
    bins = [0] * (len(edges) - 1)
    for value in values:
        for i in range(len(bins)):
            if edges[i] <= value < edges[i + 1] or (i == len(bins) - 1 and value == edges[-1]):
                bins[i] += 1
    return bins


def decayed(values: list, times: list, stop: Any, half_life: float) -> float:
    """Return the sum of the values, each halved once per half-life of its age."""
    return math.fsum(v * 0.5 ** ((stop - t) / half_life) for v, t in zip(values, times, strict=True))


def decayed_average(values: list, times: list, half_life: float) -> float | None:
    """Return the mean of the values, each of half the weight after every half-life that it is older than the newest."""
    if not values:
        return None
    weights = [0.5 ** ((max(times) - t) / half_life) for t in times]
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / math.fsum(weights)


def time_weighted(values: list, times: list, stop: Any) -> float | None:
    """Return the mean by duration: each value lasts until the next, the last until the end."""
    if not values:
        return None
    if stop == times[0]:
        return float(values[-1])
    ends = [*times[1:], stop]
    return math.fsum(v * (e - t) for v, t, e in zip(values, times, ends, strict=True)) / (stop - times[0])


def rate(values: list, start: Any, stop: Any) -> float | None:
    """Return the sum of the values per unit of time; None for a range of length 0."""
    return (
        None
        if None in (start, stop) or start == stop
        else float(total([float(v) for v in values] or [0.0])) / (stop - start)
    )


def bits(values: list, name: str) -> int | None:
    """Return the bitwise combination; None if empty."""
    if not values:
        return None
    found = values[0]
    for value in values[1:]:
        found = {"and": found & value, "or": found | value, "xor": found ^ value}[name]
    return found


def product(values: list) -> float:
    """Return the product as a float."""
    return math.prod(map(float, values), start=1.0)


def plain(answer: Callable[[list], Any]) -> Callable[[list, list, Any, Any], Any]:
    """Return an answer that does not depend on time."""
    return lambda values, times, start, stop: answer(values)


NUMBERS = ("int", "float", "wild")
FINITE = ("int", "float")
ORDERED = ("int", "float", "wild", "huge")
EDGES = [-5, 0, 2.5, 5]

AGGREGATES: dict[str, Agg] = {
    "count": Agg("monoids.count({c})", plain(len), ("int", "wild", "text", "none"), counts=True),
    "count_if": Agg("monoids.count_if({c})", plain(lambda v: sum(map(bool, v))), ("bool", "int"), counts=True),
    "sum": Agg("monoids.sum({c})", plain(total), ("int", "float", "wild", "huge", "fraction"), exact=False),
    "sum_exact": Agg("monoids.sum({c}, exact=True)", plain(lambda v: total([0.0, *map(float, v)])), ("float", "wild")),
    "sum_object": Agg("monoids.sum({c}, dtype='object')", plain(total), ("huge", "fraction")),
    "mean": Agg("monoids.mean({c})", plain(lambda v: middle(v) if v else None), NUMBERS, exact=False),
    "product": Agg("monoids.product({c})", plain(product), FINITE, exact=False),
    "min": Agg("monoids.min({c})", plain(lambda v: extreme(v, False)), (*ORDERED, "text", "fraction")),
    "max": Agg("monoids.max({c})", plain(lambda v: extreme(v, True)), (*ORDERED, "text", "fraction")),
    "range": Agg(
        "monoids.range({c})", plain(lambda v: minus(extreme(v, True), extreme(v, False)) if v else None), ORDERED
    ),
    "delta": Agg("monoids.delta({c})", plain(lambda v: minus(v[-1], v[0]) if v else None), (*FINITE, "huge")),
    "first": Agg("monoids.first({c})", plain(lambda v: v[0] if v else None), (*ORDERED, "text")),
    "last": Agg("monoids.last({c})", plain(lambda v: v[-1] if v else None), (*ORDERED, "text")),
    "maxcount": Agg("monoids.maxcount({c})", plain(lambda v: with_count(v, True)), (*ORDERED, "text")),
    "mincount": Agg("monoids.mincount({c})", plain(lambda v: with_count(v, False)), (*ORDERED, "text")),
    "first_k": Agg("monoids.first_k(3, {c})", plain(lambda v: v[:3]), (*ORDERED, "text")),
    "last_k": Agg("monoids.last_k(3, {c})", plain(lambda v: v[-3:]), (*ORDERED, "text")),
    "top_k": Agg("monoids.top_k(2, {c})", plain(lambda v: sorted(v, key=order)[::-1][:2]), (*ORDERED, "text")),
    "bottom_k": Agg("monoids.bottom_k(4, {c})", plain(lambda v: sorted(v, key=order)[:4]), (*ORDERED, "text")),
    "variance": Agg(
        "monoids.variance({c})", plain(lambda v: variance(v, 1)), ("int", "float", "unfinite"), exact=False
    ),
    "variance_0": Agg("monoids.variance({c}, ddof=0)", plain(lambda v: variance(v, 0)), FINITE, exact=False),
    "std": Agg("monoids.std({c}, ddof=2)", plain(lambda v: std(v, 2)), ("int", "float", "unfinite"), exact=False),
    "skewness": Agg(
        "monoids.skewness({c})", plain(lambda v: shape(v, 3, 0)), ("int", "float", "unfinite"), exact=False
    ),
    "kurtosis": Agg(
        "monoids.kurtosis({c})", plain(lambda v: shape(v, 4, 3)), ("int", "float", "unfinite"), exact=False
    ),
    "geomean": Agg("monoids.geomean({c})", plain(geomean), ("positive",), exact=False),
    "bit_and": Agg("monoids.bit_and({c})", plain(lambda v: bits(v, "and")), ("int", "huge")),
    "bit_or": Agg("monoids.bit_or({c})", plain(lambda v: bits(v, "or")), ("int", "huge")),
    "bit_xor": Agg("monoids.bit_xor({c})", plain(lambda v: bits(v, "xor")), ("int", "huge")),
    "all": Agg("monoids.all({c})", plain(lambda v: all(v) if v else None), ("bool", "int")),
    "any": Agg("monoids.any({c})", plain(lambda v: any(v) if v else None), ("bool", "int")),
    "histogram": Agg(f"monoids.histogram({EDGES}, {{c}})", plain(lambda v: histogram(v, EDGES)), NUMBERS),
    "distinct": Agg(
        "monoids.distinct({c})", plain(lambda v: len({"nan" if x != x else x for x in v})), (*NUMBERS, "text")
    ),
    "quantile": Agg("monoids.quantile(0.3, {c})", plain(lambda v: quantile(v, 0.3)), FINITE, exact=False),
    "median": Agg("monoids.median({c})", plain(lambda v: quantile(v, 0.5)), FINITE, exact=False),
    "collect_list": Agg("monoids.collect_list({c})", plain(list), (*ORDERED, "text")),
    "collect_set": Agg("monoids.collect_set({c})", plain(set), ("int", "float", "text")),
    "string_agg": Agg("monoids.string_agg('-', {c})", plain(lambda v: "-".join(v) if v else None), ("text",)),
    "argmin": Agg("monoids.argmin({c})", plain(lambda v: best(v, False)), ("pair", "pair_int", "pair_wild")),
    "argmax": Agg("monoids.argmax({c})", plain(lambda v: best(v, True)), ("pair", "pair_int", "pair_wild")),
    "weighted_mean": Agg("monoids.weighted_mean({c})", plain(weighted), ("pair", "pair_int"), exact=False),
    "covariance": Agg("monoids.covariance({c})", plain(lambda v: covariance(v, 1)), ("pair", "pair_int"), exact=False),
    "correlation": Agg("monoids.correlation({c})", plain(correlation), ("pair", "pair_int"), exact=False),
    "regression": Agg("monoids.regression({c})", plain(regression), ("pair", "pair_int"), exact=False),
    "affine": Agg("monoids.affine({c})", plain(affine), ("pair", "pair_int"), exact=False),
    "decayed_sum": Agg(
        "monoids.decayed_sum(4, {c})", lambda v, t, a, b: decayed(v, t, b, 4), FINITE, exact=False, timed=True
    ),
    "decayed_mean": Agg(
        "monoids.decayed_mean(4, {c})",
        lambda v, t, a, b: decayed_average(v, t, 4),
        FINITE,
        exact=False,
        timed=True,
    ),
    "time_weighted_mean": Agg(
        "monoids.time_weighted_mean({c})", lambda v, t, a, b: time_weighted(v, t, b), FINITE, exact=False, timed=True
    ),
    "rate": Agg("monoids.rate({c})", lambda v, t, a, b: rate(v, a, b), FINITE, exact=False, timed=True),
    "kll": Agg("monoids.kll({c}, q=0.4)", plain(lambda v: rank(v, 0.4)), FINITE),
    "theta": Agg("monoids.theta({c})", plain(lambda v: float(len(set(v) - {""}))), ("int", "text")),
    "frequent_items": Agg("monoids.frequent_items({c})", plain(lambda v: Counter(v)), ("text",)),
    "struct": Agg(
        "monoids.struct(n=monoids.count({c}), newest=monoids.last({c}), top=monoids.max({c}))",
        plain(lambda v: {"n": len(v), "newest": v[-1] if v else None, "top": extreme(v, True)}),
        (*FINITE, "huge"),
        counts=True,
    ),
    "concatenation": Agg(
        "Monoid(identity='', combine=lambda a, b: a + b, name='text', column={c}, returns='string')",
        plain("".join),
        ("text",),
    ),
}
