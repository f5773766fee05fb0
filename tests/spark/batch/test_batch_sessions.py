"""sash.spark.rolling per session of a batch: in-process rolling's answers wherever chunks are cut, and Spark's own."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import sash
from sash import monoids
from sash.keyed.spec import Spec
from sash.spark import rolling, schema
from sash.spark.batch import partition
from sash.spark.batch.request import request_of
from sash.spark.batch.session_chunks import sessions_of
from support.spark_events import FOLDS, ORDERED, agree, events, frame, monoids_of

GAP = {"per": "session", "gap": 3}


def shape_of(table: pa.Table) -> Any:
    fields = [schema.spark.StructField(field.name, schema.spark_type(field.type)) for field in table.schema]
    return schema.spark.StructType(fields)


def through(table: pa.Table, keys: list[str], aggs: Any, cuts: list[int], memory: int = 0, **options: Any) -> pa.Table:
    """The answers to rows in batches that are cut anywhere, and do not fit into memory, or do if there is more."""
    request = request_of(shape_of(table), Spec.of(keys=keys, time="t", aggs=aggs, **(GAP | options)))[0]
    whole = table.combine_chunks()
    edges = [0, *cuts, table.num_rows]
    parts = [whole.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    batches = [batch for part in parts for batch in part.to_batches()]
    return pa.Table.from_batches(list(sessions_of(partition.replace(request, memory=memory), iter(batches))))


def assert_same(got: pa.Table, wanted: pa.Table, keys: list[str]) -> None:
    assert got.column_names == wanted.column_names

    def ordered(table: pa.Table) -> list[dict[str, Any]]:
        return sorted(table.to_pylist(), key=lambda row: repr([row[name] for name in [*keys, "session_start"]]))

    rows, others = ordered(got), ordered(wanted)
    assert len(rows) == len(others)
    for row, other in zip(rows, others, strict=True):
        wrong = {name: (row[name], other[name]) for name in row if not agree(row[name], other[name])}
        assert not wrong, (row, wrong)


@pytest.mark.parametrize("memory", [0, partition.MEMORY])
@pytest.mark.parametrize("rows", [1, 5, 40, 10**6])
@pytest.mark.parametrize("keys", [["text"], ["int", "day"], []], ids=["one", "two", "none"])
def test_any_cut_gives_the_sessions_of_the_whole(monkeypatch, keys, rows, memory):
    """Sessions, ties and keys across batches and chunks of any size."""
    monkeypatch.setattr(partition, "ROWS", rows)
    for seed in range(3):
        table = events(seed, 120, skewed=seed % 2 == 0)
        rng = np.random.default_rng(seed)
        cuts = np.sort(rng.integers(0, table.num_rows + 1, table.num_rows // 4)).tolist()
        aggs = monoids_of(FOLDS)
        wanted = sash.rolling(table, keys=keys, time="t", aggs=aggs, **GAP)
        assert_same(through(table, keys, aggs, cuts, memory), wanted, keys)


@pytest.mark.parametrize("rows", [1, 7])
def test_order_is_kept(monkeypatch, rows):
    """A monoid that is not commutative, at distinct times."""
    monkeypatch.setattr(partition, "ROWS", rows)
    table = events(3, distinct=True, skewed=True)
    aggs = monoids_of(ORDERED)
    wanted = sash.rolling(table, keys=["text"], time="t", aggs=aggs, **GAP)
    assert_same(through(table, ["text"], aggs, list(range(0, table.num_rows, 5))), wanted, ["text"])


def test_a_long_session_is_not_read_over_and_over(monkeypatch):
    """A session that grows with every chunk is answered again when it has doubled."""
    monkeypatch.setattr(partition, "ROWS", 10)
    answered = []
    answer = partition.Request.answer
    monkeypatch.setattr(
        partition.Request, "answer", lambda self, read, **words: (answered.append(read.num_rows), answer(self, read))[1]
    )
    rows = 4000
    table = pa.table({"t": np.arange(rows), "x": np.ones(rows, dtype=np.int64)})
    got = through(table, [], {"n": monoids.count()}, list(range(0, rows, 10)))
    assert got.to_pylist() == [{"session_start": 0, "session_end": rows + 2, "n": rows}]
    assert sum(answered) <= 6 * rows


def test_a_batch_has_the_sessions_that_sparks_own_has(spark):
    """Row for row; an event exactly the gap after the last one joins, and so do ties."""
    rng = np.random.default_rng(4)
    count = 3000
    seconds = np.cumsum(rng.choice([0, 1, 30, 60, 119, 120, 121, 200], count))
    table = pa.table(
        {
            "k": pa.array(rng.integers(0, 5, count), mask=rng.random(count) < 0.1),
            "t": pa.array(rng.permutation(seconds) * 10**6, pa.timestamp("us", "UTC"), mask=rng.random(count) < 0.01),
            "x": pa.array(rng.integers(-9, 9, count), mask=rng.random(count) < 0.2),
        }
    )
    df = spark.createDataFrame(table)
    aggs = {"n": monoids.count(), "s": monoids.sum("x"), "top": monoids.max("x")}
    words: dict[str, Any] = {"keys": ["k"], "time": "t", "per": "session", "gap": "2 minutes", "aggs": aggs}
    theirs = df.groupBy("k", F.session_window("t", "2 minutes").alias("w"))
    theirs = theirs.agg(F.count("*").alias("n"), F.sum("x").alias("s"), F.max("x").alias("top"))
    own = [F.col("w.start").alias("session_start"), F.col("w.end").alias("session_end")]
    wanted = sorted(map(repr, theirs.select("k", *own, "n", "s", "top").collect()))
    assert len(wanted) > 500
    assert sorted(map(repr, rolling(df, **words).collect())) == wanted
    update = rolling(df, **words, emit="update")
    assert update.columns[-2:] == ["revision", "deleted"]
    assert sorted(map(repr, update.drop("revision", "deleted").collect())) == wanted
    inside = sash.rolling(table, **words).to_pylist()
    assert len(inside) == len(wanted)


def test_aggregates_in_python_and_columns_that_are_not_read(spark):
    """They run over the rows of a session; other columns, of any type, do not matter."""
    table = events(7, 80)
    aggs = {"longest": sash.Monoid(identity="", combine=max, column="text", name="longest", returns="string")}
    df = frame(spark, table).withColumn("more", F.create_map(F.lit("a"), F.lit(1)))
    words: dict[str, Any] = {"keys": ["int"], "time": "t", "aggs": aggs, **GAP}
    got = rolling(df, **words).toArrow()
    assert_same(got, sash.rolling(table, **words), ["int"])
