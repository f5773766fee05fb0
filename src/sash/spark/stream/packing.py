"""Rows on their way to their buckets, and results on their way back, as bytes that Spark does not look into.

A packed row is a bucket with a batch of Arrow's; so a micro-batch goes through the shuffle and into Python as a few
rows, however many events it has. Where rows are combined into panes, they are so before the shuffle.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from sash import _core
from sash.inputs import arrow
from sash.keyed.panes import partials_of
from sash.spark.stream.bucket_ids import labels
from sash.spark.stream.plan import Plan, known
from sash.spark.stream.worker import settle

PACKED = spark.StructType(
    [
        spark.StructField("bucket", spark.IntegerType()),
        spark.StructField("bad_times", spark.LongType()),
        spark.StructField("bad_ids", spark.LongType()),
        spark.StructField("data", spark.BinaryType()),
    ]
)
_ARROW = pa.schema(
    [("bucket", pa.int32()), ("bad_times", pa.int64()), ("bad_ids", pa.int64()), ("data", pa.large_binary())]
)
END = 253_370_764_800_000_000  # the year 9999 in microseconds: rows from then on move the watermark and nothing else
_TOGETHER = 1 << 17  # rows that are packed at a time


def pack(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give a packed row for each bucket that some rows belong to."""
    settle()
    plan = known(plan)
    for table in _together(plan, batches):
        readable, bad_times, bad_ids = _readable(plan, table)
        rows = partials_of(plan.definition, plan.asked, readable) if plan.merges else readable
        packed = list(_by_bucket(plan, rows))
        if not packed and (bad_times or bad_ids):
            packed = [(0, b"")]
        if packed:
            first = np.arange(len(packed)) == 0
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([labels(plan.buckets)[bucket] for bucket, _ in packed], pa.int32()),
                    pa.array(np.where(first, bad_times, 0)),
                    pa.array(np.where(first, bad_ids, 0)),
                    pa.array([data for _, data in packed], pa.large_binary()),
                ],
                schema=_ARROW,
            )


def _together(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _TOGETHER:
            yield _named(plan, held)
            held, rows = [], 0
    if rows:
        yield _named(plan, held)


def _named(plan: Plan, batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).rename_columns(plan.schema.names).cast(plan.schema)


def _readable(plan: Plan, table: pa.Table) -> tuple[pa.Table, int, int]:
    """Give the rows that have a time, and an id where they must, without markers of the end; and how many have not."""
    ticks, bad = arrow.ticks(table, plan.asked.time)
    bad = np.zeros(len(ticks), dtype=bool) if bad is None else bad
    ends = ticks >= END
    nameless = np.zeros(len(ticks), dtype=bool)
    if plan.asked.id is not None:
        nameless = np.asarray(table.column(plan.asked.id).is_null(), dtype=bool) & ~bad & ~ends
    drop = bad | nameless | ends
    kept = table.filter(pa.array(~drop)) if drop.any() else table
    return kept, int(bad.sum()), int(nameless.sum())


def _by_bucket(plan: Plan, table: pa.Table) -> Iterator[tuple[int, bytes]]:
    if not table.num_rows:
        return
    buckets = np.zeros(table.num_rows, dtype=np.int32)
    if plan.asked.keys:
        schema, array = arrow.keys_of(table, plan.asked.keys)
        _core.buckets(schema, array, plan.buckets, buckets)
    order = np.argsort(buckets, kind="stable")
    rows = table.take(pa.array(order)).combine_chunks().to_batches()[0]
    ends = np.flatnonzero(np.diff(buckets[order], append=-1)) + 1
    start = 0
    for end in ends.tolist():
        yield int(buckets[order[start]]), rows.slice(start, end - start).serialize().to_pybytes()
        start = end


def unpacked(plan: Plan, packed: list[bytes]) -> pa.Table:
    """Give the rows of a bucket again."""
    batches = [pa.ipc.read_record_batch(pa.py_buffer(data), plan.packed) for data in packed if data]
    return pa.Table.from_batches(batches, schema=plan.packed)


# --- results --------------------------------------------------------------------------------------


def result_bytes(plan: Plan, table: pa.Table) -> list[bytes]:
    """Give results as bytes, some megabytes each."""
    parts = max(1, -(-table.nbytes // (32 << 20)))
    rows = -(-table.num_rows // parts)
    batches: list[Any] = []
    for part in range(parts if table.num_rows else 0):
        batches += table.slice(part * rows, rows).combine_chunks().to_batches()
    return [batch.serialize().to_pybytes() for batch in batches]


def unpack(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the results of packed rows."""
    settle()
    for batch in batches:
        for data in pc.drop_null(batch.column("data")):
            buffer = data.as_buffer()
            if buffer is not None and buffer.size:
                yield pa.ipc.read_record_batch(buffer, schema)
