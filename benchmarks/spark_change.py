"""Restarting a stream of two million rows with one aggregate more, against restarting it as it was.

A first run fills the window and stops. Each turn restores its checkpoint, starts the query with 20,000 rows more, and
is timed from the start to the end of its micro-batch, which rebuilds every bucket from its log. The two take turns in
one session. The results of the added aggregate are compared with NumPy's.
"""

import shutil
import statistics
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.load import SEED
from benchmarks.spark_streaming import MINUTE_US
from sash import monoids
from sash.spark import rolling, session

Claim = tuple[str, float, float]

SIZE, MORE, KEYS = 2_000_000, 20_000, 20_000
SPAN_US = 60 * MINUTE_US
TURNS = 5
WINDOW = "2 hours"
AGGS = {"n": monoids.count(), "total": monoids.sum("x")}
ADDED = {**AGGS, "top": monoids.max("x")}
CASES: dict[str, dict[str, Any]] = {
    "arrival": {"emit": "arrival"},
    "final, every minute, rows": {"every": "1 minute", "emit": "final", "id": "i"},
}


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", "sash-change", **{"spark.driver.memory": "3g"})
    try:
        return [_claim(spark, name, words) for name, words in CASES.items()]
    finally:
        spark.stop()


def _claim(spark: SparkSession, name: str, words: dict[str, Any]) -> Claim:
    files = Files()
    try:
        _run(spark, files, AGGS, words)
        shutil.copytree(files.checkpoint, files.path / "before")
        files.add()
        times: dict[int, list[float]] = {len(AGGS): [], len(ADDED): []}
        for turn in range(2 * TURNS):
            aggs = (AGGS, ADDED)[turn % 2]
            times[len(aggs)].append(_restart(spark, files, aggs, words))
        same, changed = (statistics.median(times[len(aggs)]) for aggs in (AGGS, ADDED))
        print(f"  {name}: restart {same:.2f} s, with an aggregate more {changed:.2f} s", flush=True)
        return f"restart with an aggregate more, {SIZE} rows, {name} / restart", changed / same, 1.3
    finally:
        shutil.rmtree(files.path, ignore_errors=True)


class Files:
    """Rows of an hour in a file, and a later one with a row of every key."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="sash-change-"))
        self.checkpoint = self.path / "checkpoint"
        (self.path / "in").mkdir()
        rng = np.random.default_rng(SEED)
        self.keys = [rng.permutation(np.arange(SIZE) % KEYS), np.arange(MORE) % KEYS]
        self.values = [rng.integers(-1000, 1000, len(keys)) for keys in self.keys]
        self._write(0, np.linspace(0, SPAN_US, SIZE).astype(np.int64))

    def add(self) -> None:
        """Write the second file."""
        self._write(1, SPAN_US + MINUTE_US + np.arange(MORE))

    def _write(self, number: int, times: np.ndarray) -> None:
        columns = {
            "k": pa.array(self.keys[number]),
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "x": pa.array(self.values[number]),
            "i": pa.array(np.arange(len(times)) + number * SIZE),
        }
        pq.write_table(pa.table(columns), self.path / "in" / f"{number}.parquet")

    def tops(self) -> dict[int, int]:
        """Return the largest value of each key."""
        found = np.full(KEYS, -(2**62))
        for keys, values in zip(self.keys, self.values, strict=True):
            np.maximum.at(found, keys, values)
        return dict(enumerate(found.tolist()))


def _rows(spark: SparkSession, files: Files) -> DataFrame:
    reader = spark.readStream.schema("k long, t timestamp, x long, i long")
    return reader.parquet(str(files.path / "in")).withWatermark("t", "10 minutes")


def _run(spark: SparkSession, files: Files, aggs: dict[str, Any], words: dict[str, Any]) -> float:
    began, out = time.monotonic(), str(files.path / "out")
    results = rolling(_rows(spark, files), keys=["k"], time="t", windows=[WINDOW], aggs=aggs, lateness=WINDOW, **words)

    def write(batch: DataFrame, number: int) -> None:
        if words["emit"] == "arrival" and number:
            batch.write.mode("append").parquet(out)
        else:
            batch.write.format("noop").mode("overwrite").save()

    writer = results.writeStream.foreachBatch(write).option("checkpointLocation", str(files.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return time.monotonic() - began


def _restart(spark: SparkSession, files: Files, aggs: dict[str, Any], words: dict[str, Any]) -> float:
    """Return the seconds of a restart over the restored checkpoint."""
    shutil.rmtree(files.checkpoint)
    shutil.rmtree(files.path / "out", ignore_errors=True)
    shutil.copytree(files.path / "before", files.checkpoint)
    seconds = _run(spark, files, aggs, words)
    if words["emit"] == "arrival" and "top" in aggs:
        found = {
            row.k: row.top
            for row in spark.read.parquet(str(files.path / "out")).selectExpr("k", "top_2hours top").collect()
        }
        if found != files.tops():
            raise SystemExit("changes: a wrong answer of the added aggregate; nothing was measured.")
    return seconds
