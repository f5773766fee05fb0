"""What KeyedWindows and rolling must answer, recomputed from scratch: lists, dicts and one fold per aggregate.

It shares no code with sash and never imports it. Every answer folds the values of the events inside its window, in time
order; events at one time stand in the order of their ids where they have ids, else in the order of arrival.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Values = dict[str, Any]
Aggregate = tuple[str, ...]  # the fold's name, then the columns it reads

# --- folds, one per aggregate ---------------------------------------------------------------------


def _affine(pairs: list[tuple[float, float]]) -> tuple[float, float] | None:
    if not pairs:
        return None
    slope, offset = 1.0, 0.0
    for a, b in pairs:
        slope, offset = a * slope, a * offset + b
    return slope, offset


def _std(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    middle = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def _extreme(values: list[Any], larger: Callable[[Any, Any], bool]) -> Any:
    best = None
    for value in values:
        if best is None or larger(value, best):
            best = value
    return best


FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda values: sum(values) if values else None,
    "max": lambda values: _extreme(values, lambda a, b: a > b),
    "min": lambda values: _extreme(values, lambda a, b: a < b),
    "mean": lambda values: sum(values) / len(values) if values else None,
    "std": _std,
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "text": lambda values: "".join(values) if values else None,
    "letters": lambda values: "".join(chr(ord("m") + value) for value in values) if values else None,
    "affine": _affine,
}


def folded(aggregate: Aggregate, rows: Iterable[Row]) -> Any:
    """One aggregate of rows in their order; a row with a null in a column it reads is passed over."""
    name, *columns = aggregate
    if not columns:
        return FOLDS[name](list(rows))
    read = [tuple(row[column] for column in columns) for row in rows]
    kept = [values for values in read if None not in values]
    return FOLDS[name]([values[0] for values in kept] if len(columns) == 1 else kept)


def inside(time: Any, anchor: Any, size: Any, closed: str) -> bool:
    """Tell whether an event at `time` lies in the anchor's window."""
    if closed == "left":
        return bool(anchor - size <= time < anchor)
    return bool(anchor - size < time <= anchor)


# --- events ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class Event:
    """An accepted row."""

    key: tuple[Any, ...]
    time: Any
    id: Any
    arrival: int
    row: Row


@dataclass(kw_only=True)
class Question:
    """What is asked of the events: keys, time, window sizes by the name they have in results, and aggregates."""

    keys: Sequence[str]
    time: str
    windows: dict[str, Any]
    aggs: dict[str, Aggregate]
    closed: str = "right"
    id: str | None = None

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.keys)

    def columns(self) -> list[str]:
        return [f"{agg}_{window}" for window in self.windows for agg in self.aggs]

    def aggregated(self, row: Row) -> tuple[Any, ...]:
        names = sorted({column for _, *columns in self.aggs.values() for column in columns})
        return tuple(row[name] for name in names)

    def in_order(self, events: Iterable[Event]) -> list[Event]:
        if self.id is None:
            return sorted(events, key=lambda event: (event.time, event.arrival))
        return sorted(events, key=lambda event: (event.time, event.id))

    def answer(self, anchor: Event, events: Iterable[Event]) -> Values:
        """Every aggregate over every window that ends at the anchor."""
        mine = self.in_order(event for event in events if event.key == anchor.key)
        found = {}
        for window, size in self.windows.items():
            rows = [event.row for event in mine if inside(event.time, anchor.time, size, self.closed)]
            for agg, aggregate in self.aggs.items():
                found[f"{agg}_{window}"] = folded(aggregate, rows)
        return found

    def rolled(self, rows: Iterable[Row]) -> list[Row]:
        """What `rolling` must give: each row with its answers, in the order of the input."""
        events = [Event(self.key(row), row[self.time], None, i, row) for i, row in enumerate(rows)]
        plain = Question(
            keys=self.keys, time=self.time, windows=self.windows, aggs=self.aggs, closed=self.closed, id=None
        )
        return [{**event.row, **plain.answer(event, events)} for event in events]


# --- a stream -------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class KeyedOracle(Question):
    """A stream of batches with lateness, retractions, retention and one of three ways to emit."""

    emit: str = "arrival"
    lateness: Any = 0
    late: str = "drop"
    retract: str | None = None
    carry: Sequence[str] = ()

    horizon: Any = None
    newest: Any = None
    events: list[Event] = field(default_factory=list)  # held, as retention has it
    accepted: list[Event] = field(default_factory=list)  # since the beginning, less what was retracted
    pending: list[Event] = field(default_factory=list)  # not final yet
    tombstones: set[Any] = field(default_factory=set)
    shown: dict[Event, Values] = field(default_factory=dict)  # what "update" said last
    metrics: dict[str, int] = field(default_factory=dict)
    arrivals: int = 0

    def push(self, rows: Sequence[Row], watermark: Any = None) -> list[Row]:
        """Take a batch, and give the rows that must come out."""
        self._raise_horizon(self.newest if watermark is None else watermark)
        before = list(self.events)
        fresh, late = [], []
        for row in rows if self.id is not None else sorted(rows, key=self._is_delete):
            self._count("rows_in")
            if row[self.time] is None:
                self._count("bad_times")
            elif self.id is not None and row[self.id] is None:
                self._count("bad_ids")
            elif self.horizon is not None and self._is_late(row[self.time]):
                self._count("late")
                late.append(row)
            else:
                event = self._take(row)
                fresh += [event] if event else []
                self.newest = row[self.time] if self.newest is None else max(self.newest, row[self.time])
        out = self._emitted(before, [event for event in fresh if event in self.events], rows, late)
        self._retain()
        return out

    def flush(self) -> list[Row]:
        """The end of the stream: all that is pending becomes final."""
        return self._finals(lambda event: True) if self.emit == "final" else []

    def recomputed(self) -> list[Row]:
        """Every event that was accepted and not retracted, in order, with its answers over all of them."""
        return [
            {**event.row, **self.answer(event, self.accepted)}
            for event in sorted(self.in_order(self.accepted), key=lambda event: event.time)
        ]

    # What a row does.

    def _is_late(self, time: Any) -> bool:
        return bool(time < self.horizon)

    def _is_delete(self, row: Row) -> bool:
        return self.retract is not None and bool(row[self.retract])

    def _take(self, row: Row) -> Event | None:
        if self._is_delete(row):
            self._delete(row)
            return None
        key, time = self.key(row), row[self.time]
        identity = None if self.id is None else row[self.id]
        if self.id is not None:
            if (key, time, identity) in self.tombstones:
                self._count("stillborn")
                return None
            if any((event.key, event.time, event.id) == (key, time, identity) for event in self.events):
                self._count("repeated")
                return None
        event = Event(key, time, identity, self.arrivals, row)
        self.arrivals += 1
        for held in (self.events, self.accepted, self.pending):
            held.append(event)
        return event

    def _delete(self, row: Row) -> None:
        key, time = self.key(row), row[self.time]
        alike = [event for event in self.events if (event.key, event.time) == (key, time)]
        if self.id is not None:
            self.tombstones.add((key, time, row[self.id]))
            alike = [event for event in alike if event.id == row[self.id]]
        else:
            alike = [event for event in alike if self.aggregated(event.row) == self.aggregated(row)]
        if not alike:
            self._count("unmatched")
            return
        for held in (self.events, self.accepted, self.pending):
            if alike[0] in held:
                held.remove(alike[0])

    # What comes out.

    def _emitted(self, before: list[Event], fresh: list[Event], rows: Sequence[Row], late: list[Row]) -> list[Row]:
        flagged = [self._late(row) for row in late] if self.late == "emit" else []
        if self.emit == "final":
            return self._finals(lambda event: self.horizon is not None and event.time < self.horizon) + flagged
        if self.emit == "update":
            return self._updates(before) + flagged
        mark = {"late": False} if self.late == "emit" else {}
        answers = {id(event.row): {**event.row, **self.answer(event, self.events), **mark} for event in fresh}
        answers |= {id(row): out for row, out in zip(late, flagged, strict=False)}
        return [answers[id(row)] for row in rows if id(row) in answers]

    def _late(self, row: Row) -> Row:
        shown = row if self.emit == "arrival" else self._named(row)
        return {**shown, **dict.fromkeys(self.columns()), "late": True}

    def _named(self, row: Row) -> Row:
        return {name: row[name] for name in [*self.keys, self.time, *([self.id] if self.id else []), *self.carry]}

    def _finals(self, is_final: Callable[[Event], bool]) -> list[Row]:
        mark = {"late": False} if self.late == "emit" else {}
        ready = sorted(filter(is_final, self.pending), key=lambda event: (event.time, event.arrival))
        self.pending = [event for event in self.pending if not is_final(event)]
        return [{**self._named(event.row), **self.answer(event, self.events), **mark} for event in ready]

    def _updates(self, before: list[Event]) -> list[Row]:
        mark = {"late": False} if self.late == "emit" else {}
        out = []
        gone = [event for event in before if event not in self.events and event in self.shown]
        for i, event in enumerate(gone):
            del self.shown[event]
            alike = [other for other in self.events if self._named_alike(other, event)]
            self.shown |= {other: {} for other in alike if other in self.shown}
            if not alike and not any(self._named_alike(other, event) for other in gone[i + 1 :]):
                self._count("deleted")
                out.append({**self._named(event.row), **dict.fromkeys(self.columns()), "deleted": True, **mark})
        for event in sorted(self.events, key=lambda event: (event.time, event.arrival)):
            if self.horizon is not None and event.time < self.horizon:
                continue
            values = self.answer(event, self.events)
            if event in self.shown and self.shown[event] == values:
                continue
            self._count("revised", event in self.shown)
            self.shown[event] = values
            out.append({**self._named(event.row), **values, "deleted": False, **mark})
        return out

    @staticmethod
    def _named_alike(a: Event, b: Event) -> bool:
        return (a.key, a.time, a.id) == (b.key, b.time, b.id)

    # What time does.

    def _raise_horizon(self, watermark: Any) -> None:
        if watermark is not None:
            horizon = watermark - self.lateness
            self.horizon = horizon if self.horizon is None else max(self.horizon, horizon)

    def _retain(self) -> None:
        """Let go of what no anchor at or after the horizon can see; a window closed on the left sees its start."""
        if self.horizon is None:
            return
        start = self.horizon - max(self.windows.values())
        self.events = [e for e in self.events if e.time > start or (self.closed == "left" and e.time == start)]
        self.tombstones = {identity for identity in self.tombstones if identity[1] >= self.horizon}

    def _count(self, what: str, by: int = 1) -> None:
        self.metrics[what] = self.metrics.get(what, 0) + int(by)
