"""The rows that a checkpoint retains as Parquet: `export_checkpoint`, whose files `history=` reads back."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type

from sash.errors import ArgumentError, CorruptStateError, UnsupportedError, shown
from sash.inputs import arrow
from sash.keyed.panes import RECORD
from sash.keyed.question_columns import events_in
from sash.locations import Location, location
from sash.spark.stream.checkpoint_files import file_names
from sash.spark.stream.definitions import current_of, watermark_of
from sash.spark.stream.description import rows_in
from sash.spark.stream.findings import BucketState
from sash.spark.stream.log import Entry, Head, table_of
from sash.spark.stream.snapshot import Snapshot, snapshot_of
from sash.spark.stream.stored_definition import DEFINITION, POSITION, StoredDefinition

_MILLISECOND = 1000  # in ticks
_CHUNK = 1 << 16  # rows that go to Spark at a time
_NEXT = "let the stream run one more micro-batch"
_REWRITE = "run the stream until every bucket has been rewritten"


@dataclass(frozen=True)
class Export:
    """What was exported, and of which micro-batch."""

    path: str
    batch: int
    watermark_ms: int | None
    rows: int


def export_checkpoint(
    checkpoint: str, out: str, *, batch: int | None = None, operator: int = 0, spark: SparkSession | None = None
) -> Export:
    """Write the rows or panes that a checkpoint retains to Parquet files, as of one committed micro-batch.

    The default is the newest. The columns are those that the state stores; two more, which are the same in every row,
    are the position of the stream and its definition as JSON. `out` must not exist or be empty. The stream may run.
    """
    place = location(out, "out")

    def writing(snapshot: Snapshot) -> Export:
        return _exported(snapshot, place)

    return snapshot_of(checkpoint, writing, batch=batch, operator=operator, spark=spark)


def _exported(snapshot: Snapshot, out: Location) -> Export:
    _require_empty(out, snapshot.spark)
    buckets, watermark = snapshot.buckets(), snapshot.watermark_ms
    heads = require_readable(buckets.values())
    current = require_current(buckets.values())
    require_emitted(heads, watermark)
    position = position_of(heads, current, watermark)
    if "gap" in current.words:
        raise UnsupportedError(
            "The checkpoint has sessions, and cannot be exported: their rows behind the horizon are folded.",
            argument="checkpoint",
        )
    bound = current.retained_after(position["horizon"])
    require_rows(buckets.values(), bound)

    def retained(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket, seq, data in rows_in(batch):
                entry = buckets[bucket].entries.get(seq) if bucket in buckets else None
                if entry is not None:
                    yield from _batches(exported_rows(current, bound, entry, data))

    rows = snapshot.log().mapInArrow(retained, _spark_schema(current))
    for name, plain in ((POSITION, position), (DEFINITION, current.to_plain())):
        rows = rows.withColumn(name, F.lit(json.dumps(plain)))
    rows.write.mode("append").parquet(str(out))
    return Export(str(out), snapshot.batch, watermark, snapshot.spark.read.parquet(str(out)).count())


def _require_empty(out: Location, spark: SparkSession) -> None:
    if (out.local is not None and out.local.is_file()) or file_names(out, spark):
        raise ArgumentError(
            f"out must be a directory that does not exist or is empty, got {shown(str(out))}.", argument="out"
        )


# --- what can be exported -------------------------------------------------------------------------


def require_readable(buckets: Iterable[BucketState]) -> list[Head]:
    """Return the heads of all buckets, or raise CorruptStateError if one cannot be read."""
    heads = []
    for state in buckets:
        if state.head is None:
            raise CorruptStateError(
                f"The head of bucket {state.label} cannot be read; sash checkpoint verify shows what is wrong.",
                argument="checkpoint",
            )
        heads.append(state.head)
    return heads


def require_current(buckets: Iterable[BucketState]) -> StoredDefinition:
    """Return the current definition, or raise CorruptStateError if some buckets cannot be brought into its form."""
    buckets = list(buckets)
    current = current_of(state.head for state in buckets if state.head is not None)
    behind = [state for state in buckets if state.entries and (current is None or _is_behind(state, current))]
    if current is None and not behind:
        raise CorruptStateError(
            "The checkpoint has no rows and no definition to export; start the new stream without them.",
            argument="checkpoint",
        )
    if current is None or behind:
        raise CorruptStateError(
            f"{len(behind)} of {len(buckets)} buckets have rows that an earlier definition or version of sash stored "
            f"in another form; {_REWRITE}.",
            argument="checkpoint",
        )
    if any(kind.kind == "unbounded" for kind in current.kinds):
        raise UnsupportedError(
            "checkpoint has an unbounded window, whose expired rows are stored as their aggregate alone: no rows that "
            "could be exported would give its results.",
            argument="checkpoint",
        )
    for name in (POSITION, DEFINITION):
        if name in current.logged:
            raise ArgumentError(
                f"checkpoint must not store a column {shown(name)}, which the export adds.", argument="checkpoint"
            )
    return current


def _is_behind(state: BucketState, current: StoredDefinition) -> bool:
    """Return whether a change has not reached a bucket yet, or it has records in another form.

    What a change makes due, or has to emit again, is known to the bucket's own definition only.
    """
    own = state.definition
    written = [state.written_by(entry) for entry in state.entries.values()]
    return own != current or not all(_fits(one, current) for one in written)


def _fits(one: StoredDefinition | None, current: StoredDefinition) -> bool:
    """Return whether records of a definition have all columns of the current one, or are the same panes."""
    if one is None or (one.panes, one.pane) != (current.panes, current.pane):
        return False
    columns = set(one.record) if one.panes is None else list(one.record)
    return all(field in columns for field in current.record)


def require_rows(buckets: Iterable[BucketState], bound: int) -> None:
    """Raise CorruptStateError if no row is after a time: it is the rows that say where the stream was."""
    if not any(entry.newest > bound for state in buckets for entry in state.entries.values()):
        raise CorruptStateError(
            "The checkpoint has no rows to export, all have expired; start the new stream without them.",
            argument="checkpoint",
        )


def require_emitted(heads: Iterable[Head], watermark_ms: int | None) -> None:
    """Raise CorruptStateError if a bucket has results that are due at a watermark and have not been emitted."""
    if watermark_ms is None:
        return
    due = sum(_is_due(head, watermark_ms) for head in heads)
    if due:
        raise CorruptStateError(
            f"{due} buckets have results that are due and have not been emitted; {_NEXT}.", argument="checkpoint"
        )


def _is_due(head: Head, watermark_ms: int) -> bool:
    """Return whether a timer is due, or was postponed because too much became due at once."""
    if head.timer is None or head.timer > watermark_ms + 1:
        return False
    definition = BucketState(0, head).definition
    last = None if definition is None else watermark_of(head, definition)
    return head.timer <= watermark_ms or (last is not None and last < watermark_ms * _MILLISECOND)


def position_of(heads: Iterable[Head], current: StoredDefinition, watermark_ms: int | None) -> dict[str, Any]:
    """Return the position of a stream that has done what all of its buckets have done, in ticks."""
    positions = [head.position for head in heads if head.position]

    def greatest(name: str) -> int | None:
        return max((one[name] for one in positions if one[name] is not None), default=None)

    return {
        "horizon": greatest("horizon"),
        "watermark": None if watermark_ms is None else watermark_ms * _MILLISECOND,
        "finished": greatest("finished"),
        "shown": greatest("shown"),
        "newest": greatest("newest"),
        "revision": greatest("revision"),
        "emit": current.words["emit"],
    }


# --- rows -----------------------------------------------------------------------------------------


def exported_rows(current: StoredDefinition, bound: int, entry: Entry, data: bytes) -> pa.Table:
    """Return the rows of a record that are retained, in the form of the current definition."""
    table = events_in(table_of(data, entry)).select(list(current.logged))
    times, _ = arrow.ticks(table, current.words["time"])
    keep = times > bound
    return table if keep.all() else table.filter(pa.array(keep))


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows as Spark takes them."""
    if RECORD in table.column_names:
        place = table.column_names.index(RECORD)
        table = table.set_column(place, RECORD, table.column(RECORD).cast(pa.binary()))
    yield from table.to_batches(_CHUNK)


def _spark_schema(current: StoredDefinition) -> spark.StructType:
    schema = spark.StructType()
    for field in current.record:
        schema.add(field.name, spark.BinaryType() if field.name == RECORD else from_arrow_type(field.type))
    return schema
