"""The state of a stream after a history, written by the tasks of a batch before the stream has an operator.

State is a log, so the state after a history is records and a head. A bucket's rows come together, are put in the order
in which every attempt sees them, and are cut into records; the operator only copies these into its store, in any order.

The seam is where the history ends: the watermark that its newest row gives. Every task tells every bucket how far its
rows go, so that all buckets find the same seam, and nothing has to run over the history before.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from sash.inputs import arrow
from sash.keyed import panes
from sash.keyed.emit import LOWEST
from sash.spark.stream import frame_of_reference
from sash.spark.stream.bucket import since
from sash.spark.stream.bucket_ids import labels
from sash.spark.stream.change import change_from, require_answerable
from sash.spark.stream.log import Head, Log
from sash.spark.stream.packing import by_bucket, chunks, readable_rows
from sash.spark.stream.plan import Plan, process_plan
from sash.spark.stream.rewriting import needed_rows
from sash.spark.stream.row_order import deletes_last, in_order
from sash.spark.stream.stored_definition import DEFINITION, POSITION, StoredDefinition
from sash.spark.stream.worker import freeze_imports

HEAD = -1  # in place of the number of a record
_MILLISECOND = 1000  # in microseconds, the unit of Spark's timestamps

PACKED_HISTORY = spark.StructType(
    [
        spark.StructField("bucket", spark.IntegerType()),
        spark.StructField("newest", spark.LongType()),
        spark.StructField("exported", spark.StringType()),
        spark.StructField("data", spark.BinaryType()),
    ]
)
_PACKED = pa.schema(
    [("bucket", pa.int32()), ("newest", pa.int64()), ("exported", pa.string()), ("data", pa.large_binary())]
)
INITIAL_STATE = spark.StructType(
    [
        spark.StructField("bucket", spark.IntegerType()),
        spark.StructField("seq", spark.LongType()),
        spark.StructField("data", spark.BinaryType()),
    ]
)
_INITIAL = pa.schema([("bucket", pa.int32()), ("seq", pa.int64()), ("data", pa.binary())])


class Seam(NamedTuple):
    """Where the history ends: its watermark, and the position and the definition of the stream there."""

    watermark: int | None  # in ticks; None as long as Spark would have none
    position: dict[str, Any]
    definition: dict[str, Any]

    @classmethod
    def after(cls, plan: Plan, newest: int, delay_ms: int) -> "Seam":
        """Return the seam after rows up to a time, which are all in time as those of a first micro-batch are."""
        watermark_ms = newest // _MILLISECOND - delay_ms
        watermark = watermark_ms * _MILLISECOND if watermark_ms > 0 else None
        horizon = plan.stream().horizon.advance(watermark)
        final, boundaries = plan.spec.emit == "final", plan.spec.every is not None
        position = {
            "newest": None,
            "seq": 0,
            "revision": 0,
            "finished": horizon if final and horizon is not None else LOWEST,
            "shown": watermark if boundaries and not final and watermark is not None else LOWEST,
            "horizon": horizon,
        }
        return cls(watermark, position, plan.stored_plain)

    @classmethod
    def exported(cls, plan: Plan, text: str) -> "Seam":
        """Return the seam of the checkpoint that the rows were exported from, whose definition may be another."""
        facts = json.loads(text)
        found, definition = facts["position"], {**facts["definition"], "buckets": plan.buckets}
        watermark, position = cls.exported_at(found)
        same = plan.wrote(definition) or not change_from(plan, definition).differences()
        return cls(watermark, position, plan.stored_plain if same else definition)

    @staticmethod
    def exported_at(found: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
        """Return the watermark of an export's position, and the position of a bucket there."""
        names = ("revision", "finished", "shown", "horizon")
        return found["watermark"], {"newest": None, "seq": 0} | {name: found[name] for name in names}


# --- rows on their way to their buckets -----------------------------------------------------------


def pack_history(plan: Plan, delay_ms: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each bucket as bytes, and for every bucket the newest time of the task."""
    freeze_imports()
    plan = process_plan(plan)
    stream, newest = plan.stream(), None
    for table in chunks(history_schema(plan), batches):
        rows, _, _ = readable_rows(plan, table)
        if not rows.num_rows:
            continue
        latest = int(arrow.ticks(rows, plan.spec.time)[0].max())
        newest = latest if newest is None else max(newest, latest)
        # The seam is there or later, so these rows are not needed.
        bound = stream.retained_after(Seam.after(plan, newest, delay_ms).position["horizon"])
        rows = rows if plan.spec.counts else since(rows, plan.spec.time, bound)
        yield _packed(plan, panes.partials_of(plan.definition, plan.spec, rows) if plan.merges else rows)
    if newest is not None:
        yield _for_every_bucket(plan, newest, None)


def pack_export(plan: Plan, names: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an exported log in their new buckets, and for every bucket the position they were exported at.

    `names` are the columns of the batches.
    """
    freeze_imports()
    plan = process_plan(plan)
    told = False
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = pa.Table.from_batches([batch]).rename_columns(names)
        position, definition = (json.loads(rows.column(name)[0].as_py()) for name in (POSITION, DEFINITION))
        if not told:
            yield _for_every_bucket(plan, None, json.dumps({"position": position, "definition": definition}))
            told = True
        kind = StoredDefinition.from_plain(definition).record
        yield _packed(plan, rows.select(kind.names).cast(kind))


def history_schema(plan: Plan) -> pa.Schema:
    """Return the columns that a history must have: those that are logged, or that panes are made of."""
    names = plan.schema.names if plan.merges else plan.logged
    return pa.schema([plan.schema.field(name) for name in names])


def _packed(plan: Plan, rows: pa.Table) -> pa.RecordBatch:
    packed = list(by_bucket(plan, rows, frame_of_reference.to_bytes))
    columns = [
        pa.array([labels(plan.buckets)[bucket] for bucket, _ in packed], pa.int32()),
        pa.nulls(len(packed), pa.int64()),
        pa.nulls(len(packed), pa.string()),
        pa.array([data for _, data in packed], pa.large_binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_PACKED)


def _for_every_bucket(plan: Plan, newest: int | None, exported: str | None) -> pa.RecordBatch:
    count = plan.buckets
    columns = [
        pa.array(labels(count), pa.int32()),
        pa.array([newest] * count, pa.int64()),
        pa.array([exported] * count, pa.string()),
        pa.nulls(count, pa.large_binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_PACKED)


# --- the state of a bucket ------------------------------------------------------------------------


def initial_state(plan: Plan, delay_ms: int, packed: pa.Table) -> pa.Table:
    """Return the records and the head of a bucket from all that was packed for it."""
    freeze_imports()
    plan = process_plan(plan)
    exported = pc.max(packed.column("exported")).as_py()
    if exported is None:
        seam = Seam.after(plan, pc.max(packed.column("newest")).as_py(), delay_ms)
        schema = plan.packed if plan.merges else history_schema(plan)
    else:
        seam = Seam.exported(plan, exported)
        schema = StoredDefinition.from_plain(json.loads(exported)["definition"]).record
    data = (value.as_buffer() for value in pc.drop_null(packed.column("data")))
    rows = pa.Table.from_batches([frame_of_reference.from_bytes(part) for part in data], schema=schema)
    if exported is None:
        rows = _needed(plan, seam, rows)
    written = _written(plan, seam, rows)
    bucket = packed.column("bucket")[0].as_py()
    columns = [[bucket] * len(written), list(written), list(written.values())]
    return pa.table(columns, schema=_INITIAL)


def _needed(plan: Plan, seam: Seam, rows: pa.Table) -> pa.Table:
    """Return the rows that results after the seam can see, panes joined."""
    if plan.spec.counts:
        return rows  # which of them are needed is known once they are in order
    rows = since(rows, plan.spec.time, plan.stream().retained_after(seam.position["horizon"]))
    return panes.merged(plan.definition, plan.spec, rows) if plan.merges else rows


def _written(plan: Plan, seam: Seam, rows: pa.Table) -> dict[int, bytes]:
    """Return the records by their number, and the head."""
    store, head = _Records(), Head([seam.definition], position=dict(seam.position))
    times, _ = arrow.ticks(rows, plan.spec.time)
    head.position["newest"] = int(times.max()) if len(times) else None
    rows, hashes = in_order(rows.combine_chunks(), times)
    rows = _as_applied(plan, seam, rows)
    if plan.spec.counts and plan.wrote(seam.definition):
        rows = needed_rows(plan, [rows], head.position)
        head.needed = rows.num_rows
    if rows.num_rows:
        # Every bucket looks once, when the watermark passes the seam, at what it has to do next.
        head.timer = 1 if seam.watermark is None else seam.watermark // _MILLISECOND + 1
    head.advance(hashes.tobytes())
    if rows.num_rows:
        Log(store, head).append(rows, arrow.ticks(rows, plan.spec.time)[0])
    if not plan.wrote(head.definition):
        require_answerable(plan, head)
    return store.records | {HEAD: head.to_bytes()}


def _as_applied(plan: Plan, seam: Seam, rows: pa.Table) -> pa.Table:
    """Return the rows that made a difference, as one micro-batch applies them: without ids, inserts before deletes."""
    spec = plan.spec
    if spec.id is None and spec.retract is None:
        return rows
    if seam.definition["fingerprint"] == plan.fingerprint:
        rows = rows.filter(pa.array(plan.stream().replay(rows)))
    return deletes_last(rows, spec)


class _Records:
    """A store that remembers what is written."""

    def __init__(self) -> None:
        self.records: dict[int, bytes] = {}

    def head(self) -> bytes | None:
        return None

    def save_head(self, data: bytes) -> None:
        self.records[HEAD] = data

    def read(self, seq: int) -> bytes | None:
        return self.records.get(seq)

    def write(self, seq: int, data: bytes) -> None:
        self.records[seq] = data

    def remove(self, seq: int) -> None:
        del self.records[seq]
