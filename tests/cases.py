"""The monoids and kinds of time that the model test draws from.

Each monoid comes with its own fold in plain Python. Functions live at module level, so that windows can be
pickled.
"""

import datetime as dt
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from oracle import Oracle
from sash import Monoid, monoids


def concat(left: str, right: str) -> str:
    """Not commutative, so that lost, repeated and reordered combines all show."""
    return left + right


def singleton(value: str) -> tuple[str, ...]:
    return (value,)


def bracketed(state: tuple[str, ...]) -> str:
    return "<" + "".join(state) + ">"


def concat_monoid() -> Monoid:
    return Monoid(identity="", combine=concat, name="concat")


def bracket_monoid() -> Monoid:
    return Monoid(identity=(), combine=operator.add, lift=singleton, lower=bracketed, name="bracket")


def smaller(left: Any, right: Any) -> Any:
    return right if left is None or right < left else left


def larger(left: Any, right: Any) -> Any:
    return right if left is None or right > left else left


def larger_and_count(left: Any, right: Any) -> Any:
    if left is None or right[0] > left[0]:
        return right
    return (left[0], left[1] + right[1]) if left[0] == right[0] else left


def left_one(left: Any, right: Any) -> Any:
    return left


def right_one(left: Any, right: Any) -> Any:
    return right


@dataclass(frozen=True)
class MonoidCase:
    """A monoid, the same thing said as a fold, and values to feed both."""

    name: str
    monoid: Callable[[], Monoid]
    fold: tuple[Any, ...]  # identity, combine[, lift[, lower]]
    values: st.SearchStrategy[Any]

    def oracle(self) -> Oracle:
        return Oracle(*self.fold)


letters = st.sampled_from("abcdefgh")
ints = st.integers(-5, 5)
dyadic = st.integers(-64, 64).map(lambda i: i / 8)  # sums of these are exact in float64, in any order
one = "one"

CONCAT = MonoidCase("concat", concat_monoid, ("", concat), letters)
MONOIDS = [
    CONCAT,
    MonoidCase("bracket", bracket_monoid, ((), operator.add, singleton, bracketed), letters),
    MonoidCase("sum int", monoids.sum, (0, operator.add), ints),
    MonoidCase("sum float", monoids.sum, (0, operator.add), dyadic),
    MonoidCase("count", monoids.count, (0, operator.add, lambda _: 1), ints),
    MonoidCase("min int", monoids.min, (None, smaller), ints),
    MonoidCase("min float", monoids.min, (None, smaller), dyadic),
    MonoidCase("max int", monoids.max, (None, larger), ints),
    MonoidCase("max str", monoids.max, (None, larger), letters),
    MonoidCase("maxcount int", monoids.maxcount, (None, larger_and_count, lambda v: (v, 1)), ints),
    MonoidCase("maxcount float", monoids.maxcount, (None, larger_and_count, lambda v: (v, 1)), dyadic),
    MonoidCase("first int", monoids.first, (None, left_one), ints),
    MonoidCase("first str", monoids.first, (None, left_one), letters),
    MonoidCase("last int", monoids.last, (None, right_one), ints),
    MonoidCase("last float", monoids.last, (None, right_one), dyadic),
]

EPOCH = dt.datetime(2024, 2, 28, 23, 59, 58)
ZONES = [dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), dt.timezone(dt.timedelta(hours=-8))]


@dataclass(frozen=True)
class TimeKind:
    """A kind of time: the i-th time of it, and the span of i steps where times can be subtracted."""

    name: str
    time: Callable[[int], Any]
    span: Callable[[int], Any] | None = None
    array: Callable[[list[Any]], Any] = list


def aware(i: int) -> dt.datetime:
    """The same instants in changing zones."""
    return (EPOCH.replace(tzinfo=dt.UTC) + dt.timedelta(seconds=i)).astimezone(ZONES[i % len(ZONES)])


INT = TimeKind("int", lambda i: i, lambda i: i, np.asarray)
TIMES = [
    INT,
    TimeKind("float", lambda i: i / 4, lambda i: i / 4, np.asarray),
    TimeKind("naive datetime", lambda i: EPOCH + dt.timedelta(seconds=i), lambda i: dt.timedelta(seconds=i)),
    TimeKind("aware datetime", aware, lambda i: dt.timedelta(seconds=i)),
    TimeKind("datetime64", lambda i: np.datetime64(1000 + i, "ms"), lambda i: np.timedelta64(i, "ms"), np.asarray),
    TimeKind("Timestamp", lambda i: pd.Timestamp(10**18 + i), lambda i: pd.Timedelta(i, "ns"), pd.DatetimeIndex),
    TimeKind("pair", lambda i: (i // 3 - 2, i % 3)),
    TimeKind("str", lambda i: f"{i + 1000:05}"),
    TimeKind("triple", lambda i: ("t", i // 2, i % 2)),
    TimeKind("Fraction", lambda i: Fraction(i, 3), lambda i: Fraction(i, 3)),
]
