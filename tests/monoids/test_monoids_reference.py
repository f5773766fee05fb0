"""Every built-in against an implementation that is not ours: NumPy, pandas, SciPy, DuckDB or the standard library.

Windows are random: times with ties, in any order, singly and in batches; evictions from the middle and from the old
end; and after each step the answer for everything and for random spans.
"""

import bisect
import heapq
import itertools
import math
import operator
import statistics
import struct as packing
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from sash import Monoid, Window, monoids, rolling

LOW, HIGH = -(2**63), 2**63 - 1
EPSILON = 2.0**-53  # half a unit in the last place of 1.0, what one addition may be off by
NAN, INF = math.nan, math.inf
SHAPES: dict[str, dict[str, Any]] = {
    "fiba": {"structure": "fiba"},
    "fiba of small nodes": {"structure": "fiba", "leaf_capacity": 2, "fanout": 4},
    "paper": {"structure": "paper", "min_arity": 2},
}

# --- random values --------------------------------------------------------------------------------

Generator = np.random.Generator
Values = Callable[[Generator, int], list[Any]]


def ints(low: int = -50, high: int = 50) -> Values:
    return lambda rng, n: rng.integers(low, high, n, endpoint=True).tolist()


def floats(low: float = -100.0, high: float = 100.0) -> Values:
    return lambda rng, n: rng.uniform(low, high, n).tolist()


def few_floats(rng: Generator, n: int) -> list[float]:
    return rng.choice([-2.5, -0.0, 0.0, 1.5, 7.25, 1e300, 5e-324, INF, -INF, NAN], n).tolist()  # type: ignore[no-any-return]


def words(rng: Generator, n: int) -> list[str]:
    return [str(word) for word in rng.choice(["ada", "grace", "émilie", "日本", "", "z"], n)]


def truths(rng: Generator, n: int) -> list[Any]:
    return [[True, False, 0, 1, 2.5, 0.0][at] for at in rng.integers(0, 6, n)]


def pairs(first: Values, second: Values) -> Values:
    return lambda rng, n: list(zip(first(rng, n), second(rng, n), strict=True))


# --- references -----------------------------------------------------------------------------------


class Span(NamedTuple):
    """The entries of a window or range, in the order of time and then of arrival."""

    values: list[Any]
    times: list[Any]
    start: Any
    stop: Any


def of_values(reference: Callable[[list[Any]], Any], empty: Any = None, least: int = 1) -> Callable[[Span], Any]:
    """A reference that looks at the values alone; with fewer than `least` there is nothing to say."""
    return lambda span: reference(span.values) if len(span.values) >= least else empty


def of_pairs(reference: Callable[[Any, Any], Any], least: int = 1) -> Callable[[Span], Any]:
    return of_values(lambda rows: reference(*np.array(rows, dtype=float).T), least=least)


def quietly(reference: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy and NumPy warn where the answer is NaN; the answer is what we want."""

    def call(*arguments: Any) -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return reference(*arguments)

    return call


def total_order(value: float) -> int:
    """The place of a float in IEEE 754's total order, every NaN above infinity: its bits, negatives turned round."""
    (bits,) = packing.unpack("<q", packing.pack("<d", NAN if value != value else value))
    return int(bits) if bits >= 0 else int(bits) ^ HIGH


def ordered(values: list[Any]) -> list[Any]:
    return sorted(values, key=total_order if isinstance(values[0], float) else None)


def with_count(values: list[Any], at: int) -> tuple[Any, int]:
    extreme = ordered(values)[at]
    alike = [value for value in values if same(value, extreme)]
    return extreme, len(alike)


def change(values: list[Any]) -> Any:
    column = pd.Series(values)
    return (column.iloc[-1] - column.iloc[0]).item()


def line(x: Any, y: Any) -> tuple[float, float]:
    if np.ptp(x) == 0:
        return NAN, NAN
    fitted = scipy.stats.linregress(x, y)
    return float(fitted.slope), float(fitted.intercept)


def averaged(values: Any, weights: Any) -> float | None:
    return float(np.average(values, weights=weights)) if weights.sum() else None


def decayed(span: Span) -> float:
    if not span.values:
        return 0.0
    ages = float(span.stop) - np.array(span.times, dtype=float)
    return float(np.dot(np.array(span.values, dtype=float), np.exp2(-ages / 10)))


def recent(span: Span) -> float | None:
    if not span.values:
        return None
    ages = float(span.times[-1]) - np.array(span.times, dtype=float)
    return float(np.average(np.array(span.values, dtype=float), weights=np.exp2(-ages / 10)))


def by_duration(span: Span) -> float | None:
    if not span.values:
        return None
    lengths = np.diff([*span.times, span.stop]).astype(float)
    return float(np.average(span.values, weights=lengths)) if lengths.sum() else float(span.values[-1])


def per_unit(span: Span) -> float | None:
    if span.start is None or span.start == span.stop:
        return None
    return math.fsum(span.values) / (span.stop - span.start)


def composed(rows: list[tuple[float, float]]) -> tuple[float, float]:
    """Affine functions as matrices, of which the later stands on the left."""
    matrices = [np.array([[a, b], [0.0, 1.0]]) for a, b in rows]
    (a, b), _ = reduce(lambda product, each: each @ product, matrices, np.eye(2))
    return float(a), float(b)


def described(values: list[Any]) -> dict[str, Any]:
    return {"n": len(values), "top": max(values, default=None)}


# --- judges: does an answer agree with the reference? ---------------------------------------------


def same(got: Any, expected: Any) -> bool:
    """Equal, with NaN equal to NaN and -0.0 different from 0.0, and of the same type."""
    if isinstance(got, (tuple, list)) and isinstance(expected, (tuple, list)):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(got, float) and isinstance(expected, float):
        return packing.pack("<d", got) == packing.pack("<d", expected) or (got != got and expected != expected)
    return type(got) is type(expected) and bool(got == expected)


def close(got: Any, expected: Any) -> bool:
    """Equal but for rounding; the values are of a size where 1e-9 of them is far more than that."""
    if isinstance(got, tuple) and isinstance(expected, tuple):
        return len(got) == len(expected) and all(map(close, got, expected))
    if got is None or expected is None:
        return got is expected
    return math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9) or (got != got and expected != expected)


def holds_all(got: Any, expected: list[Any]) -> bool:
    return all(value in got for value in expected) and (bool(expected) or not any(n in got for n in range(100)))


def within(slack: float) -> Callable[[Any, Any], bool]:
    return lambda got, expected: type(got) is type(expected) and abs(got - expected) <= slack


@dataclass(frozen=True)
class Reference:
    """A built-in, random values for it, what to hold it against, and how closely."""

    monoid: Monoid
    values: Values
    expected: Callable[[Span], Any]
    agrees: Callable[[Any, Any], bool] = same


def each(make: Callable[..., Monoid], kinds: dict[str, Values], *rest: Any) -> dict[str, Reference]:
    return {kind: Reference(make(), values, *rest) for kind, values in kinds.items()}


NUMBERS: dict[str, Values] = {"ints": ints(), "floats": floats()}
ORDERED: dict[str, Values] = {"ints": ints(-5, 5), "int64": ints(LOW, HIGH), "floats": few_floats, "words": words}
JOINT: dict[str, Values] = {"ints": pairs(ints(), ints()), "floats": pairs(floats(), floats())}
SCALED: dict[str, Values] = {"ints": pairs(ints(-2, 2), ints(-2, 2)), "floats": pairs(floats(-1, 1), floats(-1, 1))}
EDGES = [-40.0, -10.0, 0.0, 0.5, 10.0, 40.0]


def sums() -> dict[str, dict[str, Reference]]:
    return {
        "sum": {
            "ints": Reference(monoids.sum(), ints(-(2**55), 2**55), of_values(sum, 0)),
            "floats": Reference(monoids.sum(), floats(), of_values(math.fsum, 0), close),
            "exactly": Reference(monoids.sum(exact=True), floats(-1e200, 1e200), of_values(math.fsum, 0.0)),
        },
        "count": each(monoids.count, {"ints": ints(), "words": words}, of_values(len, 0)),
        "count_if": each(monoids.count_if, {"truths": truths}, of_values(lambda v: sum(map(bool, v)), 0)),
        "mean": each(monoids.mean, NUMBERS, of_values(statistics.fmean), close),
        "product": each(
            monoids.product,
            {"ints": ints(-2, 3), "floats": floats(0.5, 2.0)},
            of_values(lambda v: float(np.prod(v)), 1.0),
            close,
        ),
        "weighted_mean": each(
            monoids.weighted_mean,
            {"ints": pairs(ints(), ints(0, 3)), "floats": pairs(floats(), floats(0, 5))},
            of_pairs(averaged),
            close,
        ),
    }


def orders() -> dict[str, dict[str, Reference]]:
    keyed = {kind: pairs(values, ints()) for kind, values in ORDERED.items()}

    def beside(at: Callable[[Any], int]) -> Callable[[Span], Any]:
        """NumPy takes the first of ties, here ranked so that it knows our order of floats and of words."""

        def reference(rows: list[Any]) -> Any:
            ranked = ordered([row[0] for row in rows])
            keys = [total_order(v) if isinstance(v, float) else bisect.bisect_left(ranked, v) for v, _ in rows]
            return rows[at(np.array(keys))][1]

        return of_values(reference)

    return {
        "min": each(monoids.min, ORDERED, of_values(lambda v: ordered(v)[0])),
        "max": each(monoids.max, ORDERED, of_values(lambda v: ordered(v)[-1])),
        "range": each(monoids.range, {"ints": ints(), "floats": floats()}, of_values(lambda v: np.ptp(v).item())),
        "argmin": each(monoids.argmin, keyed, beside(np.argmin)),
        "argmax": each(monoids.argmax, keyed, beside(np.argmax)),
        "first": each(monoids.first, ORDERED, of_values(operator.itemgetter(0))),
        "last": each(monoids.last, ORDERED, of_values(operator.itemgetter(-1))),
        "delta": each(monoids.delta, NUMBERS, of_values(change)),
        "maxcount": each(monoids.maxcount, ORDERED, of_values(lambda v: with_count(v, -1))),
        "mincount": each(monoids.mincount, ORDERED, of_values(lambda v: with_count(v, 0))),
        "first_k": each(lambda: monoids.first_k(3), ORDERED, of_values(lambda v: v[:3], [])),
        "last_k": each(lambda: monoids.last_k(3), ORDERED, of_values(lambda v: v[-3:], [])),
        "top_k": {
            **each(lambda: monoids.top_k(3), NUMBERS, of_values(lambda v: heapq.nlargest(3, v), [])),
            **each(lambda: monoids.top_k(4), {"special": few_floats}, of_values(lambda v: ordered(v)[::-1][:4], [])),
        },
        "bottom_k": {
            **each(lambda: monoids.bottom_k(3), NUMBERS, of_values(lambda v: heapq.nsmallest(3, v), [])),
            **each(lambda: monoids.bottom_k(4), {"special": few_floats}, of_values(lambda v: ordered(v)[:4], [])),
        },
    }


def moments() -> dict[str, dict[str, Reference]]:
    def population(ddof: int) -> Callable[[Span], Any]:
        return of_pairs(lambda x, y: float(np.cov(x, y, ddof=ddof)[0, 1]), ddof + 1)

    return {
        "variance": {
            **each(monoids.variance, NUMBERS, of_values(lambda v: float(np.var(v, ddof=1)), least=2), close),
            "of all": Reference(monoids.variance(ddof=0), floats(), of_values(lambda v: float(np.var(v))), close),
        },
        "std": {
            **each(monoids.std, NUMBERS, of_values(statistics.stdev, least=2), close),
            "of all": Reference(monoids.std(ddof=0), floats(), of_values(statistics.pstdev), close),
        },
        "skewness": each(monoids.skewness, NUMBERS, of_values(quietly(scipy.stats.skew)), close),
        "kurtosis": each(monoids.kurtosis, NUMBERS, of_values(quietly(scipy.stats.kurtosis)), close),
        "covariance": {
            **each(monoids.covariance, JOINT, population(1), close),
            "of all": Reference(monoids.covariance(ddof=0), JOINT["floats"], quietly(population(0)), close),
        },
        "correlation": each(
            monoids.correlation, JOINT, of_pairs(quietly(lambda x, y: float(np.corrcoef(x, y)[0, 1])), 2), close
        ),
        "regression": each(monoids.regression, JOINT, of_pairs(line, 2), close),
        "geomean": each(
            monoids.geomean,
            {"ints": ints(0, 9), "floats": floats(0.01, 100)},
            of_values(quietly(lambda v: float(scipy.stats.gmean(v)))),
            close,
        ),
    }


def rest() -> dict[str, dict[str, Reference]]:
    small, wide = ints(0, 255), ints(LOW, HIGH)

    def bitwise(ufunc: Any) -> Callable[[Span], Any]:
        return of_values(lambda v: int(ufunc.reduce(np.array(v, np.int64))))

    both = {"small": small, "int64": wide}
    hashed: dict[str, Values] = {"ints": ints(0, 9), "floats": floats(), "words": words}
    return {
        "bit_and": each(monoids.bit_and, both, bitwise(np.bitwise_and)),
        "bit_or": each(monoids.bit_or, both, bitwise(np.bitwise_or)),
        "bit_xor": each(monoids.bit_xor, both, bitwise(np.bitwise_xor)),
        "all": each(monoids.all, {"truths": truths}, of_values(all)),
        "any": each(monoids.any, {"truths": truths}, of_values(any)),
        "histogram": each(
            lambda: monoids.histogram(EDGES),
            {"ints": ints(), "floats": floats()},
            of_values(lambda v: np.histogram(v, EDGES)[0].tolist(), [0] * 5),
        ),
        "decayed_sum": each(lambda: monoids.decayed_sum(10), NUMBERS, decayed, close),
        "decayed_mean": each(lambda: monoids.decayed_mean(10), NUMBERS, recent, close),
        "time_weighted_mean": each(monoids.time_weighted_mean, NUMBERS, by_duration, close),
        "rate": each(monoids.rate, NUMBERS, per_unit, close),
        "affine": each(monoids.affine, SCALED, of_values(composed, (1.0, 0.0)), close),
        "bloom": each(monoids.bloom, hashed, of_values(list, []), holds_all),
        "approx_quantile": each(
            lambda: monoids.approx_quantile(q=0.3),
            {"ints": ints(1), "floats": floats(1e-3)},
            of_values(lambda v: float(np.quantile(v, 0.3))),
            lambda got, expected: got is expected or got == pytest.approx(expected, rel=0.01),
        ),
        "hyperloglog": each(monoids.hyperloglog, hashed, of_values(lambda v: len(set(v)), 0), within(3)),
        "struct": each(
            lambda: monoids.struct(n=monoids.count(), top=monoids.max()),
            NUMBERS,
            of_values(described, {"n": 0, "top": None}),
        ),
    }


def collected() -> dict[str, dict[str, Reference]]:
    """What keeps all values; only what is registered has a line."""
    hashed: dict[str, Values] = {"ints": ints(0, 9), "words": words}
    lines: dict[str, Callable[[], dict[str, Reference]]] = {
        "distinct": lambda: each(monoids.distinct, hashed, of_values(lambda v: pd.Series(v).nunique(), 0)),
        "quantile": lambda: each(
            lambda: monoids.quantile(0.3), NUMBERS, of_values(lambda v: float(np.quantile(v, 0.3))), close
        ),
        "median": lambda: each(monoids.median, NUMBERS, of_values(lambda v: float(np.median(v))), close),
        "collect_list": lambda: each(monoids.collect_list, hashed, of_values(list, [])),
        "collect_set": lambda: each(monoids.collect_set, hashed, of_values(set, set())),
        "string_agg": lambda: each(monoids.string_agg, {"words": words}, of_values(",".join)),
    }
    return {name: make() for name, make in lines.items() if name in monoids.registry.EXAMPLES}


REFERENCES = sums() | orders() | moments() | rest() | collected()
CASES = [pytest.param(case, id=f"{name}-{kind}") for name, kinds in REFERENCES.items() for kind, case in kinds.items()]


def test_every_registered_monoid_has_a_reference() -> None:
    """A built-in without a line in the table above would not be compared with anything; sketches have their own."""
    sketches = {"kll", "frequent_items", "theta", "cpc"}
    assert set(monoids.registry.EXAMPLES) - sketches <= set(REFERENCES)


# --- random windows -------------------------------------------------------------------------------


class Model:
    """What a window should hold: values by time, in the order of arrival."""

    def __init__(self) -> None:
        self.entries: dict[Any, list[Any]] = {}

    def insert(self, time: Any, value: Any) -> None:
        self.entries.setdefault(time, []).append(value)

    def span(self, start: Any = None, stop: Any = None) -> Span:
        """All of it, or what lies from start to stop, both included."""
        if start is None and self.entries:
            start, stop = min(self.entries), max(self.entries)
        inside = sorted(time for time in self.entries if start <= time <= stop)
        rows = [(time, value) for time in inside for value in self.entries[time]]
        return Span([value for _, value in rows], [time for time, _ in rows], start, stop)


def steps(rng: Generator, window: Window, values: Values, when: Callable[[int], Any]) -> Iterator[Model]:
    """Change a window and its model at random, the same way, and stop after each step."""
    model = Model()
    yield model
    for step in range(8):
        times = [when(int(t)) for t in rng.integers(step, step + 20, 6)]
        batch = values(rng, len(times))
        for time, value in zip(times, batch, strict=True):
            model.insert(time, value)
        if step % 2:
            window.insert_many(times, batch)
        else:
            for time, value in zip(times, batch, strict=True):
                window.insert(time, value)
        yield model
        gone = sorted(model.entries)[int(rng.integers(0, len(model.entries)))]
        window.evict(gone)
        del model.entries[gone]
        if step in (4, 7) and model.entries:
            last = sorted(model.entries)[-4:][0]
            window.evict_until(last)
            model.entries = {time: kept for time, kept in model.entries.items() if time > last}
        yield model


def compare(case: Reference, window: Window, span: Span, *bounds: Any) -> None:
    expected, got = case.expected(span), window.query(*bounds)
    if isinstance(expected, dict):
        assert got.keys() == expected.keys() and all(case.agrees(got[name], expected[name]) for name in got), span
        return
    assert case.agrees(got, expected), (got, expected, span)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_random_windows(case: Reference, shape: str) -> None:
    """The whole window and any range equal what another library computes from the values in order."""
    rng = np.random.default_rng([7, list(SHAPES).index(shape)])
    window = Window(case.monoid, **SHAPES[shape])
    for model in steps(rng, window, case.values, int):
        compare(case, window, model.span())
        for _ in range(2 if model.entries else 0):
            start, stop = sorted(int(t) for t in rng.integers(0, 30, 2))
            compare(case, window, model.span(start, stop), start, stop)
    window.check_invariants()


def seconds(second: int) -> datetime:
    return datetime(2024, 2, 29, 23, 59, 30, tzinfo=UTC) + timedelta(seconds=second)


TIMES: dict[str, Callable[[int], Any]] = {
    "float": float,
    "datetime": seconds,
    "datetime64": lambda second: np.datetime64(seconds(second).replace(tzinfo=None), "ms"),
    "timestamp": lambda second: pd.Timestamp(seconds(second)),
    "object": Fraction,
}


def as_number(span: Span) -> Span:
    """A range with its times in seconds, as the references need them."""

    def number(time: Any) -> Any:
        if isinstance(time, np.datetime64):
            return float((time - np.datetime64("2024-02-29")) / np.timedelta64(1, "s"))
        return time.timestamp() - seconds(0).timestamp() if isinstance(time, datetime) else time

    return Span(span.values, list(map(number, span.times)), number(span.start), number(span.stop))


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("name", ["decayed_sum", "decayed_mean", "time_weighted_mean", "rate"])
def test_timed_monoids_over_other_times(name: str, kind: str) -> None:
    """Spans are in seconds where times are instants, and in the unit of the times otherwise."""
    case, when = REFERENCES[name]["floats"], TIMES[kind]
    rng = np.random.default_rng(11)
    window = Window(case.monoid, leaf_capacity=2, fanout=4)
    for model in steps(rng, window, case.values, when):
        if model.entries:
            compare(case, window, as_number(model.span()))
            start, stop = (when(int(t)) for t in sorted(rng.integers(0, 30, 2)))
            compare(case, window, as_number(model.span(start, stop)), start, stop)


def test_half_lives_are_numbers_or_timedeltas() -> None:
    """A half life of ten seconds is one, however it is written, and after it half is left."""
    for half_life in (10, 10.0, timedelta(seconds=10), np.timedelta64(10_000, "ms")):
        window = Window(monoids.decayed_sum(half_life))
        window.insert(seconds(0), 8.0)
        assert window.query(seconds(0), seconds(10)) == 4.0
        assert window.query(seconds(0), seconds(30)) == 1.0


def test_infinity_does_not_decay() -> None:
    """However long ago it was, and by however many steps it is summed, an infinity is one."""
    for times in ([0], [0, 1200], [0, 600, 1200], [0, 300, 600, 900, 1200]):
        window = Window(monoids.decayed_sum(1), leaf_capacity=2, fanout=4)
        window.insert_many(times, [INF] + [1.0] * (len(times) - 1))
        assert window.query(0, 1200) == INF, times


def test_a_decayed_mean_outlives_its_weights() -> None:
    """However old the values are, the newest one decides, and what is far older than it has no weight at all."""
    window = Window(monoids.decayed_mean(1), leaf_capacity=2, fanout=4)
    window.insert_many([0, 10**6, 2 * 10**6], [INF, 5.0, 3.0])
    assert window.query(10**6, 10**9) == 3.0
    assert window.query(10**6, 10**6) == 5.0
    assert window.query() == INF


@pytest.mark.parametrize("name", ["variance", "std", "skewness", "kurtosis", "covariance", "correlation", "regression"])
def test_moments_of_what_is_not_finite(name: str) -> None:
    """As in NumPy, NaN or an infinity makes a moment NaN, wherever it stands and however often; evicted, it is gone."""
    paired = name in ("covariance", "correlation", "regression")
    for poison in (NAN, INF, -INF):
        for places in ([0], [3], [7], [0, 1], [2, 5], range(8)):
            numbers = [poison if at in places else float(at * at) for at in range(8)]
            window = Window(getattr(monoids, name)(), leaf_capacity=2, fanout=4)
            window.insert_many(list(range(8)), [(x, x) for x in numbers] if paired else numbers)
            got = window.query()
            assert all(math.isnan(x) for x in (got if isinstance(got, tuple) else [got])), (poison, places, got)
    window = Window(monoids.variance())
    window.insert_many([1, 2, 3], [INF, 1.0, 3.0])
    window.evict(1)
    assert window.query() == 2.0


@pytest.mark.parametrize("when", [int, Fraction], ids=["native", "python"])
def test_moments_far_from_zero(when: Callable[[int], Any]) -> None:
    """A large offset costs no digits: moments are as near to the exact ones as those of the same values around zero."""
    rng = np.random.default_rng(3)
    x, y = 1e9 + rng.normal(size=500), -1e9 + rng.normal(size=500)
    near_x, near_y = x - 1e9, y + 1e9  # exact: the offset takes the last bits before the values are compared
    times = [when(at) for at in range(500)]
    for monoid, rows, expected in (
        (monoids.variance(), x, np.var(near_x, ddof=1)),
        (monoids.covariance(), np.column_stack([x, y]), np.cov(near_x, near_y)[0, 1]),
        (monoids.correlation(), np.column_stack([x, y]), np.corrcoef(near_x, near_y)[0, 1]),
        (monoids.skewness(), x, scipy.stats.skew(near_x)),
        (monoids.kurtosis(), x, scipy.stats.kurtosis(near_x)),
    ):
        window = Window(monoid)
        window.insert_many(times, [tuple(row) for row in rows.tolist()] if rows.ndim == 2 else rows.tolist())
        assert math.isclose(window.query(), expected, rel_tol=1e-12), monoid


def test_a_sliding_variance_far_from_zero_loses_no_digits() -> None:
    """Windows that slide join states of different origins, one of them an outlier, natively and in tables."""
    values = 1e9 + np.random.default_rng(4).normal(size=600)
    values[::97] -= 5e8
    slid = Window(monoids.variance()).slide(np.arange(600), values, count=50)
    table = rolling({"t": np.arange(600), "v": values}, time="t", windows=[50], aggs={"x": monoids.variance("v")})
    for at in range(49, 600):
        expected = np.var(values[at - 49 : at + 1] - 1e9, ddof=1)
        assert math.isclose(slid[at], expected, rel_tol=1e-12), at
        assert math.isclose(table["x_50"][at].as_py(), expected, rel_tol=1e-12), at


def test_geometric_means_of_the_largest_floats() -> None:
    """Rounding may lift a mean of logarithms above that of the largest float; that is not an error, natively or not."""
    largest = float(np.finfo(float).max)
    for when in (int, Fraction):
        window = Window(monoids.geomean())
        window.insert_many([when(at) for at in range(150)], [largest] * 150)
        for stop in range(0, 150, 5):
            assert window.query(when(0), when(stop)) > 0.999 * largest


# --- sums of floats -------------------------------------------------------------------------------

CANCELLING = [
    [1e16, 1.0, -1e16],
    [1e100, 1.0, -1e100, 1e-100],
    [0.1] * 10,
    [1.0, 2.0**-53, 2.0**-106],
    [2.0**53, 1.0, 1.0, -(2.0**53)],
    [5e-324] * 7 + [-5e-324] * 3,
    [-0.0, -0.0],
    [1e308, 1e308, -1e308],
    [1.7976931348623157e308, 2.0**969],
]


def nearest(values: list[float]) -> float:
    """The float nearest to the true sum, by fractions; beyond the largest it is infinite."""
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.copysign(INF, total)


@pytest.mark.parametrize("values", CANCELLING, ids=str)
def test_exact_sums_cancel_exactly(values: list[float]) -> None:
    """sum(exact=True) is the float nearest to the true sum, in every order of its values."""
    for order in itertools.islice(itertools.permutations(values), 0, 5000, 97):
        window = Window(monoids.sum(exact=True), leaf_capacity=2, fanout=4)
        window.insert_many(list(range(len(order))), list(order))
        assert window.query() == nearest(values), order


def test_exact_sums_are_those_of_fsum_in_any_order() -> None:
    """Numbers over the whole range, and their negatives but for one: all permutations agree to the last bit."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        half = np.ldexp(rng.uniform(-1, 1, 30), rng.integers(-900, 900, 30))
        values = np.concatenate([half, -half[1:], rng.normal(size=5)])
        for _ in range(3):
            order = rng.permutation(values).tolist()
            window = Window(monoids.sum(exact=True), leaf_capacity=2, fanout=4)
            window.insert_many(rng.permutation(len(order)), order)
            assert window.query().hex() == math.fsum(values.tolist()).hex()


def test_exact_sums_of_what_is_not_finite() -> None:
    """Infinities and NaN go by IEEE 754, and leave no trace when they are evicted."""
    for values, expected in (([INF, 1.0], INF), ([-INF, 1e308], -INF), ([INF, -INF], NAN), ([NAN, 1.0], NAN)):
        window = Window(monoids.sum(exact=True))
        window.insert_many(list(range(len(values))), values)
        assert same(window.query(), expected)
        window.evict(0)
        window.insert(9, 0.5)
        if math.isfinite(values[1]):
            assert window.query() == values[1] + 0.5


@pytest.mark.parametrize("shape", SHAPES)
def test_float_sums_keep_their_bound(shape: str) -> None:
    """A sum of n floats in any order is off by at most n * eps * sum|x|."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values = np.ldexp(rng.uniform(-1, 1, 400), rng.integers(-30, 30, 400))
        window = Window(monoids.sum(), **SHAPES[shape])
        window.insert_many(rng.permutation(400), values)
        bound = 400 * EPSILON * math.fsum(abs(values))
        assert abs(Fraction(window.query()) - sum(map(Fraction, values.tolist()))) <= bound


# --- HyperLogLog ----------------------------------------------------------------------------------


def hashed(numbers: Any) -> Any:
    """splitmix64's finaliser, over an array: what the built-ins hash an int64 with."""
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def registers(numbers: Any, lg_k: int) -> bytes:
    """The registers of an array of ints: the top bits choose one, the zeros that follow make its rank."""
    hashes = hashed(numbers)
    index = (hashes >> np.uint64(64 - lg_k)).astype(np.int64)
    rest = (hashes << np.uint64(lg_k)) | np.uint64(1 << (lg_k - 1))
    _, exponent = np.frexp((rest >> np.uint64(11)).astype(float))  # the 53 bits that count, exactly
    found = np.zeros(1 << lg_k, np.uint8)
    np.maximum.at(found, index, (53 - exponent + 1).astype(np.uint8))
    return found.tobytes()


@pytest.mark.parametrize("lg_k", [8, 11])
def test_hyperloglog_counts_what_theory_says(lg_k: int) -> None:
    """Over 100 seeds the error is near 1.04 / sqrt(2**lg_k) at most, far below for few values, and without a bias."""
    monoid, theory = monoids.hyperloglog(lg_k=lg_k), 1.04 / math.sqrt(2**lg_k)
    assert monoid.lower is not None
    for n in (50, 1000, 20_000):
        drawn = [np.random.default_rng(seed).integers(LOW, HIGH, n) for seed in range(100)]
        errors = np.array([monoid.lower(registers(numbers, lg_k)) / n - 1 for numbers in drawn])
        rms, bias = math.sqrt(np.mean(errors**2)), abs(np.mean(errors))
        assert rms < 1.3 * theory, (n, rms, theory)
        assert bias < 4 * theory / math.sqrt(100), (n, bias)
        if n < 2**lg_k / 4:
            assert rms < theory, (n, rms, theory)


def test_hyperloglog_windows_hold_those_registers() -> None:
    """A window's estimate is that of the registers computed above, duplicates and evictions notwithstanding."""
    monoid = monoids.hyperloglog(lg_k=10)
    assert monoid.lower is not None
    for seed in range(3):
        numbers = np.random.default_rng(seed).integers(LOW, HIGH, 3000)
        window = Window(monoid)
        window.insert_many(np.arange(6000) % 4000, np.concatenate([numbers, numbers]))
        assert window.query() == monoid.lower(registers(numbers, 10))
        window.evict_until(1999)
        left = np.concatenate([numbers, numbers])[np.arange(6000) % 4000 > 1999]
        assert window.query() == monoid.lower(registers(left, 10))


# --- Bloom filters --------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity, error", [(50, 0.1), (1000, 0.01), (3000, 0.05), (500, 0.001)])
def test_bloom_filters_err_as_seldom_as_asked(capacity: int, error: float) -> None:
    """Filled to capacity, every member is found, and false positives are at most 1.5 times the requested error."""
    found, asked = 0, 0
    for seed in range(max(1, 1000 // capacity)):
        numbers = np.random.default_rng([seed, capacity]).choice(2**40, capacity + 4000, replace=True)
        numbers = np.unique(numbers)
        members, strangers = numbers[::2][:capacity], np.concatenate([numbers[1::2], numbers[::2][capacity:]])
        window = Window(monoids.bloom(capacity=capacity, error=error))
        window.insert_many(np.arange(len(members)), members)
        seen = window.query()
        assert all(number in seen for number in members.tolist())
        found += sum(number in seen for number in strangers.tolist())
        asked += len(strangers)
    assert found <= 1.5 * error * asked, found / asked


# --- structs against SQL --------------------------------------------------------------------------

FIELDS: dict[str, tuple[Callable[[], Monoid], str]] = {
    "rows": (lambda: monoids.count(), "count(*)"),
    "xs": (lambda: monoids.count("x"), "count(x)"),
    "ys": (lambda: monoids.count("y"), "count(y)"),
    "big": (lambda: monoids.count_if("big"), "count(*) FILTER (WHERE big)"),
    "total": (lambda: monoids.sum("x"), "sum(x)"),
    "total_y": (lambda: monoids.sum("y"), "sum(y)"),
    "exactly": (lambda: monoids.sum("y", exact=True), "fsum(y)"),
    "mean": (lambda: monoids.mean("x"), "avg(x)"),
    "least": (lambda: monoids.min("x"), "min(x)"),
    "most": (lambda: monoids.max("y"), "max(y)"),
    "extent": (lambda: monoids.range("x"), "max(x) - min(x)"),
    "deviation": (lambda: monoids.std("y"), "stddev_samp(y)"),
    "variance": (lambda: monoids.variance("y", ddof=0), "var_pop(y)"),
    "covariance": (lambda: monoids.covariance("x", "y"), "covar_samp(y, x)"),
    "product": (lambda: monoids.product("half"), "product(half)"),
    "weighted": (
        lambda: monoids.weighted_mean("x", "half"),
        "sum(x * half) / sum(half) FILTER (WHERE x IS NOT NULL)",
    ),
    "every": (lambda: monoids.all("big"), "bool_and(big)"),
    "some": (lambda: monoids.any("big"), "bool_or(big)"),
    "odd": (lambda: monoids.bit_xor("x"), "bit_xor(x)"),
    "oldest": (lambda: monoids.first("x"), "first(x ORDER BY time) FILTER (WHERE x IS NOT NULL)"),
    "newest": (lambda: monoids.last("y"), "last(y ORDER BY time) FILTER (WHERE y IS NOT NULL)"),
    "geometric": (lambda: monoids.geomean("half"), "geomean(half)"),
    "best": (lambda: monoids.argmax("y", "x"), "arg_max(x, y) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)"),
}


def table_of_nulls(rng: Generator, n: int) -> pd.DataFrame:
    """A table in which about a third of each column, and all of one range, is null."""

    def holed(column: Any) -> Any:
        return [None if hole or 60 <= at < 75 else v for at, (v, hole) in enumerate(zip(column, holes(), strict=True))]

    def holes() -> Any:
        return rng.random(n) < 0.35

    return pd.DataFrame(
        {
            "time": rng.permutation(n),
            "x": pd.array(holed(rng.integers(-99, 99, n).tolist()), "Int64"),
            "y": pd.array(holed(rng.normal(0, 30, n).tolist()), "Float64"),
            "half": pd.array(holed(rng.uniform(0.5, 2, n).tolist()), "Float64"),
            "big": pd.array(holed((rng.random(n) < 0.6).tolist()), "boolean"),
        }
    ).sort_values("time", ignore_index=True)[["time", "x", "y", "half", "big"]]


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {name: [None if v is pd.NA else v for v in table[name].tolist()] for name in ("x", "y", "half", "big")}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("shape", SHAPES)
def test_structs_pass_over_nulls_as_sql_does(shape: str) -> None:
    """A struct's fields equal what DuckDB computes for the same range of a table with nulls."""
    rng = np.random.default_rng(list(SHAPES).index(shape))
    table = table_of_nulls(rng, 100)
    window = Window(monoids.struct(**{name: make() for name, (make, _) in FIELDS.items()}), **SHAPES[shape])
    order = rng.permutation(len(table))
    rows = rows_of(table)
    window.insert_many([int(table["time"][at]) for at in order[:50]], [rows[at] for at in order[:50]])
    for at in order[50:]:
        window.insert(int(table["time"][at]), rows[at])
    spans = [(0, 99), (60, 74), (62, 62), (200, 300), (59, 61)]
    spans += [tuple(sorted(rng.integers(0, 100, 2).tolist())) for _ in range(12)]
    asked = ", ".join(f"{sql} AS {name}" for name, (_, sql) in FIELDS.items())
    with duckdb.connect() as connection:
        connection.register("t", table)
        for start, stop in spans:
            found = connection.execute(f"SELECT {asked} FROM t WHERE time BETWEEN {start} AND {stop}").fetchone()
            got = window.query(start, stop)
            assert list(got) == list(FIELDS)
            for name, expected in zip(FIELDS, found or (), strict=True):
                assert close(got[name], expected), (name, start, stop, got[name], expected)


def test_structs_are_their_parts() -> None:
    """A struct's results equal those of each field in a separate window of the non-null values."""
    rng = np.random.default_rng(5)
    table = table_of_nulls(rng, 100)
    parts = {
        "total": monoids.sum("x"),
        "top": monoids.top_k(3, "y"),
        "kinds": monoids.hyperloglog("x"),
        "shape": monoids.kurtosis("y"),
        "bins": monoids.histogram([-50, 0, 50], "x"),
        "held": monoids.time_weighted_mean("y"),
    }
    window = Window(monoids.struct(**parts))
    alone = {name: Window(monoid) for name, monoid in parts.items()}
    for time, row in zip(table["time"].tolist(), rows_of(table), strict=True):
        window.insert(time, row)
        for name, monoid in parts.items():
            value = row[str(monoid.column)]
            if value is not None:
                alone[name].insert(time, value)
    for start, stop in ((0, 99), (10, 40), (50, 80)):
        got = window.query(start, stop)
        for name, each_window in alone.items():
            expected = each_window.query(start, stop)
            assert same(got[name], expected) or close(got[name], expected), name


def test_nulls_are_not_nan() -> None:
    """NaN is a value: it is counted, and is the largest; None is skipped."""
    window = Window(monoids.struct(n=monoids.count("x"), top=monoids.max("x"), rows=monoids.count()))
    window.insert_many([1, 2, 3], [{"x": NAN}, {"x": None}, {"x": 1.0}])
    got = window.query()
    assert got["n"] == 2 and math.isnan(got["top"]) and got["rows"] == 3
    window.evict(1)
    assert window.query() == {"n": 1, "top": 1.0, "rows": 2}


def test_a_struct_of_nothing() -> None:
    """Counts are 0 and everything else is None, in an empty window, an empty range and a range of nulls."""
    monoid = monoids.struct(
        n=monoids.count(), xs=monoids.count("x"), total=monoids.sum("x"), bins=monoids.histogram([0, 1], "x")
    )
    window = Window(monoid)
    nothing = {"n": 0, "xs": 0, "total": None, "bins": None}
    assert window.query() == nothing
    window.insert(5, {"x": None})
    assert window.query() == nothing | {"n": 1}
    assert window.query(6, 9) == nothing


def test_counters_agree_with_the_standard_library() -> None:
    """Counts by value of a whole stream: maxcount and mincount against a Counter, at every slide."""
    rng = np.random.default_rng(2)
    numbers = rng.integers(0, 5, 300).tolist()
    most = Window(monoids.maxcount()).slide(range(300), numbers, count=20)
    least = Window(monoids.mincount()).slide(range(300), numbers, count=20)
    for at in range(300):
        seen = Counter(numbers[max(0, at - 19) : at + 1])
        assert tuple(most[at]) == (max(seen), seen[max(seen)])
        assert tuple(least[at]) == (min(seen), seen[min(seen)])
