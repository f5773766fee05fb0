"""What a claim is, and the ways in which claims look at rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp, log, log2
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from experiments.case import Row, Rows

Measured = dict[str, Rows]
CHEAP = ("sum", "geomean")
EVERY = ("sum", "geomean", "bloom")


class Found(NamedTuple):
    """What was measured, and whether the claim holds; None where the rows cannot tell."""

    measured: str
    holds: bool | None


class TooFewError(Exception):
    """There are not enough points to tell."""


Check = Callable[[Measured], Found]


@dataclass(frozen=True)
class Claim:
    """One sentence that can be checked, and what counts as its being so."""

    figure: str
    sentence: str
    counts: str
    check: Check

    def found(self, measured: Measured) -> Found:
        """Look at the rows; a figure that was not measured tells nothing."""
        if not measured.get(self.figure):
            return Found("not measured", None)
        try:
            return self.check(measured)
        except TooFewError as error:
            return Found(str(error), None)


class Claims(list[Claim]):
    """Claims in the order in which they are written down."""

    def says(self, figure: str, sentence: str, counts: str) -> Callable[[Check], Check]:
        """Add the claim that the function below checks."""

        def add(check: Check) -> Check:
            self.append(Claim(figure, sentence, counts, check))
            return check

        return add


# --- ways to look at rows -------------------------------------------------------------------------

Curve = dict[int, float]


def first(rows: Rows, **wanted: Any) -> Row:
    """Give the first row with these values."""
    for row in rows.where(**wanted):
        return row
    raise TooFewError(f"no rows for {', '.join(map(str, wanted.values()))}")


def points_of(rows: Rows, **wanted: str) -> Curve:
    """Give the medians of one series by x, ascending."""
    curve = rows.curve(**wanted)
    if len(curve) < 2:
        raise TooFewError(f"no points for {', '.join(wanted.values())}")
    return curve


def least_of(rows: Rows, series: Iterable[str], **wanted: str) -> Curve:
    """Give the least nanoseconds of several series at each x."""
    curves = [points_of(rows, series=one, **wanted) for one in series]
    return {x: min(curve[x] for curve in curves) for x in curves[0]}


def geometric_mean(curve: Curve) -> float:
    """Give the geometric mean."""
    return exp(mean(map(log, curve.values())))


def before_end(rows: Rows, curve: Curve, monoid: str) -> Curve:
    """Leave out d = n, which is a case of its own."""
    n = first(rows, monoid=monoid)["n"]
    return {d: ns for d, ns in curve.items() if d < n}


def with_log(curve: Curve) -> float:
    """Give the correlation of the cost with log x, over x of 1 and more."""
    points = [(log2(x), ns) for x, ns in curve.items() if x]
    if len(points) < 4:
        raise TooFewError("too few points")
    return float(np.corrcoef(*zip(*points, strict=True))[0, 1])


def span(numbers: Iterable[float], digits: int = 2) -> str:
    """Say from where to where numbers go."""
    numbers = list(numbers)
    low, high = f"{min(numbers):.{digits}f}", f"{max(numbers):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def by_monoid(found: dict[str, Iterable[float]], digits: int = 2) -> str:
    """Say the span of each."""
    return "; ".join(f"{monoid} {span(numbers, digits)}" for monoid, numbers in found.items())


def all_of(found: dict[str, list[float]], test: Callable[[float], bool]) -> bool:
    """Tell whether all numbers pass."""
    return all(test(number) for numbers in found.values() for number in numbers)


def ns_at(rows: Rows, x: int, monoid: str, series: str) -> float:
    """Give the median at one x."""
    curve = points_of(rows, monoid=monoid, series=series)
    if x not in curve:
        raise TooFewError(f"x = {x} was not measured")
    return curve[x]


def growth(rows: Rows, monoid: str, series: str) -> float:
    """Give the slowest over the fastest of all sizes from 256 on."""
    large = [ns for n, ns in points_of(rows, monoid=monoid, series=series).items() if n >= 256]
    if len(large) < 2:
        raise TooFewError("needs two sizes of 256 and more")
    return max(large) / min(large)


def share_of(hits: Iterable[bool]) -> float:
    """Give the share of what is true."""
    return mean(map(float, hits))
