"""Streams of sessions: an engine and its oracle, and what both have said by the end."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from oracles.keyed import Aggregate, Row
from oracles.sessions import SessionOracle
from sash import KeyedWindows, rolling
from support.keyed_streams import Push, agree, monoids_of, rows_of, table_of

SEEN: Counter[str] = Counter()


class SessionPair:
    """An engine of sessions and its oracle, pushed side by side, and what "update" said last."""

    def __init__(self, aggs: dict[str, Aggregate], **options: Any) -> None:
        shared: dict[str, Any] = {"keys": ["k"], "time": "t", "per": "session"} | options
        self.aggs = aggs
        self.engine = KeyedWindows(aggs=monoids_of(aggs), **shared)
        self.oracle = SessionOracle(aggs=aggs, **shared)
        self.latest: dict[tuple[Any, int], Row] = {}
        self.highest = 0
        self.out: list[Row] = []

    def push(self, push: Push) -> None:
        """Push a batch into both, which must say the same."""
        if push.reloaded:
            self.engine = KeyedWindows.from_bytes(self.engine.to_bytes())
            SEEN["reloaded"] += 1
        got = rows_of(self.engine.push(table_of(push.rows), watermark=push.watermark))
        wanted = self.oracle.push(push.rows, push.watermark)
        for name in ("rows_in", "bad_times", "late"):
            assert self.engine.metrics[name] == self.oracle.metrics.get(name, 0), name
        self.engine.check_invariants()
        self._compare(got, wanted)

    def flush(self) -> list[Row]:
        """End both streams, and return what stands in the end."""
        self._compare(rows_of(self.engine.flush()), self.oracle.flush())
        assert self.engine.metrics["live_rows"] == self.engine.metrics["live_keys"] == 0
        if self.oracle.emit == "final":
            return [row for row in self.out if not row.get("late")]
        for name in ("deleted", "revised"):
            assert self.engine.metrics[name] == self.oracle.metrics.get(name, 0), name
            SEEN[name] += self.engine.metrics[name]
        SEEN["again"] += self.oracle.metrics.get("again", 0)
        return list(self.latest.values())

    def _compare(self, got: list[Row], wanted: list[Row]) -> None:
        SEEN["late"] += sum(bool(row.get("late")) for row in got)
        if self.oracle.emit == "update":
            assert all(row["revision"] > self.highest for row in got)
            self.highest = max((row["revision"] for row in got), default=self.highest)
            self._upsert([row for row in got if not row.get("late")])
        assert agree(plainly(got), plainly(wanted), self.aggs), (plainly(got), plainly(wanted))
        self.out += got

    def _upsert(self, got: list[Row]) -> None:
        """Do what a table of the latest revisions would do."""
        places = [(row["k"], row["session_start"]) for row in got]
        assert len(set(places)) == len(places)
        for place, row in zip(places, got, strict=True):
            if row["deleted"]:
                del self.latest[place]
            else:
                self.latest[place] = row


def plainly(rows: Sequence[Row]) -> list[Row]:
    """Rows in an order of their own, without what only the engine knows."""

    def kept(row: Row) -> Row:
        dropped = {"revision", "deleted"} if row.get("late") else {"revision"}
        return {name: value for name, value in row.items() if name not in dropped}

    names = ("k", "session_start", "t", "i", "deleted")
    return sorted(map(kept, rows), key=lambda row: str([row[name] for name in names if name in row]))


def bare(rows: Sequence[Row], aggs: dict[str, Aggregate]) -> list[Row]:
    """Results alone: keys, starts, ends and values."""
    names = ["k", "session_start", "session_end", *aggs]
    return plainly([{name: row[name] for name in names} for row in rows])


def follow(stream: list[Push], gap: int, aggs: dict[str, Aggregate], **options: Any) -> None:
    """Each push is what the oracle says; in the end brute force = "final" = "update" = rolling over all accepted."""
    pairs = [SessionPair(aggs, gap=gap, emit=emit, **options) for emit in ("final", "update")]
    for pair in pairs:
        for push in stream:
            pair.push(push)
    final, update = (bare(pair.flush(), aggs) for pair in pairs)
    oracle = pairs[0].oracle
    brute = bare(oracle.recomputed(), aggs)
    assert agree(final, brute, aggs)
    assert agree(update, brute, aggs)
    # Rolling has no ids: rows that stand in their order have it as their order of arrival.
    accepted = [event.row for event in (oracle.in_order(oracle.accepted) if oracle.id else oracle.accepted)]
    offline = rolling(table_of(accepted), keys=["k"], time="t", per="session", gap=gap, aggs=monoids_of(aggs))
    assert agree(bare(rows_of(offline), aggs), brute, aggs)
    SEEN["sessions"] += len(brute)
    SEEN["of several rows"] += sum(row["session_end"] - row["session_start"] > gap for row in brute)
