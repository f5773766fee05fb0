"""What each built-in monoid makes of its values: exactness, overflow, NaN and its like, emptiness, kinds."""

import math
import pickle
import random
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import ArgumentError, KindError, Monoid, ResultOverflowError, SashError, SlideError, Window, monoids
from support.structures import Structure

LOW, HIGH = -(2**63), 2**63 - 1
NAN, INF = math.nan, math.inf


def holding(structure: Structure, monoid: Monoid, *values: Any) -> Window:
    """A window with these values at the times from 0 on."""
    window = structure.window(monoid)
    for time, value in enumerate(values):
        window.insert(time, value)
    window.check_invariants()
    return window


def same(left: Any, right: Any) -> bool:
    """Equal, with NaN equal to NaN and -0.0 different from 0.0."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return (math.copysign(1, left) == math.copysign(1, right) and left == right) or (
            left != left and right != right
        )
    return type(left) is type(right) and left == right


EMPTY = {
    "sum": (monoids.sum, 0),
    "count": (monoids.count, 0),
    "min": (monoids.min, None),
    "max": (monoids.max, None),
    "maxcount": (monoids.maxcount, None),
    "first": (monoids.first, None),
    "last": (monoids.last, None),
    "geomean": (monoids.geomean, None),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_results(structure: Structure, name: str) -> None:
    """An empty window returns 0 for sum and count and None for the rest, before and after it had entries."""
    make, empty = EMPTY[name]
    window = structure.window(make())
    assert window.query() == empty and type(window.query()) is type(empty)
    window.insert(1, 5)
    if structure.ranges:
        assert window.query(2, 3) == empty
    window.evict(1)
    assert window.query() == empty


def test_simple_results(structure: Structure) -> None:
    """Each built-in returns what its name says, as a plain Python value."""
    expected = [
        (monoids.sum(), 10),
        (monoids.count(), 4),
        (monoids.min(), 1),
        (monoids.max(), 4),
        (monoids.maxcount(), (4, 2)),
        (monoids.first(), 4),
        (monoids.last(), 1),
    ]
    for monoid, answer in expected:
        assert same(holding(structure, monoid, 4, 1, 4, 1).query(), answer), monoid


def test_negative_numbers_have_extremes(structure: Structure) -> None:
    """min and max of negative or positive numbers alone are among them: no identity leaks in."""
    assert holding(structure, monoids.max(), -5, -3, -9).query() == -3
    assert holding(structure, monoids.min(), 5, 3, 9).query() == 3
    assert holding(structure, monoids.max(), -5.5, -3.5).query() == -3.5
    assert holding(structure, monoids.max(), -INF).query() == -INF
    assert holding(structure, monoids.min(), INF).query() == INF
    assert (
        holding(structure, monoids.max(), LOW).query() == LOW
        and holding(structure, monoids.min(), HIGH).query() == HIGH
    )
    assert holding(structure, monoids.maxcount(), LOW, LOW).query() == (LOW, 2)


@pytest.mark.parametrize("values", [(HIGH, HIGH, LOW, LOW), (LOW, LOW, HIGH, HIGH), (HIGH, 1, -1, 0)], ids=str)
def test_sums_are_exact_beyond_int64(structure: Structure, values: tuple[int, ...]) -> None:
    """Partial sums may leave int64 either way; only the result has to fit."""
    window = holding(structure, monoids.sum(), *values)
    assert window.query() == sum(values)
    assert [value for _, value in window.items()] == list(values)


def test_a_result_that_does_not_fit_raises_and_recovers(structure: Structure) -> None:
    """A sum outside int64 raises at the query and changes nothing; evicting the cause mends it."""
    for values in ((1, HIGH, 0), (-1, LOW, 0)):
        window = holding(structure, monoids.sum(), *values)
        for _ in range(2):
            with pytest.raises(ResultOverflowError) as caught:
                window.query()
            assert "\n" not in str(caught.value) and isinstance(caught.value, OverflowError)
        assert len(window) == 3 and [value for _, value in window.items()] == list(values)
        window.evict(0)
        assert window.query() == values[1]
        window.check_invariants()


def test_the_ends_of_int64_are_results(structure: Structure) -> None:
    """The largest and the smallest int64 come out as they are, one beyond them raises."""
    assert holding(structure, monoids.sum(), HIGH - 1, 1).query() == HIGH
    assert holding(structure, monoids.sum(), LOW + 1, -1).query() == LOW
    with pytest.raises(ResultOverflowError):
        holding(structure, monoids.sum(), LOW, -1).query()


def test_one_time_may_overflow(structure: Structure) -> None:
    """Inputs at one time that overflow int64 together are kept exactly, and go when their time goes."""
    window = structure.window(monoids.sum())
    for value in (HIGH, HIGH, HIGH):
        window.insert(1, value)
    window.insert(2, LOW)
    window.insert(3, LOW)
    window.insert(3, 2)
    window.check_invariants()
    assert window.query() == 3 * HIGH + 2 * LOW + 2
    with pytest.raises(ResultOverflowError):
        dict(window.items())
    assert window.copy().query() == window.query()
    assert window.evict(1) is True
    with pytest.raises(ResultOverflowError):
        window.query()
    assert window.evict_until(2) == 1
    assert window.query() == LOW + 2 and list(window.items()) == [(3, LOW + 2)]
    window.check_invariants()


def test_one_time_may_overflow_and_come_back(structure: Structure) -> None:
    """An entry that left int64 and returned is an ordinary one again, singly or in a batch."""
    window = structure.window(monoids.sum())
    window.insert_many([1, 1, 1], [HIGH, HIGH, -HIGH])
    assert list(window.items()) == [(1, HIGH)] and window.query() == HIGH


def test_a_long_run_of_huge_sums(structure: Structure) -> None:
    """Hundreds of numbers near 2**62 give exact sums wherever they fit, and errors elsewhere."""
    rng = random.Random(5)
    window, entries = structure.window(monoids.sum()), {}
    for time in range(400):
        value = rng.choice([-1, 1]) * rng.randrange(2**61, 2**63)
        window.insert(time, value)
        entries[time] = value
        if rng.random() < 0.45:
            oldest = min(entries)
            del entries[oldest]
            window.evict(oldest)
        total = sum(entries.values())
        if LOW <= total <= HIGH:
            assert window.query() == total
        else:
            with pytest.raises(ResultOverflowError):
                window.query()
    window.check_invariants()


def test_overflow_in_a_slide(structure: Structure) -> None:
    """A result that does not fit stops a slide; its round stays done, and the next slide continues from there."""
    window = structure.window(monoids.sum())
    with pytest.raises(SlideError) as caught:
        window.slide([1, 2, 3, 4], [HIGH, -1, 2, 5], count=3)
    assert caught.value.index == 2 and list(caught.value.results) == [HIGH, HIGH - 1]
    assert isinstance(caught.value.__cause__, ResultOverflowError)
    assert list(window.items()) == [(1, HIGH), (2, -1), (3, 2)]
    assert list(window.slide([4], [5], count=3)) == [6]


def test_wide_windows_pickle(structure: Structure) -> None:
    """Entries beyond int64 survive a copy, and equality sees them."""

    window = holding(structure, monoids.sum(), HIGH, LOW)
    window.insert(1, LOW)
    loaded = pickle.loads(pickle.dumps(window))
    assert loaded == window
    window.insert(1, 1)
    assert loaded != window


FLOATS = [
    ("sum", (1.5, NAN, 2.0), NAN),
    ("sum", (INF, 1.0), INF),
    ("sum", (INF, -INF), NAN),
    ("sum", (1e308, 1e308), INF),
    ("min", (NAN, 2.0, INF), 2.0),
    ("min", (NAN, NAN), NAN),
    ("min", (0.0, -0.0), -0.0),
    ("min", (-0.0, 0.0), -0.0),
    ("min", (-INF, -1e308), -INF),
    ("max", (2.0, NAN, INF), NAN),
    ("max", (INF, 1e308), INF),
    ("max", (0.0, -0.0), 0.0),
    ("max", (-0.0, 0.0), 0.0),
    ("max", (-0.0, -0.0), -0.0),
    ("maxcount", (1.0, NAN, NAN), (NAN, 2)),
    ("maxcount", (-0.0, 0.0, -0.0), (0.0, 1)),
    ("maxcount", (-0.0, -0.0, -1.0), (-0.0, 2)),
    ("maxcount", (INF, INF, 1.0), (INF, 2)),
    ("first", (NAN, 1.0), NAN),
    ("first", (-0.0, 1.0), -0.0),
    ("last", (1.0, NAN), NAN),
    ("last", (1.0, -0.0), -0.0),
    ("last", (1.0, -INF), -INF),
]


@pytest.mark.parametrize("name, values, expected", FLOATS, ids=str)
def test_special_floats(structure: Structure, name: str, values: tuple[float, ...], expected: Any) -> None:
    """-inf < … < -0.0 < 0.0 < … < inf < NaN in min, max and maxcount; sums follow IEEE 754."""
    window = holding(structure, getattr(monoids, name)(), *values)
    assert same(window.query(), expected), window.query()
    again = structure.window(getattr(monoids, name)())
    for value in values:
        again.insert(7, value)
    assert same(again.query(), expected), again.query()
    batch = structure.window(getattr(monoids, name)())
    results = batch.slide(range(len(values)), np.array(values), count=len(values))
    assert same(batch.query(), expected)
    last = results.tolist()[-1]
    assert same(tuple(last) if isinstance(last, list) else last, expected)


def test_nan_leaves_no_trace(structure: Structure) -> None:
    """When a NaN or an infinity is evicted, the result is what it would be had it never come."""
    for poison in (NAN, INF, -INF, 1e308):
        for make, left in ((monoids.sum, 0.75), (monoids.max, 0.5), (monoids.min, 0.25)):
            window = holding(structure, make(), poison, 0.5, 0.25)
            window.evict(0)
            assert window.query() == left
            window.check_invariants()


def test_ints_and_floats(structure: Structure) -> None:
    """The first value decides: an int window refuses floats, a float window takes ints."""
    ints = holding(structure, monoids.sum(), 1, True, np.int8(3), np.uint16(4), np.bool_(True))
    assert same(ints.query(), 10)
    for value in (0.5, np.float32(1), 2.0):
        with pytest.raises(KindError):
            ints.insert(9, value)
    floats = holding(structure, monoids.sum(), 0.5, 2, np.float32(0.25), np.int64(1), True)
    assert same(floats.query(), 4.75)
    ints.evict_until(9)
    with pytest.raises(KindError):
        ints.insert(9, 0.5)
    assert same(ints.query(), 0)


@pytest.mark.parametrize("name", ["sum", "min", "max", "maxcount", "first", "last"])
def test_dtype_decides_before_the_first_value(structure: Structure, name: str) -> None:
    """dtype= settles the kind of number whatever comes first."""
    make = getattr(monoids, name)
    window = holding(structure, make(dtype=float), 1, 0.5)
    assert all(type(value) is float or type(value) is tuple for _, value in window.items())
    ints = structure.window(make(dtype=int))
    with pytest.raises(KindError):
        ints.insert(1, 0.5)
    ints.insert(1, 2)
    assert len(ints) == 1


def test_slides_give_arrays_of_the_kind(structure: Structure) -> None:
    """slide returns int64, float64 or object arrays, and plain Python values at the end."""
    times = [1, 2, 3]
    assert structure.window(monoids.sum()).slide(times, [1, 2, 3], count=2).dtype == np.int64
    assert structure.window(monoids.sum()).slide(times, [0.5, 2, 3], count=2).dtype == np.float64
    assert structure.window(monoids.count()).slide(times, [1, 2, 3], count=2).dtype == np.int64
    assert structure.window(monoids.max()).slide(times, np.arange(3.0), count=2).dtype == np.float64
    python = structure.window(Monoid(identity=0, combine=lambda a, b: a + b))
    assert python.slide(times, [1, 2, 3], count=2).dtype == object
    assert same(structure.window(monoids.sum()).slide(times, [1, 2, 3], count=2, at="end"), 5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float32", "float64", "bool"])
def test_arrays_of_values(structure: Structure, dtype: str) -> None:
    """Arrays of every width, strides included, say what a list says."""
    values = np.array([0, 9, 1, 9, 1, 9], dtype)[::2]
    window, listed = structure.window(monoids.sum()), structure.window(monoids.sum())
    window.insert_many([1, 2, 3], values)
    listed.insert_many([1, 2, 3], values.tolist())
    assert same(window.query(), listed.query()) and window.query() == 2


def test_an_array_that_does_not_fit(structure: Structure) -> None:
    """A uint64 above int64 is refused, not wrapped, and the whole batch with it."""
    window = structure.window(monoids.sum())
    window.insert(1, 1)
    with pytest.raises(SashError):
        window.insert_many([2, 3], np.array([5, 2**63], np.uint64))
    assert list(window.items()) == [(1, 1)]


def test_geomean(structure: Structure) -> None:
    """The geometric mean of ints or floats; zero makes it zero until it is evicted, infinity infinite."""
    assert math.isclose(holding(structure, monoids.geomean(), 2, 8).query(), 4.0)
    assert math.isclose(holding(structure, monoids.geomean(), 0.5, 2.0, 8.0).query(), 2.0)
    window = holding(structure, monoids.geomean(), 0, 2, 8)
    assert window.query() == 0.0
    window.evict(0)
    assert math.isclose(window.query(), 4.0)
    assert holding(structure, monoids.geomean(), 2.0, INF).query() == INF
    assert math.isnan(holding(structure, monoids.geomean(), 2.0, NAN).query())


def test_geomean_of_negative_numbers(structure: Structure) -> None:
    """A negative number has no geometric mean and is refused, singly and in a batch."""
    window = holding(structure, monoids.geomean(), 2.0)
    with pytest.raises(ArgumentError, match="-1"):
        window.insert(1, -1.0)
    with pytest.raises(ArgumentError, match="-1"):
        window.insert_many([1, 2], [1.0, -1.0])
    assert list(window) == [0] and math.isclose(window.query(), 2.0)


def test_geomean_of_many(structure: Structure) -> None:
    """Products far beyond float64's range give a mean all the same."""
    window = structure.window(monoids.geomean())
    n = 2**12
    window.insert_many(range(n), [1e300, 1e-300] * (n // 2))
    assert math.isclose(window.query(), 1.0, rel_tol=1e-9)
    window.insert_many(range(n, 2 * n), np.full(n, 1e300))
    window.evict_until(n - 1)
    assert math.isclose(window.query(), 1e300, rel_tol=1e-9)


def test_bloom_has_no_false_negatives(structure: Structure) -> None:
    """Whatever is in the window is in its Bloom filter; an empty window's filter holds nothing."""
    window = structure.window(monoids.bloom())
    assert 1 not in window.query() and "x" not in window.query()
    window.insert_many(range(300), range(1000, 1300))
    seen = window.query()
    assert all(value in seen for value in range(1000, 1300))
    window.evict_until(149)
    window.check_invariants()
    assert all(value in window.query() for value in range(1150, 1300))
    window.evict_until(299)
    assert not any(value in window.query() for value in range(1000, 1300))


def test_bloom_has_few_false_positives() -> None:
    """Of strangers to 500 values in 2**14 bits hardly one in twenty is taken for a member."""
    window = Window(monoids.bloom(), structure="paper")
    window.insert_many(range(500), range(500))
    seen = window.query()
    assert sum(value in seen for value in range(10_000, 14_000)) < 200


def test_bloom_takes_strings(structure: Structure) -> None:
    """Strings and numbers differ, and a returned filter does not change afterwards."""
    window = holding(structure, monoids.bloom(), "ada", "grace")
    seen = window.query()
    assert "ada" in seen and "grace" in seen and "alan" not in seen
    window.insert(9, "alan")
    assert "alan" not in seen and "alan" in window.query()


def test_object_values(structure: Structure) -> None:
    """dtype=object uses Python's own arithmetic: big ints, Decimals and Fractions are exact."""
    big = holding(structure, monoids.sum(dtype=object), 2**100, 1, -(2**99))
    assert big.query() == 2**99 + 1
    decimals = holding(structure, monoids.sum(dtype=object), Decimal("0.1"), Decimal("0.2"))
    assert same(decimals.query(), Decimal("0.3"))
    assert holding(structure, monoids.sum(dtype=object), Fraction(1, 3), 1).query() == Fraction(4, 3)
    assert holding(structure, monoids.max(dtype=object), Decimal("0.1"), Decimal("0.2")).query() == Decimal("0.2")
    assert structure.window(monoids.sum(dtype=object)).query() == 0


def test_a_first_value_that_is_no_number(structure: Structure) -> None:
    """min, max, maxcount, first and last take anything ordered, decided by the first value."""
    words = ("pear", "apple", "pear")
    expected = {"min": "apple", "max": "pear", "maxcount": ("pear", 2), "first": "pear", "last": "pear"}
    for name, answer in expected.items():
        window = holding(structure, getattr(monoids, name)(), *words)
        assert same(window.query(), answer)
        window.evict_until(2)
        assert window.query() is None


@pytest.mark.parametrize("time", [int, str], ids=["native", "object"])
def test_counts_take_nulls_of_every_kind(structure: Structure, time: Callable[[int], Any]) -> None:
    """A count counts any value, and so the nulls of Arrow, polars, pandas and NumPy."""
    for column in (
        [1, None],
        pa.array([1, None]),
        pa.array(["a", None]),
        pa.chunked_array([pa.array([None, datetime(2024, 1, 1)])]),
        pl.Series([None, 2.5]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None]),
        np.ma.masked_array([1, 2], [False, True]),
    ):
        window = structure.window(monoids.count())
        window.insert_many([time(1), time(2)], column)
        assert window.query() == 2, column


def test_first_and_last_go_by_time_then_arrival(structure: Structure) -> None:
    """first is the earliest arrival at the oldest time, last the latest arrival at the newest."""
    for make, answer in ((monoids.first, 1), (monoids.last, 4)):
        window = structure.window(make())
        window.insert_many([1, 1, 2, 2], [1, 2, 3, 4])
        assert window.query() == answer
