"""Entries inserted and evicted m at a time: what a batch saves. The paper has no such figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale
from experiments.load import Batches, small_of, timed
from experiments.series import SHOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "bulk"
CAPTION = (
    "Evict the m oldest, insert m in time order at distance d, query once. `fiba` inserts such a run as a whole; the "
    "other trees insert its entries one by one."
)
_SHARES = {"in order": 0, "near": 2**12, "far": 4}  # d is the window's size divided by this


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return m = 1, 4, 16 … at three distances; the trees take turns."""
    shown, n = SHOWN[NAME], scale.size
    for variant in shown.variants:
        d = n // _SHARES[variant] if _SHARES[variant] else 0
        for m in scale.powers(1, n // 4)[:: 1 if scale.step > 1 else 2]:
            yield [scale.case(NAME, "sum", variant, series, m, n, d) for series in shown.series]


def run(case: Case, turns: Iterable[int] = range(3)) -> Row:
    """Measure nanoseconds per entry."""
    small = Batches(case.series, case.monoid, *small_of(case), min(case.x, 7))
    return timed(case, turns, small, lambda: Batches(case.series, case.monoid, case.n, case.d, case.x))


def draw(rows: Rows) -> Figure:
    """Draw one panel per distance."""
    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print("evict m, insert m, query once", "sum", curves.sizes(rows), curves.machine(rows))
    figure, axes = style.sheet("Many at once", said, len(shown.variants), legend=0.09, sharey=True)
    for axis, variant in zip(axes[0], shown.variants, strict=True):
        mine = rows.where(variant=variant)
        d = mine[0]["d"]
        axis.set_title(f"d = {style.human(d)}" if d else "in order, d = 0")
        ylabel = "million entries per second" if axis is axes[0][0] else ""
        curves.panel(axis, mine, shown.series, "entries in a batch, m", ylabel, held=rows)
    style.legend(figure, shown.series)
    return figure
