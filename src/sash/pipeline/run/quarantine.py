"""Rows that cannot be used: detected in SQL, counted, and written to Parquet, so that none is lost silently.

A file is named after its micro-batch and task and published by a rename: a task that runs again, or a micro-batch that
is repeated after a failure, overwrites the same files. Files of a micro-batch that was never committed are removed when
the stream restarts, because its rows will be read again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sash.durations import nanoseconds
from sash.inputs.arrow import pyarrow
from sash.pipeline.config.read import Pipeline
from sash.spark.columns import column
from sash.spark.schema import all_nullable, require_passable

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch
    from pyarrow.parquet import ParquetWriter

MALFORMED = "__sash_malformed"  # the text of a record that could not be parsed, otherwise null
REASONS = ("malformed", "null_time", "ahead", "null_id", "null_key")
BACKFILL = -1  # the batch number of a batch run
_REASON, _ROW = "__sash_reason", "__sash_row"


def reason_of(pipeline: Pipeline, columns: list[str]) -> Column:
    """Return the reason why a row cannot be used, null where it can."""
    settings, rolling = pipeline.quarantine, pipeline.rolling
    reason = F.when(column(rolling.time).isNull(), "null_time")
    if MALFORMED in columns:
        reason = F.when(column(MALFORMED).isNotNull(), "malformed").when(column(rolling.time).isNull(), "null_time")
    if settings.ahead is not None:
        seconds = nanoseconds(settings.ahead, "ahead") / 1e9
        # In a stream this is the time that Spark logs for each micro-batch, the same when it is repeated.
        clock = F.current_timestamp() if settings.ahead_of is None else column(settings.ahead_of)
        later = clock + F.expr(f"make_dt_interval(0, 0, 0, {seconds:.6f})")
        reason = reason.when(column(rolling.time) > later, "ahead")
    if rolling.id is not None:
        reason = reason.when(column(rolling.id).isNull(), "null_id")
    if settings.null_keys == "quarantine":
        for key in rolling.keys:
            reason = reason.when(column(key).isNull(), "null_key")
    return reason


def counted(df: DataFrame, pipeline: Pipeline, name: str | Observation) -> DataFrame:
    """Return rows with the reason why they cannot be used, counted by reason in an observation."""
    marked = df.withColumn(_REASON, reason_of(pipeline, df.columns))
    each = [F.count_if(F.col(_REASON) == reason).alias(reason) for reason in REASONS]
    return marked.observe(name, F.count(F.lit(1)).alias("rows"), *each)


def usable(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Return the rows of `counted` that can be used; the others are written to the quarantine's path, if any."""
    own = [name for name in df.columns if name not in (MALFORMED, _REASON)]
    path = pipeline.quarantine.path
    if path is None:
        return df.filter(F.col(_REASON).isNull()).select(*[column(name) for name in own])
    shape = all_nullable(StructType([df.schema[name] for name in own]))
    require_passable(shape)
    bad = F.when(F.col(_REASON).isNotNull(), _as_text(df, own))
    # By position: Spark would read a dot in a name as a field of a struct.
    rows = df.select(*[column(name) for name in own], F.col(_REASON), bad.alias(_ROW))
    numbered = rows.toDF(*[f"c{place}" for place in range(len(rows.columns))])
    root, names = root_of(path), own

    def divide(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return divided(root, names, batches)

    return numbered.mapInArrow(divide, shape)


def root_of(path: str) -> str:
    """Return the directory of the quarantine."""
    return os.path.abspath(path.removeprefix("file://"))


def _as_text(df: DataFrame, own: list[str]) -> Column:
    """Return a row as JSON; a malformed record as its text, because most of its columns are null."""
    text = F.to_json(F.struct(*[column(name) for name in own]), {"ignoreNullFields": "false"})
    return F.coalesce(column(MALFORMED), text) if MALFORMED in df.columns else text


def divided(root: str, names: list[str], batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield the rows without a reason and write the others; the last two columns are the reason and the row's text."""
    pa, file = pyarrow(), _TaskFile(root)
    try:
        for batch in batches:
            reasons, texts = batch.column(len(names)), batch.column(len(names) + 1)
            good = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names)
            if reasons.null_count < len(reasons):
                file.write(reasons, texts)
                good = good.filter(reasons.is_null())
            if good.num_rows:
                yield good
        file.publish()
    finally:
        file.discard()


class _TaskFile:
    """The file of one task, created only if there are rows to write, and visible only when it is complete."""

    def __init__(self, root: str) -> None:
        task = TaskContext.get()
        batch = None if task is None else task.getLocalProperty("streaming.sql.batchId")
        query = None if task is None else task.getLocalProperty("sql.streaming.queryId")
        part = 0 if task is None else task.partitionId()
        directory = Path(root) / f"batch={BACKFILL if batch is None else batch}"
        self.path = directory / f"{prefix(query)}-{part:05}.parquet"
        self.unfinished = directory / f".{self.path.name}.{uuid4().hex}"
        self.writer: ParquetWriter | None = None

    def write(self, reasons: Array, texts: Array) -> None:
        """Write the rows that have a reason."""
        pa = pyarrow()
        table = pa.table({"reason": reasons, "row": texts}).filter(reasons.is_valid())
        if self.writer is None:
            import pyarrow.parquet as pq

            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.writer = pq.ParquetWriter(self.unfinished, table.schema)
        self.writer.write_table(table)

    def publish(self) -> None:
        """Rename the file to its final name."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
            os.replace(self.unfinished, self.path)

    def discard(self) -> None:
        """Remove an incomplete file."""
        if self.writer is not None:
            self.writer.close()
            self.unfinished.unlink(missing_ok=True)


def prefix(query: str | None) -> str:
    """Return the prefix of a query's file names, so that files of other checkpoints are left alone."""
    return "part" if query is None else f"part-{query[:8]}"


def tidy(pipeline: Pipeline, *, streaming: bool) -> None:
    """Remove the files that will be written again: those after the last commit of a stream, or all of a batch run."""
    if pipeline.quarantine.path is None:
        return
    root = Path(root_of(pipeline.quarantine.path))
    if not streaming:
        shutil.rmtree(root / f"batch={BACKFILL}", ignore_errors=True)
        return
    assert pipeline.checkpoint is not None
    checkpoint = Path(pipeline.checkpoint.removeprefix("file://"))
    query = _query_of(checkpoint)
    if query is None:
        return
    done = max((int(entry.name) for entry in checkpoint.glob("commits/*") if entry.name.isdigit()), default=-1)
    for directory in root.glob("batch=*"):
        if directory.name.removeprefix("batch=").isdigit() and int(directory.name.removeprefix("batch=")) > done:
            for file in [*directory.glob(f"{prefix(query)}-*"), *directory.glob(f".{prefix(query)}-*")]:
                file.unlink(missing_ok=True)


def _query_of(checkpoint: Path) -> str | None:
    """Return the id of the query of a checkpoint; None before its first run, or where Python cannot read it."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError):
        return None
