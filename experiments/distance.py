"""Throughput against the out-of-order distance d: the paper's first figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale
from experiments.load import Rounds, small_of, timed
from experiments.series import SHOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "distance"
CAPTION = "Each insert falls exactly d entries from the newest; a round is evict oldest, insert, query."


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return d = 0, 1, 2, 4 … n for each monoid; all trees take turns at each d."""
    for monoid in SHOWN[NAME].monoids:
        n = scale.n(monoid)
        for d in (0, *scale.powers(1, n)):
            yield [scale.case(NAME, monoid, "", series, d, n, d) for series in SHOWN[NAME].series]


def run(case: Case, turns: Iterable[int] = range(3)) -> Row:
    """Measure nanoseconds per round."""
    small = Rounds(case.series, case.monoid, *small_of(case))
    return timed(case, turns, small, lambda: Rounds(case.series, case.monoid, case.n, case.d))


def draw(rows: Rows) -> Figure:
    """Draw one panel per monoid."""
    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print("rounds of evict, insert, query", curves.sizes(rows), curves.machine(rows))
    figure, axes = style.sheet("What lateness costs", said, len(shown.monoids))
    for axis, monoid in zip(axes[0], shown.monoids, strict=True):
        axis.set_title(style.MONOID_TITLES[monoid])
        ylabel = "million rounds per second" if axis is axes[0][0] else ""
        curves.panel(axis, rows.where(monoid=monoid), shown.series, "out-of-order distance d", ylabel)
    style.legend(figure, shown.series)
    return figure
