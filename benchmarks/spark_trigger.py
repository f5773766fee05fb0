"""Rare triggers against frequent ones: the cost of a row when Spark has ended idle workers and trees are rebuilt.

`python -m benchmarks.spark trigger` waits in real time, about nine minutes. A stream per event of 20,000 keys starts
with a million rows; then 100,000 arrive at each trigger, every ten seconds or every two minutes, the same rows in both.
The first trigger after the start is excluded, because Spark aligns triggers with the clock, and three are measured.
"""

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.spark_streaming import ROWS, Events
from sash import monoids
from sash.spark import metrics, rolling, session

Claim = tuple[str, float, float]

BEGINNING, LEFT_OUT, MEASURED = 10, 1, 3  # files of the first micro-batch, then micro-batches
FREQUENT, RARE = "10 seconds", "120 seconds"
_COUNTED = ("hits", "catch_ups", "rebuilds")


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", "sash-trigger", **{"spark.driver.memory": "3g"})
    events = _events()
    try:
        # Frequent ones run before and after: if the machine became slower meanwhile, the two differ.
        runs = [(every, *_measured(spark, events, every)) for every in (FREQUENT, RARE, FREQUENT)]
    finally:
        spark.stop()
        shutil.rmtree(events.path, ignore_errors=True)
    for every, rows, load in runs:
        print(f"  every {every}: {_summary(rows)}, load {load:.1f}", flush=True)
    frequent, rare = ([row for name, rows, _ in runs if name == every for row in rows] for every in (FREQUENT, RARE))
    ratio = _microseconds(rare) / _microseconds(frequent)
    return [(f"stream, a trigger every {RARE} / every {FREQUENT}", ratio, 5.0)]


def _events() -> Events:
    """Return the events, with all files of the start merged into one."""
    events = Events(20_000, batches=BEGINNING + LEFT_OUT + MEASURED)
    first = sorted(events.path.glob("*.parquet"))[:BEGINNING]
    table = pq.ParquetDataset(first).read()
    oldest = first[0].stat().st_mtime
    for path in first:
        path.unlink()
    pq.write_table(table, first[0])
    os.utime(first[0], (oldest, oldest))  # by which Spark orders files
    (events.path / "9999.parquet").unlink()  # the stream continues
    return events


def _measured(spark: SparkSession, events: Events, every: str) -> tuple[list[dict[str, Any]], float]:
    """Run the stream at a pace, and return the metrics of the measured micro-batches, and the load."""
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    words: dict[str, Any] = {"windows": ["1h", "24h", "7d"], "emit": "arrival", "lateness": "1h"}
    made = rolling(events.stream(spark), keys=["k"], time="t", aggs=aggs, **words)
    where = Path(tempfile.mkdtemp(prefix="sash-run-"))
    writer = made.writeStream.format("noop").option("checkpointLocation", str(where / "checkpoint"))
    query = writer.trigger(processingTime=every).start()
    try:
        while len(full := [row for row in metrics(query) if row["rows_in"] >= ROWS]) < 1 + LEFT_OUT + MEASURED:
            if not query.isActive:
                raise SystemExit(f"The stream ended unexpectedly: {query.exception()}")
            time.sleep(1)
    finally:
        query.stop()
        shutil.rmtree(where, ignore_errors=True)
    if [row["rows_in"] for row in full] != [BEGINNING * ROWS, *[ROWS] * (LEFT_OUT + MEASURED)]:
        raise SystemExit("rows were lost; nothing was measured.")
    return full[-MEASURED:], os.getloadavg()[1]


def _summary(rows: list[dict[str, Any]]) -> str:
    took = ", ".join(f"{row['seconds'] * 1000:.0f}" for row in rows)
    counted = ", ".join(f"{name} {sum(row[name] for row in rows)}" for name in _COUNTED)
    read = statistics.mean(row["read_bytes"] for row in rows) / 1e6
    return f"{took} ms, {_microseconds(rows):.1f} µs per row, {counted}, {read:.1f} MB of state read per trigger"


def _microseconds(rows: list[dict[str, Any]]) -> float:
    return statistics.median(row["seconds"] / row["rows_in"] * 1e6 for row in rows)
