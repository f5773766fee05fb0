"""The histogram: how many values fall between given edges."""

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
    wanted = "give at least two finite numbers, each larger than the one before"
    if isinstance(edges, (str, bytes, dict, set, frozenset)) or not isinstance(edges, Iterable):
        raise KindError(f"edges: {shown(edges)} is no list of numbers; {wanted}.")
    given = list(edges)
    try:
        known = tuple(real(edge) for edge in given)
    except (ArgumentError, KindError):
        raise KindError(f"edges: {shown(given)} holds what is no number; {wanted}.") from None
    rising = all(low < high for low, high in itertools.pairwise(known))
    if len(known) < 2 or not rising or not all(map(math.isfinite, known)):
        raise ArgumentError(f"edges: {shown(given)} bounds no bins; {wanted}.")
    return known


def _counted(edges: tuple[float, ...], value: Any) -> tuple[int, ...]:
    number = real(value)
    bins = len(edges) - 1
    at = bins - 1 if number == edges[-1] else bisect_right(edges, number) - 1
    if number != number or not 0 <= at < bins:
        return (0,) * bins
    return (0,) * at + (1,) + (0,) * (bins - at - 1)


def histogram(edges: Iterable[float], column: str | None = None) -> Monoid:
    """How many values lie in each bin between the edges, as a list; of none: zeros.

    Bins hold their lower edge, and the last one its upper edge too, as in `numpy.histogram`; what lies outside, and
    NaN, is not counted.

    >>> from sash import Window, monoids
    >>> Window(monoids.histogram([0, 10, 20])).slide([1, 2, 3, 4], [0, 10, 20, 21], size=9, at="end")
    [1, 2]
    """
    known = _checked_edges(edges)
    return Monoid(
        identity=(0,) * (len(known) - 1),
        combine=add_all,
        lift=partial(_counted, known),
        lower=list,
        commutative=True,
        name="histogram",
        column=column,
        arguments=(("edges", known),),
        parts=(Part("histogram", (Input(column, "float"),), known),),
    )
