"""The number of combines per round, which depends only on the algorithms and not on the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale, row_of
from experiments.load import Rounds, follow, require_right, small_of
from experiments.series import ALL, SHOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "combines"
CAPTION = (
    "Combines of a whole round of evict, insert and query, counted, not timed. `fiba` folds whole leaves where that is "
    "cheap and uses narrower nodes where combining is expensive: both layouts are shown."
)
_ROUNDS = 4096


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return d = 0, 1, 2, 4 … n for the trees, and all structures in order."""
    n, shown = scale.size, SHOWN[NAME]
    yield [
        scale.case(NAME, "sum", "in order", s, 0, n, 0, rounds=n if ALL[s].in_order else _ROUNDS) for s in shown.series
    ]
    trees = [s for s in shown.series if not ALL[s].in_order]
    for d in (0, *scale.powers(1, n)):
        yield [scale.case(NAME, "sum", "by distance", s, d, n, d, rounds=_ROUNDS) for s in trees]


def run(case: Case, turns: Iterable[int] = ()) -> Row:
    """Count the combines per round, averaged over many."""
    follow(Rounds(case.series, case.monoid, *small_of(case)))
    load = Rounds(case.series, case.monoid, case.n, case.d)
    load.advance(case.rounds)  # repairs that filling left behind are not counted
    before = load.window.combines
    load.advance(case.rounds)
    require_right(case, load)
    return row_of(case, [(load.window.combines - before) / case.rounds], "combines", case.rounds)


def draw(rows: Rows) -> Figure:
    """Draw the trees against d, and all structures in order as bars."""
    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print("evict, insert, query", curves.sizes(rows), "counted: the same on every machine")
    figure, axes = style.sheet("Combines in a round", said, 2, gridspec_kw={"width_ratios": (1.5, 1)})
    left, right = axes[0]
    left.set_title("by distance")
    trees = rows.where(variant="by distance")
    for series in shown.series:
        if not ALL[series].in_order:
            points = trees.curve(series=series)
            left.plot([style.place(x) for x in points], list(points.values()), **style.LOOKS[series].line())
    style.power_axis(left, "out-of-order distance d", (row["x"] for row in trees))
    left.set_ylabel("combines in a round")
    left.set_ylim(bottom=0)
    right.set_title("in order")
    _bars(right, rows.where(variant="in order"), shown.series)
    style.legend(figure, shown.series)
    return figure


def _bars(axis: Axes, rows: Rows, series: Iterable[str]) -> None:
    series = list(series)
    counts = [rows.where(series=label)[0]["median"] for label in series]
    looks = [style.LOOKS[label] for label in series]
    for at, (count, look) in enumerate(zip(counts, looks, strict=True)):
        axis.barh(at, count, 0.7, facecolor="white" if look.hollow else look.color, edgecolor=look.color, linewidth=1.5)
        axis.text(count + max(counts) * 0.015, at, f"{count:.1f}", va="center", fontsize=11)
    axis.set_yticks(range(len(series)), [look.name for look in looks])
    axis.get_yticklabels()[0].set(color=style.RED, fontweight="bold")
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, max(counts) * 1.12)
    axis.set_xlabel("combines in a round")
