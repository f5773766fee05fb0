"""Streams on Spark: ours against Spark's own windows, micro-batch by micro-batch, on local[2].

Ten micro-batches of 100,000 rows, a file each, without the first two; medians of the time per micro-batch.
Before that a smaller stream runs through both, and the results are compared row by row.
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.load import SEED
from sash import monoids
from sash.spark import metrics, rolling, session

Claim = tuple[str, float, float]

BATCHES, ROWS = 10, 100_000
MINUTE_US = 60 * 10**6
SPAN_US = 30 * MINUTE_US  # of one micro-batch
DELAY = "1 minute"
SCHEMA = "k long, t timestamp, x long"


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", "sash-bench", **{"spark.driver.memory": "3g"})
    try:
        return [*against_windows(spark), *per_event(spark), *changelog(spark)]
    finally:
        spark.stop()


# --- events ---------------------------------------------------------------------------------------


class Events:
    """Files of events in order of arrival, some of which are late by less than the watermark's delay."""

    def __init__(self, keys: int, batches: int = BATCHES, rows: int = ROWS, span_us: int = SPAN_US) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="sash-events-"))
        rng = np.random.default_rng(SEED)
        for batch in range(batches):
            times = np.sort(rng.integers(0, span_us, rows)) + batch * span_us
            late = np.where(rng.random(rows) < 0.01, rng.integers(0, MINUTE_US // 2, rows), 0)
            table = pa.table(
                {
                    "k": rng.integers(0, keys, rows),
                    "t": pa.array(np.maximum(times - late, 0), pa.timestamp("us", "UTC")),
                    "x": rng.integers(0, 10_000, rows),
                }
            )
            pq.write_table(table, self.path / f"{batch:04}.parquet")
        marker = dict.fromkeys(table.column_names) | {"t": 253_400_000_000_000_000}
        pq.write_table(pa.Table.from_pylist([marker], schema=table.schema), self.path / "9999.parquet")
        # Spark orders files by their times, and two may be written within one tick of that clock.
        files = sorted(self.path.glob("*.parquet"))
        for age, path in enumerate(reversed(files)):
            moment = time.time() - 60 - age
            os.utime(path, (moment, moment))

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the events as a stream, one file at a time."""
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).option("latestFirst", False)
        return reader.parquet(str(self.path)).withWatermark("t", DELAY)


def run(made: DataFrame, sink: str = "noop", mode: str = "append") -> tuple[Any, Path]:
    """Run a stream to its end, and return the query and the directory of its checkpoint."""
    where = Path(tempfile.mkdtemp(prefix="sash-run-"))
    writer = made.writeStream.format(sink).outputMode(mode).option("checkpointLocation", str(where / "checkpoint"))
    if sink == "parquet":
        writer = writer.option("path", str(where / "out"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query, where


def median_ms(query: Any) -> float:
    """Return the median milliseconds of micro-batches with data, without the first two."""
    full = [progress for progress in query.recentProgress if progress.numInputRows >= ROWS]
    return statistics.median(progress.batchDuration for progress in full[2:])


def medians(
    cases: list[Callable[[], DataFrame]], repeats: int, require: Callable[[Any], None] | None = None
) -> list[float]:
    """Return the best of some runs, which take turns because the JVM becomes faster with each run."""
    found: list[list[float]] = [[] for _ in cases]
    for _ in range(repeats):
        for case, best in zip(cases, found, strict=True):
            query, where = run(case())
            if require is not None:
                require(query)
            best.append(median_ms(query))
            shutil.rmtree(where, ignore_errors=True)
    return [min(best) for best in found]


# --- against Spark's own windows ------------------------------------------------------------------

_SIZES = {"1 minute": 1 / 0.7, "1 hour": 1 / 3, "6 hours": 1 / 15}


def against_windows(spark: SparkSession) -> list[Claim]:
    """Sum and max of 100 keys every minute, over windows of a minute, an hour and six hours."""
    _require_equal(spark)
    events, found = Events(100), []
    for size, bound in _SIZES.items():
        cases = [partial(sashs_own, size=size), partial(sparks_own, size=size)]
        made = [lambda case=case: case(events.stream(spark)) for case in cases]
        ours, theirs = medians(made, repeats=1 if size == "6 hours" else 5)  # Spark takes a minute for it
        rates = f"{ROWS / ours:.0f}k rows/s, Spark's window {ROWS / theirs:.0f}k"
        print(f"  every minute of {size}: {ours:.0f} ms per micro-batch ({rates})", flush=True)
        found.append((f"stream, every minute of {size} / Spark's own window", ours / theirs, bound))
    return found


def sashs_own(df: DataFrame, size: str) -> DataFrame:
    aggs = {"total": monoids.sum("x"), "top": monoids.max("x")}
    return rolling(df, keys=["k"], time="t", windows=[size], aggs=aggs, every="1 minute", emit="final")


def sparks_own(df: DataFrame, size: str) -> DataFrame:
    window = F.window("t", size, "1 minute")
    return df.groupBy("k", window).agg(F.sum("x").alias("total"), F.max("x").alias("top"))


def _require_equal(spark: SparkSession) -> None:
    events = Events(20, batches=3, rows=2_000, span_us=10 * MINUTE_US)
    end = F.col("window_end") < F.lit("2000-01-01").cast("timestamp")
    _, ours = run(sashs_own(events.stream(spark), "1 hour"), "parquet")
    _, theirs = run(sparks_own(events.stream(spark), "1 hour"), "parquet")
    mine = spark.read.parquet(str(ours / "out")).filter(end)
    named = mine.select("k", "window_end", F.col("total_1hour").alias("total"), F.col("top_1hour").alias("top"))
    own = spark.read.parquet(str(theirs / "out"))
    own = own.select("k", F.col("window.end").alias("window_end"), "total", "top").filter(end)
    rows = [sorted(map(tuple, frame.collect())) for frame in (named, own)]
    if not rows[0] or rows[0] != rows[1]:
        raise SystemExit("streams: our windows differ from Spark's; nothing was measured.")


# --- per event ------------------------------------------------------------------------------------


def per_event(spark: SparkSession) -> list[Claim]:
    """Three windows and three aggregates at each event of 20,000 keys, which Spark does not offer."""
    events = Events(20_000)
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    made = rolling(
        events.stream(spark),
        keys=["k"],
        time="t",
        windows=["1h", "24h", "7d"],
        aggs=aggs,
        emit="arrival",
        lateness="1h",
    )
    query, where = run(made)
    counted = metrics(query)
    if sum(row["rows_in"] for row in counted) != BATCHES * ROWS or sum(row["late"] for row in counted):
        raise SystemExit("per event: rows were lost; nothing was measured.")
    shutil.rmtree(where, ignore_errors=True)
    rate = ROWS / median_ms(query)
    print(f"  per event, 20,000 keys, 3 windows x 3 aggregates: {rate:.0f}k rows/s", flush=True)
    return [("stream per event: 300k rows/s / ours", 300 / rate, 1.0)]


# --- state ----------------------------------------------------------------------------------------


def changelog(spark: SparkSession) -> list[Claim]:
    """Bytes that a micro-batch adds to the checkpoint's changelog, over windows ten times as long."""
    events = Events(100, rows=20_000)
    aggs = {"total": monoids.sum("x")}
    sizes = []
    for window in ("30 minutes", "5 hours"):
        made = rolling(events.stream(spark), keys=["k"], time="t", windows=[window], aggs=aggs, emit="final")
        _, where = run(made)
        files = list((where / "checkpoint" / "state").rglob("*.changelog"))
        sizes.append(sum(file.stat().st_size for file in files) / BATCHES)
        shutil.rmtree(where, ignore_errors=True)
    print(
        f"  changelog: {sizes[0] / 1e3:.0f} kB per micro-batch, window 10 times as long {sizes[1] / 1e3:.0f}",
        flush=True,
    )
    return [("changelog bytes: window 10 x longer / itself", sizes[1] / sizes[0], 1.5)]
