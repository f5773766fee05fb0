"""Claims, and the functions with which they evaluate rows."""

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
    """What was measured, and whether the claim holds; None if the rows cannot decide."""

    measured: str
    holds: bool | None


class TooFewError(Exception):
    """There are not enough points to decide."""


Check = Callable[[Measured], Found]


@dataclass(frozen=True)
class Claim:
    """One sentence that can be checked, and the criterion for it to hold."""

    figure: str
    sentence: str
    counts: str
    check: Check

    def found(self, measured: Measured) -> Found:
        """Check the rows; a figure that was not measured decides nothing."""
        if not measured.get(self.figure):
            return Found("not measured", None)
        try:
            return self.check(measured)
        except TooFewError as error:
            return Found(str(error), None)


class Claims(list[Claim]):
    """Claims in the order of their definition."""

    def says(self, figure: str, sentence: str, counts: str) -> Callable[[Check], Check]:
        """Add the claim that the function below checks."""

        def add(check: Check) -> Check:
            self.append(Claim(figure, sentence, counts, check))
            return check

        return add


# --- evaluating rows ------------------------------------------------------------------------------

Curve = dict[int, float]


def first(rows: Rows, **wanted: Any) -> Row:
    """Return the first row with these values."""
    for row in rows.where(**wanted):
        return row
    raise TooFewError(f"no rows for {', '.join(map(str, wanted.values()))}")


def points_of(rows: Rows, **wanted: str) -> Curve:
    """Return the medians of one series by x, ascending."""
    curve = rows.curve(**wanted)
    if len(curve) < 2:
        raise TooFewError(f"no points for {', '.join(wanted.values())}")
    return curve


def least_of(rows: Rows, series: Iterable[str], **wanted: str) -> Curve:
    """Return the least nanoseconds of several series at each x."""
    curves = [points_of(rows, series=one, **wanted) for one in series]
    return {x: min(curve[x] for curve in curves) for x in curves[0]}


def geometric_mean(curve: Curve) -> float:
    """Return the geometric mean."""
    return exp(mean(map(log, curve.values())))


def before_end(rows: Rows, curve: Curve, monoid: str) -> Curve:
    """Exclude d = n, which is a special case."""
    n = first(rows, monoid=monoid)["n"]
    return {d: ns for d, ns in curve.items() if d < n}


def with_log(curve: Curve) -> float:
    """Return the correlation of the cost with log x, over x of 1 and more."""
    points = [(log2(x), ns) for x, ns in curve.items() if x]
    if len(points) < 4:
        raise TooFewError("too few points")
    return float(np.corrcoef(*zip(*points, strict=True))[0, 1])


def span(numbers: Iterable[float], digits: int = 2) -> str:
    """Return the range of numbers as text."""
    numbers = list(numbers)
    low, high = f"{min(numbers):.{digits}f}", f"{max(numbers):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def by_monoid(found: dict[str, Iterable[float]], digits: int = 2) -> str:
    """Return the range of each as text."""
    return "; ".join(f"{monoid} {span(numbers, digits)}" for monoid, numbers in found.items())


def all_of(found: dict[str, list[float]], test: Callable[[float], bool]) -> bool:
    """Return whether all numbers pass."""
    return all(test(number) for numbers in found.values() for number in numbers)


def ns_at(rows: Rows, x: int, monoid: str, series: str) -> float:
    """Return the median at one x."""
    curve = points_of(rows, monoid=monoid, series=series)
    if x not in curve:
        raise TooFewError(f"x = {x} was not measured")
    return curve[x]


def growth(rows: Rows, monoid: str, series: str) -> float:
    """Return the ratio of the slowest to the fastest of all sizes from 256 on."""
    large = [ns for n, ns in points_of(rows, monoid=monoid, series=series).items() if n >= 256]
    if len(large) < 2:
        raise TooFewError("needs two sizes of 256 and more")
    return max(large) / min(large)


def share_of(hits: Iterable[bool]) -> float:
    """Return the share of true values."""
    return mean(map(float, hits))
