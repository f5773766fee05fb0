"""Rows that cannot be used: told apart in SQL, counted, and set aside as Parquet, so that none goes silently.

The files of a micro-batch have names that follow from it and the task, and come to be by a rename: a task that runs
again, or a micro-batch that is repeated after a failure, writes the same files over. What a micro-batch left that was
never committed is removed when the stream starts again, because its rows will come again.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sash.durations import nanoseconds
from sash.inputs.arrow import pyarrow
from sash.pipeline.config.read import Pipeline
from sash.spark.columns import column
from sash.spark.schema import all_nullable, require_passable

MALFORMED = "__sash_malformed"  # the text of a record that could not be read, null elsewhere
REASONS = ("malformed", "null_time", "ahead", "null_id", "null_key")
BACKFILL = -1  # the number under which a batch run sets rows aside
_REASON, _ROW = "__sash_reason", "__sash_row"


def reason_of(pipeline: Pipeline, columns: list[str]) -> Column:
    """Give why a row cannot be used, null where it can."""
    wanted, rolling = pipeline.quarantine, pipeline.rolling
    reason = F.when(column(rolling.time).isNull(), "null_time")
    if MALFORMED in columns:
        reason = F.when(column(MALFORMED).isNotNull(), "malformed").when(column(rolling.time).isNull(), "null_time")
    if wanted.ahead is not None:
        seconds = nanoseconds(wanted.ahead, "ahead") / 1e9
        # In a stream this is the clock that Spark logs for each micro-batch, the same when it is repeated.
        clock = F.current_timestamp() if wanted.ahead_of is None else column(wanted.ahead_of)
        later = clock + F.expr(f"make_dt_interval(0, 0, 0, {seconds:.6f})")
        reason = reason.when(column(rolling.time) > later, "ahead")
    if rolling.id is not None:
        reason = reason.when(column(rolling.id).isNull(), "null_id")
    if wanted.null_keys == "quarantine":
        for key in rolling.keys:
            reason = reason.when(column(key).isNull(), "null_key")
    return reason


def counted(df: DataFrame, pipeline: Pipeline, name: Any) -> DataFrame:
    """Give rows with the reason why they cannot be used, and have them counted under a name."""
    marked = df.withColumn(_REASON, reason_of(pipeline, df.columns))
    each = [F.count_if(F.col(_REASON) == reason).alias(reason) for reason in REASONS]
    return marked.observe(name, F.count(F.lit(1)).alias("rows"), *each)


def kept(df: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Give the rows that can be used, of those that `counted` gave; the others are written where there is a path."""
    own = [name for name in df.columns if name not in (MALFORMED, _REASON)]
    path = pipeline.quarantine.path
    if path is None:
        return df.filter(F.col(_REASON).isNull()).select(*[column(name) for name in own])
    shape = all_nullable(StructType([df.schema[name] for name in own]))
    require_passable(shape)
    bad = F.when(F.col(_REASON).isNotNull(), _as_text(df, own))
    # By place: Spark would take a dot in a name for a member of a struct.
    rows = df.select(*[column(name) for name in own], F.col(_REASON), bad.alias(_ROW))
    numbered = rows.toDF(*[f"c{place}" for place in range(len(rows.columns))])
    root, names = root_of(path), own

    def divide(batches: Iterator[Any]) -> Iterator[Any]:
        return divided(root, names, batches)

    return numbered.mapInArrow(divide, shape)


def root_of(path: str) -> str:
    """Give the directory that rows are set aside in."""
    return os.path.abspath(path.removeprefix("file://"))


def _as_text(df: DataFrame, own: list[str]) -> Column:
    """Give a row as JSON; of a malformed record its text, for its columns hold little of it."""
    text = F.to_json(F.struct(*[column(name) for name in own]), {"ignoreNullFields": "false"})
    return F.coalesce(column(MALFORMED), text) if MALFORMED in df.columns else text


def divided(root: str, names: list[str], batches: Iterator[Any]) -> Iterator[Any]:
    """Give the rows without a reason, and write the others: the last two columns are the reason and the row's text."""
    pa, aside = pyarrow(), _Aside(root)
    try:
        for batch in batches:
            reasons, texts = batch.column(len(names)), batch.column(len(names) + 1)
            good = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names)
            if reasons.null_count < len(reasons):
                aside.take(reasons, texts)
                good = good.filter(reasons.is_null())
            if good.num_rows:
                yield good
        aside.publish()
    finally:
        aside.discard()


class _Aside:
    """The file of one task, which is there only if something was set aside, and only when it is whole."""

    def __init__(self, root: str) -> None:
        task = TaskContext.get()
        batch = None if task is None else task.getLocalProperty("streaming.sql.batchId")
        query = None if task is None else task.getLocalProperty("sql.streaming.queryId")
        part = 0 if task is None else task.partitionId()
        directory = Path(root) / f"batch={BACKFILL if batch is None else batch}"
        self.path = directory / f"{prefix(query)}-{part:05}.parquet"
        self.unfinished = directory / f".{self.path.name}.{uuid4().hex}"
        self.writer: Any = None

    def take(self, reasons: Any, texts: Any) -> None:
        """Write the rows that have a reason."""
        pa = pyarrow()
        table = pa.table({"reason": reasons, "row": texts}).filter(reasons.is_valid())
        if self.writer is None:
            import pyarrow.parquet as pq

            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.writer = pq.ParquetWriter(self.unfinished, table.schema)
        self.writer.write_table(table)

    def publish(self) -> None:
        """Give the file its name; from here on it is there."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
            os.replace(self.unfinished, self.path)

    def discard(self) -> None:
        """Remove what did not come to its end."""
        if self.writer is not None:
            self.writer.close()
            self.unfinished.unlink(missing_ok=True)


def prefix(query: str | None) -> str:
    """Give how the names of a query's files begin, so that another checkpoint's files stay what they are."""
    return "part" if query is None else f"part-{query[:8]}"


def tidy(pipeline: Pipeline, *, streaming: bool) -> None:
    """Remove what will be written again: by a stream after its last committed micro-batch, by a batch run all of it."""
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
    """Give the id of the query that a checkpoint is of; None before it ran, or where Python cannot look."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError):
        return None
