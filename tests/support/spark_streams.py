"""Streams of files for Spark, what must come out of them, and how both compare.

A stream is a list of micro-batches, each of which is a file; the last has nothing but a row of the year 9999, which
moves the watermark past all others. Times are microseconds, and by default no two rows share a second.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oracles.every import EveryOracle, Place
from oracles.keyed import Aggregate, KeyedOracle, Row, Values
from sash import Monoid, monoids

SECOND = 1_000_000
MINUTE = 60 * SECOND
START = 1_767_225_600 * SECOND  # 2026 in UTC
END = 253_400_000_000 * SECOND
DELAY = 2 * MINUTE  # of the watermark
LATENESS = MINUTE
SCHEMA = pa.schema(
    {
        "row": pa.int64(),
        "k.ey": pa.string(),  # Spark takes a dot for a member of a struct, unless it is quoted
        "t": pa.timestamp("us", "UTC"),
        "x": pa.int64(),
        "a": pa.float64(),
        "b": pa.float64(),
        "i": pa.string(),
        "op": pa.string(),
        "gone": pa.bool_(),
    }
)
DDL = "row long, `k.ey` string, t timestamp, x long, a double, b double, i string, op string, gone boolean"


# --- random streams -------------------------------------------------------------------------------


def stream(seed: int, rows: int = 160, batches: int = 5, *, ties: bool = False, bad: bool = False) -> list[list[Row]]:
    """Micro-batches of random rows; with `ties` there are deletes too, and with `bad` rows without a time or an id."""
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 2 * rows, rows) if ties else rng.permutation(10 * rows)[:rows]
    micros = seconds * SECOND + (0 if ties else rng.integers(0, SECOND, rows))
    events = [_event(rng, at, int(time)) for at, time in enumerate(micros)]
    if ties:
        events += [_delete(event, len(events) + at) for at, event in enumerate(events[::5])]
    slow = np.where(rng.random(len(events)) < 0.3, rng.integers(0, 10 * MINUTE, len(events)), 0)
    order = np.argsort([event["t"] + wait for event, wait in zip(events, slow.tolist(), strict=True)], kind="stable")
    arrived = [events[at] for at in order]
    for event, name in zip(arrived[::40] if bad else [], ["t", "i"] * rows, strict=False):
        event[name] = None
    cuts = [0, *sorted(rng.choice(np.arange(1, len(arrived)), batches - 1, replace=False).tolist()), len(arrived)]
    return [arrived[start:end] for start, end in pairwise(cuts)]


def _event(rng: np.random.Generator, at: int, time: int) -> Row:
    return {
        "row": at,
        "k.ey": [None, "a", "b", "é"][rng.integers(4)],
        "t": START + time,
        "x": [None, *range(-5, 6)][rng.integers(12)],
        "a": [-1.0, 1.0, 2.0][rng.integers(3)],
        "b": float(rng.integers(-3, 4)),
        "i": f"{rng.integers(100):02}-{at}",
        "op": "insert",
        "gone": False,
    }


def _delete(event: Row, at: int) -> Row:
    return {**event, "row": at, "op": "delete", "gone": True}


def watermarks(batches: Sequence[Sequence[Row]]) -> Iterator[int | None]:
    """What Spark says while it takes each of them: milliseconds of the newest before, less the delay."""
    newest = None
    for batch in batches:
        yield None if newest is None else newest // 1000 * 1000 - DELAY
        newest = max([row["t"] for row in batch if row["t"] is not None] + ([] if newest is None else [newest]))


# --- files ----------------------------------------------------------------------------------------


def write(folder: Path, batches: Sequence[Sequence[Row]], first: int = 0) -> None:
    """Write a file for each batch, in an order that Spark keeps."""
    folder.mkdir(parents=True, exist_ok=True)
    for at, batch in enumerate(batches, first):
        write_table(folder, at, pa.Table.from_pylist(list(batch), schema=SCHEMA))


def write_table(folder: Path, at: int, table: pa.Table) -> None:
    """Write the file of one micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden, path = folder / f".{at:03}", folder / f"{at:03}.parquet"
    pq.write_table(table, hidden)
    os.utime(hidden, (1_000_000_000 + at, 1_000_000_000 + at))
    hidden.rename(path)


def write_end(folder: Path) -> None:
    write(folder, [[dict.fromkeys(SCHEMA.names) | {"t": END}]], 900)


def read(spark: SparkSession, folder: Path, at_once: int = 1) -> DataFrame:
    files = spark.readStream.schema(DDL).option("maxFilesPerTrigger", at_once).parquet(str(folder))
    return files.withWatermark("t", f"{DELAY // SECOND} seconds")


# --- results --------------------------------------------------------------------------------------


def as_text(name: str, results: DataFrame) -> DataFrame:
    """Results as text under a name, so that several kinds of them fit into one query."""
    moments = {field.name for field in results.schema.fields if field.dataType.simpleString() == "timestamp"}
    columns = []
    for column in results.columns:
        quoted = F.col(f"`{column}`")
        columns.append((F.unix_micros(quoted) if column in moments else quoted).alias(column))
    written = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    return results.select(F.lit(name).alias("name"), written.alias("row"))


def as_rows(texts: Sequence[Any]) -> list[Row]:
    return [{name: plain(value) for name, value in json.loads(text["row"]).items()} for text in texts]


def plain(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value


def rows_in(spark: SparkSession, folder: Path, name: str) -> list[Row]:
    """The rows of a name that a query wrote."""
    return as_rows(spark.read.parquet(str(folder)).where(F.col("name") == name).collect())


def latest(rows: Sequence[Row], *identity: str) -> list[Row]:
    """The last revision of each that is not deleted."""
    found: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: row["revision"]):
        found[tuple(row[name] for name in identity)] = row
    kept = [row for row in found.values() if not row["deleted"]]
    return [{name: value for name, value in row.items() if name not in ("revision", "deleted")} for row in kept]


def assert_same(got: Sequence[Row], wanted: Sequence[Row]) -> None:
    """Row for row in any order; all values here are exact."""
    one, other = ([json.dumps(row, sort_keys=True, default=list) for row in rows] for rows in (got, wanted))
    missing, extra = sorted(set(other) - set(one)), sorted(set(one) - set(other))
    assert (missing[:3], extra[:3], len(one)) == ([], [], len(other))


# --- what must come out ---------------------------------------------------------------------------

COMMUTATIVE: dict[str, Aggregate] = {"n": ("count",), "s": ("sum", "x"), "top": ("max", "x")}
ORDERED: dict[str, Aggregate] = {"f": ("affine", "a", "b"), "old": ("first", "x"), "word": ("letters", "x")}
SIZES = {"2m": 2 * MINUTE, "10m": 10 * MINUTE}


def letters(column: str) -> Monoid:
    """A monoid that runs in Python and is not commutative."""
    return Monoid(
        identity="",
        combine=lambda left, right: left + right,
        lift=lambda number: chr(ord("m") + number),
        lower=lambda text: text or None,
        column=column,
        name="letters",
        version="1",
        returns="string",
    )


def monoids_of(folds: dict[str, Aggregate]) -> dict[str, Monoid]:
    own = {"letters": letters}
    return {name: (own.get(fold) or getattr(monoids, fold))(*columns) for name, (fold, *columns) in folds.items()}


@dataclass(kw_only=True)
class GridOracle(EveryOracle):
    """The same at the instants of the grid only, which lie far apart in microseconds."""

    def answers(self) -> Iterator[tuple[Place, Values]]:
        largest = max(self.windows.values())
        for key in dict.fromkeys(event.key for event in self.accepted):
            mine = self.in_order(event for event in self.accepted if event.key == key)
            first = mine[0].time - mine[0].time % self.every + self.every
            for boundary in range(first, mine[-1].time + largest + 1, self.every):
                if self.seen(boundary, largest, mine):
                    yield (key, boundary), self.values(boundary, mine)


@dataclass
class Case:
    """A question in the words of `rolling`, and the same for the oracle."""

    folds: dict[str, Aggregate]
    sizes: dict[str, int] = field(default_factory=lambda: SIZES)
    words: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        shared = {"keys": ["k.ey"], "time": "t", "windows": list(self.sizes), "aggs": monoids_of(self.folds)}
        return shared | {"lateness": f"{LATENESS // SECOND} seconds"} | self.words

    @property
    def every(self) -> bool:
        return "every" in self.words

    def oracle(self, batches: Sequence[Sequence[Row]]) -> tuple[KeyedOracle, list[Row]]:
        """An oracle that has seen all of it, and what it said on the way: the rows of "arrival", and late ones."""
        emit = "arrival" if self.words.get("emit") == "arrival" else "final"
        words = {name: word for name, word in self.words.items() if name in ("id", "late", "carry")}
        words |= {"emit": emit, "lateness": LATENESS} | ({"retract": "gone"} if "retract" in self.words else {})
        kind: Callable[..., KeyedOracle] = KeyedOracle
        if self.every:
            kind, words["every"] = GridOracle, MINUTE
        oracle = kind(keys=["k.ey"], time="t", windows=self.sizes, aggs=self.folds, **words)
        said = []
        for batch, watermark in zip(batches, watermarks(batches), strict=True):
            said += [row for row in oracle.push(batch, watermark) if emit == "arrival" or row.get("late")]
        return oracle, said

    def in_time(self, batches: Sequence[Sequence[Row]]) -> list[Row]:
        """The rows that are not late, deletes and bad ones among them."""
        kept = []
        for batch, watermark in zip(batches, watermarks(batches), strict=True):
            for row in batch:
                end = row["t"] - row["t"] % MINUTE + MINUTE - 1 if self.every and row["t"] else row["t"]
                if row["t"] is None or watermark is None or end >= watermark - LATENESS:
                    kept.append(row)
        return kept

    def wanted(self, oracle: KeyedOracle) -> list[Row]:
        """The rows that the accepted events give in the end."""
        rows = oracle.recomputed()
        if self.every:
            return rows
        named = ["k.ey", "t", *(["i"] if "id" in self.words else []), *self.words.get("carry", ()), *oracle.columns()]
        return [{name: row[name] for name in named} for row in rows]
