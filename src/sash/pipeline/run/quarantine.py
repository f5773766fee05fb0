"""Rows that cannot be used: detected in SQL, counted, and written to Parquet, so that none is lost silently.

Late rows are found by the aggregation itself. They have no results, so an upsert, which would put their nulls in place
of a result, gets none of them: with `late = "emit"` they are written here too.

A file is named after its micro-batch and task and published by a rename: a task that runs again, or a micro-batch that
is repeated after a failure, overwrites the same files. Files of a micro-batch that was never committed are removed when
the stream restarts, because its rows will be read again.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType, TimestampNTZType, TimestampType
from pyspark.sql.utils import is_remote

from sash.durations import nanoseconds
from sash.errors import ArgumentError, shown
from sash.inputs.arrow import pyarrow
from sash.keyed.result_columns import event_columns
from sash.locations import local_path
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run.checkpoint import Checkpoint
from sash.pipeline.run.kafka import reads_kafka
from sash.pipeline.run.steps import HIDDEN, MALFORMED, ORIGIN
from sash.spark.columns import column
from sash.spark.durable import make_directory, sync
from sash.spark.schema import all_nullable, require_passable
from sash.spark.stream.packing import END

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch
    from pyarrow.parquet import ParquetWriter

REASONS = ("malformed", "null_time", "ahead", "null_id", "null_key")
WRITTEN = ("reason", "row")  # the columns of the files …
PLACE = {"topic": "string", "partition": "int", "offset": "bigint"}  # … and where a record of Kafka is
BACKFILL = -1  # the batch number of a batch run
_REASON, _ROW = "__sash_reason", "__sash_row"
_UNUSABLE, _ASKED, _LATE = "part", "asked", "late"  # how the names of files begin: of rows, of questions, of late ones
_MARKER = ".sash"  # a file of the driver's, by which workers see that they share the directory


def reason_of(pipeline: Pipeline, schema: StructType) -> Column:
    """Return the reason why a row cannot be used, null where it can."""
    settings, rolling = pipeline.quarantine, pipeline.rolling
    time = column(rolling.time)
    reason = F.when(time.isNull(), "null_time")
    if MALFORMED in schema.names:
        reason = F.when(column(MALFORMED).isNotNull(), "malformed").when(time.isNull(), "null_time")
    end = _end(schema[rolling.time].dataType)
    if end is not None:
        reason = reason.when(time >= end, "ahead")
    if settings.ahead is not None:
        seconds = nanoseconds(settings.ahead, "ahead") / 1e9
        # In a stream this is the time that Spark logs for each micro-batch, the same when it is repeated. It stands in
        # for a null in the other column: a row that is compared with nothing could move the watermark anywhere.
        now = F.current_timestamp()
        clock = now if settings.ahead_of is None else F.coalesce(column(settings.ahead_of), now)
        later = clock + F.expr(f"make_dt_interval(0, 0, 0, {seconds:.6f})")
        reason = reason.when(time > later, "ahead")
    if rolling.id is not None:
        reason = reason.when(column(rolling.id).isNull(), "null_id")
    if settings.null_keys == "quarantine":
        for key in rolling.keys:
            reason = reason.when(column(key).isNull(), "null_key")
    return reason


def _end(kind: DataType) -> Column | None:
    """Return the time from which on rows mark the end of a stream: one from a source would end it for good."""
    if not isinstance(kind, (TimestampType, TimestampNTZType)):
        return None
    end = datetime(1970, 1, 1) + timedelta(microseconds=END)
    return F.expr(f"{kind.typeName()}'{end.isoformat(sep=' ')}{'Z' if isinstance(kind, TimestampType) else ''}'")


def counted(df: DataFrame, pipeline: Pipeline, name: str | Observation | None) -> DataFrame:
    """Return rows with the reason why they cannot be used, counted by reason in an observation, if it has a name."""
    marked = df.withColumn(_REASON, reason_of(pipeline, df.schema))
    if name is None:
        return marked
    each = [F.count_if(F.col(_REASON) == reason).alias(reason) for reason in REASONS]
    return marked.observe(name, F.count(F.lit(1)).alias("rows"), *each)


def usable(df: DataFrame, pipeline: Pipeline, *, asked: bool = False) -> DataFrame:
    """Return the rows of `counted` that can be used; the others are written to the quarantine's path, if any.

    They are those of the pipeline's source, or those `asked` by its questions.
    """
    own = [name for name in df.columns if name not in (*HIDDEN, _REASON)]
    if pipeline.quarantine.path is None:
        return df.filter(F.col(_REASON).isNull()).select(*[column(name) for name in own])
    require_passable(StructType([df.schema[name] for name in own]))
    return _without(df, own, F.col(_REASON), _as_text(df, own), _Files.of(pipeline, _ASKED if asked else _UNUSABLE))


def without_late(results: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Return the results without those of late rows or questions, if a revision replaces the one before it.

    Those go to the path, if any.
    """
    spec = pipeline.rolling.spec
    if spec.late == "drop" or not pipeline.keeps_latest:
        return results
    added = {f"{agg}_{window}" for agg in spec.aggs for window in spec.windows} | {"revision", "deleted", "late"}
    added |= set() if spec.every is None else {"window_start", "window_end"}
    row = [name for name in results.columns if name not in added]
    # The time and the id of late events are columns of their own among boundaries, where all others have none.
    gone = {"late", *(event_columns(spec) if spec.every is not None else ())}
    own = [name for name in results.columns if name not in gone]
    late = F.coalesce(F.col("late"), F.lit(False))
    if pipeline.quarantine.path is None:
        return results.filter(~late).select(*[column(name) for name in own])
    return _without(results, own, F.when(late, "late"), _as_text(results, row), _Files.of(pipeline, _LATE))


def _without(df: DataFrame, own: list[str], reason: Column, text: Column, files: _Files) -> DataFrame:
    """Return these columns of the rows without a reason; the reason and the text of the others are written."""
    shape = all_nullable(StructType([df.schema[name] for name in own]))
    written = [text.alias(_ROW), *_place(df, files)]
    # By position: Spark would read a dot in a name as a field of a struct.
    rows = df.select(*[column(name) for name in own], reason, *[F.when(reason.isNotNull(), one) for one in written])
    numbered = rows.toDF(*[f"c{place}" for place in range(len(rows.columns))])

    def divide(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return divided(files, own, batches)

    return numbered.mapInArrow(divide, shape)


def _place(df: DataFrame, files: _Files) -> list[Column]:
    """Return where a row was in Kafka; results and their late rows do not know it, and have nulls in the same files."""
    known = ORIGIN in df.columns
    return [F.col(ORIGIN)[name] if known else F.lit(None).cast(PLACE[name]) for name in files.columns if name in PLACE]


def _as_text(df: DataFrame, own: list[str]) -> Column:
    """Return a row as JSON; a malformed record as its text, because most of its columns are null."""
    text = F.to_json(F.struct(*[column(name) for name in own]), {"ignoreNullFields": "false"})
    return F.coalesce(column(MALFORMED), text) if MALFORMED in df.columns else text


def divided(files: _Files, names: list[str], batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield the rows without a reason and write the others; the last columns are those of the files."""
    pa, file = pyarrow(), _TaskFile(files)
    try:
        for batch in batches:
            reasons = batch.column(len(names))
            good = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names)
            if reasons.null_count < len(reasons):
                file.write(batch.columns[len(names) :])
                good = good.filter(reasons.is_null())
            if good.num_rows:
                yield good
        file.publish()
    finally:
        file.discard()


@dataclass(frozen=True)
class _Files:
    """The files of one kind of rows: directory, beginning of their names, host of the driver, if known, and columns."""

    root: str
    kind: str
    host: str | None
    columns: tuple[str, ...] = WRITTEN

    @classmethod
    def of(cls, pipeline: Pipeline, kind: str) -> _Files:
        columns = (*WRITTEN, *PLACE) if reads_kafka(pipeline) else WRITTEN
        return cls(str(root_of(pipeline)), kind, None if is_remote() else socket.gethostname(), columns)

    def require_shared(self) -> None:
        """Raise if this machine does not see the directory of the driver: rows written here would be lost."""
        here = socket.gethostname()
        if self.host in (None, here) or (Path(self.root) / _MARKER).exists():
            return
        raise ArgumentError(
            f"quarantine.path must be a directory that the driver and all workers share, got {shown(self.root)}, where "
            f"{here} does not see the file {_MARKER} that the driver on {self.host} wrote.",
            argument="quarantine.path",
        )


class _TaskFile:
    """The file of one task, created only if there are rows to write, and visible only when it is complete."""

    def __init__(self, files: _Files) -> None:
        task = TaskContext.get()
        batch = None if task is None else task.getLocalProperty("streaming.sql.batchId")
        query = None if task is None else task.getLocalProperty("sql.streaming.queryId")
        part = 0 if task is None else task.partitionId()
        directory = Path(files.root) / f"batch={BACKFILL if batch is None else batch}"
        self.files = files
        self.path = directory / f"{prefix(files.kind, query)}-{part:05}.parquet"
        self.unfinished = directory / f".{self.path.name}.{uuid4().hex}"
        self.writer: ParquetWriter | None = None

    def write(self, columns: list[Array]) -> None:
        """Write the rows that have a reason, which is the first column."""
        table = pyarrow().table(columns, names=list(self.files.columns)).filter(columns[0].is_valid())
        if self.writer is None:
            import pyarrow.parquet as pq

            self.files.require_shared()
            make_directory(self.path.parent)
            self.writer = pq.ParquetWriter(self.unfinished, table.schema)
        self.writer.write_table(table)

    def publish(self) -> None:
        """Rename the file to its final name."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
            sync(self.unfinished)
            os.replace(self.unfinished, self.path)
            sync(self.path.parent)

    def discard(self) -> None:
        """Remove an incomplete file."""
        if self.writer is not None:
            self.writer.close()
            self.unfinished.unlink(missing_ok=True)


def prefix(kind: str, query: str | None) -> str:
    """Return the prefix of a query's file names, so that files of other checkpoints are left alone."""
    return kind if query is None else f"{kind}-{query[:8]}"


def root_of(pipeline: Pipeline) -> Path:
    """Return the directory of the quarantine."""
    return local_path(pipeline.quarantine.path, "path")


def prepare(pipeline: Pipeline, checkpoint: Checkpoint | None) -> None:
    """Make the directory, and remove the files that will be written again.

    Those are the files after the last commit of a stream's checkpoint, or without one all of a batch run.
    """
    if pipeline.quarantine.path is None:
        return
    root = root_of(pipeline)
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / _MARKER).touch()
    except OSError as error:
        message = f"path must be a directory that can be written, got {shown(root)}: {error.strerror}."
        raise pipeline.mistake(("quarantine", "path"), message) from error
    if checkpoint is None:
        shutil.rmtree(root / f"batch={BACKFILL}", ignore_errors=True)
        return
    query = checkpoint.query_id()
    if query is None:
        return
    done = checkpoint.last_commit()
    for directory in root.glob("batch=*"):
        number = directory.name.removeprefix("batch=")
        if number.isdigit() and int(number) > done:
            for kind in (_UNUSABLE, _ASKED, _LATE):
                for file in [*directory.glob(f"{prefix(kind, query)}-*"), *directory.glob(f".{prefix(kind, query)}-*")]:
                    file.unlink(missing_ok=True)
