"""Bytes per entry, filled in order and in random order. The paper does not show this."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.load import SEED
from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale, row_of
from experiments.load import WrongAnswerError, values_of
from experiments.series import ALL, MONOIDS, SHOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "memory"
CAPTION = (
    "Resident bytes per entry, including a time and a value of 8 bytes each. Entries arrive in batches of 256, as late "
    "events do. Two-stacks, DABA and Reactive store an aggregate for every entry, 2 KB for a Bloom filter; trees store "
    "one for every node."
)
_PAYLOAD = 16
_BATCH = 256


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return both orders for each structure that supports them."""
    for monoid, variant, series in SHOWN[NAME].expected():
        n = scale.n(monoid)
        yield [scale.case(NAME, monoid, variant, series, n, n, 0)]


def held_bytes() -> int:
    """Return the resident memory of this process, after returning freed memory to the system."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def run(case: Case, turns: Iterable[int] = ()) -> Row:
    """Fill a window and measure its memory."""
    values, monoid = values_of(case.monoid), MONOIDS[case.monoid]()
    ALL[case.series].window(monoid).insert_many(np.arange(10), values.at(np.arange(10)))
    times = np.arange(case.n)
    if case.variant == "random order":
        times = np.random.default_rng(SEED).permutation(times)
    batches = np.array_split(times, max(1, case.n // _BATCH))
    window = ALL[case.series].window(monoid)
    before = held_bytes()
    for batch in batches:
        window.insert_many(batch, values.at(batch))
    answer = window.query()
    taken = (held_bytes() - before) / case.n
    if not values.agree(answer, [(0, case.n)]):
        raise WrongAnswerError(f"{case.series}, {case.monoid}, {case.variant}: a wrong answer.")
    return row_of(case, [taken], "bytes", 1)


def draw(rows: Rows) -> Figure:
    """Draw a bar for each structure and order of arrival, one panel per monoid."""
    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print("resident memory", curves.sizes(rows), "16 bytes of an entry are its time and value")
    figure, axes = style.sheet("Bytes an entry takes", said, len(shown.monoids), height=6.6, legend=0.08)
    for axis, monoid in zip(axes[0], shown.monoids, strict=True):
        axis.set_title({"sum": "sum", "bloom": "bloom · bit sets of 2 KB"}[monoid])
        _bars(axis, rows.where(monoid=monoid), shown.series)
        axis.set_xlabel("bytes per entry")
        if monoid == "sum":
            axis.axvline(_PAYLOAD, color=style.INK, linewidth=1.4, linestyle=(0, (2, 2)), zorder=5)
            axis.text(_PAYLOAD + 1, -0.68, "time and value", va="center", fontsize=10.5)
    _legend(figure)
    return figure


def _bars(axis: Axes, rows: Rows, series: Iterable[str]) -> None:
    series = list(series)
    widest = max(row["median"] for row in rows)
    for at, label in enumerate(series):
        for row in rows.where(series=label):
            random = row["variant"] == "random order"
            alone = ALL[label].in_order
            y = at + (0 if alone else 0.2 if random else -0.2)
            axis.barh(y, row["median"], 0.36, **_bar(label, random))
            shown = f"{row['median']:,.0f}" if row["median"] >= 100 else f"{row['median']:.1f}"
            axis.text(row["median"] + widest * 0.012, y, shown, va="center", fontsize=10.5)
    axis.set_yticks(range(len(series)), [style.LOOKS[label].name for label in series])
    axis.get_yticklabels()[0].set(color=style.RED, fontweight="bold")
    axis.set_ylim(len(series) - 0.4, -0.95)
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, widest * 1.13)


def _bar(label: str, random: bool) -> dict[str, Any]:
    color = style.LOOKS[label].color
    return {
        "facecolor": "white" if random else color,
        "edgecolor": color,
        "hatch": "////" if random else "",
        "linewidth": 1.2,
    }


def _legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=style.INK, edgecolor=style.INK, label="filled in order"),
        Patch(facecolor="white", edgecolor=style.INK, hatch="////", label="filled in random order"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=2, bbox_to_anchor=(0.5, 0.005), columnspacing=3)
