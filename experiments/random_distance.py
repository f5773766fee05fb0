"""Random distances instead of one fixed gap, which flatters the cache. The paper has no such figure.

A stream whose distances follow the same law throughout is constructed as follows: event k, at time k, arrives at
k + s(δ), where δ is the distance drawn for it. Its actual distance is the number of later events that arrive before it,
which is the integral of P(s(Δ) < u) over all u below s(δ). For this to equal δ, ds = dδ / G(δ), where G is the
distribution function:

    uniform below x      G = δ / x            s = x ln δ
    heavy-tailed         G = δ / (x + δ)      s = x ln δ + δ      half of all below x, a Pareto tail beyond
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.load import SEED
from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale
from experiments.load import Rounds, small_of, timed
from experiments.series import SHOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "random_distance"
CAPTION = (
    "Each insert falls at a random distance: uniform below x, or heavy-tailed with median x and a Pareto tail up to "
    "half the window. Fixed distances hit the same few nodes again and again; these do not."
)
_LEAD = 7  # how far ahead, in multiples of x, events may arrive: e^-7 of them arrive even earlier


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return x = 1, 4, 16 … up to a quarter of the window; all trees take turns."""
    shown = SHOWN[NAME]
    for monoid in shown.monoids:
        n = scale.n(monoid)
        rounds = int(scale.slice_ms * (2000 if monoid == "sum" else 250))
        for variant in shown.variants:
            for x in scale.powers(1, n // 4 if variant == "uniform" else n // 64)[:: 1 if scale.step > 1 else 2]:
                yield [scale.case(NAME, monoid, variant, s, x, n, x, rounds=rounds) for s in shown.series]


def arrivals(law: str, x: float, count: int, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the times that have arrived at the start, and those of the next `count` arrivals, in order of arrival.

    For a heavy tail, which is cut off at `reach`, both start at -reach, otherwise at 0; all earlier times have arrived.
    """
    rng = np.random.default_rng(SEED)
    late = reach if law == "heavy-tailed" else 0
    events = np.arange(-late, count + int(_LEAD * x) + 64)
    share = 1 - rng.random(len(events))
    if law == "uniform":
        shift = x * np.log(share)
    else:
        distance = np.minimum(x * share / np.maximum(1 - share, 1e-12), reach)
        shift = x * np.log(distance / x) + distance
    moment = events + shift
    before, after = moment < 0, moment >= 0
    order = np.argsort(moment[after], kind="stable")
    return events[before], events[after][order][:count]


class Scattered(Rounds):
    """Rounds whose inserts fall at random distances."""

    def __init__(self, series: str, monoid: str, n: int, law: str, x: int, rounds: int) -> None:
        """Fill the window with the events that have arrived at the start."""
        early, self.stream = arrivals(law, x, rounds, n // 2)
        settled = max(0, n - len(early))
        first = int(early[0]) if len(early) and early[0] < 0 else 0
        self._held = np.concatenate([np.arange(first - settled, first), early])[-n:]
        super().__init__(series, monoid, n, 0)
        self.next = 0

    def filled(self, settled: int) -> object:
        """Return the window at the start."""
        window = self.series.window(self.monoid)
        window.insert_many(self._held, self.values.at(self._held))
        window.query()
        return window

    def upcoming(self, rounds: int) -> np.ndarray:
        """Return the next arrivals."""
        return self.stream[self.next : self.next + rounds]

    def right(self) -> bool:
        """Compare with the newest n of all arrivals."""
        come = np.concatenate([self._held, self.stream[: self.next]])
        return self.values.agree_at(self.window.query(), np.partition(come, len(come) - self.n)[-self.n :])


def run(case: Case, turns: Iterable[int] = range(3)) -> Row:
    """Measure nanoseconds per round."""
    rounds = case.rounds * (case.repeats + 1) + 2 * case.x + 2**13
    n, x = small_of(case)
    small = Scattered(case.series, case.monoid, n, case.variant, max(1, x), 100)

    def make() -> Scattered:
        load = Scattered(case.series, case.monoid, case.n, case.variant, case.x, rounds)
        load.advance(2 * case.x)  # so that nodes are as full as such a stream leaves them
        return load

    return timed(case, turns, small, make)


def draw(rows: Rows) -> Figure:
    """Draw one panel per law and monoid."""
    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print("rounds of evict, insert, query", curves.sizes(rows), curves.machine(rows))
    figure, axes = style.sheet("Late by a random distance", said, 2, 2, height=9.6, legend=0.105, sharey="row")
    labels = {"uniform": "distance uniform below x", "heavy-tailed": "median distance x of a heavy tail"}
    for monoid, line in zip(shown.monoids, axes, strict=True):
        for variant, axis in zip(shown.variants, line, strict=True):
            axis.set_title(f"{monoid}, {variant}")
            ylabel = "million rounds per second" if axis is line[0] else ""
            mine = rows.where(monoid=monoid, variant=variant)
            curves.panel(axis, mine, shown.series, labels[variant], ylabel, held=rows.where(monoid=monoid))
    style.legend(figure, shown.series)
    return figure
