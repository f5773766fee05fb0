"""The histogram: counts of values between edges."""

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable
from functools import partial
from typing import Any

from sash.errors import ArgumentError, KindError, shown
from sash.monoid import Input, Monoid, Part
from sash.monoids.arguments import add_all, real


def _checked_edges(edges: Any) -> tuple[float, ...]:
    wanted = "edges must be at least two finite numbers in strictly increasing order"
    if isinstance(edges, (str, bytes, dict, set, frozenset)) or not isinstance(edges, Iterable):
        raise KindError(f"{wanted}, got {shown(edges)}.", argument="edges")
    items = list(edges)
    try:
        numbers = tuple(real(edge) for edge in items)
    except (ArgumentError, KindError):
        raise KindError(f"{wanted}, got {shown(items)}.", argument="edges") from None
    rising = all(low < high for low, high in itertools.pairwise(numbers))
    if len(numbers) < 2 or not rising or not all(map(math.isfinite, numbers)):
        raise ArgumentError(f"{wanted}, got {shown(items)}.", argument="edges")
    return numbers


def _counted(edges: tuple[float, ...], value: Any) -> tuple[int, ...]:
    number = real(value)
    bins = len(edges) - 1
    at = bins - 1 if number == edges[-1] else bisect_right(edges, number) - 1
    if number != number or not 0 <= at < bins:
        return (0,) * bins
    return (0,) * at + (1,) + (0,) * (bins - at - 1)


def histogram(edges: Iterable[float], column: str | None = None) -> Monoid:
    """Number of values in each bin between the edges, as a list; zeros if empty.

    Bins include their lower edge, and the last one also its upper edge, as in `numpy.histogram`. Values outside the
    edges and NaN are not counted.

    >>> from sash import Window, monoids
    >>> Window(monoids.histogram([0, 10, 20])).slide([1, 2, 3, 4], [0, 10, 20, 21], size=9, at="end")
    [1, 2]
    """
    bounds = _checked_edges(edges)
    return Monoid(
        identity=(0,) * (len(bounds) - 1),
        combine=add_all,
        lift=partial(_counted, bounds),
        lower=list,
        commutative=True,
        name="histogram",
        column=column,
        arguments=(("edges", bounds),),
        parts=(Part("histogram", (Input(column, "float"),), bounds),),
    )
