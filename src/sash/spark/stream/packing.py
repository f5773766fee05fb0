"""Rows on their way to their buckets, and results on their way back, as bytes that are opaque to Spark.

A packed row is a bucket and an Arrow batch, so a micro-batch passes the shuffle as a few rows, however many events it
has. Rows that are combined into panes are combined before the shuffle.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import types as spark

from sash.inputs import arrow
from sash.keyed.panes import partials_of
from sash.spark.retractions import MARK
from sash.spark.stream.bucket_ids import buckets_of, labels
from sash.spark.stream.plan import Plan, process_plan
from sash.spark.stream.worker import freeze_imports

PACKED = spark.StructType(
    [
        spark.StructField("bucket", spark.IntegerType()),
        spark.StructField("asked", spark.BooleanType()),
        spark.StructField("bad_times", spark.LongType()),
        spark.StructField("bad_ids", spark.LongType()),
        spark.StructField("data", spark.BinaryType()),
    ]
)
_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("asked", pa.bool_()),
        ("bad_times", pa.int64()),
        ("bad_ids", pa.int64()),
        ("data", pa.large_binary()),
    ]
)
END = 253_370_764_800_000_000  # the year 9999 in microseconds: rows from then on have no usable time
_CHUNK_ROWS, _CHUNK_BYTES = 1 << 17, 1 << 26  # that are packed at a time


class Arrived(NamedTuple):
    """What came for a bucket in a micro-batch."""

    rows: pa.Table
    questions: pa.Table | None = None  # None: the stream has none

    @property
    def is_empty(self) -> bool:
        """Whether nothing came that can be read."""
        return not self.rows.num_rows and (self.questions is None or not self.questions.num_rows)


def pack(plan: Plan, batches: Iterator[pa.RecordBatch], *, asked: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield a packed row for each bucket that events, or questions, belong to."""
    freeze_imports()
    plan = process_plan(plan)
    for table in chunks(plan.asking.schema if asked and plan.asking else plan.schema, batches):
        readable, bad_times, bad_ids = readable_questions(plan, table) if asked else readable_rows(plan, table)
        rows = partials_of(plan.definition, plan.spec, readable) if plan.merges else readable
        packed = list(by_bucket(plan, rows))
        if not packed and (bad_times or bad_ids):
            packed = [(0, b"")]
        if packed:
            first = np.arange(len(packed)) == 0
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([labels(plan.buckets)[bucket] for bucket, _ in packed], pa.int32()),
                    pa.array([asked] * len(packed)),
                    pa.array(np.where(first, bad_times, 0)),
                    pa.array(np.where(first, bad_ids, 0)),
                    pa.array([data for _, data in packed], pa.large_binary()),
                ],
                schema=_ARROW,
            )


def chunks(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables with the columns of a schema, each of about the rows that are packed at a time."""
    chunk: list[pa.RecordBatch] = []
    rows = size = 0
    for piece in (piece for batch in batches for piece in _pieces(batch)):
        chunk.append(piece)
        rows, size = rows + piece.num_rows, size + piece.nbytes
        if rows >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield _input_table(schema, chunk)
            chunk, rows, size = [], 0, 0
    if rows:
        yield _input_table(schema, chunk)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces of about the bytes that are packed at a time, or as it is."""
    rows = -(-batch.num_rows // max(1, -(-batch.nbytes // _CHUNK_BYTES)))
    for start in range(0, batch.num_rows, max(rows, 1)):
        yield batch.slice(start, rows)


def _input_table(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).rename_columns(schema.names).cast(schema)


def readable_rows(plan: Plan, table: pa.Table) -> tuple[pa.Table, int, int]:
    """Return the rows with a usable time and a required id, and the numbers of rows without; markers do not count."""
    ticks, bad = arrow.ticks(table, plan.spec.time)
    bad = (np.zeros(len(ticks), dtype=bool) if bad is None else bad) | (ticks >= END)
    markers = _markers(table, plan.spec.time, ticks)
    no_id = np.zeros(len(ticks), dtype=bool)
    if plan.spec.id is not None:
        no_id = np.asarray(table.column(plan.spec.id).is_null(), dtype=bool) & ~bad
    drop = bad | no_id
    readable = table.filter(pa.array(~drop)) if drop.any() else table
    return readable, int((bad & ~markers).sum()), int(no_id.sum())


def readable_questions(plan: Plan, table: pa.Table) -> tuple[pa.Table, int, int]:
    """Return the questions that can be asked, and how many lie too far ahead or lack an id; null times have answers."""
    assert plan.asking is not None
    ticks, _ = arrow.ticks(table, plan.asking.time)
    bad = ticks >= END
    markers = _markers(table, plan.asking.time, ticks)
    no_id = np.zeros(len(ticks), dtype=bool)
    if plan.asking.id is not None:
        no_id = np.asarray(table.column(plan.asking.id).is_null(), dtype=bool) & ~bad
    drop = bad | no_id
    readable = table.filter(pa.array(~drop)) if drop.any() else table
    return readable, int((bad & ~markers).sum()), int(no_id.sum())


def _markers(table: pa.Table, time: str, ticks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows only advance the watermark, to end a stream: of the year 9999, and nothing but a time."""
    markers = ticks >= END
    for name in table.column_names if markers.any() else ():
        if name not in (time, MARK):  # a condition for deletes is false where its columns are null
            markers = markers & np.asarray(table.column(name).is_null(), dtype=bool)
    return markers


def _serialized(batch: pa.RecordBatch) -> bytes:
    data: bytes = batch.serialize().to_pybytes()
    return data


def by_bucket(
    plan: Plan, table: pa.Table, to_bytes: Callable[[pa.RecordBatch], bytes] = _serialized
) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each bucket that rows belong to, and its rows as bytes."""
    if not table.num_rows:
        return
    buckets = buckets_of(table, plan.spec.keys, plan.buckets)
    order = np.argsort(buckets, kind="stable")
    (rows,) = table.take(pa.array(order)).combine_chunks().to_batches()
    ends = np.flatnonzero(np.diff(buckets[order], append=-1)) + 1
    start = 0
    for end in ends.tolist():
        yield int(buckets[order[start]]), to_bytes(rows.slice(start, end - start))
        start = end


def unpack_rows(plan: Plan, packed: list[bytes]) -> pa.Table:
    """Return the rows of a bucket from their packed bytes."""
    return _rows_in(plan.packed, packed)


def unpack_step(plan: Plan, packed: list[tuple[bool, bytes]]) -> Arrived:
    """Return the rows of a bucket, and its questions, from their packed bytes."""
    rows = unpack_rows(plan, [data for asked, data in packed if not asked])
    if plan.asking is None:
        return Arrived(rows)
    return Arrived(rows, _rows_in(plan.asking.schema, [data for asked, data in packed if asked]))


def _rows_in(schema: pa.Schema, packed: list[bytes]) -> pa.Table:
    batches = [pa.ipc.read_record_batch(pa.py_buffer(data), schema) for data in packed if data]
    return pa.Table.from_batches(batches, schema=schema)


# --- results --------------------------------------------------------------------------------------


def result_bytes(plan: Plan, table: pa.Table) -> list[bytes]:
    """Return results as bytes, in pieces of some megabytes."""
    parts = max(1, -(-table.nbytes // (32 << 20)))
    rows = -(-table.num_rows // parts)
    batches: list[pa.RecordBatch] = []
    for part in range(parts if table.num_rows else 0):
        batches += table.slice(part * rows, rows).combine_chunks().to_batches()
    return [batch.serialize().to_pybytes() for batch in batches]


def unpack(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the results in packed rows."""
    freeze_imports()
    for batch in batches:
        for data in pc.drop_null(batch.column("data")):
            buffer = data.as_buffer()
            if buffer is not None and buffer.size:
                yield pa.ipc.read_record_batch(buffer, schema)
