"""What `rolling(at=)` and `KeyedWindows.query` must answer, by a walk over all rows, from the documentation alone.

It shares no code with sash and never imports it. Times are exact numbers (ints, or Fractions for instants between two
ticks), keys are tuples, and a fold is a function of the rows inside, in order, and of both ends of the range.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Row = dict[str, Any]
Time = int | Fraction
Fold = Callable[[list[Row], Time, Time], Any]

SIDES = {"both": (True, True), "left": (True, False), "right": (False, True), "neither": (False, False)}


def between(rows: Iterable[Row], start: Time, stop: Time, closed: str) -> list[Row]:
    """The rows of a range, in order of time; those of one time stay in the order they have."""
    first, last = SIDES[closed]
    later = (row for row in rows if row["t"] > start or (first and row["t"] == start))
    inside = (row for row in later if row["t"] < stop or (last and row["t"] == stop))
    return sorted(inside, key=lambda row: row["t"])


def asked(
    groups: dict[tuple, list[Row]],
    questions: Sequence[tuple[tuple, Time | None]],
    windows: dict[str, Time],
    aggs: dict[str, Fold],
    closed: str = "right",
) -> list[Row]:
    """The answers of a point-in-time join, a dict of `<agg>_<window>` for each question, in their order.

    `groups` has the rows of each key in order of arrival; rows whose time is null count nowhere.
    """
    groups = {key: [row for row in rows if row["t"] is not None] for key, rows in groups.items()}
    found = []
    for key, time in questions:
        answer = dict.fromkeys(f"{agg}_{window}" for agg in aggs for window in windows)
        for window, size in windows.items() if time is not None else ():
            rows = between(groups.get(key, ()), time - size, time, closed)
            answer |= {f"{agg}_{window}": fold(rows, time - size, time) for agg, fold in aggs.items()}
        found.append(answer)
    return found


@dataclass(kw_only=True)
class Retained:
    """Which times a stream can still be asked about: those whose rows have not been dropped.

    Times are whole ticks, `tick` of which make up the smallest difference of two times. `largest` is the size of the
    largest window.
    """

    largest: int
    closed: str = "right"
    tick: int = 1
    every: int | None = None
    offset: int = 0
    first: int | None = None  # the oldest time whose rows are all there; None is since the beginning
    newest: int | None = None

    def expire(self, horizon: int | None) -> None:
        """After a push: a row stays as long as the window of an anchor that is not final can contain it."""
        if horizon is None:
            return
        if self.every is not None:  # the next boundary, and windows closed on the left
            boundary = (horizon - self.offset) // self.every * self.every + self.every + self.offset
            self.drop(boundary - self.largest)
        else:
            self.drop(horizon - self.largest + (0 if self.closed == "left" else self.tick))

    def drop(self, time: int) -> None:
        """Rows before a time are gone."""
        self.first = time if self.first is None else max(self.first, time)

    def holds(self, start: Time, closed: str) -> bool:
        """Whether every row of a range that begins there would still be held."""
        if self.first is None:
            return True
        oldest = math.ceil(Fraction(start) / self.tick) * self.tick  # the first tick that the range can have
        if not SIDES[closed][0] and oldest == start:
            oldest += self.tick
        return oldest >= self.first
