"""Random streams of keyed events, and an engine and its oracle pushed side by side.

The parity tests share these: events with common ties, disorder, cuts into pushes and watermarks near the newest time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from oracles.every import EveryOracle
from oracles.keyed import Aggregate, KeyedOracle, Row
from sash import KeyedWindows, Monoid, monoids
from support.cases import concat

SIZES = (3, 8)
WINDOWS = {str(size): size for size in SIZES}
SCHEMA = pa.schema(
    {
        "row": pa.int64(),
        "k": pa.string(),
        "t": pa.int64(),
        "x": pa.int64(),
        "a": pa.float64(),
        "b": pa.float64(),
        "i": pa.int64(),
        "gone": pa.bool_(),
    }
)

# Folds of the oracle, and the monoids that they stand for.
COMMUTATIVE: dict[str, Aggregate] = {"n": ("count",), "m": ("count", "x"), "s": ("sum", "x"), "top": ("max", "x")}
ORDERED: dict[str, Aggregate] = {"f": ("affine", "a", "b"), "old": ("first", "x"), "new": ("last", "x")}
ROUNDED: dict[str, Aggregate] = {"mean": ("mean", "x"), "std": ("std", "x"), "low": ("min", "x")}
EXACT = COMMUTATIVE | ORDERED


def letter(number: int) -> str:
    return chr(ord("m") + number)


def letters(column: str) -> Monoid:
    """A monoid that runs in Python: small numbers as letters, one after the other."""
    return Monoid(identity="", combine=concat, lift=letter, column=column, name="letters")


OWN = {"letters": letters}


def monoids_of(aggs: dict[str, Aggregate]) -> dict[str, Monoid]:
    return {name: (OWN.get(fold) or getattr(monoids, fold))(*columns) for name, (fold, *columns) in aggs.items()}


# --- random streams -------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "a", None])
NUMBERS = st.sampled_from([*range(-5, 6), None])
SLOPES = st.sampled_from([-1.0, 1.0, 2.0, -2.0, 3.0, 0.0, None])
OFFSETS = st.sampled_from([*map(float, range(-3, 4)), None])


def events(times: st.SearchStrategy[Any], ids: st.SearchStrategy[int], deletes: bool) -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(
        {
            "k": KEYS,
            "t": times,
            "x": NUMBERS,
            "a": SLOPES,
            "b": OFFSETS,
            "i": ids,
            "gone": st.sampled_from([False, False, True]) if deletes else st.just(False),
            "aim": st.sampled_from([None, 1, 3, 5, 8, 13]),
        }
    )


TIMES = st.integers(0, 20)
FEW = st.integers(0, 6)  # so that a delete often finds its insert
SOME_NULL = st.sampled_from([*range(21), None])


@dataclass
class Push:
    """One batch, the watermark that comes with it, and whether the engine goes through bytes before it."""

    rows: list[Row]
    watermark: int | None
    reloaded: bool


def pushes(rows: st.SearchStrategy[Row]) -> st.SearchStrategy[list[Push]]:
    batches: st.SearchStrategy[list[Row]] = st.lists(rows, min_size=1, max_size=12) | st.just([])
    marks = st.sampled_from([None, None, *range(-8, 5)])
    return st.lists(st.builds(Push, batches, marks, st.booleans()), min_size=2, max_size=6).map(numbered)


def numbered(stream: list[Push]) -> list[Push]:
    """The same stream with a number in every row, deletes that aim at earlier rows, and watermarks near the newest."""
    earlier: list[Row] = []
    newest = 0
    for push in stream:
        if push.watermark is not None:
            push.watermark += newest
        for at, event in enumerate(push.rows):
            push.rows[at] = aimed(event, earlier)
            earlier.append(push.rows[at])
            newest = max(newest, push.rows[at]["t"] or 0)
    return stream


def aimed(event: Row, earlier: list[Row]) -> Row:
    """A row without its aim: a delete is of the event so many rows before, or of whatever it was drawn with."""
    back = event.pop("aim")
    if event["gone"] and back is not None and back <= len(earlier):
        event = {**earlier[-back], "gone": True}
    return {**event, "row": len(earlier)}


def pure(stream: list[Push]) -> list[Push]:
    """The same stream where a batch holds inserts only, or deletes only."""
    for push in stream:
        for event in push.rows:
            event["gone"] = push.rows[0]["gone"]
    return stream


def undone(stream: list[Push]) -> list[Push]:
    """The same stream; in the end every other event is deleted, and then comes again in vain."""
    gone = [{**row, "gone": True} for push in stream for row in push.rows[::2]]
    back = [{**row, "gone": False} for row in gone]
    return [*stream, Push(gone, None, reloaded=True), Push(back, None, reloaded=True)]


# --- rows and tables ------------------------------------------------------------------------------


def table_of(rows: Sequence[Row], ids: pa.DataType | None = None) -> pa.Table:
    """Rows as a table; ids are integers unless told otherwise."""
    schema = SCHEMA if ids is None else SCHEMA.set(SCHEMA.get_field_index("i"), pa.field("i", ids))
    return pa.Table.from_pylist(list(rows), schema=schema)


def plain(value: Any) -> Any:
    """A value as the oracle has it: whatever form a pair comes in is a tuple."""
    if isinstance(value, dict):
        return tuple(value.values())
    return tuple(value) if isinstance(value, list) else value


def rows_of(table: pa.Table) -> list[Row]:
    return [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def agree(got: Sequence[Row], wanted: Sequence[Row], aggs: dict[str, Aggregate]) -> bool:
    """Row for row; mean and standard deviation to rounding, all else to the last bit."""
    rounded = aggs.keys() & ROUNDED.keys()
    return len(got) == len(wanted) and all(
        one.keys() == other.keys()
        and all(
            same(one[name], other[name]) if (name.rpartition("_")[0] or name) in rounded else one[name] == other[name]
            for name in one
        )
        for one, other in zip(got, wanted, strict=True)
    )


def unordered(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [(value is not None, str(value)) for _, value in sorted(row.items())])


# --- an engine and its oracle ---------------------------------------------------------------------


class Pair:
    """An engine and its oracle, pushed side by side."""

    def __init__(
        self,
        aggs: dict[str, Aggregate],
        sizes: Sequence[int] = SIZES,
        ids: pa.DataType | None = None,
        **options: Any,
    ) -> None:
        shared: dict[str, Any] = {"keys": ["k"], "time": "t"} | options
        self.ids = ids
        kind = EveryOracle if "every" in options else KeyedOracle
        self.own = monoids_of(aggs) if any(fold in OWN for fold, *_ in aggs.values()) else None
        self.engine = KeyedWindows(windows=list(sizes), aggs=monoids_of(aggs), **shared)
        self.oracle = kind(windows={str(size): size for size in sizes}, aggs=aggs, **shared)

    def push(self, push: Push) -> tuple[list[Row], list[Row]]:
        """Give what the engine said and what it had to say; the counters of what came in must agree."""
        if push.reloaded:
            self.engine = KeyedWindows.from_bytes(self.engine.to_bytes(), aggs=self.own)
        out = rows_of(self.engine.push(table_of(push.rows, self.ids), watermark=push.watermark))
        wanted = self.oracle.push(push.rows, push.watermark)
        for name in ("rows_in", "bad_times", "late"):
            assert self.engine.metrics[name] == self.oracle.metrics.get(name, 0), name
        return out, wanted

    def flush(self) -> tuple[list[Row], list[Row]]:
        return rows_of(self.engine.flush()), self.oracle.flush()


def disordered(rows: list[Row], jitter: list[int], lateness: int) -> list[Row]:
    """An order of arrival in which no row is late: each is held up by less than the lateness."""
    held = [row["t"] + delay % (lateness + 1) for row, delay in zip(rows, jitter, strict=False)]
    return [rows[at] for at in sorted(range(len(rows)), key=lambda at: held[at])]


JITTER = st.lists(st.integers(0, 100), min_size=30, max_size=30)
CUTS = st.lists(st.integers(0, 30), max_size=6)
