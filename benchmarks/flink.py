"""Flink SQL and sash's streams on Spark, side by side on the same events in files, two cores each: `make bench-flink`.

Both read CSV files of events in the order of arrival, keep checkpoints on the local disk and discard their results:
sum and max over an hour, every minute of 100 keys (`HOP`) and at every event of 20,000 keys (`OVER`). Before that a
small stream runs through both with results in files, which must agree row for row, and one with 1 % late rows, of
which the rows that come out are counted. Flink reads two files, one for each core, because it does not read the files
of a folder in order; Spark reads the same lines in twenty, a micro-batch each.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.load import SEED
from sash import monoids
from sash.spark import metrics, rolling, session

FLINK = Path("build/flink/bin/python")
KEYS, FEW = 20_000, 100
GAP_MS = 4  # between events: 900,000 an hour, 45 of each key
START_MS = 1_767_225_600_000
END_MS = 253_400_000_000_000  # a row of the year 9999 flushes what waits for the watermark
LATE_MS = 30 * 60_000
FILES = 20
TURNS = 2
AGGS = {"total": monoids.sum("x"), "top": monoids.max("x")}
Result = tuple[int, int, int, int]


# --- events ---------------------------------------------------------------------------------------


class Events:
    """The same events as two files for Flink and as twenty for Spark, in the order of arrival."""

    def __init__(self, folder: Path, rows: int, late: float = 0.0) -> None:
        self.rows, self.flink, self.spark = rows, folder / "flink", folder / "spark"
        rng = np.random.default_rng(SEED)
        times = START_MS + GAP_MS * np.arange(rows)
        is_late = rng.random(rows) < late
        self.late = int(is_late.sum())
        # By an odd number, so that few events of a key have equal times.
        times = times - np.where(is_late, rng.integers(0, LATE_MS // 2, rows) * 2 + 1, 0)
        table = pa.table({"k": rng.integers(0, KEYS, rows), "ms": times, "x": rng.integers(0, 10_000, rows)})
        for path in (self.flink, self.spark):
            path.mkdir(parents=True)
        for half in range(2):
            _write(table.take(pa.array(np.arange(half, rows, 2))), self.flink / f"{half}.csv")
        for number, start in enumerate(range(0, rows, -(-rows // FILES))):
            _write(table.slice(start, -(-rows // FILES)), self.spark / f"{number:04}.csv", age=FILES - number)
        end = pa.table({"k": pa.nulls(1, pa.int64()), "ms": [END_MS], "x": pa.nulls(1, pa.int64())})
        _write(end, self.spark / "9999.csv")


def _write(table: pa.Table, path: Path, age: int = 0) -> None:
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(table, path, options)
    os.utime(path, (time.time() - 3_600 - age,) * 2)  # by which Spark orders files


# --- Flink ----------------------------------------------------------------------------------------


def flink(runs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Run queries in one process of Flink, and yield what each took."""
    command = [str(FLINK), str(Path(__file__).with_name("flink_job.py")), json.dumps(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"Flink failed with {process.returncode}; nothing was measured.")


def results_of(folder: Path) -> list[Result]:
    """Return the results that a run of Flink has written."""
    found = []
    for path in folder.rglob("part-*"):
        with path.open(newline="") as lines:
            found += [tuple(map(int, row)) for row in csv.reader(lines)]
    return sorted(found)


# --- sash -----------------------------------------------------------------------------------------


def stream(spark: SparkSession, events: Events) -> DataFrame:
    """Return the events as a stream, one file at a time."""
    reader = spark.readStream.schema("k long, ms long, x long").option("maxFilesPerTrigger", 1)
    rows = reader.option("latestFirst", False).csv(str(events.spark))
    return rows.select("k", F.timestamp_millis("ms").alias("t"), "x").withWatermark("t", "1 second")


def sash(spark: SparkSession, case: str, events: Events, late: bool = False) -> DataFrame:
    """Return what Flink computes in a case; with `late`, from late rows as well, as revisions."""
    rows, words = stream(spark, events), {"keys": ["k"], "time": "t", "windows": ["1h"], "aggs": AGGS}
    emit = {"emit": "update", "lateness": "1h"} if late else {"emit": "final"}
    if case == "hop":
        return rolling(rows.withColumn("k", F.col("k") % FEW), **words, **emit, every="1 minute")
    return rolling(rows, **words, **emit)


def run(made: DataFrame, out: Path | None = None) -> tuple[Any, float]:
    """Run a stream to its end with a checkpoint, and return the query and its seconds."""
    checkpoint = mkdtemp(prefix="sash-checkpoint-")
    writer = made.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    start = time.perf_counter()
    query = writer.format("noop").start() if out is None else writer.format("parquet").start(str(out))
    query.awaitTermination()
    seconds = time.perf_counter() - start
    shutil.rmtree(checkpoint, ignore_errors=True)
    return query, seconds


def results_in(spark: SparkSession, case: str, folder: Path) -> list[Result]:
    """Return the results that a stream has written, as Flink writes them."""
    rows = spark.read.parquet(str(folder))
    at = F.unix_millis("window_end" if case == "hop" else "t")
    rows = rows.filter(F.col("k").isNotNull()).select("k", at, "total_1h", "top_1h")
    return sorted(tuple(row) for row in rows.collect())


# --- side by side ---------------------------------------------------------------------------------


def main() -> None:
    """Verify, count late rows, measure, and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--rows", type=int, default=4_000_000, help="events of the measured streams")
    arguments.add_argument("--checked", type=int, default=200_000, help="events of the streams that are compared")
    arguments.add_argument("--late", type=int, default=1_000_000, help="events of the stream with 1 %% late rows")
    chosen = arguments.parse_args()
    where = Path(mkdtemp(prefix="sash-flink-"))
    try:
        checked = Events(where / "checked", chosen.checked)
        late = Events(where / "late", chosen.late, late=0.01)
        events = Events(where / "events", chosen.rows)
        runs = [_case(case, "hashmap", checked, where / f"flink-{case}") for case in ("hop", "over")]
        runs += [_case("over", "hashmap", late, where / "flink-late")]
        runs += [_case(case, state, events) for case in ("hop", "over") for state in ("hashmap", "rocksdb")] * TURNS
        measured = list(flink(runs))[3:]
        _compare(where, checked, late, events, measured)
    finally:
        shutil.rmtree(where, ignore_errors=True)


def _case(case: str, state: str, events: Events, out: Path | None = None) -> dict[str, Any]:
    return {"case": case, "state": state, "events": str(events.flink), "out": None if out is None else str(out)}


def _compare(where: Path, checked: Events, late: Events, events: Events, measured: list[dict[str, Any]]) -> None:
    spark = session("local[2]", "sash-flink", **{"spark.driver.memory": "3g"})
    try:
        for case in ("hop", "over"):
            run(sash(spark, case, checked), where / f"sash-{case}")
            ours, theirs = results_in(spark, case, where / f"sash-{case}"), results_of(where / f"flink-{case}")
            if not ours or ours != theirs:
                raise SystemExit(f"{case}: Flink has {len(theirs)} results, sash {len(ours)}, or other ones.")
            print(f"{case}: {len(ours)} results agree", flush=True)
        _count_late(spark, where, late)
        for case in ("hop", "over"):
            for state in ("hashmap", "rocksdb"):
                turns = [one for one in measured if (one["case"], one["state"]) == (case, state)]
                best = min(turns, key=lambda one: one["seconds"])
                _print(case, f"Flink, {state}, {best['checkpoints']} checkpoints", events, best["seconds"])
            seconds, batches = min(_timed(spark, case, events) for _ in range(TURNS))
            _print(case, f"sash on Spark, {batches} micro-batches", events, seconds)
    finally:
        spark.stop()


def _timed(spark: SparkSession, case: str, events: Events) -> tuple[float, int]:
    query, seconds = run(sash(spark, case, events))
    counted = metrics(query)
    if sum(row["rows_in"] for row in counted) != events.rows or sum(row["late"] for row in counted):
        raise SystemExit(f"{case}: rows were lost; nothing was measured.")
    return seconds, len(query.recentProgress)


def _print(case: str, what: str, events: Events, seconds: float) -> None:
    print(f"{case}: {what}: {events.rows / seconds:,.0f} events/s, {seconds:.1f} s", flush=True)


def _count_late(spark: SparkSession, where: Path, late: Events) -> None:
    """Count the events that have a result, in a stream of which 1 % is late by up to half an hour."""
    query, _ = run(sash(spark, "over", late, late=True), where / "sash-late")
    rows = spark.read.parquet(str(where / "sash-late")).filter(F.col("k").isNotNull())
    ours, theirs = rows.select("k", "t").distinct().count(), len(results_of(where / "flink-late"))
    dropped = sum(row["late"] for row in metrics(query))
    print(f"{late.late} of {late.rows} late: Flink's OVER has dropped {late.rows - theirs}, sash {dropped};", end=" ")
    print(f"sash has results for {ours} and has revised {rows.count() - ours} of them", flush=True)


if __name__ == "__main__":
    main()
