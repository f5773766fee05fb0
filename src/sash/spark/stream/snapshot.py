"""The state of a rolling aggregation as of one committed micro-batch, read by Spark's state data source.

Heads and records are read by two queries. Both name the micro-batch, so that they fit together while the stream runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from sash.errors import ArgumentError, CorruptStateError, SashError, shown
from sash.locations import location
from sash.spark.sessions import STATE, session
from sash.spark.stream.checkpoint_files import CheckpointFiles
from sash.spark.stream.findings import BucketState

_Result = TypeVar("_Result")
_ATTEMPTS = 3
_READING = {
    **STATE,
    # Records are as large as a bucket's state may be, so only few of them go to Python at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # of an export; the default is a type of nanoseconds
}


@dataclass(frozen=True)
class Snapshot:
    """The state of one operator of a query, after a micro-batch and before the next."""

    files: CheckpointFiles
    spark: SparkSession
    batch: int
    operator: int = 0

    @property
    def checkpoint(self) -> str:
        """The checkpoint as a path or a URI."""
        return str(self.files.place)

    @property
    def is_there(self) -> bool:
        """Whether the stream has not removed the micro-batch yet."""
        return self.batch in self.files.commits()

    @property
    def watermark_ms(self) -> int | None:
        """The watermark at which the micro-batch ran, or None."""
        return self.files.watermark_ms(self.batch)

    def heads(self) -> list[tuple[int, int, bytes]]:
        """Return the partition, the label and the head of each bucket, in their order."""
        rows = self._state("head").select("partition_id", "key.bucket", "value.data").collect()
        return sorted((partition, bucket, bytes(data)) for partition, bucket, data in rows)

    def buckets(self) -> dict[int, BucketState]:
        """Return the buckets that have a head, by label."""
        return {label: BucketState.read(label, data) for _, label, data in self.heads()}

    def log(self) -> DataFrame:
        """Return the records of all buckets, among them those that no head lists."""
        rows = self._state("log")
        return rows.selectExpr("key.bucket AS bucket", "user_map_key.seq AS seq", "user_map_value.data AS data")

    def _state(self, name: str) -> DataFrame:
        reader = self.spark.read.format("statestore").option("stateVarName", name)
        reader = reader.option("operatorId", self.operator).option("batchId", self.batch)
        try:
            return reader.option("flattenCollectionTypes", "true").load(self.checkpoint)
        except Exception as error:
            raise _unloadable(self.checkpoint, error) from error


def snapshot_of(
    checkpoint: str,
    read: Callable[[Snapshot], _Result],
    *,
    batch: int | None = None,
    operator: int = 0,
    spark: SparkSession | None = None,
) -> _Result:
    """Return what `read` makes of a snapshot: of a micro-batch, or of the newest one that is committed.

    While it is read, a running stream may remove the micro-batch; then the newest is read again.
    """
    spark = spark or SparkSession.getActiveSession() or session()
    files = CheckpointFiles(location(checkpoint, "checkpoint"), spark)
    with _state_settings(spark):
        for _ in range(_ATTEMPTS):
            chosen = _chosen(files, batch)
            try:
                return read(Snapshot(files, spark, chosen, operator))
            except Exception as error:
                if chosen in files.commits():
                    raise error if isinstance(error, SashError) else _unreadable(chosen, error) from error
    raise CorruptStateError(
        f"The micro-batch {chosen} was removed while it was read: the stream retains too few of them "
        "(spark.sql.streaming.minBatchesToRetain).",
        argument="checkpoint",
    )


def _chosen(files: CheckpointFiles, batch: int | None) -> int:
    """Return the micro-batch to read, or raise ArgumentError if it is not there."""
    commits = files.commits()
    if not commits:
        raise _not_rolling(str(files.place), "it has no committed micro-batch")
    if batch is not None and batch not in commits:
        raise ArgumentError(
            f"batch must be a committed micro-batch from {commits[0]} to {commits[-1]}, got {shown(batch)}.",
            argument="batch",
        )
    return commits[-1] if batch is None else batch


@contextmanager
def _state_settings(spark: SparkSession) -> Iterator[None]:
    """Let the session read state as streams write it, and leave it as it was."""
    before = {name: spark.conf.get(name, None) for name in _READING}
    try:
        for name, value in _READING.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, found in before.items():
            spark.conf.unset(name) if found is None else spark.conf.set(name, found)


def _not_rolling(checkpoint: str, why: str) -> ArgumentError:
    return ArgumentError(
        "checkpoint must be the checkpointLocation of a query with a rolling aggregation, got "
        f"{shown(checkpoint)}: {why.removesuffix('.')}.",
        argument="checkpoint",
    )


def _unloadable(checkpoint: str, error: Exception) -> SashError:
    reason = reason_of(error)
    if "_stateSchema" in reason:
        return CorruptStateError(
            f"The checkpoint {shown(checkpoint)} was moved or lacks a file: Spark stores absolute paths in it, so it "
            f"can only be read where it was written ({reason.removesuffix('.')}).",
            argument="checkpoint",
        )
    return _not_rolling(checkpoint, reason)


def _unreadable(batch: int, error: Exception) -> CorruptStateError:
    reason = reason_of(error).removesuffix(".")
    return CorruptStateError(f"The state of micro-batch {batch} cannot be read: {reason}.", argument="checkpoint")


def reason_of(error: BaseException) -> str:
    """Return what went wrong in one line: the message of Java's error, or the last line of Python's traceback."""
    thrown: Any = getattr(error, "java_exception", None)
    lines = [line.strip() for line in str(error if thrown is None else thrown.toString()).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return (lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0])[:300]
