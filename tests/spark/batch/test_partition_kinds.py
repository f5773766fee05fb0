"""Windows of all kinds through a partition that is cut anywhere, without Spark: the answers of the whole table."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

import sash
from sash import monoids
from sash.keyed.spec import Spec
from sash.spark import schema
from sash.spark.batch import partition
from sash.spark.batch.question_chunks import answers_of_questions
from sash.spark.batch.question_columns import Layout
from sash.spark.batch.request import request_of

HOUR = 3600 * 10**6
AGGS = {"n": monoids.count(), "s": monoids.sum("x"), "top": monoids.max("x"), "old": monoids.first("x")}
ORDERED = AGGS | {"f": monoids.affine("x", "x"), "both": monoids.struct(new=monoids.last("x"), mean=monoids.mean("x"))}
JOINED = sash.Monoid(identity="", combine=lambda a, b: a + b, lift=str, column="x", name="joined", returns="string")
BACK = ["1 row", "2 rows", "5 rows", "3h", "1h", "day to date", "week to date", "unbounded"]
AHEAD = ["next 2h", "next 7h"]
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "a", "b", None]), st.integers(0, 60), st.integers(-3, 3) | st.none()), max_size=40
)
CUTS = st.lists(st.integers(0, 40), max_size=8)
CHUNKS = st.sampled_from([1, 3, 10, 10**6, None])  # None: all fits into memory, and is answered at once
CLOSED = st.sampled_from(["right", "left", "both", "neither"])
IDLE = st.sampled_from([None, "2h", "9h"])
ZONE = st.sampled_from([None, "America/New_York"])
MIN_ROWS = st.sampled_from([None, 2])
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int64())])


def table_of(rows: list[Any]) -> pa.Table:
    """Rows by key and time, nulls first."""
    ordered = sorted(rows, key=lambda row: (row[0] is not None, row[0] or "", row[1]))
    days = 1_772_900_000_000_000 // HOUR * HOUR  # two days before clocks change in New York
    return pa.table([[r[0] for r in ordered], [days + r[1] * HOUR for r in ordered], [r[2] for r in ordered]], SCHEMA)


def shape(table: pa.Table) -> spark.StructType:
    return spark.StructType([spark.StructField(field.name, schema.spark_type(field.type)) for field in table.schema])


def in_chunks(request: partition.Request, rows: int | None) -> partition.Request:
    return request if rows is None else replace(request, rows=rows, memory=0)


def batches_of(table: pa.Table, cuts: list[int]) -> list[pa.RecordBatch]:
    edges = sorted({0, table.num_rows, *(min(cut, table.num_rows) for cut in cuts)})
    parts = [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    return [batch for part in parts for batch in part.combine_chunks().to_batches()]


def options_of(windows: list[str], **options: Any) -> dict[str, Any]:
    """Arguments without those that the windows have no use for."""
    counts = any("row" in window or window == "unbounded" for window in windows)
    if not counts:
        options.pop("idle", None)
    if not any("to date" in window for window in windows) and options.get("every") != "1 day":
        options.pop("zone", None)
    return {"windows": windows, **{name: value for name, value in options.items() if value is not None}}


def plain(table: pa.Table) -> list[Any]:
    return sorted(map(repr, table.to_pylist()))


@settings(deadline=None)
@given(
    ROWS,
    CUTS,
    CHUNKS,
    CLOSED,
    IDLE,
    ZONE,
    MIN_ROWS,
    st.lists(st.sampled_from(BACK + AHEAD), min_size=1, max_size=3, unique=True),
)
def test_rows(rows, cuts, chunk, closed, idle, zone, min_rows, windows):
    """Halos of rows, of time and of what has expired; rows whose windows reach ahead wait."""
    table = table_of(rows)
    asked = options_of(windows, closed=closed, idle=idle, zone=zone, min_rows=min_rows, aggs=ORDERED)
    request, _ = request_of(shape(table), Spec.of(keys="k", time="t", **asked))
    answers = list(partition.answers_of(in_chunks(request, chunk), iter(batches_of(table, cuts))))
    expected = sash.rolling(table, keys="k", time="t", **asked)
    got = pa.Table.from_batches(answers) if answers else expected.slice(0, 0)
    assert got.column_names == expected.column_names
    assert got.to_pylist() == expected.to_pylist()


@settings(deadline=None)
@given(
    ROWS,
    CUTS,
    CHUNKS,
    IDLE,
    ZONE,
    MIN_ROWS,
    st.sampled_from(["2h", "5h", "1 day", "1 month"]),
    st.lists(st.sampled_from(BACK), min_size=1, max_size=3, unique=True),
)
def test_boundaries(rows, cuts, chunk, idle, zone, min_rows, every, windows):
    """On the grid of UTC and on the calendar of a zone."""
    table = table_of(rows)
    asked = options_of(windows, every=every, idle=idle, zone=zone, min_rows=min_rows, aggs=ORDERED)
    request, _ = request_of(shape(table), Spec.of(keys="k", time="t", **asked))
    answers = list(partition.answers_of(in_chunks(request, chunk), iter(batches_of(table, cuts))))
    expected = sash.rolling(table, keys="k", time="t", **asked)
    got = pa.Table.from_batches(answers) if answers else expected.slice(0, 0)
    assert plain(got) == plain(expected.select(got.column_names))


@settings(deadline=None)
@given(
    ROWS,
    ROWS,
    CUTS,
    CHUNKS,
    CLOSED,
    IDLE,
    ZONE,
    st.lists(st.sampled_from(BACK + AHEAD), min_size=1, max_size=3, unique=True),
)
def test_questions(rows, asked, cuts, chunk, closed, idle, zone, windows):
    """Questions whose windows reach ahead wait for the events in them."""
    events, at = table_of(rows), table_of(asked).rename_columns(["k", "q", "row"])
    words = options_of(windows, closed=closed, idle=idle, zone=zone, aggs=ORDERED)
    layout = Layout.of(shape(events), shape(at), Spec.of(keys="k", time="t", **words), "q", ())
    layout = replace(layout, request=replace(layout.request, events=in_chunks(layout.request.events, chunk)))
    answers = list(answers_of_questions(layout.request, iter(batches_of(travelling(layout, events, at), cuts))))
    expected = sash.rolling(events, at=at, at_time="q", keys="k", time="t", **words)
    got = pa.Table.from_batches(answers).rename_columns(layout.output.names) if answers else expected.slice(0, 0)
    assert plain(got) == plain(expected)


def travelling(layout: Layout, events: pa.Table, at: pa.Table) -> pa.Table:
    """The rows that Spark would send."""
    parts = []
    for table, mark, sources in (
        (events, False, [one.event for one in layout.columns]),
        (at, True, [one.question for one in layout.columns]),
    ):
        columns = []
        for place, (source, one) in enumerate(zip(sources, layout.columns, strict=True)):
            kind = schema.arrow_type(one.kind)
            if place == layout.request.mark:
                columns.append(pa.chunked_array([pa.array([mark] * table.num_rows, pa.bool_())]))
            elif source is None:
                columns.append(pa.chunked_array([pa.nulls(table.num_rows, kind)]))
            else:
                columns.append(table.column(source).cast(kind))
        parts.append(pa.table(columns, names=[f"c{place}" for place in range(len(columns))]))
    return pa.concat_tables(parts)


def test_aggregates_in_python_over_the_last_rows():
    table = table_of([("a", hour, hour) for hour in range(30)])
    asked = {"windows": ["4 rows", "next 2h"], "aggs": {"all": JOINED}}
    request, _ = request_of(shape(table), Spec.of(keys="k", time="t", **asked))
    answers = partition.answers_of(in_chunks(request, 3), iter(table.to_batches(max_chunksize=2)))
    expected = sash.rolling(table, keys="k", time="t", **asked)
    assert pa.Table.from_batches(list(answers)).to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(("window", "most"), [("50 rows", 50), ("unbounded", 1), ("next 20h", 20)])
def test_memory_is_bounded_by_the_window(window, most):
    """Of an endless key no more is retained than its windows need, and as many new rows."""
    n = 20_000
    times = np.arange(n) * HOUR
    table = pa.table({"k": ["a"] * n, "t": pa.array(times, pa.timestamp("us", "UTC")), "x": np.arange(n)})
    request, _ = request_of(shape(table), Spec.of(keys="k", time="t", windows=[window], aggs=AGGS))
    chunks = partition.EventChunks(replace(request, rows=200))
    retained, answered = [], 0
    for part in table.to_batches(max_chunksize=100):
        answered += sum(out.num_rows for out in chunks.take(part))
        context = 0 if chunks.context is None else chunks.context.num_rows
        retained.append(context + sum(rows.num_rows for rows in chunks.waiting))
    answered += sum(out.num_rows for out in chunks.end())
    assert answered == n
    assert max(retained) <= 2 * max(most, 200) + 200
