"""A standalone cluster of two one-core workers against local[2]: the same rows, the same results, the times of each.

`python -m benchmarks.spark cluster` starts the cluster, runs the cases on both masters in turn, each time in a fresh
process, compares all results and stops the cluster. The better of two turns counts, the second in reverse order, and
each is printed with the machine's load: if that is far above the number of cores, times mean little. Streams are ten
micro-batches of 100,000 rows, a file each, written as Parquet; medians exclude the first two. A longer stream shows how
the checkpoint grows.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import spark_batch
from benchmarks.spark_streaming import BATCHES, MINUTE_US, ROWS, Events, median_ms, run
from benchmarks.standalone import cluster, environment
from sash import monoids
from sash.spark import metrics, rolling, session

Claim = tuple[str, float, float]

LOCAL, SPREAD = "local[2]", "two workers"
TURNS, REPEATS = 2, 6
KEPT = 10  # micro-batches that the checkpoint of the long stream retains
LONG, FEW = 60, 20_000
_LOCAL_ADDRESS = "127.0.0.1"
_CONFS = {
    "spark.driver.bindAddress": _LOCAL_ADDRESS,
    "spark.driver.host": _LOCAL_ADDRESS,
    "spark.driver.memory": "2g",
    "spark.executor.cores": 1,
    "spark.executor.memory": "1g",
    "spark.cores.max": 2,
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": True,
    "spark.sql.streaming.minBatchesToRetain": KEPT,
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
}
_AGGS = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    room, found = Path(tempfile.mkdtemp(prefix="sash-cluster-")), []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the cluster stops too
    try:
        with cluster(workers=2, cores=1, memory="2g", room=room / "cluster") as url:
            masters = {LOCAL: LOCAL, SPREAD: url}
            for turn in range(TURNS):
                # Reverse the order each time, or the first would always have the machine's better or worse moments.
                order = list(masters)[:: 1 if turn % 2 == 0 else -1]
                found.append({name: _measured(masters[name], room, turn) for name in order})
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return [_claim(case, found) for case in found[0][LOCAL]["cases"]]


def _claim(case: str, turns: list[dict[str, Any]]) -> Claim:
    """Compare the best of the turns of both masters, once all results are the same."""
    found = {name: [turn[name]["cases"][case] for turn in turns] for name in (LOCAL, SPREAD)}
    if len({json.dumps(one["results"]) for ones in found.values() for one in ones}) != 1:
        raise SystemExit(f"{case}: the results of the cluster differ from those of {LOCAL}.")
    for name, ones in found.items():
        for one in ones:
            print(f"  {case}, {name}: {one['ms']:.0f} ms, {one['summary']}, load {one['load']:.1f}", flush=True)
    best = {name: min(ones, key=lambda one: one["ms"]) for name, ones in found.items()}
    return f"{case}: {SPREAD} / {LOCAL}", best[SPREAD]["ms"] / best[LOCAL]["ms"], 1.5


def _measured(master: str, room: Path, turn: int) -> dict[str, Any]:
    """Run the cases on a master in a fresh process, which writes its results to one file and its log to another."""
    found, log = room / "found.json", room / "log"
    command = [sys.executable, "-m", "benchmarks.spark_cluster", master, str(found), *(["growth"] if turn == 0 else [])]
    with log.open("w") as said:
        if subprocess.run(command, env=environment(), stderr=said, check=False).returncode:
            raise SystemExit(f"the cases on {master} failed: {log.read_text()[-2000:]}")
    measured: dict[str, Any] = json.loads(found.read_text())
    for line in measured["growth"]:
        print(f"  {master.split(':')[0]}, long stream: {line}", flush=True)
    return measured


# --- in the process of one master -----------------------------------------------------------------


def main(master: str, found: str, growth: str = "") -> None:
    """Run all cases on a master, and write the results."""
    spark = session(master, "sash-cluster", **_CONFS)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        cases = {"every minute of 1 hour": _stream(spark, 100, every=True)}
        cases["per event, 3 windows x 3 aggregates"] = _stream(spark, 20_000, every=False)
        cases["batch, 1M rows, 3 windows x 3 aggregates"] = _batch(spark)
        grown = _growth(spark) if growth else []
    finally:
        spark.stop()
    Path(found).write_text(json.dumps({"cases": cases, "growth": grown}))


def _stream(spark: SparkSession, keys: int, *, every: bool) -> dict[str, Any]:
    events = Events(keys)
    rows = events.stream(spark)
    if every:
        made = rolling(rows, keys=["k"], time="t", windows=["1h"], aggs=_AGGS, every="1 minute", emit="final")
    else:
        windows = ["1h", "24h", "7d"]
        made = rolling(rows, keys=["k"], time="t", windows=windows, aggs=_AGGS, emit="arrival", lateness="1h")
    query, where = run(made, "parquet")
    load, counted = os.getloadavg()[0], metrics(query)
    summary = ", ".join(f"{name} {sum(row[name] for row in counted)}" for name in ("hits", "catch_ups", "rebuilds"))
    summary += f", checkpoint {_size(where / 'checkpoint') / 1e6:.1f} MB"
    if sum(row["rows_in"] for row in counted) != BATCHES * ROWS or sum(row["late"] for row in counted):
        raise SystemExit("rows were lost; nothing was measured.")
    results = _checked(spark.read.parquet(str(where / "out")))
    for place in (where, events.path):
        shutil.rmtree(place, ignore_errors=True)
    return {"ms": median_ms(query), "summary": summary, "results": results, "load": load}


def _batch(spark: SparkSession) -> dict[str, Any]:
    rows = spark_batch.events(spark, spark_batch.ROWS)
    sizes = [f"{spark_batch.seconds(spark_batch.ROWS, count)}s" for count in (100, 1_000, 10_000)]
    made = rolling(rows, keys=["k"], time="t", windows=sizes, aggs=_AGGS)
    results, times = _checked(made), []  # this warms up
    for _ in range(REPEATS):
        began = time.perf_counter()
        made.write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - began)
    best, load = min(times), os.getloadavg()[0]
    summary = f"{spark_batch.ROWS / best / 1e6:.2f}M rows/s"
    return {"ms": best * 1000, "summary": summary, "results": results, "load": load}


def _checked(results: DataFrame) -> list[str]:
    """Return the number of rows and a sum of their hashes, which does not depend on their order."""
    hashed = F.sum(F.xxhash64(*results.columns).cast("decimal(38, 0)"))
    return [str(value) for value in results.agg(F.count("*"), hashed).first()]


def _growth(spark: SparkSession) -> list[str]:
    """Return the size of the checkpoint over a stream whose window covers the last six micro-batches."""
    events = Events(100, batches=LONG, rows=FEW, span_us=10 * MINUTE_US)
    made = rolling(events.stream(spark), keys=["k"], time="t", windows=["1h"], aggs=_AGGS, emit="final")
    where = Path(tempfile.mkdtemp(prefix="sash-run-"))
    query = made.writeStream.format("noop").option("checkpointLocation", str(where)).trigger(availableNow=True).start()
    sizes: dict[int, int] = {}
    while query.isActive:
        last = query.lastProgress
        if last is not None:
            sizes[last.batchId] = _size(where)
        time.sleep(0.2)
    query.awaitTermination()
    full = [progress.batchDuration for progress in query.recentProgress if progress.numInputRows >= FEW]
    held = {row["batch"]: row["records"] for row in metrics(query)}
    for place in (where, events.path):
        shutil.rmtree(place, ignore_errors=True)
    return [
        f"after {batch + 1} micro-batches {size / 1e6:.1f} MB, {held.get(batch, 0)} records"
        for batch, size in sorted(sizes.items())
        if batch in _spread(sizes)
    ] + [f"micro-batches take {_median(full, 2, 12):.0f} ms at first, {_median(full, -10, None):.0f} at the end"]


def _spread(batches: dict[int, int]) -> set[int]:
    """Return about six of the micro-batches that were seen, including the last."""
    seen = sorted(batches)
    return {seen[len(seen) * part // 6 - 1] for part in range(1, 7)}


def _median(values: list[float], start: int, stop: int | None) -> float:
    return statistics.median(values[start:stop])


def _size(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:  # Spark removes old files meanwhile
            continue
    return total


if __name__ == "__main__":
    main(*sys.argv[1:])
