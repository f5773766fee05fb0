"""sash.spark.rolling per session of a batch: in-process rolling's answers wherever chunks are cut, and Spark's own."""

import itertools
import zlib
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
from sash.spark.batch.session_chunks import GroupedSessionChunks, SessionChunks
from sash.spark.batch.session_order import ORDER, groups_of, least_time, order_of
from support.spark_events import FOLDS, ORDERED, agree, events, frame, monoids_of

GAP = {"per": "session", "gap": 3}


def shape_of(table: pa.Table) -> Any:
    fields = [schema.spark.StructField(field.name, schema.spark_type(field.type)) for field in table.schema]
    return schema.spark.StructType(fields)


def through(
    table: pa.Table, keys: list[str], aggs: Any, cuts: list[int], kind: Any = SessionChunks, **options: Any
) -> pa.Table:
    """The answers to sorted rows in batches that are cut anywhere."""
    shape = shape_of(table.drop_columns([name for name in [ORDER] if name in table.column_names]))
    request = request_of(shape, Spec.of(keys=keys, time="t", aggs=aggs, **(GAP | options)))[0]
    whole = table.combine_chunks()
    edges = [0, *cuts, table.num_rows]
    parts = [whole.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    batches = [batch for part in parts for batch in part.to_batches()]
    return pa.Table.from_batches(list(partition.answers_of(request, iter(batches), kind)))


def assert_same(got: pa.Table, wanted: pa.Table, keys: list[str]) -> None:
    assert got.column_names == wanted.column_names

    def ordered(table: pa.Table) -> list[dict[str, Any]]:
        return sorted(table.to_pylist(), key=lambda row: repr([row[name] for name in [*keys, "session_start"]]))

    rows, others = ordered(got), ordered(wanted)
    assert len(rows) == len(others)
    for row, other in zip(rows, others, strict=True):
        wrong = {name: (row[name], other[name]) for name in row if not agree(row[name], other[name])}
        assert not wrong, (row, wrong)


@pytest.mark.parametrize("rows", [1, 5, 40, 10**6])
@pytest.mark.parametrize("keys", [["text"], ["int", "day"], []], ids=["one", "two", "none"])
def test_any_cut_gives_the_sessions_of_the_whole(monkeypatch, keys, rows):
    """Sessions, ties and keys across batches and chunks of any size."""
    monkeypatch.setattr(partition, "ROWS", rows)
    for seed in range(3):
        table = events(seed, 120, skewed=seed % 2 == 0)
        table = table.sort_by([(name, "ascending") for name in [*keys, "t"]])
        rng = np.random.default_rng(seed)
        cuts = np.sort(rng.integers(0, table.num_rows + 1, table.num_rows // 4)).tolist()
        aggs = monoids_of(FOLDS)
        assert_same(through(table, keys, aggs, cuts), sash.rolling(table, keys=keys, time="t", aggs=aggs, **GAP), keys)


STEP = 20_000  # ticks; the order of rows is exact to 65,536


def in_groups(table: pa.Table, keys: list[str], groups: int, rng: np.random.Generator) -> pa.Table:
    """Rows in the order of `order_of`, with as many groups; those of one number come in any order."""
    rows = table.select(keys).to_pylist()
    group = np.array([zlib.crc32(repr(row).encode()) % groups for row in rows], dtype=np.int64)
    order = (group << 48) + (np.asarray(table["t"]) >> 16) + (1 << 47)
    by = np.lexsort((rng.random(len(order)), order))
    return table.append_column(ORDER, pa.array(order)).take(pa.array(by))


@pytest.mark.parametrize("rows", [1, 5, 40, 10**6])
@pytest.mark.parametrize("groups", [1, 2, 1000])
@pytest.mark.parametrize("keys", [["text"], ["int", "day"], []], ids=["one", "two", "none"])
def test_groups_of_keys_give_the_sessions_of_the_whole(monkeypatch, keys, groups, rows):
    """Several keys side by side, in an order that is not quite that of time, before and after 1970."""
    monkeypatch.setattr(partition, "ROWS", rows)
    for seed, by in enumerate((0, -(2**62), -40 * STEP)):
        table = events(seed, 150, skewed=seed % 2 == 0)
        table = table.set_column(table.column_names.index("t"), "t", pa.array(np.asarray(table["t"]) * STEP + by))
        rng = np.random.default_rng(seed)
        cuts = np.sort(rng.integers(0, table.num_rows + 1, table.num_rows // 4)).tolist()
        aggs, gap = monoids_of(FOLDS), {"gap": 3 * STEP}
        got = through(in_groups(table, keys, groups, rng), keys, aggs, cuts, GroupedSessionChunks, **gap)
        assert_same(got, sash.rolling(table, keys=keys, time="t", aggs=aggs, **(GAP | gap)), keys)


def test_the_order_of_rows(spark):
    """It ascends with the time in each group, over all of the times that there are."""
    ticks = [-(2**63), -(2**50), -65536, -1, 0, 65535, 65536, 2**50, 2**63 - 1]
    made = spark.createDataFrame([(tick, None) for tick in ticks], "t long, k string")
    for keys in ([], ["k"]):
        orders = [row[0] for row in made.select(order_of(keys, F.col("t"), made.schema["t"].dataType)).collect()]
        assert orders == sorted(orders)
        assert len(set(groups_of(np.array(orders)))) == 1
        assert all(tick - 65536 < least_time(order) <= tick for tick, order in zip(ticks, orders, strict=True))
    instant = made.select(F.timestamp_micros(F.lit(70_000)).alias("t"))
    (order,) = instant.select(order_of([], F.col("t"), instant.schema["t"].dataType)).first()
    assert least_time(order) == 65536
    assert order_of([], F.col("t"), schema.spark.TimestampNTZType()) is None


@pytest.mark.parametrize("rows", [1, 7])
def test_order_is_kept(monkeypatch, rows):
    """A monoid that is not commutative, at distinct times."""
    monkeypatch.setattr(partition, "ROWS", rows)
    table = events(3, distinct=True, skewed=True).sort_by([("text", "ascending"), ("t", "ascending")])
    aggs = monoids_of(ORDERED)
    wanted = sash.rolling(table, keys=["text"], time="t", aggs=aggs, **GAP)
    assert_same(through(table, ["text"], aggs, list(range(0, table.num_rows, 5))), wanted, ["text"])


@pytest.mark.parametrize("kind", [SessionChunks, GroupedSessionChunks])
def test_a_long_session_is_not_read_over_and_over(monkeypatch, kind):
    """A session that grows with every chunk is answered again when it has doubled."""
    monkeypatch.setattr(partition, "ROWS", 10)
    answered = []
    answer = partition.Request.answer
    monkeypatch.setattr(
        partition.Request, "answer", lambda self, read, **words: (answered.append(read.num_rows), answer(self, read))[1]
    )
    rows = 4000
    table = pa.table({"t": np.arange(rows), "x": np.ones(rows, dtype=np.int64)})
    table = in_groups(table, [], 1, np.random.default_rng(0)).sort_by("t") if kind is GroupedSessionChunks else table
    got = through(table, [], {"n": monoids.count()}, list(range(0, rows, 10)), kind)
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
