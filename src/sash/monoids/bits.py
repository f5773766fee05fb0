"""Bitwise and logical operators: bit_and, bit_or, bit_xor of ints; all and any of truth values."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from sash.monoid import Form, Input, Monoid, Part
from sash.monoids.arguments import integer, joined, truth


def _logical(
    name: str, operation: Callable[[Any, Any], Any], lift: Callable[[Any], Any], form: Form, column: str | None
) -> Monoid:
    return Monoid(
        identity=None,
        combine=partial(joined, operation),
        lift=lift,
        commutative=True,
        name=name,
        column=column,
        parts=(Part(name, (Input(column, form),)),),
    )


def bit_and(column: str | None = None) -> Monoid:
    """Bitwise AND of the ints; None if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.bit_and()).slide([1, 2], [0b110, 0b011], size=9, at="end")
    2
    """
    return _logical("bit_and", operator.and_, integer, "int", column)


def bit_or(column: str | None = None) -> Monoid:
    """Bitwise OR of the ints; None if empty."""
    return _logical("bit_or", operator.or_, integer, "int", column)


def bit_xor(column: str | None = None) -> Monoid:
    """Bitwise XOR of the ints; None if empty."""
    return _logical("bit_xor", operator.xor, integer, "int", column)


def all(column: str | None = None) -> Monoid:
    """Whether all values are true; None if empty, as in SQL.

    >>> from sash import Window, monoids
    >>> Window(monoids.all()).slide([1, 2, 3], [1, 1, 0], count=2).tolist()
    [True, True, False]
    """
    return _logical("all", operator.and_, truth, "truth", column)


def any(column: str | None = None) -> Monoid:
    """Whether any value is true; None if empty, as in SQL."""
    return _logical("any", operator.or_, truth, "truth", column)
