"""sash.spark.rolling at slide boundaries: in-process rolling's answers, wherever partitions and chunks are cut.

These need `every=` in `sash.rolling`.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types

import sash
from sash import SashError, monoids
from sash.keyed.spec import Spec
from sash.spark import rolling, schema
from sash.spark.batch import partition
from sash.spark.batch.request import request_of
from support.spark_events import FOLDS, agree, events, frame, monoids_of

# Sizes that are multiples of the slide, that are not, that leave gaps between windows, on grids of their own.
GRIDS: dict[str, dict[str, Any]] = {
    "multiples": {"windows": [20, 60], "every": 10},
    "fractions": {"windows": [7, 33], "every": 10},
    "gaps": {"windows": [3], "every": 10},
    "offset": {"windows": [20, 45], "every": 10, "offset": 3},
    "before": {"windows": [20], "every": 10, "offset": -17},
    "resolution": {"windows": [20, 60], "every": 10, "resolution": 5},
    "tumbling": {"windows": [10], "every": 10},
}


def words(grid: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"keys": ["text"], "time": "t", "aggs": monoids_of(FOLDS), **grid, **options}


def assert_same(got: pa.Table, wanted: pa.Table, keys: list[str]) -> None:
    """Compare boundaries, which come in any order, by key and end."""
    assert got.column_names == wanted.column_names

    def ordered(table: pa.Table) -> list[dict[str, Any]]:
        return sorted(table.to_pylist(), key=lambda row: repr([row[name] for name in [*keys, "window_end"]]))

    rows, others = ordered(got), ordered(wanted)
    assert len(rows) == len(others)
    for row, other in zip(rows, others, strict=True):
        wrong = {name: (row[name], other[name]) for name in row if not agree(row[name], other[name])}
        assert not wrong, (row, wrong)


# --- a partition, without Spark -------------------------------------------------------------------


def through(table: pa.Table, options: dict[str, Any], batch: int) -> pa.Table:
    """The answers to rows in batches of a size, of which none fits into memory beside another."""
    keys = options["keys"]
    shape = spark_types.StructType(
        [spark_types.StructField(field.name, schema.spark_type(field.type)) for field in table.schema]
    )
    more = {name: value for name, value in options.items() if name not in ("keys", "time")}
    request, _ = request_of(shape, Spec.of(keys=keys, time="t", **more))
    batches = table.combine_chunks().to_batches(max_chunksize=batch)
    return pa.Table.from_batches(partition.answers_of(partition.replace(request, memory=0), iter(batches)))


@pytest.mark.parametrize("rows", [1, 5, 40, 10**6])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("keys", [["text"], ["int", "day"], []], ids=["one", "two", "none"])
def test_any_cut_gives_the_boundaries_of_the_whole(monkeypatch, keys, grid, rows):
    """Chunks of any size, the same key over many of them: no boundary twice, none left out."""
    monkeypatch.setattr(partition, "ROWS", rows)
    for seed in range(2):
        table = events(seed, 120, skewed=seed == 0)
        options = words(GRIDS[grid], keys=keys)
        assert_same(through(table, options, 3), sash.rolling(table, **options), keys)


@pytest.mark.parametrize("batch", [1, 7, 60])
@pytest.mark.parametrize("limit", [1, 50])
def test_rows_of_many_boundaries_go_a_few_at_a_time(monkeypatch, limit, batch):
    """The number of boundaries in a chunk is limited too, and the answers are the same."""
    given = []
    real = partition.rolling

    def counting(table: Any, **options: Any) -> Any:
        answers = real(table, **options)
        given.append(answers.num_rows)
        return answers

    table = events(3, 60)
    options = words({"windows": [300], "every": 10}, aggs={"n": monoids.count()})
    whole = sash.rolling(table, **options)
    monkeypatch.setattr(partition, "RESULTS", limit)
    monkeypatch.setattr(partition, "rolling", counting)
    assert_same(through(table, options, batch), whole, ["text"])
    assert max(given) <= limit + 3 * 31
    assert len(given) >= 4


# --- on Spark -------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("grid", GRIDS)
def test_batch_is_in_process(spark, small, grid, partitions):
    """Null keys and values, ties, keys over many batches; rows without a time are left out."""
    small(partitions=partitions)
    table = events(partitions, bad_times=True, skewed=partitions == 4)
    options = words(GRIDS[grid])
    got = rolling(frame(spark, table), **options)
    assert_same(got.toArrow(), sash.rolling(table, **options), ["text"])


def test_a_worked_example(spark):
    """Two payments of a card, every ten seconds over the last twenty and the last ten."""
    table = pa.table({"card": ["a", "a"], "t": [4, 17], "x": [5, 7]})
    got = rolling(
        frame(spark, table), keys="card", time="t", windows=[20, 10], every=10, aggs={"total": monoids.sum("x")}
    )
    assert [tuple(row) for row in got.orderBy("window_end").collect()] == [
        ("a", -10, 10, 5, 5),
        ("a", 0, 20, 12, 7),
        ("a", 10, 30, 7, None),
    ]


@pytest.mark.parametrize("zone", [None, "UTC"], ids=["local", "instants"])
def test_timestamps(spark, small, zone):
    """Boundaries are of the type of the times, and so is the start of the first window."""
    small(zone="America/New_York")
    minutes = np.arange(0, 300, 7) * 60_000_000
    table = pa.table({"k": [1] * len(minutes), "t": pa.array(minutes, pa.timestamp("us", zone))})
    got = rolling(
        frame(spark, table), keys="k", time="t", windows=["1h"], every="15 minutes", aggs={"n": monoids.count()}
    )
    assert got.schema["window_end"].dataType == got.schema["window_start"].dataType
    assert got.schema["window_end"].dataType.simpleString() == ("timestamp_ntz" if zone is None else "timestamp")
    rows = got.orderBy("window_end").toArrow()
    ends = rows["window_end"].cast(pa.timestamp("us", "UTC")).to_pylist()
    assert ends[0] == datetime(1970, 1, 1, 0, 15, tzinfo=UTC)
    assert set(np.diff(ends)) == {timedelta(minutes=15)}
    assert rows["n_1h"].to_pylist()[:5] == [3, 5, 7, 9, 8]


def test_a_resolution_is_said_with_the_window(spark):
    """What the results are rounded to stands in the schema."""
    rows = frame(spark, events(1, 10))
    plain = rolling(rows, **words({"windows": [20], "every": 10}))
    coarse = rolling(rows, **words({"windows": [20], "every": 10, "resolution": 5}))
    assert plain.schema["window_end"].metadata == {}
    assert coarse.schema["window_end"].metadata == {"sash.resolution": "5"}


def test_only_what_is_read_is_shuffled(spark):
    """Columns that no answer needs stay behind."""
    got = rolling(frame(spark, events(1, 10)), **words(GRIDS["gaps"], aggs={"s": monoids.sum("x")}))
    assert got.columns == ["text", "window_start", "window_end", "s_3"]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"every": 0}, "every"),
        ({"every": "1m"}, "every"),
        ({"every": 10, "closed": "right"}, "closed"),
        ({"offset": 3}, "offset"),
        ({"resolution": 3}, "resolution"),
        ({"every": 10, "resolution": 0}, "resolution"),
    ],
)
def test_mistakes_are_refused_at_the_call(spark, options, argument):
    """Before Spark has run anything."""
    with pytest.raises(SashError, match=f"^{argument} must ") as raised:
        rolling(frame(spark, events(1, 5)), **words({"windows": [20]}, **options))
    assert raised.value.argument == argument


def test_the_columns_of_late_events_have_their_types(spark):
    """A backfill has the columns of its stream: those that only late events fill are null, and of the id's own type."""
    table = events(2, 20)
    got = rolling(frame(spark, table), **words({"windows": [20], "every": 10}), id="x", late="emit")
    assert got.schema["x"].dataType.simpleString() == "bigint"
    shown = got.select("t", "x", "late").distinct().collect()
    assert [tuple(row) for row in shown] == [(None, None, False)]
