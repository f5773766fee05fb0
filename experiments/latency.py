"""The latency of single rounds, not only their average: the paper's second figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale, row_of
from experiments.load import Rounds, follow, require_right, small_of
from experiments.series import SHOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "latency"
CAPTION = (
    "Every round is timed. Its time is the shortest of several identical runs, which shows the structure and not the "
    "machine's interruptions; every number includes one reading of the clock, about 25 ns. The width of a shape is the "
    "logarithm of how many rounds took that long."
)
_SETTLE = 1000
_BINS_A_DECADE = 24


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return d = 0 and d = n / 4 for each monoid; all trees take turns."""
    shown = SHOWN[NAME]
    options = {"rounds": scale.latency_rounds, "repeats": scale.latency_runs}
    for monoid in shown.monoids:
        n = scale.n(monoid)
        for variant, d in zip(shown.variants, (0, n // 4), strict=True):
            yield [scale.case(NAME, monoid, variant, s, d, n, d, **options) for s in shown.series]


def run(case: Case, turns: Iterable[int] = range(3)) -> Row:
    """Measure each round in several identical runs from the same state."""
    follow(Rounds(case.series, case.monoid, *small_of(case)))
    load = Rounds(case.series, case.monoid, case.n, case.d)
    load.advance(_SETTLE)
    require_right(case, load)
    runs = np.array([_each(case, load) for _ in turns])
    shortest = runs.min(axis=0)
    p50, p999 = np.percentile(shortest, [50, 99.9])
    times, counts = np.unique(shortest, return_counts=True)
    more = {"p50": float(p50), "p999": float(p999), "least": float(times[0]), "most": float(times[-1])}
    shown = " ".join(f"{ns}:{count}" for ns, count in zip(times.tolist(), counts.tolist(), strict=True))
    return row_of(case, np.median(runs, axis=1).tolist(), "ns", case.rounds, **more, counts=shown)


def _each(case: Case, load: Rounds) -> np.ndarray:
    """Return the nanoseconds of every round of one run, and restore the load."""
    start, filled = load.next, load.window
    load.window = filled.copy()
    times = load.upcoming(case.rounds)
    rounds_ns, queries_ns = np.zeros((2, case.rounds), np.int64)
    load.window._time_rounds(times, load.values.at(times), case.n, rounds_ns, queries_ns)
    load.next += case.rounds
    require_right(case, load)
    load.next, load.window = start, filled
    return rounds_ns


def distribution(row: Row) -> tuple[np.ndarray, np.ndarray]:
    """Return the nanoseconds that occurred, ascending, and how many rounds took that long."""
    pairs = [pair.split(":") for pair in row["counts"].split()]
    return np.array([float(ns) for ns, _ in pairs]), np.array([int(count) for _, count in pairs])


def draw(rows: Rows) -> Figure:
    """Draw one row of panels a distance, one column a monoid."""
    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print(
        f"{rows[0]['rounds']:,} rounds of evict, insert, query", curves.sizes(rows), curves.machine(rows)
    )
    size = {"height": 9.2, "legend": 0.045, "sharey": "col"}
    figure, axes = style.sheet("How long one round takes", said, len(shown.monoids), len(shown.variants), **size)
    for variant, line in zip(shown.variants, axes, strict=True):
        for monoid, axis in zip(shown.monoids, line, strict=True):
            mine = rows.where(monoid=monoid, variant=variant)
            _panel(axis, mine, shown.series)
            d = mine[0]["d"]
            axis.set_title(f"{monoid}, d = {style.human(d)}")
        line[0].set_ylabel("nanoseconds per round")
    _legend(figure)
    return figure


def _panel(axis: Axes, rows: Rows, series: Iterable[str]) -> None:
    labels = list(series)
    for at, label in enumerate(labels):
        _violin(axis, at, rows.where(series=label)[0], style.LOOKS[label])
    axis.set_xticks(range(len(labels)), [label.replace(" µ=", "\nµ=") for label in labels])
    axis.tick_params(axis="x", length=0, labelsize=10.5)
    axis.get_xticklabels()[0].set(color=style.RED, fontweight="bold")
    axis.grid(axis="x", visible=False)
    axis.set_xlim(-0.6, len(labels) - 0.4)
    style.log_axis(axis)


def _violin(axis: Axes, at: int, row: Row, look: style.Look) -> None:
    times, counts = distribution(row)
    edges = np.arange(np.log10(times[0]) - 0.1, np.log10(times[-1]) + 0.15, 1 / _BINS_A_DECADE)
    found, _ = np.histogram(np.log10(times), edges, weights=counts)
    width = np.convolve(np.log1p(found), [0.25, 0.5, 0.25], "same")
    width *= 0.42 / width.max()
    middle = 10 ** ((edges[1:] + edges[:-1]) / 2)
    axis.fill_betweenx(middle, at - width, at + width, color=look.color, alpha=0.35, linewidth=0, zorder=2)
    axis.vlines(at, row["least"], row["most"], color=look.color, linewidth=1.2, zorder=3)
    for end in (row["least"], row["most"]):
        axis.hlines(end, at - 0.1, at + 0.1, color=look.color, linewidth=1.2, zorder=3)
    axis.hlines(row["p50"], at - 0.42, at + 0.42, color=look.color, linewidth=4, zorder=5)
    axis.hlines(row["p999"], at - 0.3, at + 0.3, color=style.BLACK, linewidth=2.4, zorder=5)


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    def line(**look: Any) -> Line2D:
        return Line2D([], [], **look)

    handles = [
        line(color=style.LOOKS["paper µ=4"].color, linewidth=4, label="median"),
        line(color=style.BLACK, linewidth=2.4, label="99.9th percentile"),
        line(color=style.LOOKS["paper µ=4"].color, linewidth=1.2, label="least to most"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=3, bbox_to_anchor=(0.5, 0.002), columnspacing=3)
