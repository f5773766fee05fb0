"""Claims about sash.spark.rolling(at=): results as of the rows of another DataFrame, against Spark's own ways.

Spark has three: a join by key and range of times, the same by day as well, so that it looks at fewer pairs, and the
union of both with window functions over RANGE BETWEEN, by segment trees or without them. Every answer is
compared first; of Spark's ways only the fastest is timed, in turns with ours. `python -m benchmarks.spark questions`.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from benchmarks.load import SEED
from sash import monoids
from sash.spark import rolling, session

Claim = tuple[str, float, float]
Way = Callable[[DataFrame, DataFrame], DataFrame]

KEYS = 20_000
EVENTS, QUESTIONS = 1_000_000, 200_000
REPEATS = 5
HOUR, DAY, SPAN = 3_600_000_000, 24 * 3_600_000_000, 30 * 24 * 3_600_000_000
WINDOWS = {"1h": HOUR, "6h": 6 * HOUR, "24h": DAY}
AGGS = {"n": monoids.count(), "s": monoids.sum("x"), "top": monoids.max("x")}
FUNCTIONS: dict[str, Callable[..., Column]] = {"n": F.count, "s": F.sum, "top": F.max}  # no x is null
SEGMENTS = "spark.sql.window.segmentTree.enabled"


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", **{"spark.driver.memory": "3g"})
    try:
        weights = 1 / np.arange(1, KEYS + 1)
        skewed = compared(spark, "zipf keys", *tables(spark, weights / weights.sum()))
        even = compared(spark, "uniform keys", *tables(spark, np.full(KEYS, 1 / KEYS)))
        return [
            ("Spark questions: zipf keys, 9 results each / Spark's best", skewed, 1 / 5),
            ("Spark questions: 50 rows per key, 9 results each / Spark's best", even, 1 / 1.5),
        ]
    finally:
        spark.stop()


# --- rows -----------------------------------------------------------------------------------------


def tables(spark: SparkSession, weights: Any) -> tuple[DataFrame, DataFrame]:
    """Return events and questions over thirty days, unordered, on two partitions and in memory."""
    rng = np.random.default_rng(SEED)
    events = {
        "k": rng.choice(KEYS, EVENTS, p=weights),
        "t": _times(rng.integers(0, SPAN, EVENTS)),
        "x": rng.integers(0, 10_000, EVENTS),
    }
    questions = {
        "row": np.arange(QUESTIONS),
        "k": rng.choice(KEYS, QUESTIONS, p=weights),
        "q": _times(rng.integers(0, SPAN, QUESTIONS)),
        "label": rng.random(QUESTIONS) < 0.5,
        "score": rng.random(QUESTIONS),
    }
    frames = [spark.createDataFrame(pa.table(columns)).repartition(2).cache() for columns in (events, questions)]
    for frame in frames:
        frame.count()
    return frames[0], frames[1]


def _times(ticks: Any) -> pa.Array:
    return pa.array(ticks, pa.timestamp("us", "UTC"))


# --- the ways -------------------------------------------------------------------------------------


def ours(events: DataFrame, questions: DataFrame) -> DataFrame:
    """Ask about the events."""
    return rolling(events, at=questions, at_time="q", keys="k", time="t", windows=list(WINDOWS), aggs=AGGS)


def range_join(events: DataFrame, questions: DataFrame) -> DataFrame:
    """Join each question with the events of its largest window, and aggregate those of each window."""
    return _joined(events, questions, F.lit(True))


def range_join_by_day(events: DataFrame, questions: DataFrame) -> DataFrame:
    """The same by day: a window of 24 hours meets two of them."""
    days = F.explode(F.array(F.expr(f"unix_micros(q) div {DAY}"), F.expr(f"unix_micros(q) div {DAY} - 1")))
    asked = questions.withColumn("day", days)
    return _joined(
        events.withColumn("event_day", F.expr(f"unix_micros(t) div {DAY}")), asked, F.expr("day = event_day")
    )


def _joined(events: DataFrame, questions: DataFrame, also: Column) -> DataFrame:
    seen, age = events.withColumnRenamed("k", "key"), F.expr("unix_micros(q) - unix_micros(t)")
    pairs = questions.join(seen, (F.col("k") == F.col("key")) & (age >= 0) & (age < DAY) & also, "left")
    results = []
    for agg, function in FUNCTIONS.items():
        for name, size in WINDOWS.items():
            results.append(function(F.when(age < size, F.col("x"))).alias(f"{agg}_{name}"))
    return pairs.groupBy("row", "k", "q", "label", "score").agg(*results)


def union(events: DataFrame, questions: DataFrame) -> DataFrame:
    """Put both into one table, and take windows over its times."""
    rows = events.withColumnRenamed("t", "q").unionByName(questions, allowMissingColumns=True)
    rows = rows.withColumn("at", F.unix_micros("q"))
    results = {}
    for agg, function in FUNCTIONS.items():
        for name, size in WINDOWS.items():
            over = Over.partitionBy("k").orderBy("at").rangeBetween(1 - size, 0)
            results[f"{agg}_{name}"] = function("x").over(over)
    return rows.withColumns(results).filter("row IS NOT NULL").drop("at", "x")


# --- measuring ------------------------------------------------------------------------------------


def compared(spark: SparkSession, name: str, events: DataFrame, questions: DataFrame) -> float:
    """Return our time as a share of Spark's fastest, after all answers have been compared."""
    wanted = _answers(ours(events, questions))
    spent = {}
    for way, (segments, frame) in WAYS.items():
        spark.conf.set(SEGMENTS, segments)
        began = time.perf_counter()
        found = _answers(frame(events, questions))
        spent[way] = time.perf_counter() - began
        print(f"    {name}: {way}, once {spent[way]:.1f} s", flush=True)
        if not found.equals(wanted):
            raise SystemExit(f"{name}: {way} gives other answers; nothing was measured.")
    best = min(spent, key=spent.__getitem__)
    segments, frame = WAYS[best]
    spark.conf.set(SEGMENTS, segments)
    turns: list[list[float]] = [[], []]
    for _ in range(REPEATS):
        for way, seconds in zip((ours, frame), turns, strict=True):
            began = time.perf_counter()
            way(events, questions).write.format("noop").mode("overwrite").save()
            seconds.append(time.perf_counter() - began)
    ours_s, theirs_s = (float(np.median(seconds)) for seconds in turns)
    times = f"{ours_s:.2f} s, Spark ({best}) {theirs_s:.2f} s, {theirs_s / ours_s:.1f} times as long"
    print(f"  {name}: {times}", flush=True)
    return ours_s / theirs_s


def _answers(frame: DataFrame) -> pd.DataFrame:
    """Return the results in the order of the questions; integers with nulls are floats in both."""
    found = frame.toPandas().sort_values("row", ignore_index=True)
    return found[["row", "k", "q", *(f"{agg}_{name}" for agg in AGGS for name in WINDOWS)]].astype({"k": "int64"})


WAYS: dict[str, tuple[str, Way]] = {
    "union, RANGE BETWEEN": ("false", union),
    "union, RANGE BETWEEN by segment trees": ("true", union),
    "range join by day": ("true", range_join_by_day),
    "range join": ("true", range_join),
}


if __name__ == "__main__":
    from benchmarks.__main__ import print_claims

    print_claims(claims())
