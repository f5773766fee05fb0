"""Two windows over one stream, in two trees or in one: the paper's fourth figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale
from experiments.load import Shared, timed
from experiments.memory import held_bytes
from experiments.series import SHOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "sharing"
CAPTION = (
    "A big window of n and a small one beside it: a tree each (twin, dashed), or one tree and a range query (range, "
    "solid). The out-of-order distance is half the small window."
)
_DASH = (0, (3, 1.8))


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return small windows of 1, 2, 4 … n for each monoid; both ways take turns."""
    shown = SHOWN[NAME]
    for monoid in shown.monoids:
        n = scale.n(monoid)
        for small in scale.powers(1, n):
            yield [
                scale.case(NAME, monoid, variant, series, small, n, small // 2)
                for series in shown.series
                for variant in shown.variants
            ]


def run(case: Case, turns: Iterable[int] = range(3)) -> Row:
    """Measure nanoseconds per round of both windows, and their bytes per entry of the big one."""
    taken = []

    def make() -> Shared:
        before = held_bytes()
        load = Shared(case.series, case.monoid, case.n, case.x, case.variant)
        taken.append((held_bytes() - before) / case.n)
        return load

    n = min(case.n, 40)
    small = Shared(case.series, case.monoid, n, n if case.x == case.n else min(case.x, n // 2), case.variant)
    return timed(case, turns, small, make) | {"bytes": round(taken[0], 2)}


def draw(rows: Rows) -> Figure:
    """Draw one panel per monoid, with both ways of a tree in one color."""
    from matplotlib.lines import Line2D

    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print(
        "rounds on two windows, the big one of " + curves.sizes(rows), "d = half the small window", curves.machine(rows)
    )
    figure, axes = style.sheet("Two windows over one stream: one tree or two", said, len(shown.monoids))
    for axis, monoid in zip(axes[0], shown.monoids, strict=True):
        axis.set_title(style.MONOID_TITLES[monoid])
        mine = rows.where(monoid=monoid)
        for series in shown.series:
            curves.curve(axis, mine.where(variant="range"), series, linestyle="-")
            curves.curve(axis, mine.where(variant="twin"), series, linestyle=_DASH, markerfacecolor="white")
        style.power_axis(axis, "size of the small window", (row["x"] for row in mine))
        curves.fit(axis, mine)
        style.log_axis(axis, "million rounds per second" if axis is axes[0][0] else "")
        curves.name_fiba(axis, mine)
    ways = [
        Line2D([], [], color=style.INK, linewidth=2, label="range: one tree"),
        Line2D([], [], color=style.INK, linewidth=2, linestyle=_DASH, label="twin: two trees"),
    ]
    style.legend(figure, shown.series, ways, linestyle="-")
    return figure
