"""Sessions on Spark against its own `session_window`: 20,000 keys, about five events a session, on local[2].

A batch of a million events, and a stream of ten micro-batches of 100,000 rows whose first two are left out. Both
compute a count, a sum and a maximum. Before that the answers are compared, row by row: all of the batch, and a smaller
stream.
"""

import shutil
import time
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.load import SEED
from benchmarks.spark_streaming import MINUTE_US, ROWS, Events, medians, run
from sash import monoids
from sash.spark import rolling, session

Claim = tuple[str, float, float]

KEYS, EVENTS = 20_000, 1_000_000
REPEATS = 3
BATCH_GAP, STREAM_GAP = "30 minutes", "10 minutes"
SPAN_US = 15 * 60 * MINUTE_US  # of the batch
LOCAL = "spark.sql.sessionWindow.merge.sessions.in.local.partition"  # Spark merges before the shuffle too


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", "sash-bench", **{"spark.driver.memory": "3g"})
    try:
        return [*_batch(spark), *_stream(spark)]
    finally:
        spark.stop()


def ours(df: DataFrame, gap: str, emit: str = "final") -> DataFrame:
    """Return the sessions of sash."""
    aggs = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    return rolling(df, keys=["k"], time="t", per="session", gap=gap, aggs=aggs, emit=emit)


def theirs(df: DataFrame, gap: str) -> DataFrame:
    """Return the sessions of Spark."""
    found = df.groupBy("k", F.session_window("t", gap).alias("w"))
    found = found.agg(F.count("*").alias("n"), F.sum("x").alias("total"), F.max("x").alias("top"))
    return found.select("k", F.col("w.start").alias("session_start"), F.col("w.end").alias("session_end"), *_VALUES)


_VALUES = ("n", "total", "top")
_COLUMNS = ("k", "session_start", "session_end", *_VALUES)


def _require(what: str, one: DataFrame, other: DataFrame) -> int:
    """Compare row by row, and return the number of sessions."""
    rows = [frame.select(*_COLUMNS).toPandas().sort_values(["k", "session_start"]) for frame in (one, other)]
    left, right = (frame.reset_index(drop=True) for frame in rows)
    if not len(left) or not left.equals(right):
        raise SystemExit(f"{what}: our sessions differ from Spark's; nothing was measured.")
    return len(left)


# --- a batch --------------------------------------------------------------------------------------


def _batch(spark: SparkSession) -> list[Claim]:
    rows = events(spark, EVENTS)
    sessions = _require("batch", ours(rows, BATCH_GAP), theirs(rows, BATCH_GAP))
    cases: dict[str, Any] = {"sash": (ours, False), "Spark": (theirs, False), "Spark, merged first": (theirs, True)}
    spent: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(REPEATS):
        for name, (made, local) in cases.items():
            spark.conf.set(LOCAL, str(local).lower())
            spent[name].append(_seconds(made(rows, BATCH_GAP)))
    spark.conf.set(LOCAL, "false")
    medians_s = {name: float(np.median(seconds)) for name, seconds in spent.items()}
    told = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in medians_s.items())
    print(f"  batch of {EVENTS} events, {sessions} sessions: {told}", flush=True)
    best = min(seconds for name, seconds in medians_s.items() if name != "sash")
    return [("sessions of a batch / Spark's session_window", medians_s["sash"] / best, 1.0)]


def events(spark: SparkSession, count: int) -> DataFrame:
    """Return unordered rows, on two partitions and in memory."""
    rng = np.random.default_rng(SEED)
    table = pa.table(
        {
            "k": rng.integers(0, KEYS, count),
            "t": pa.array(rng.integers(0, SPAN_US, count), pa.timestamp("us", "UTC")),
            "x": rng.integers(0, 10_000, count),
        }
    )
    rows = spark.createDataFrame(table).repartition(2).cache()
    rows.count()
    return rows


def _seconds(frame: DataFrame) -> float:
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


# --- a stream -------------------------------------------------------------------------------------


def _stream(spark: SparkSession) -> list[Claim]:
    _require_equal(spark)
    made = Events(KEYS)
    cases = [
        lambda: ours(made.stream(spark), STREAM_GAP),
        lambda: ours(made.stream(spark), STREAM_GAP, "update"),
        lambda: theirs(made.stream(spark), STREAM_GAP),
    ]
    final, update, rival = medians(cases, repeats=2)
    shutil.rmtree(made.path, ignore_errors=True)
    rates = ", ".join(f"{name} {ROWS / ms:.0f}k" for name, ms in (("final", final), ("update", update)))
    print(f"  stream: {rates} rows/s, Spark's session_window {ROWS / rival:.0f}k", flush=True)
    return [("sessions of a stream / Spark's session_window", final / rival, 1 / 0.7)]


def _require_equal(spark: SparkSession) -> None:
    small = Events(20, batches=3, rows=2_000, span_us=600 * MINUTE_US)
    found = []
    for case in (ours, theirs):
        _, where = run(case(small.stream(spark), STREAM_GAP), "parquet")
        found.append(spark.read.parquet(str(where / "out")).filter("session_end < timestamp '2000-01-01'").cache())
    _require("stream", *found)
    shutil.rmtree(small.path, ignore_errors=True)


def main() -> None:
    """Measure and print."""
    from benchmarks.__main__ import print_claims

    print("Sessions on Spark, local[2]", flush=True)
    print_claims(claims())


if __name__ == "__main__":
    main()
