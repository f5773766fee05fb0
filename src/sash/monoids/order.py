"""Aggregates by the order of values (min, max, top_k ...) or of time (first, last, delta ...).

Floats are ordered -inf < ... < -0.0 < 0.0 < ... < inf < NaN.
"""

import math
from collections.abc import Callable
from functools import cmp_to_key, partial
from typing import Any

from sash.monoid import Input, Monoid, Part
from sash.monoids.arguments import NUMBERS, checked_dtype, checked_int, joined, named, pair, present, summand

_MOST = 4096  # the largest number of values in a state


def before(a: Any, b: Any) -> bool:
    """Return whether a is smaller than b, in a total order for floats."""
    if isinstance(a, float) or isinstance(b, float):
        if a != a or b != b:
            return bool(a == a and b != b)
        if a == b == 0.0:
            return math.copysign(1.0, a) < math.copysign(1.0, b)
    return bool(a < b)


def _of_number(
    name: str,
    combine: Callable[[Any, Any], Any],
    column: str | None,
    dtype: Any = None,
    *,
    lift: Callable[[Any], Any] = present,
    lower: Callable[[Any], Any] | None = None,
    commutative: bool = True,
    native: bool = False,
    fields: tuple[str, ...] = (),
) -> Monoid:
    """Return a monoid that reads one column of numbers and is None if empty."""
    dtype = checked_dtype(dtype)
    return Monoid(
        identity=None,
        combine=partial(joined, combine),
        lift=lift,
        lower=lower,
        commutative=commutative,
        name=name,
        column=column,
        dtype=dtype,
        native=tuple((kind, name) for kind in NUMBERS) if native else (),
        parts=() if dtype == "object" else (Part(name, (Input(column, "number", dtype),), fields=fields),),
    )


# --- smallest and largest -------------------------------------------------------------------------


def _smaller(a: Any, b: Any) -> Any:
    return b if before(b, a) else a


def _larger(a: Any, b: Any) -> Any:
    return b if before(a, b) else a


def min(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Smallest value; None if empty."""
    return _of_number("min", _smaller, column, dtype, native=True)


def max(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Largest value; None if empty."""
    return _of_number("max", _larger, column, dtype, native=True)


def _as_ends(value: Any) -> tuple[Any, Any]:
    number = summand(value)
    return number, number


def _wider(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return _smaller(a[0], b[0]), _larger(a[1], b[1])


def _difference(state: tuple[Any, Any] | None) -> Any:
    return None if state is None else state[1] - state[0]


def range(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Largest value minus the smallest; None if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.range()).slide([1, 2, 3], [5, 2, 9], count=2).tolist()
    [0, 3, 7]
    """
    return _of_number("range", _wider, column, dtype, lift=_as_ends, lower=_difference)


# --- extremes with their counts -------------------------------------------------------------------


def _once(value: Any) -> tuple[Any, int]:
    return present(value), 1


def _larger_and_count(a: tuple[Any, int], b: tuple[Any, int]) -> tuple[Any, int]:
    if before(a[0], b[0]):
        return b
    return a if before(b[0], a[0]) else (a[0], a[1] + b[1])


def _smaller_and_count(a: tuple[Any, int], b: tuple[Any, int]) -> tuple[Any, int]:
    if before(b[0], a[0]):
        return b
    return a if before(a[0], b[0]) else (a[0], a[1] + b[1])


def maxcount(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Largest value and its number of occurrences, as `(max, count)`; None if empty."""
    return _of_number("maxcount", _larger_and_count, column, dtype, lift=_once, fields=("max", "count"))


def mincount(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Smallest value and its number of occurrences, as `(min, count)`; None if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.mincount()).slide([1, 2, 3], [4, 9, 4], size=9, at="end")
    (4, 2)
    """
    return _of_number("mincount", _smaller_and_count, column, dtype, lift=_once, fields=("min", "count"))


# --- the value at the smallest or largest ---------------------------------------------------------


def _by_and_value(value: Any) -> tuple[Any, Any]:
    return pair(value, "by, value")


def _smaller_by(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return b if before(b[0], a[0]) else a


def _larger_by(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return b if before(a[0], b[0]) else a


def _value_of(state: tuple[Any, Any] | None) -> Any:
    return None if state is None else state[1]


def _value_at(name: str, combine: Callable[[Any, Any], Any], by: str | None, value: str | None) -> Monoid:
    return Monoid(
        identity=None,
        combine=partial(joined, combine),
        lift=_by_and_value,
        lower=_value_of,
        commutative=False,  # the oldest of ties wins
        name=name,
        arguments=named(by=by, value=value),
        parts=(Part(name, (Input(by, "number"), Input(value, "number"))),),
    )


def argmin(by: str | None = None, value: str | None = None) -> Monoid:
    """The `value` of the row with the smallest `by`, the oldest of ties; None if empty.

    A value is a pair `(by, value)`.

    >>> from sash import Window, monoids
    >>> Window(monoids.argmin()).slide([1, 2, 3], [(9, "a"), (4, "b"), (4, "c")], size=9, at="end")
    'b'
    """
    return _value_at("argmin", _smaller_by, by, value)


def argmax(by: str | None = None, value: str | None = None) -> Monoid:
    """The `value` of the row with the largest `by`, the oldest of ties; None if empty.

    A value is a pair `(by, value)`.
    """
    return _value_at("argmax", _larger_by, by, value)


# --- oldest and newest ----------------------------------------------------------------------------


def _left(a: Any, _: Any) -> Any:
    return a


def _right(_: Any, b: Any) -> Any:
    return b


def first(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Value of the oldest time, the first to arrive if there are several; None if empty."""
    return _of_number("first", _left, column, dtype, commutative=False)


def last(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Value of the newest time, the last to arrive if there are several; None if empty."""
    return _of_number("last", _right, column, dtype, commutative=False)


def _outer(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return a[0], b[1]


def delta(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Last value minus the first; 0 for a single value, None if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.delta()).slide([1, 2, 3], [5, 2, 9], count=2).tolist()
    [0, -3, 7]
    """
    return _of_number("delta", _outer, column, dtype, lift=_as_ends, lower=_difference, commutative=False)


# --- the first k by time or by value --------------------------------------------------------------


def _alone(value: Any) -> tuple[Any, ...]:
    return (present(value),)


def _oldest(k: int, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return a if len(a) == k else (a + b)[:k]


def _newest(k: int, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return b if len(b) == k else (a + b)[-k:]


def _compared(a: Any, b: Any) -> int:
    return before(b, a) - before(a, b)


def _largest(k: int, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(a + b, key=cmp_to_key(_compared), reverse=True)[:k])


def _smallest(k: int, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(a + b, key=cmp_to_key(_compared))[:k])


def _at_most_k(name: str, combine: Callable[..., Any], k: int, column: str | None, *, commutative: bool) -> Monoid:
    k = checked_int("k", k, 1, _MOST)
    return Monoid(
        identity=(),
        combine=partial(combine, k),
        lift=_alone,
        lower=list,
        commutative=commutative,
        name=name,
        column=column,
        arguments=(("k", k),),
        parts=(Part(name, (Input(column, "number"),), (k,)),),
    )


def first_k(k: int, column: str | None = None) -> Monoid:
    """The k oldest values as a list, oldest first; [] if empty."""
    return _at_most_k("first_k", _oldest, k, column, commutative=False)


def last_k(k: int, column: str | None = None) -> Monoid:
    """The k newest values as a list, oldest first; [] if empty.

    >>> from sash import Window, monoids
    >>> w = Window(monoids.last_k(2))
    >>> w.insert_many([1, 3, 2], ["a", "c", "b"])
    >>> w.query()
    ['b', 'c']
    """
    return _at_most_k("last_k", _newest, k, column, commutative=False)


def top_k(k: int, column: str | None = None) -> Monoid:
    """The k largest values as a list, largest first; [] if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.top_k(2)).slide([1, 2, 3], [5, 2, 9], size=9, at="end")
    [9, 5]
    """
    return _at_most_k("top_k", _largest, k, column, commutative=True)


def bottom_k(k: int, column: str | None = None) -> Monoid:
    """The k smallest values as a list, smallest first; [] if empty."""
    return _at_most_k("bottom_k", _smallest, k, column, commutative=True)
