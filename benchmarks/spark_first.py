"""The first micro-batch of a query in a fresh session, against Spark's own `window()` in another.

Each turn starts a process with a session of its own, which runs one micro-batch of 20,000 rows: from `start()` to the
end of the micro-batch, without the start of the session. Both ways take turns. sash returns the sum of the last hour
at every event, Spark that of an hour at every minute; both are compared with sums of NumPy.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Claim = tuple[str, float, float]

ROWS, KEYS, TURNS = 20_000, 100, 5
WAYS = ("sash", "window()")


def claims() -> list[Claim]:
    """Return the claim as a sentence, the measured value, and the bound that it must not exceed."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="sash-first-") as folder:
        rows = _write_rows(Path(folder) / "in")
        for turn in range(TURNS):
            for way in WAYS:
                found[way].append(_of_process(way, Path(folder), turn))
    _require_right(found, rows)
    seconds = {way: statistics.median(turn["seconds"] for turn in turns) for way, turns in found.items()}
    for way, turns in found.items():
        whole = statistics.median(turn["from_process_start"] for turn in turns)
        planning = statistics.median(turn["planning"] for turn in turns)
        print(
            f"  {way}: {seconds[way]:.2f} s from start(), {planning:.2f} s of them planning; "
            f"{whole:.2f} s from the start of the process",
            flush=True,
        )
    return [("first micro-batch in a fresh session / Spark's window()", seconds["sash"] / seconds["window()"], 1.25)]


def _write_rows(folder: Path) -> pa.Table:
    rng = np.random.default_rng(1)
    folder.mkdir()
    times = np.sort(rng.integers(0, 3_600_000_000, ROWS)) + 1_767_225_600_000_000
    columns: dict[str, Any] = {
        "k": [f"k{number}" for number in rng.integers(0, KEYS, ROWS)],
        "t": pa.array(times, pa.timestamp("us", "UTC")),
        "x": rng.integers(0, 1000, ROWS),
    }
    table = pa.table(columns)
    pq.write_table(table, folder / "0.parquet")
    return table


def _of_process(way: str, folder: Path, turn: int) -> dict[str, Any]:
    """Return what a process of its own measured."""
    command = [sys.executable, "-m", "benchmarks.spark_first", way, str(folder), str(turn), str(time.time())]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stdout}{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _require_right(found: dict[str, list[dict[str, Any]]], rows: pa.Table) -> None:
    """Raise if results are wrong. The events are within an hour: a window has all earlier ones, and 60 have each."""
    keys, values = (rows[name].to_numpy() for name in ("k", "x"))
    so_far = sum(int(np.cumsum(values[keys == key]).sum()) for key in np.unique(keys))
    wanted = {"sash": so_far, "window()": 60 * int(values.sum())}
    for way, turns in found.items():
        if {turn["total"] for turn in turns} != {wanted[way]}:
            raise SystemExit(f"The results of {way} are wrong; nothing was measured.")


# --- in a process of its own ----------------------------------------------------------------------


def _measured(way: str, folder: Path, turn: str, began: float) -> dict[str, Any]:
    from pyspark.sql import functions as F

    from sash.spark import session

    spark = session("local[2]", "sash-first")
    schema = "k string, t timestamp, x long"
    rows = spark.readStream.schema(schema).parquet(str(folder / "in")).withWatermark("t", "1 minute")
    if way == "sash":
        from sash import monoids
        from sash.spark import rolling

        words: dict[str, Any] = {"windows": "1h", "emit": "arrival"}
        results = rolling(rows, keys=["k"], time="t", aggs={"total": monoids.sum("x")}, **words)
        table = results.withColumnRenamed("total_1h", "total")
    else:
        grouped = rows.groupBy("k", F.window("t", "1 hour", "1 minute")).agg(F.sum("x").alias("total"))
        table = grouped.select("k", F.col("window.end").alias("window_end"), "total")
    written: list[int] = []
    writer = table.writeStream.outputMode("append" if way == "sash" else "update")
    writer = writer.foreachBatch(lambda batch, _: written.extend(batch.toArrow()["total"].to_pylist()))
    writer = writer.option("checkpointLocation", str(folder / f"{way}-{turn}")).trigger(processingTime="0 seconds")
    start = time.perf_counter()
    query = writer.start()
    while query.lastProgress is None or not query.lastProgress["numInputRows"]:
        time.sleep(0.01)
    seconds, ended = time.perf_counter() - start, time.time()
    progress = next(one for one in query.recentProgress if one["numInputRows"])
    query.stop()
    return {
        "seconds": seconds,
        "from_process_start": ended - began,
        "planning": progress["durationMs"]["queryPlanning"] / 1000,
        "total": sum(written),
    }


if __name__ == "__main__":
    print(json.dumps(_measured(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))))
