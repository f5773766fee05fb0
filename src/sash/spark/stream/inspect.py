"""The contents of a checkpoint as tables: the buckets of a rolling aggregation, or their rows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from sash.keyed.expired import apart
from sash.spark.stream.log import Head, table_of
from sash.spark.stream.snapshot import Snapshot, snapshot_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = (one.replace(tzinfo=UTC) for one in (datetime.min, datetime.max))


def inspect(
    checkpoint: str,
    *,
    rows: bool = False,
    batch: int | None = None,
    operator: int = 0,
    spark: SparkSession | None = None,
) -> pa.Table:
    """Return a table of the buckets in a checkpoint, or with `rows=True` of the rows or panes in them.

    A bucket has the number of its records, their rows and bytes, the horizon up to which results are final, and the
    time of its next timer, at which it runs even without new rows. All are as of one micro-batch, by default the newest
    that is committed.
    """
    read = _rows if rows else _buckets
    return snapshot_of(checkpoint, read, batch=batch, operator=operator, spark=spark)


def heads(spark: SparkSession, checkpoint: str, operator: int = 0) -> list[Head]:
    """Return the heads of the buckets in a checkpoint."""
    return snapshot_of(checkpoint, _heads, operator=operator, spark=spark)


def _heads(snapshot: Snapshot) -> list[Head]:
    return [Head.from_bytes(data) for _, _, data in snapshot.heads()]


def _buckets(snapshot: Snapshot) -> pa.Table:
    found = [_bucket_row(partition, label, Head.from_bytes(data)) for partition, label, data in snapshot.heads()]
    return pa.Table.from_pylist(found, schema=_BUCKETS)


def _rows(snapshot: Snapshot) -> pa.Table:
    heads = {label: Head.from_bytes(data) for _, label, data in snapshot.heads()}
    live = {(label, entry.seq): entry for label, head in heads.items() for entry in head.entries if entry.rows}
    parts = []
    for bucket, seq, data in snapshot.log().collect():
        if (bucket, seq) in live:
            _, part = apart(table_of(bytes(data), live[bucket, seq]))
            parts.append(part.add_column(0, "bucket", pa.array([bucket] * part.num_rows, pa.int32())))
    return (
        pa.concat_tables(parts, promote_options="default") if parts else pa.table({"bucket": pa.array([], pa.int32())})
    )


_BUCKETS = pa.schema(
    [
        *(("partition", pa.int32()), ("bucket", pa.int32()), ("records", pa.int32()), ("rows", pa.int64())),
        *(("bytes", pa.int64()), ("horizon", pa.timestamp("us", "UTC")), ("next_timer", pa.timestamp("ms", "UTC"))),
        *(("revision", pa.int64()), ("definition", pa.string())),
    ]
)


def _bucket_row(partition: int, bucket: int, head: Head) -> dict[str, Any]:
    return {
        "partition": partition,
        "bucket": bucket,
        "records": len(head.entries),
        "rows": sum(entry.rows for entry in head.entries),
        "bytes": sum(entry.size for entry in head.entries),
        "horizon": moment(head.position.get("horizon")),
        "next_timer": moment(head.timer, 1000),
        "revision": head.position.get("revision", 0),
        "definition": head.fingerprint,
    }


def moment(ticks: int | None, microseconds: int = 1) -> datetime | None:
    """Return a number of ticks since 1970 as a time in UTC, within the years that Python has.

    >>> moment(1_500_000).isoformat(), moment(None), moment(2**63 - 1).year
    ('1970-01-01T00:00:01.500000+00:00', None, 9999)
    """
    if ticks is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=ticks * microseconds)
    except OverflowError:
        return _FIRST if ticks < 0 else _LAST
