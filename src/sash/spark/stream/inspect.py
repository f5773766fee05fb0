"""The contents of a checkpoint: the buckets of a rolling aggregation, read by Spark's state data source."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from sash.errors import ArgumentError, shown
from sash.spark.sessions import STATE, session
from sash.spark.stream.log import Head, table_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def inspect(checkpoint: str, *, rows: bool = False, operator: int = 0, spark: SparkSession | None = None) -> pa.Table:
    """Return a table of the buckets in a checkpoint, or with `rows=True` of the rows or panes in them.

    A bucket has the number of its records, their rows and bytes, the horizon up to which results are final, and the
    time of its next timer, at which it runs even without new rows.
    """
    spark = spark or SparkSession.getActiveSession() or session()
    with _state_settings(spark):
        return _read(spark, checkpoint, rows, operator)


@contextmanager
def _state_settings(spark: SparkSession) -> Iterator[None]:
    """Let the session read state as streams write it, and leave it as it was."""
    before = {name: spark.conf.get(name, None) for name in STATE}
    try:
        for name, value in STATE.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, found in before.items():
            spark.conf.unset(name) if found is None else spark.conf.set(name, found)


def _read(spark: SparkSession, checkpoint: str, rows: bool, operator: int) -> pa.Table:
    heads = _heads(spark, checkpoint, operator)
    if not rows:
        return pa.Table.from_pylist([_bucket_row(*head) for head in heads], schema=_BUCKETS)
    live = {(bucket, entry.seq): entry for _, bucket, head in heads for entry in head.entries if entry.rows}
    found = _state(
        spark, checkpoint, operator, "log", ["key.bucket", "user_map_key.seq", "user_map_value.data"], flatten=True
    )
    parts = []
    for bucket, seq, data in found:
        if (bucket, seq) in live:
            part = table_of(bytes(data), live[bucket, seq])
            parts.append(part.add_column(0, "bucket", pa.array([bucket] * part.num_rows, pa.int32())))
    return pa.concat_tables(parts) if parts else pa.table({"bucket": pa.array([], pa.int32())})


def heads(spark: SparkSession, checkpoint: str, operator: int = 0) -> list[Head]:
    """Return the heads of the buckets in a checkpoint."""
    with _state_settings(spark):
        return [head for _, _, head in _heads(spark, checkpoint, operator)]


def _heads(spark: SparkSession, checkpoint: str, operator: int) -> list[tuple[int, int, Head]]:
    """Return the partition, the number and the head of each bucket."""
    columns = ["partition_id", "key.bucket", "value.data"]
    rows = _state(spark, checkpoint, operator, "head", columns)
    return [(partition, bucket, Head.from_bytes(bytes(data))) for partition, bucket, data in rows]


_BUCKETS = pa.schema(
    [
        *(("partition", pa.int32()), ("bucket", pa.int32()), ("records", pa.int32()), ("rows", pa.int64())),
        *(("bytes", pa.int64()), ("horizon", pa.timestamp("us", "UTC")), ("next_timer", pa.timestamp("ms", "UTC"))),
        *(("revision", pa.int64()), ("definition", pa.string())),
    ]
)


def _bucket_row(partition: int, bucket: int, head: Head) -> dict[str, Any]:
    horizon = head.position.get("horizon")
    return {
        "partition": partition,
        "bucket": bucket,
        "records": len(head.entries),
        "rows": sum(entry.rows for entry in head.entries),
        "bytes": sum(entry.size for entry in head.entries),
        "horizon": None if horizon is None else _EPOCH + timedelta(microseconds=horizon),
        "next_timer": None if head.timer is None else _EPOCH + timedelta(milliseconds=head.timer),
        "revision": head.position.get("revision", 0),
        "definition": head.fingerprint,
    }


def _state(
    spark: SparkSession, checkpoint: str, operator: int, name: str, columns: list[str], flatten: bool = False
) -> list[Row]:
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
    if flatten:
        reader = reader.option("flattenCollectionTypes", "true")
    try:
        return list(reader.load(checkpoint).select(*columns).collect())
    except Exception as error:
        raise ArgumentError(
            "checkpoint must be the checkpointLocation of a query with a rolling aggregation, got "
            f"{shown(checkpoint)}: {shown(str(error).splitlines()[0])}.",
            argument="checkpoint",
        ) from error
