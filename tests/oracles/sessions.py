"""What KeyedWindows and rolling must answer with per="session", recomputed from scratch at each step.

It shares no code with sash and never imports it. Nothing is kept but the accepted events, all of them: every answer
sorts them and cuts them wherever two neighbours are more than the gap apart. Times are integers.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracles.keyed import Event, KeyedOracle, Row, folded

Place = tuple[tuple[Any, ...], int]  # a key and a start
Session = tuple[int, tuple[tuple[str, Any], ...]]  # an end and the values


@dataclass(kw_only=True)
class SessionOracle(KeyedOracle):
    """A stream with results for sessions, which end at their last event + gap."""

    gap: int
    per: str = "session"
    emit: str = "final"
    windows: dict[str, Any] = field(default_factory=dict)

    given: set[Place] = field(default_factory=set)  # what "final" said
    said: dict[Place, Session] = field(default_factory=dict)  # what "update" said last
    ever: set[Place] = field(default_factory=set)  # what "update" ever said

    def columns(self) -> list[str]:
        return list(self.aggs)

    # Answers.

    def cut(self, mine: list[Event]) -> list[list[Event]]:
        """One key's events in order, cut into sessions."""
        runs: list[list[Event]] = []
        for event in mine:
            if not runs or event.time - runs[-1][-1].time > self.gap:
                runs.append([])
            runs[-1].append(event)
        return runs

    def sessions(self) -> dict[Place, Session]:
        """All there is to say, by key as first seen and then start."""
        found = {}
        for key in dict.fromkeys(event.key for event in self.accepted):
            for run in self.cut(self.in_order(event for event in self.accepted if event.key == key)):
                values = [
                    (agg, folded(aggregate, [event.row for event in run])) for agg, aggregate in self.aggs.items()
                ]
                found[key, run[0].time] = run[-1].time + self.gap, tuple(values)
        return found

    def recomputed(self) -> list[Row]:
        """Every row that the accepted events give in the end."""
        return [self._row(place, session) for place, session in self.sessions().items()]

    def rolled(self, rows: Iterable[Row]) -> list[Row]:
        """What `rolling` must give: nothing is late there, and rows without a time are left out."""
        kept = [row for row in rows if row[self.time] is not None]
        self.accepted = [Event(self.key(row), row[self.time], None, at, row) for at, row in enumerate(kept)]
        return self.recomputed()

    # A stream.

    def flush(self) -> list[Row]:
        return self._final_before(math.inf) if self.emit == "final" else []

    def _emitted(self, before: list[Event], fresh: list[Event], rows: Sequence[Row], late: list[Row]) -> list[Row]:
        flagged = [self._late(row) for row in late] if self.late == "emit" else []
        if self.emit == "final":
            return self._final_before(-math.inf if self.horizon is None else self.horizon) + flagged
        return self._updated() + flagged

    def _final_before(self, horizon: float) -> list[Row]:
        due = {at: session for at, session in self.sessions().items() if session[0] < horizon and at not in self.given}
        self.given |= due.keys()
        return [self._shown(place, session) for place, session in due.items()]

    def _updated(self) -> list[Row]:
        now = self.sessions()
        gone = {place: session for place, session in self.said.items() if place not in now}
        fresh = {place: session for place, session in now.items() if self.said.get(place) != session}
        self._count("deleted", len(gone))
        self._count("revised", sum(place in self.said for place in fresh))
        self._count("again", sum(place in self.ever and place not in self.said for place in fresh))
        self.said = now
        self.ever |= now.keys()
        nothing = tuple(dict.fromkeys(self.aggs).items())
        out = [{**self._shown(place, (end, nothing)), "deleted": True} for place, (end, _) in gone.items()]
        return out + [{**self._shown(place, session), "deleted": False} for place, session in fresh.items()]

    def _retain(self) -> None:
        """Nothing is let go of: what a stream forgets must not change what it says."""

    # Rows.

    def _row(self, place: Place, session: Session) -> Row:
        (key, start), (end, values) = place, session
        return {**dict(zip(self.keys, key, strict=True)), "session_start": start, "session_end": end, **dict(values)}

    def _shown(self, place: Place, session: Session) -> Row:
        row = self._row(place, session)
        if self.late == "drop":
            return row
        return {**row, **dict.fromkeys([self.time, *([self.id] if self.id else [])]), "late": False}

    def _late(self, row: Row) -> Row:
        nothing = ["session_start", "session_end", *self.columns()]
        return {**self._named(row), **dict.fromkeys(nothing), "late": True}
