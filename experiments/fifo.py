"""Throughput in order against the window's size: the paper's third figure, with the in-order rivals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale
from experiments.load import Rounds, small_of, timed
from experiments.series import ALL, SHOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "fifo"
CAPTION = (
    "Everything arrives in order. Two-stacks, DABA and Reactive are built for that and reject anything else; their "
    "samples cover whole turns of the window, so that each includes a flip of two-stacks."
)


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return n = 1, 2, 4 … for each monoid; all structures take turns at each n."""
    for monoid in SHOWN[NAME].monoids:
        for n in scale.powers(1, scale.n(monoid)):
            yield [scale.case(NAME, monoid, "", series, n, n, 0) for series in SHOWN[NAME].series]


def run(case: Case, turns: Iterable[int] = range(3)) -> Row:
    """Measure nanoseconds per round."""
    small = Rounds(case.series, case.monoid, *small_of(case))
    whole_turns = ALL[case.series].in_order
    return timed(case, turns, small, lambda: Rounds(case.series, case.monoid, case.n, case.d), whole_turns)


def draw(rows: Rows) -> Figure:
    """Draw one panel a monoid."""
    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print("rounds of evict, insert, query, in order", curves.machine(rows))
    figure, axes = style.sheet("In order: trees against structures that know nothing else", said, len(shown.monoids))
    for axis, monoid in zip(axes[0], shown.monoids, strict=True):
        axis.set_title(style.MONOID_TITLES[monoid])
        ylabel = "million rounds per second" if axis is axes[0][0] else ""
        curves.panel(axis, rows.where(monoid=monoid), shown.series, "window size n", ylabel)
    style.legend(figure, shown.series)
    return figure
