"""A partition's events and questions through the engine, cut anywhere, without Spark."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

import sash
from sash import monoids
from sash.keyed.spec import Spec
from sash.spark import schema
from sash.spark.batch import partition
from sash.spark.batch.in_order import in_order_of
from sash.spark.batch.question_chunks import QuestionChunks, answers_of_questions
from sash.spark.batch.question_columns import Layout

JOINED = sash.Monoid(
    identity="", combine=lambda a, b: a + b, lift=str, column="x", name="joined", returns="string"
)  # fmt: skip
CORE = {"n": monoids.count(), "s": monoids.sum("x"), "last": monoids.last("x"), "top": monoids.max("x")}
STRUCT = {"both": monoids.struct(mean=monoids.mean("x"), low=monoids.min("x"))}
AGGS: dict[str, dict[str, Any]] = {"core": CORE, "struct": STRUCT, "python": {"all": JOINED, "n": monoids.count()}}
KEYS = st.sampled_from(["a", "b", None])
EVENTS = st.lists(st.tuples(KEYS, st.integers(0, 12), st.integers(-5, 5) | st.none()), max_size=30)
QUESTIONS = st.lists(st.tuples(KEYS | st.just("z"), st.integers(-3, 20) | st.none()), max_size=15)


def shape(table: pa.Table) -> spark.StructType:
    return spark.StructType([spark.StructField(field.name, schema.spark_type(field.type)) for field in table.schema])


def layout_of(events: pa.Table, at: pa.Table, **words: Any) -> Layout:
    words = {"keys": "k", "time": "t"} | words
    return Layout.of(shape(events), shape(at), Spec.of(**words), "q", ())


def with_chunks(layout: Layout, rows: int) -> Layout:
    """The same with chunks of at least so many rows, which do not fit into memory, and which do if there are none."""
    memory = {"rows": rows, "memory": 0} if rows else {}
    request = replace(layout.request, events=replace(layout.request.events, **memory))
    return replace(layout, request=request)


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


def through(layout: Layout, rows: pa.Table, most: int) -> pa.Table:
    batches = rows.to_batches(max_chunksize=most)
    answers = list(answers_of_questions(layout.request, iter(batches)))
    kinds = [(field.name, schema.arrow_type(field.dataType)) for field in layout.output]
    found = pa.Table.from_batches(answers) if answers else pa.schema(kinds).empty_table()
    return found.rename_columns(layout.output.names)


def tables(rows: list[Any], asked: list[Any]) -> tuple[pa.Table, pa.Table]:
    events = {"k": pa.string(), "t": pa.int64(), "x": pa.int64()}
    questions = {"row": pa.int64(), "k": pa.string(), "q": pa.int64()}
    numbered = [(i, *question) for i, question in enumerate(asked)]
    made = []
    for data, kinds in ((rows, events), (numbered, questions)):
        made.append(
            pa.table({n: pa.array([row[i] for row in data], kind) for i, (n, kind) in enumerate(kinds.items())})
        )
    return made[0], made[1]


@pytest.mark.parametrize("aggs", AGGS)
@given(EVENTS, QUESTIONS, st.sampled_from(["right", "left"]), st.integers(0, 12), st.integers(1, 5))
def test_any_cut_gives_the_answers_of_in_process(
    aggs: str, rows: list[Any], asked: list[Any], closed: str, chunk: int, most: int
) -> None:
    """Ties, null keys and times, keys without events, more than a chunk of one key: rolling(at=) of the whole."""
    events, at = tables(rows, asked)
    words = {"windows": [2, 7], "aggs": AGGS[aggs], "closed": closed}
    layout = layout_of(events, at, **words)
    layout = with_chunks(layout, chunk)
    got = through(layout, travelling(layout, events, at), most)
    wanted = sash.rolling(events, at=at, at_time="q", keys="k", time="t", **words)
    assert got.sort_by("row").to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize("window", [10, 5_000])
@pytest.mark.parametrize("asked", ["few", "many"])
def test_memory_is_bounded(window: int, asked: str) -> None:
    """Of an endless key the events of its largest window are retained, and as many new rows, whichever they are."""
    n, batch = 40_000, 100
    events = pa.table({"k": [1] * n, "t": np.arange(n), "x": np.ones(n, dtype=np.int64)})
    times = np.arange(0, n, 100) if asked == "few" else np.repeat(np.arange(0, n, 20), 20)
    at = pa.table({"k": [1] * len(times), "q": times, "wide": ["w" * 50] * len(times)})
    layout = layout_of(events, at, aggs={"n": monoids.count()}, windows=[window])
    layout = with_chunks(layout, 500)
    chunks = QuestionChunks(layout.request)
    retained, answered = [], []
    for part in _merged(layout, events, at).to_batches(max_chunksize=batch):
        answered += [out.column(out.num_columns - 1) for out in chunks.take(part)]
        context = 0 if chunks.context is None else chunks.context.num_rows
        retained.append(context + sum(rows.num_rows for rows in chunks.waiting))
    answered += [out.column(out.num_columns - 1) for out in chunks.end()]
    assert max(retained) <= 2 * max(window, 500) + 2 * batch
    assert pa.concat_arrays(answered).to_pylist() == [min(time + 1, window) for time in times.tolist()]


def _merged(layout: Layout, events: pa.Table, at: pa.Table) -> pa.Table:
    return in_order_of(travelling(layout, events, at), QuestionChunks(layout.request).order)


def test_events_are_computed_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A context is never longer than the new rows behind it, and a chunk without questions costs nothing."""
    computed = []
    real = partition.rolling

    def counting(table: Any, **options: Any) -> Any:
        computed.append(table.num_rows)
        return real(table, **options)

    monkeypatch.setattr(partition, "rolling", counting)
    n = 20_000
    events = pa.table({"k": [1] * n, "t": np.arange(n)})
    for times, most in ((np.arange(0, n, 7), 3 * n), (np.array([n]), n)):
        computed.clear()
        at = pa.table({"k": [1] * len(times), "q": times})
        layout = layout_of(events, at, aggs={"n": monoids.count()}, windows=[n])
        layout = with_chunks(layout, 100)
        through(layout, _merged(layout, events, at), 50)
        assert 0 < sum(computed) <= most


def test_wide_questions_make_short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a chunk in bytes is limited too."""
    monkeypatch.setattr(partition, "BYTES", 10_000)
    events = pa.table({"k": [1] * 100, "t": range(100)})
    at = pa.table({"k": [1] * 100, "q": range(100), "wide": ["w" * 1000] * 100})
    layout = layout_of(events, at, aggs={"n": monoids.count()}, windows=[5])
    chunks = QuestionChunks(layout.request)
    parts = _merged(layout, events, at).to_batches(max_chunksize=1)
    answers = [sum(out.num_rows for out in chunks.take(part)) for part in parts]
    assert sum(answers) > 80
    assert max(answers) <= 12


def test_no_batches_and_empty_ones() -> None:
    """An empty partition gives nothing, and events without questions give nothing."""
    events, at = tables([("a", 1, 1)], [])
    layout = layout_of(events, at, aggs=CORE, windows=[5])
    rows = travelling(layout, events, at)
    empty = rows.slice(0, 0).combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    for batches in ([], empty, rows.to_batches()):
        assert list(answers_of_questions(layout.request, iter(batches))) == []


def test_times_at_the_ends_of_int64() -> None:
    """Windows that reach below the smallest time hold all there is."""
    times = [-(2**63), -(2**63) + 1, 0, 2**63 - 2, 2**63 - 1]
    events = pa.table({"k": [1] * 5, "t": pa.array(times, pa.int64())})
    at = pa.table({"k": [1] * 5, "q": pa.array(times, pa.int64())})
    words = {"aggs": {"n": monoids.count()}, "windows": [2, 2**62 - 1]}
    layout = layout_of(events, at, **words)
    layout = with_chunks(layout, 1)
    got = through(layout, travelling(layout, events, at), 1)
    assert got.to_pylist() == sash.rolling(events, at=at, at_time="q", keys="k", time="t", **words).to_pylist()
