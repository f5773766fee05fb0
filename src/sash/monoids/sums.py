"""Sums and aggregates built from sums: sum, count, count_if, mean, product, weighted_mean."""

import math
import operator
from typing import Any

from sash.errors import ArgumentError, shown
from sash.monoid import Input, Monoid, Part
from sash.monoids.arguments import add_all, checked_dtype, named, real, real_pair, summand, truth

_SCALE = 1074  # every finite float is an integer multiple of 2**-1074


def sum(column: str | None = None, *, dtype: Any = None, exact: bool = False) -> Monoid:
    """Sum of the values; 0 if empty.

    Integer sums are exact: partial sums are 128 bits wide, and only a result outside int64 raises. Float sums round,
    in an order that depends on the shape of the tree; with `exact=True` the result is the float nearest to the true
    sum, in any order.

    >>> from sash import Window, monoids
    >>> Window(monoids.sum(exact=True)).slide([1, 2, 3], [1e100, 1.0, -1e100], size=9, at="end")
    1.0
    """
    if exact:
        return _exact_sum(column, dtype)
    dtype = checked_dtype(dtype)
    return Monoid(
        identity=0,
        combine=operator.add,
        lift=summand,
        commutative=True,
        exact=dtype == "int64",
        name="sum",
        column=column,
        dtype=dtype,
        native=(("int64", "sum_int64"), ("float64", "sum_float64")),
        parts=_part("sum", column, dtype),
    )


def _part(op: str, column: str | None, dtype: str | None) -> tuple[Part, ...]:
    return () if dtype == "object" else (Part(op, (Input(column, "number", dtype),)),)


# --- the exact sum of floats: an integer multiple of 2**-1074, and the sum of inf and NaN ----------


def _exact_sum(column: str | None, dtype: Any) -> Monoid:
    if checked_dtype(dtype) not in (None, "float64"):
        raise ArgumentError(f'dtype must be "float64" or None if exact=True, got {shown(dtype)}.', argument="dtype")
    return Monoid(
        identity=(0, 0.0),
        combine=add_all,
        lift=_as_whole,
        lower=_nearest,
        commutative=True,
        name="sum",
        column=column,
        dtype=checked_dtype(dtype),
        arguments=(("exact", True),),
        parts=(Part("sum_exact", (Input(column, "float", checked_dtype(dtype)),)),),
    )


def _as_whole(value: Any) -> tuple[int, float]:
    number = real(value)
    if not math.isfinite(number):
        return 0, number
    numerator, denominator = number.as_integer_ratio()
    return numerator << (_SCALE + 1 - denominator.bit_length()), 0.0


def _nearest(state: tuple[int, float]) -> float:
    total, beyond = state
    if beyond != 0.0:
        return beyond
    try:
        return total / (1 << _SCALE)  # Python divides ints to the nearest float
    except OverflowError:
        return math.inf if total > 0 else -math.inf


# --- counts ---------------------------------------------------------------------------------------


def _one(_: Any) -> int:
    return 1


def count(column: str | None = None) -> Monoid:
    """Number of values of any type; 0 if empty.

    In a struct: the number of non-null values of `column`, or without a column the number of rows.
    """
    return Monoid(
        identity=0,
        combine=operator.add,
        lift=_one,
        commutative=True,
        name="count",
        column=column,
        native=(("any", "count"),),
        parts=(Part("count", () if column is None else (Input(column, "any"),)),),
    )


def _one_if(value: Any) -> int:
    return int(truth(value))


def count_if(column: str | None = None) -> Monoid:
    """Number of values that are true; 0 if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.count_if()).slide([1, 2, 3], [True, 0, 7], size=9, at="end")
    2
    """
    return Monoid(
        identity=0,
        combine=operator.add,
        lift=_one_if,
        commutative=True,
        name="count_if",
        column=column,
        parts=(Part("count_if", (Input(column, "truth"),)),),
    )


# --- means and products ---------------------------------------------------------------------------


def _counted(value: Any) -> tuple[Any, int]:
    return summand(value), 1


def _ratio(state: tuple[Any, Any]) -> Any:
    total, weight = state
    return total / weight if weight else None


def mean(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Arithmetic mean of the values; None if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.mean()).slide([1, 2, 3], [1, 2, 6], count=2).tolist()
    [1.0, 1.5, 4.0]
    """
    dtype = checked_dtype(dtype)
    return Monoid(
        identity=(0, 0),
        combine=add_all,
        lift=_counted,
        lower=_ratio,
        commutative=True,
        exact=False,
        name="mean",
        column=column,
        dtype=dtype,
        parts=_part("mean", column, dtype),
    )


def product(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Product of the values as a float; 1.0 if empty.

    With `dtype=object` it multiplies Python numbers, including big ints; 1 if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.product(dtype=object)).slide([1, 2, 3], [2, 3, 7], size=9, at="end")
    42
    """
    dtype = checked_dtype(dtype)
    if dtype == "int64":
        raise ArgumentError(
            f'dtype must be "float64", "object" or None for a product, got {shown(dtype)}.', argument="dtype"
        )
    return Monoid(
        identity=1 if dtype == "object" else 1.0,
        combine=operator.mul,
        lift=summand if dtype == "object" else real,
        commutative=True,
        exact=False,
        name="product",
        column=column,
        dtype=dtype,
        parts=() if dtype == "object" else (Part("product", (Input(column, "float", dtype),)),),
    )


def _weighted(value: Any) -> tuple[float, float]:
    number, weight = real_pair("value, weight", value)
    return number * weight, weight


def weighted_mean(value: str | None = None, weight: str | None = None) -> Monoid:
    """Weighted mean of pairs `(value, weight)`; None if the weights sum to 0 or there are none.

    For prices weighted by volumes this is the VWAP.

    >>> from sash import Window, monoids
    >>> Window(monoids.weighted_mean()).slide([1, 2], [(10.0, 3), (20.0, 1)], size=9, at="end")
    12.5
    """
    return Monoid(
        identity=(0.0, 0.0),
        combine=add_all,
        lift=_weighted,
        lower=_ratio,
        commutative=True,
        exact=False,
        name="weighted_mean",
        arguments=named(value=value, weight=weight),
        parts=(Part("weighted_mean", (Input(value, "float"), Input(weight, "float"))),),
    )
