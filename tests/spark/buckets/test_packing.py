"""Rows on their way into buckets and results on their way out: nothing is lost, and a key always goes the same way."""

import datetime as dt
import decimal
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from sash import monoids
from sash.keyed.panes import RECORD
from sash.keyed.spec import Spec
from sash.spark.stream import packing
from sash.spark.stream.bucket_ids import labels
from sash.spark.stream.packing import END, PACKED, pack, result_bytes, unpack, unpack_rows
from sash.spark.stream.plan import Plan
from sash.spark.stream.query import plan_of
from support.buckets import elsewhere
from support.buckets.cluster import Cluster, packed_of
from support.buckets.single import COUNT, event, plain
from support.buckets.trial import TICK_US, Asking, rows_of

ROWS = Asking(aggs=COUNT)
NAMED = Asking(aggs=COUNT, ids=int)
PANES = Asking(every=4, sizes=(8,))


def packed_rows(asking: Asking, rows: list[Any], plan: Plan | None = None) -> list[dict[str, Any]]:
    """The packed rows of one map task."""
    plan = plan or asking.plan()
    table = asking.table(rows).select(plan.schema.names)
    return [row for batch in pack(plan, iter(table.to_batches())) for row in batch.to_pylist()]


# --- buckets --------------------------------------------------------------------------------------


def test_a_key_has_one_bucket():
    """Whatever comes along with it, in whatever order, one by one or all at once."""
    rows = elsewhere.keys()
    found = elsewhere.buckets_of(rows)
    shuffled = random.Random(1).sample(rows, len(rows))
    one_by_one = [elsewhere.buckets_of([row]) for row in rows]
    assert elsewhere.buckets_of(shuffled) == found
    assert {time: bucket for one in one_by_one for time, bucket in one.items()} == found
    assert len(set(found.values())) > 10


def test_a_key_has_one_bucket_in_every_process():
    """And a definition one fingerprint: neither hangs on how Python hashes there."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    script = Path(elsewhere.__file__)
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=environment)
    assert json.loads(said.stdout) == json.loads(json.dumps(elsewhere.seen()))


def test_without_keys_there_is_one_bucket():
    """All rows are of one window then."""
    plan = plan_of(ROWS.schema(), Spec.of(**ROWS.engine_words() | {"keys": []}), None)
    assert plan.buckets == 1
    assert [row["bucket"] for row in packed_rows(ROWS, plain(1, 2, 3), plan)] == [0]


# --- rows that are none ---------------------------------------------------------------------------


@pytest.mark.parametrize("asking", [ROWS, PANES])
def test_nothing_is_packed_of_nothing(asking):
    """No batches, empty batches, and a bucket to which nothing came."""
    plan = asking.plan()
    empty = plan.schema.empty_table().combine_chunks()
    assert list(pack(plan, iter([]))) == []
    assert list(pack(plan, iter([pa.RecordBatch.from_pylist([], schema=plan.schema)] * 3))) == []
    assert list(pack(plan, iter(empty.to_batches()))) == []
    assert unpack_rows(plan, []).schema == unpack_rows(plan, [b""]).schema == plan.packed
    assert unpack_rows(plan, [b"", b""]).num_rows == 0


def test_packed_rows_are_as_spark_was_told():
    """Their columns have the names and types that the operator's input has."""
    (batch,) = pack(NAMED.plan(1), iter(NAMED.table([event(1)]).select(NAMED.plan().schema.names).to_batches()))
    assert batch.schema.names == PACKED.names
    assert [field.type for field in batch.schema] == [
        pa.int32(),
        pa.bool_(),
        pa.int64(),
        pa.int64(),
        pa.large_binary(),
    ]


def test_bad_rows_are_counted_once():
    """One without a time counts as that, whatever its id is; those that are good are packed."""
    rows = [event(1), event(2, None), event(3), {**event(4), "t": None}, {**event(5, None), "t": None}]
    packed = packed_rows(NAMED, rows)
    assert sum(row["bad_times"] for row in packed) == 2
    assert sum(row["bad_ids"] for row in packed) == 1
    assert unpack_rows(NAMED.plan(), [row["data"] for row in packed]).num_rows == 2


@pytest.mark.parametrize("asking", [ROWS, NAMED, PANES])
def test_rows_that_are_all_bad_are_counted_too(asking):
    """A packed row without rows takes the count along."""
    packed = packed_rows(asking, [{**event(1), "t": None}] * 3)
    assert packed == [{"bucket": 0, "asked": False, "bad_times": 3, "bad_ids": 0, "data": b""}]


@pytest.mark.parametrize("asking", [ROWS, NAMED, PANES])
def test_rows_of_the_year_9999_have_bad_times_and_markers_are_counted_nowhere(asking):
    """A marker moves the watermark and nothing else, with an id or without: it has a time, and null in all else."""
    plan = asking.plan()
    assert dt.datetime(9999, 1, 1, tzinfo=dt.UTC) == dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
        microseconds=END
    )
    ends = [{"t": END // TICK_US}, {**event(1, None), "t": END // TICK_US}, {"k": "a", "t": END // TICK_US + 1}]
    table = asking.table([dict.fromkeys(event(1)) | row for row in ends]).select(plan.schema.names)
    assert list(pack(plan, iter(table.slice(0, 1).to_batches()))) == []
    (bad,) = (row for batch in pack(plan, iter(table.to_batches())) for row in batch.to_pylist())
    assert bad == {"bucket": 0, "asked": False, "bad_times": 2, "bad_ids": 0, "data": b""}
    last = asking.table([{**event(1), "t": END // TICK_US - 1}]).select(plan.schema.names)
    assert sum(batch.num_rows for batch in pack(plan, iter(last.to_batches()))) == 1


# --- rows that are some ---------------------------------------------------------------------------


def test_rows_keep_their_order():
    """Rows of one bucket stand in it as they came."""
    plan = ROWS.plan(1)
    times = random.Random(1).choices(range(50), k=40)
    rows = unpack_rows(plan, [row["data"] for row in packed_rows(ROWS, plain(*times), plan)])
    assert [row["t"] for row in rows_of(rows)] == times


def test_small_batches_are_packed_together(monkeypatch):
    """Arrow batches of a map task are joined until they are worth it."""
    monkeypatch.setattr(packing, "_CHUNK_ROWS", 10)
    plan = ROWS.plan(1)
    table = ROWS.table(plain(*range(25))).select(plan.schema.names)
    packed = [row for batch in pack(plan, iter(table.to_batches(max_chunksize=4))) for row in batch.to_pylist()]
    assert [unpack_rows(plan, [row["data"]]).num_rows for row in packed] == [12, 12, 1]


def test_rows_that_weigh_much_are_packed_by_their_bytes(monkeypatch):
    """However few they are, in small batches or in a large one."""
    monkeypatch.setattr(packing, "_CHUNK_BYTES", 1 << 14)
    plan = Asking(aggs=COUNT, carry=("c",)).plan(1)
    heavy = [{**event(time, named=False), "c": "x" * 4000} for time in range(20)]
    table = ROWS.table(heavy).select(plan.schema.names)
    for most in (1, 20):
        packed = [row for batch in pack(plan, iter(table.to_batches(max_chunksize=most))) for row in batch.to_pylist()]
        parts = [unpack_rows(plan, [row["data"]]) for row in packed]
        assert max(part.num_rows for part in parts) <= 9  # of 20, as many as weigh twice the limit
        assert pa.concat_tables(parts).equals(table.combine_chunks())


def test_rows_travel_as_panes():
    """One record for each key and pane, which says of how many rows it is."""
    plan = PANES.plan(1)
    rows = [*plain(0, 1, 3, 4, 9, 8, 11, 10), {**event(2, named=False), "k": None}]
    panes = unpack_rows(plan, [row["data"] for row in packed_rows(PANES, rows, plan)])
    assert panes.column_names == ["k", "t", RECORD]
    counted = {(row["k"], row["t"]): int.from_bytes(row[RECORD][8:16], "little") for row in rows_of(panes)}
    assert counted == {("a", 0): 3, ("a", 4): 1, ("a", 8): 4, (None, 0): 1}


# --- results --------------------------------------------------------------------------------------

RICH = spark.StructType(
    [
        spark.StructField("k", spark.DecimalType(20, 4)),
        spark.StructField("t", spark.TimestampType()),
        spark.StructField("ntz", spark.TimestampNTZType()),
        spark.StructField("data", spark.BinaryType()),
        spark.StructField("price", spark.DecimalType(38, 10)),
        spark.StructField("day", spark.DateType()),
        spark.StructField("tags", spark.ArrayType(spark.StringType())),
        spark.StructField(
            "nested",
            spark.StructType(
                [spark.StructField("a", spark.ArrayType(spark.LongType())), spark.StructField("b", spark.DoubleType())]
            ),
        ),
        spark.StructField("nothing", spark.NullType()),
    ]
)


def rich_rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "k": None if i % 4 == 0 else decimal.Decimal(i % 3) / 16,
            "t": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=i),
            "ntz": dt.datetime(1960, 1, 1) + dt.timedelta(days=i),
            "data": None if i % 5 == 0 else bytes(range(i)),
            "price": None if i % 6 == 0 else decimal.Decimal(10**20 + i) / 8,
            "day": dt.date(2026, 1, 1 + i),
            "tags": None if i % 3 == 0 else [None, "é", ""][: i % 4],
            "nested": None if i % 7 == 0 else {"a": [i, None], "b": i / 3},
            "nothing": None,
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("late", ["drop", "emit"])
def test_all_columns_of_a_row_come_out_again(late):
    """Nested, decimal and binary ones too; the state keeps those alone that it reads."""
    aggs = {"n": monoids.count(), "last": monoids.last("price")}
    plan = plan_of(RICH, Spec.of(keys=["k"], time="t", windows=["1h"], aggs=aggs, emit="arrival", late=late), 3)
    cluster = Cluster(plan)
    table = pa.Table.from_pylist(rich_rows(20), schema=plan.schema)
    packed = packed_of([list(pack(plan, iter(table.to_batches(max_chunksize=7))))])
    out = cluster.results(cluster.task(packed, labels(3)))
    back = sorted(out.select(RICH.names).to_pylist(), key=lambda row: row["t"])
    assert back == rich_rows(20)
    assert out.schema == plan.result
    assert plan.logged == ["k", "t", "price"]


def test_results_come_in_parts():
    """Some megabytes each, whose rows together are all of them; no rows have no parts."""
    plan = ROWS.plan()
    rows = 300
    table = pa.table({"text": pa.array(["x" * (1 << 17)] * rows), "n": pa.array(range(rows))})
    parts = result_bytes(plan, table)
    assert len(parts) == 2
    batch = pa.RecordBatch.from_arrays([pa.array([parts[0], None, b"", parts[1]], pa.large_binary())], ["data"])
    assert pa.Table.from_batches(unpack(table.schema, iter([batch]))).equals(table)
    assert result_bytes(plan, table.slice(0, 0)) == []
