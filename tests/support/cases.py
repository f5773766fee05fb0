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

from oracles.window import Oracle
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


def outer_two(left: Any, right: Any) -> Any:
    return right if left is None else (left[0], right[1])


def twice(value: Any) -> tuple[Any, Any]:
    return value, value


def last_less_first(state: Any) -> Any:
    return None if state is None else state[1] - state[0]


def newest_15(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return (left + right)[-15:]


def record() -> Monoid:
    """Several aggregates in one record, of columns with nulls, with one among them that does not commute."""
    return monoids.struct(
        n=monoids.count(),
        seen=monoids.count("x"),
        total=monoids.sum("x", dtype=int),
        top=monoids.max("y"),
        last=monoids.last("x", dtype=int),
        mean=monoids.mean("y"),
    )


def commuting_record() -> Monoid:
    return monoids.struct(n=monoids.count(), total=monoids.sum("x", dtype=int), least=monoids.min("y"))


def either(left: Any, right: Any, both: Callable[[Any, Any], Any]) -> Any:
    if left is None or right is None:
        return right if left is None else left
    return both(left, right)


def row(value: dict[str, Any]) -> tuple[Any, ...]:
    x, y = value["x"], value["y"]
    return 1, int(x is not None), x, y, x, y, y


def add_rows(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    steps = (operator.add, operator.add, operator.add, larger, right_one, operator.add, smaller)
    return tuple(either(a, b, step) for a, b, step in zip(left, right, steps, strict=True))


NOTHING = (0, 0, None, None, None, None, None)


def row_answer(state: tuple[Any, ...]) -> dict[str, Any]:
    n, seen, total, top, last, sum_y, _ = state
    return {"n": n, "seen": seen, "total": total, "top": top, "last": last, "mean": sum_y / n if n else None}


def short(value: dict[str, Any]) -> tuple[Any, ...]:
    return 1, value["x"], value["y"]


def add_short(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    steps = (operator.add, operator.add, smaller)
    return tuple(either(a, b, step) for a, b, step in zip(left, right, steps, strict=True))


def short_answer(state: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("n", "total", "least"), state, strict=True))


def last_15() -> Monoid:
    return monoids.last_k(15)


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
rows = st.fixed_dictionaries({"x": st.none() | ints, "y": dyadic})
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
    MonoidCase("delta int", monoids.delta, (None, outer_two, twice, last_less_first), ints),
    MonoidCase("last_k int", last_15, ((), newest_15, lambda v: (v,), list), ints),
    MonoidCase("record", record, (NOTHING, add_rows, row, row_answer), rows),
    MonoidCase("commuting record", commuting_record, ((0, None, None), add_short, short, short_answer), rows),
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
