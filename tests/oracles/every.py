"""What KeyedWindows and rolling must answer with every=, recomputed from scratch at each step.

It shares no code with sash and never imports it. Nothing is kept but the accepted events: every answer looks at every
instant of the grid and folds the events inside its windows anew. Times are integers.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracles.keyed import Event, KeyedOracle, Row, Values, folded

Place = tuple[tuple[Any, ...], int]  # a key and a boundary


@dataclass(kw_only=True)
class EveryOracle(KeyedOracle):
    """A stream with results for the instants of a grid, b = offset modulo every, and the windows [b - size, b)."""

    every: int
    offset: int = 0
    resolution: int | None = None
    emit: str = "final"

    watermark: int | None = None
    given: set[Place] = field(default_factory=set)  # what "final" said
    said: dict[Place, Values | None] = field(default_factory=dict)  # what "update" said last, None for deleted

    # The grid.

    def pane_end(self, time: int) -> int:
        """The end of the pane that holds a time."""
        width = self.resolution or math.gcd(self.every, *self.windows.values())
        return time - (time - self.offset) % width + width

    def counted_at(self, time: int) -> int:
        """The time that an event counts as: its own, or its pane's start where a resolution was asked for."""
        return time if self.resolution is None else self.pane_end(time) - self.resolution

    def in_order(self, events: Iterable[Event]) -> list[Event]:
        return sorted(events, key=lambda e: (self.counted_at(e.time), e.arrival if self.id is None else e.id))

    def seen(self, boundary: int, size: int, events: Iterable[Event]) -> list[Event]:
        return [event for event in events if boundary - size <= self.counted_at(event.time) < boundary]

    # Answers.

    def values(self, boundary: int, mine: list[Event]) -> Values:
        """Every aggregate over every window that ends at the boundary, of one key's events in order."""
        return {
            f"{agg}_{window}": folded(aggregate, [event.row for event in self.seen(boundary, size, mine)])
            for window, size in self.windows.items()
            for agg, aggregate in self.aggs.items()
        }

    def answers(self) -> Iterator[tuple[Place, Values]]:
        """All there is to say, by key as first seen and then boundary, where the largest window is not empty."""
        largest = max(self.windows.values())
        for key in dict.fromkeys(event.key for event in self.accepted):
            mine = self.in_order(event for event in self.accepted if event.key == key)
            first, last = (self.counted_at(event.time) for event in (mine[0], mine[-1]))
            for boundary in range(first + 1, last + largest + 1):
                if (boundary - self.offset) % self.every == 0 and self.seen(boundary, largest, mine):
                    yield (key, boundary), self.values(boundary, mine)

    def recomputed(self) -> list[Row]:
        """Every row that the accepted events give in the end."""
        return [{**self._place(place), **values} for place, values in self.answers()]

    def rolled(self, rows: Iterable[Row]) -> list[Row]:
        """What `rolling` must give: nothing is late there, and rows without a time are left out."""
        kept = [row for row in rows if row[self.time] is not None]
        self.accepted = [Event(self.key(row), row[self.time], None, at, row) for at, row in enumerate(kept)]
        return self.recomputed()

    # A stream.

    def flush(self) -> list[Row]:
        return self._final_until(math.inf) if self.emit == "final" else self._updated(math.inf)

    def _is_late(self, time: int) -> bool:
        return bool(self.pane_end(time) <= self.horizon)

    def _raise_horizon(self, watermark: int | None) -> None:
        super()._raise_horizon(watermark)
        if watermark is not None:
            self.watermark = watermark if self.watermark is None else max(self.watermark, watermark)

    def _emitted(self, before: list[Event], fresh: list[Event], rows: Sequence[Row], late: list[Row]) -> list[Row]:
        flagged = [self._late(row) for row in late] if self.late == "emit" else []
        if self.emit == "final":
            return self._final_until(-math.inf if self.horizon is None else self.horizon) + flagged
        return self._updated(-math.inf if self.watermark is None else self.watermark) + flagged

    def _final_until(self, until: float) -> list[Row]:
        due = {place: values for place, values in self.answers() if place[1] <= until and place not in self.given}
        self.given |= due.keys()
        return [self._shown(place, values) for place, values in due.items()]

    def _updated(self, until: float) -> list[Row]:
        now = {place: values for place, values in self.answers() if place[1] <= until}
        gone = [place for place, values in self.said.items() if values is not None and place not in now]
        fresh = {place: values for place, values in now.items() if self.said.get(place) != values}
        self._count("deleted", len(gone))
        self._count("shown again", sum(place in self.said for place in fresh))
        self.said |= fresh | dict.fromkeys(gone)
        nulls = dict.fromkeys(self.columns())
        out = [{**self._shown(place, nulls), "deleted": True} for place in gone]
        return out + [{**self._shown(place, values), "deleted": False} for place, values in fresh.items()]

    def _retain(self) -> None:
        """Nothing is let go of: what a stream forgets must not change what it says."""

    # Rows.

    def _place(self, place: Place) -> Row:
        key, boundary = place
        start = boundary - next(iter(self.windows.values()))
        return {**dict(zip(self.keys, key, strict=True)), "window_start": start, "window_end": boundary}

    def _shown(self, place: Place, values: Values) -> Row:
        if self.late == "drop":
            return {**self._place(place), **values}
        nobody = dict.fromkeys([self.time, *([self.id] if self.id else [])])
        return {**self._place(place), **nobody, **values, "late": False}

    def _late(self, row: Row) -> Row:
        window = ["window_start", "window_end"]
        return {**self._named(row), **dict.fromkeys([*window, *self.columns()]), "late": True}
