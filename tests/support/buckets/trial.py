"""One stream through three: a play of Spark, KeyedWindows in this process, and an oracle that recomputes everything.

Times are ticks of half a millisecond here, so that watermarks, which are whole milliseconds, round. A row's values
follow from who it is: of rows that a source repeats any may be the one that counts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from oracles.every import EveryOracle
from oracles.keyed import Aggregate, KeyedOracle, Row
from oracles.sessions import SessionOracle
from sash import KeyedWindows, Monoid, monoids
from sash.keyed.spec import Spec
from sash.spark.stream.packing import END
from sash.spark.stream.plan import Plan
from sash.spark.stream.query import plan_of
from support.buckets.cluster import Play

TICK_US = 500
LONG_AGO = -(10**6)  # a watermark before everything: none yet
KINDS = {
    "k": spark.StringType(),
    "t": spark.TimestampType(),
    "x": spark.LongType(),
    "a": spark.DoubleType(),
    "b": spark.DoubleType(),
    "c": spark.StringType(),
    "gone": spark.BooleanType(),
}
TIMES = ("t", "window_start", "window_end", "session_start", "session_end")

COMMUTATIVE: dict[str, Aggregate] = {"n": ("count",), "s": ("sum", "x"), "top": ("max", "x"), "mean": ("mean", "x")}
ORDERED: dict[str, Aggregate] = {"f": ("affine", "a", "b"), "old": ("first", "x"), "new": ("last", "x")}
PYTHON: dict[str, Aggregate] = {"text": ("letters", "x")}


def letter(number: int) -> str:
    return chr(ord("m") + number)


def concat(left: str, right: str) -> str:
    return left + right


def letters(column: str, version: str = "1") -> Monoid:
    """A monoid that runs in Python, and for which order matters."""
    return Monoid(
        identity="", combine=concat, lift=letter, column=column, name="letters", version=version, returns="string"
    )


def monoids_of(aggs: dict[str, Aggregate]) -> dict[str, Monoid]:
    made = {"letters": letters}
    return {name: (made.get(fold) or getattr(monoids, fold))(*read) for name, (fold, *read) in aggs.items()}


def duration(ticks: int) -> str:
    return f"{'-' * (ticks < 0)}{abs(ticks) * TICK_US}us"


@dataclass(frozen=True, kw_only=True)
class Asking:
    """The arguments of a stream, in ticks."""

    aggs: dict[str, Aggregate] = field(default_factory=lambda: dict(COMMUTATIVE))
    sizes: tuple[int, ...] = (3, 8)
    emit: str = "final"
    lateness: int = 0
    late: str = "drop"
    closed: str | None = None
    retract: bool = False
    ids: type | None = None  # int or str
    carry: tuple[str, ...] = ()
    every: int | None = None
    offset: int = 0
    resolution: int | None = None
    gap: int | None = None  # of sessions; None: there are windows

    def words(self) -> dict[str, Any]:
        """The words that engines and oracles share."""
        words: dict[str, Any] = {"keys": ["k"], "time": "t", "emit": self.emit, "late": self.late}
        words |= {"retract": "gone"} if self.retract else {}
        words |= {"id": "i"} if self.ids else {}
        words |= {"carry": list(self.carry)} if self.carry else {}
        return words | ({"closed": self.closed} if self.closed else {})

    def engine_words(self) -> dict[str, Any]:
        words = self.words() | {"aggs": monoids_of(self.aggs), "lateness": duration(self.lateness)}
        if self.gap is not None:
            return words | {"per": "session", "gap": duration(self.gap)}
        words["windows"] = [duration(size) for size in self.sizes]
        return words | {name: duration(ticks) for name, ticks in self.grid().items()}

    def grid(self) -> dict[str, int]:
        if self.every is None:
            return {}
        coarse = {} if self.resolution is None else {"resolution": self.resolution}
        return {"every": self.every, "offset": self.offset, **coarse}

    def schema(self) -> spark.StructType:
        kinds = dict(KINDS)
        if self.ids is not None:
            kinds["i"] = spark.LongType() if self.ids is int else spark.StringType()
        return spark.StructType([spark.StructField(name, kind) for name, kind in kinds.items()])

    def plan(self, buckets: int = 3, **more: Any) -> Plan:
        """The plan that streams have, with little patience for records."""
        spec = Spec.of(**self.engine_words())
        return plan_of(self.schema(), spec, buckets, **{"protected": 2, **more})

    def oracle(self) -> KeyedOracle:
        if self.gap is not None:
            return SessionOracle(**self.words(), aggs=self.aggs, gap=self.gap, lateness=self.lateness)
        words = self.words() | {"windows": {duration(size): size for size in self.sizes}, "aggs": self.aggs}
        return (KeyedOracle if self.every is None else EveryOracle)(**words, lateness=self.lateness, **self.grid())

    def table(self, rows: Sequence[Row]) -> pa.Table:
        fields = {field.name: pa.string() for field in self.schema()}
        fields |= {"t": pa.timestamp("us", "UTC"), "x": pa.int64(), "a": pa.float64(), "b": pa.float64()}
        fields |= {"gone": pa.bool_()} | ({"i": pa.int64()} if self.ids is int else {})
        ready = [{**row, "t": None if row["t"] is None else row["t"] * TICK_US} for row in rows]
        return pa.Table.from_pylist(ready, schema=pa.schema(fields))


def plain(value: Any) -> Any:
    """A value as the oracle has it: a pair is a tuple."""
    return tuple(value.values()) if isinstance(value, dict) else value


def rows_of(table: pa.Table) -> list[Row]:
    """Rows with their times in ticks."""
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        if name in TIMES:
            column = column.cast(pa.int64())
        values = column.to_pylist()
        if name in TIMES:
            values = [None if value is None else value // TICK_US for value in values]
        columns[name] = [plain(value) for value in values]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def unordered(rows: Sequence[Row]) -> list[Any]:
    """Rows as they are compared where their order does not matter, without what only the engine knows."""
    kept = [{name: value for name, value in row.items() if name != "revision"} for row in rows]
    return sorted([sorted((name, repr(value)) for name, value in row.items()) for row in kept])


class Upserts:
    """A table that keeps the row with the greatest revision of each anchor."""

    def __init__(self, asking: Asking) -> None:
        own = ("k", "window_end") if asking.every else ("k", "session_start") if asking.gap else None
        self.anchor = own or ("k", "t", *(("i",) if asking.ids else asking.carry))
        self.rows: dict[Any, Row] = {}
        self.late: list[Row] = []

    def take(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.get("late"):
                self.late.append({name: value for name, value in row.items() if name not in ("revision", "deleted")})
                continue
            place = tuple(row[name] for name in self.anchor)
            before = self.rows.get(place, {})
            if row.get("revision", 0) >= before.get("revision", 0):
                self.rows[place] = row

    def left(self) -> list[Any]:
        return unordered([row for row in self.rows.values() if not row["deleted"]])


class Trial:
    """The three, pushed side by side and compared after every micro-batch."""

    least = LONG_AGO  # the watermark that the others have at least

    def __init__(self, asking: Asking, seed: int, delay_ms: int = 0, **more: Any) -> None:
        self.asking = asking
        self.play = Play(asking.plan(**more), seed=seed, delay_ms=delay_ms)
        self.engine = KeyedWindows(**asking.engine_words())
        self.oracle = asking.oracle()
        self.given: tuple[list[Row], ...] = ([], [], [])
        self.upserts = tuple(Upserts(asking) for _ in self.given)

    def batch(self, rows: Sequence[Row], marker: bool = False) -> None:
        """Take a micro-batch; a marker of the end moves the watermark, and is given to Spark alone."""
        wm = self.play.watermark_ms
        ticks = max(self.least, wm * 1000 // TICK_US if wm > 0 else LONG_AGO)
        table = self.asking.table(rows)
        newest = max((row["t"] * TICK_US for row in rows if row["t"] is not None), default=None)
        fed = table
        if marker:
            end = {**dict.fromkeys(table.column_names), "t": END}
            fed, newest = pa.concat_tables([table, pa.Table.from_pylist([end], schema=table.schema)]), END
        mine = self.play.batch(fed.select(self.play.plan.schema.names), newest)
        own = self.engine.push(table, watermark=np.datetime64(ticks * TICK_US, "us"))
        self._compare((rows_of(mine), rows_of(own), self.oracle.push(rows, ticks)))

    def end(self) -> None:
        """Let the watermark pass everything: all is given, and nothing is left."""
        self.batch([], marker=True)
        self.batch([])
        assert self.play.empty()
        assert self.engine.metrics["live_rows"] == 0
        self._compare_counts()
        if self.asking.emit != "arrival":
            self._compare_with_recomputed()

    def _compare(self, said: tuple[list[Row], ...]) -> None:
        for all_of_it, upserts, rows in zip(self.given, self.upserts, said, strict=True):
            all_of_it += rows
            if self.asking.emit == "update":
                upserts.take(rows)
        if self.asking.emit == "update":
            one, *others = [(upserts.left(), unordered(upserts.late)) for upserts in self.upserts]
        else:
            one, *others = map(unordered, said)
        assert all(one == other for other in others)

    def _compare_counts(self) -> None:
        names = ["rows_in", "bad_times", "bad_ids", "late"]
        names += [] if self.asking.retract else ["repeated", "unmatched", "deleted"]
        names += [] if self.asking.emit == "update" else ["emitted"]
        found = self.engine.metrics
        assert {name: self.play.counts[name] for name in names} == {name: found[name] for name in names}

    def _compare_with_recomputed(self) -> None:
        """All of "final", and the last revisions of "update", are what the accepted rows give."""
        rows = self.given[0] if self.asking.emit == "final" else list(self.upserts[0].rows.values())
        rows = [row for row in rows if not row.get("late") and not row.get("deleted")]
        names = [*self.upserts[0].anchor, *self.oracle.columns()]
        kept = [[{name: row[name] for name in names} for row in some] for some in (rows, self.oracle.recomputed())]
        assert unordered(kept[0]) == unordered(kept[1])

    def count_into(self, seen: Counter[str]) -> None:
        """Add up what this trial was about."""
        play = self.play
        seen.update({name: play.counts[name] for name in ("hits", "catch_ups", "rebuilds", "merges", "timers", "late")})
        seen.update({name: play.counts[name] for name in ("repeated", "deleted", "revised", "bad_times", "bad_ids")})
        seen.update(play.seen)
        seen.update({"drops": sum(store.drops for store in play.stores.values())})
