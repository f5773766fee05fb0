"""What windows of every kind must answer, recomputed from scratch from what the documentation says of them.

It shares no code with sash and never imports it. No event is ever let go of: what a stream forgets
must not change what it says.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from oracles.every import EveryOracle, Place
from oracles.keyed import Event, KeyedOracle, Row, Values, folded


@dataclass(frozen=True)
class Window:
    """A window: a span or a span ahead of so many ticks, the last so many rows, a period to date, or everything."""

    kind: str
    size: int = 0
    period: Callable[[int], Any] | None = None  # tells to which period a time belongs

    @property
    def counts(self) -> bool:
        return self.kind in ("rows", "unbounded")

    def inside(self, mine: list[Event], at: int, event: Event | None, closed: str, idle: int | None) -> list[Event]:
        """The events in the window of an anchor, which is an event or only a time; all events of a key, in order."""
        start, end = closed in ("left", "both"), closed in ("right", "both")
        if self.kind == "ahead":
            last = at + self.size
            return [e for e in mine if (at < e.time < last) or (e.time == at and closed != "neither")
                    or (e.time == last and closed == "both")]  # fmt: skip
        before = [e for e in mine if e.time < at or (end and e.time == at)]
        if self.kind == "span":
            return [e for e in before if e.time > at - self.size or (start and e.time == at - self.size)]
        if self.kind == "period":
            assert self.period is not None
            return [e for e in before if self.period(e.time) == self.period(at)]
        if self.kind == "rows" and event is not None and end:
            before = mine[: mine.index(event) + 1]
        run = since_the_last_gap(before, at, idle)
        return run[-self.size :] if self.kind == "rows" else run


def since_the_last_gap(events: list[Event], at: int, idle: int | None) -> list[Event]:
    """The last events without a gap of more than `idle` between them, or before a time."""
    run: list[Event] = []
    for event in reversed(events):
        if idle is not None and (run[-1].time if run else at) - event.time > idle:
            break
        run.append(event)
    return run[::-1]


@dataclass(kw_only=True)
class KindsOracle(KeyedOracle):
    """Results for events; `windows` holds a Window by the name it has in results."""

    idle: int | None = None
    min_rows: int | None = None

    def answer(self, anchor: Event, events: Iterable[Event]) -> Values:
        mine = self.in_order(event for event in events if event.key == anchor.key)
        return self.values_at(anchor.time, anchor if anchor in mine else None, mine)

    def values_at(self, at: int, event: Event | None, mine: list[Event]) -> Values:
        return values_of(self, at, event, mine, self.closed)

    def _retain(self) -> None:
        if self.horizon is not None:
            self.tombstones = {identity for identity in self.tombstones if identity[1] >= self.horizon}


def values_of(oracle: Any, at: int, event: Event | None, mine: list[Event], closed: str) -> Values:
    found: Values = {}
    for name, window in oracle.windows.items():
        rows = [e.row for e in window.inside(mine, at, event, closed, oracle.idle)]
        enough = len(rows) >= (oracle.min_rows or 0)
        for agg, aggregate in oracle.aggs.items():
            found[f"{agg}_{name}"] = folded(aggregate, rows) if enough else None
    return found


@dataclass(kw_only=True)
class EveryKindsOracle(EveryOracle):
    """Results for the boundaries of a grid."""

    idle: int | None = None
    min_rows: int | None = None
    starts: dict[str, Any] = field(default_factory=dict)

    def pane_end(self, time: int) -> int:
        width = math.gcd(self.every, *(window.size for window in self.windows.values() if window.kind == "span"))
        return time - (time - self.offset) % width + width

    def values(self, boundary: int, mine: list[Event]) -> Values:
        return values_of(self, boundary, None, mine, "left")

    def is_shown(self, boundary: int, mine: list[Event]) -> bool:
        timed = [window for window in self.windows.values() if not window.counts] or [Window("span", self.every)]
        return any(window.inside(mine, boundary, None, "left", None) for window in timed)

    def answers(self) -> Iterator[tuple[Place, Values]]:
        largest = max([self.every, *(window.size for window in self.windows.values() if window.kind == "span")])
        for key in dict.fromkeys(event.key for event in self.accepted):
            mine = self.in_order(event for event in self.accepted if event.key == key)
            for boundary in range(mine[0].time + 1, mine[-1].time + largest + 1):
                if (boundary - self.offset) % self.every == 0 and self.is_shown(boundary, mine):
                    yield (key, boundary), self.values(boundary, mine)

    def _place(self, place: Place) -> Row:
        key, boundary = place
        first = next(iter(self.windows.values()))
        start = boundary - first.size if first.kind == "span" else None
        return {**dict(zip(self.keys, key, strict=True)), "window_start": start, "window_end": boundary}
