"""Rows for the upsert sinks, what must be left of them, and a stream that is upserted."""

import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sash.spark import upsert

SCHEMA = "card string, ts timestamp, id long, total double, revision long, deleted boolean"
KEYS = ["card", "ts", "id"]


def pieces(rows: pa.Table, size: int = 10_000) -> Iterator[pa.Table]:
    """Rows as they come to the driver, for an upsert into a database without Spark: `sink._transact`."""
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def instant(hour):
    return datetime(2026, 1, 1, hour, 0, 0, hour, tzinfo=UTC)


def random_batches(seed, count=4, rows=60, growing=False):
    """Return micro-batches with repeated identities, nulls among them, and some revisions out of order.

    Those of a query grow from one micro-batch to the next.
    """
    rng = random.Random(seed)
    for number in range(count):
        batch = []
        for _ in range(rng.randrange(rows // 2, rows)):
            identity = rng.choice(["a", "b", "c", None]), instant(rng.randrange(3)), rng.choice([1, 2, 0, None])
            gone = rng.random() < 0.2
            # A revision is said once: its total follows from it.
            revision = (rng.randrange(1000) + 1000 * number * growing) * 2 + gone
            batch.append((*identity, None if gone else revision / 4, revision, gone))
        yield batch


def merged(batches):
    """Keep the greatest revision of each identity, tombstones among them."""
    kept = {}
    for row in (row for batch in batches for row in batch):
        if row[:3] not in kept or kept[row[:3]][4] <= row[4]:
            kept[row[:3]] = row
    return kept


def live(batches):
    return {row[:5] for row in merged(batches).values() if not row[5]}


def put_files(place, texts):
    """Write files a second apart: Spark reads them by their age."""
    (place / "in").mkdir(parents=True)
    for number, keys in enumerate(texts):
        path = place / "in" / f"{number}.json"
        path.write_text("\n".join(f'{{"k": {k}}}' for k in keys))
        os.utime(path, (1_700_000_000 + number,) * 2)


COUNTS = {"keys": "k", "revision": "revision", "deleted": None}


def counts(spark, place, sink):
    """Run a query with state that counts rows by key, a file each micro-batch; its revision is the count."""
    stream = spark.readStream.schema("k int").option("maxFilesPerTrigger", 1).json(str(place / "in"))
    counted = stream.groupBy("k").count().withColumnRenamed("count", "revision").withColumn("gone", stream.k < 0)
    query = counted.writeStream.outputMode("update").foreachBatch(sink).trigger(availableNow=True)
    return query.option("checkpointLocation", str(place / "checkpoint")).start()


def count_files(spark: SparkSession, place: Path, present: list[int]) -> None:
    """Upsert how often each number is in the files so far, into SQLite and Delta; `present` has the micro-batch."""
    names: dict[str, Any] = {"keys": ["k"], "revision": "revision", "deleted": None}
    lake, table = upsert(place / "t", **names), upsert(place / "t.sqlite", table="t", **names)

    def sink(rows: DataFrame, number: int) -> None:
        present[:] = [number]
        table(rows, number)
        lake(rows, number)

    stream = spark.readStream.schema("k int").option("maxFilesPerTrigger", 1).json(str(place / "in"))
    query = stream.groupBy("k").count().withColumnRenamed("count", "revision").writeStream.outputMode("update")
    query = query.foreachBatch(sink).trigger(availableNow=True).option("checkpointLocation", str(place / "checkpoint"))
    query.start().awaitTermination()
