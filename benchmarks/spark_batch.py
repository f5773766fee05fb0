"""Claims about sash.spark.rolling over batch DataFrames, against Spark's own functions.

Every answer is compared with that of Spark before either is timed. Both read the same cached rows and write to the noop
sink; they run in turn, after a round that warms up the JVM and the workers. Run it alone, on an idle machine:
`python -m benchmarks.spark_batch`.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from benchmarks.load import SEED
from sash import Monoid, monoids
from sash.spark import rolling, session

Claim = tuple[str, float, float]

KEYS = 100
ROWS = 1_000_000
FEW = 200_000  # where Spark visits all rows of the window for every row
PER_WINDOW = 1_000
REPEATS = 3
SEGMENTS = "spark.sql.window.segmentTree.enabled"


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", **{"spark.driver.memory": "3g"})
    try:
        return [*sums(spark), *nine(spark), *distinct(spark), *own(spark)]
    finally:
        spark.stop()


# --- the cases ------------------------------------------------------------------------------------


def sums(spark: SparkSession) -> list[Claim]:
    """One sum over a window of a thousand rows, with Spark's default settings."""
    rows, size = events(spark, ROWS), seconds(ROWS, PER_WINDOW)
    ours = rolling(rows, **spec([size], total=monoids.sum("x")))
    theirs = rows.withColumn(f"total_{size}s", F.sum("x").over(over(size)))
    found = measured(spark, "sum", ours, theirs, segments=False)
    return [("Spark batch: sum, 1,000 rows per window / rangeBetween", found, 1 / 4)]


def nine(spark: SparkSession) -> list[Claim]:
    """Three aggregates over three windows, by Spark's segment trees."""
    rows = events(spark, ROWS)
    sizes = [seconds(ROWS, count) for count in (100, 1_000, 10_000)]
    aggs = {"total": monoids.sum("x"), "top": monoids.max("x"), "dev": monoids.std("x")}
    functions: dict[str, Any] = {"total": F.sum, "top": F.max, "dev": F.stddev}
    columns = {f"{agg}_{size}s": functions[agg]("x").over(over(size)) for agg in aggs for size in sizes}
    found = measured(
        spark, "3 x (sum, max, stddev)", rolling(rows, **spec(sizes, **aggs)), rows.withColumns(columns), segments=True
    )
    return [("Spark batch: 3 windows of sum, max, stddev / segment trees", found, 1 / 1.5)]


def distinct(spark: SparkSession) -> list[Claim]:
    """The number of distinct values, estimated by two sketches of the same family."""
    rows, size = events(spark, ROWS), seconds(ROWS, PER_WINDOW)
    ours = rolling(rows, **spec([size], kinds=monoids.hyperloglog("x")))
    theirs = rows.withColumn(f"kinds_{size}s", F.approx_count_distinct("x").over(over(size)))
    found = measured(spark, "HyperLogLog", ours, theirs, segments=True, spread=0.06)
    return [("Spark batch: HyperLogLog / approx_count_distinct", found, 1 / 5)]


def own(spark: SparkSession) -> list[Claim]:
    """The largest rise within a window, a custom monoid, against the same in pandas on Spark."""
    rows, size = events(spark, FEW), seconds(FEW, PER_WINDOW)
    ours = rolling(rows, **spec([size], rise=_largest_rise()))
    found = []
    for name, function in (("a loop", _loop()), ("NumPy", _vectors())):
        theirs = rows.groupBy("k").applyInPandas(_by_pandas(size, function), f"{_ddl(rows)}, rise_{size}s double")
        found.append(measured(spark, f"largest rise, pandas with {name}", ours, theirs, segments=True, repeats=1))
    return [
        ("Spark batch: custom monoid / pandas rolling apply", found[0], 1 / 15),
        ("Spark batch: custom monoid / the same, vectorized", found[1], 1.0),
    ]


def _largest_rise() -> Monoid:
    """The largest sum of adjacent values: over all of them, and over those that touch either end."""

    def combine(a: Any, b: Any) -> Any:
        best = max(a[3], b[3], a[2] + b[1])
        return a[0] + b[0], max(a[1], a[0] + b[1]), max(b[2], b[0] + a[2]), best

    def lift(x: Any) -> Any:
        gain = max(x, 0.0)
        return x, gain, gain, gain

    return Monoid.compiled(
        identity=(0.0, 0.0, 0.0, 0.0), combine=combine, lift=lift, lower=lambda state: state[3], column="y", name="rise"
    )


def _loop() -> Callable[[Any], float]:
    def rise(values: Any) -> float:
        best = here = 0.0
        for value in values:
            here = max(here + value, 0.0)
            best = max(best, here)
        return best

    return rise


def _vectors() -> Callable[[Any], float]:
    def rise(values: Any) -> float:
        import numpy as np

        reached = np.concatenate(([0.0], np.cumsum(values)))
        return float((reached - np.minimum.accumulate(reached)).max())

    return rise


def _by_pandas(size: int, function: Callable[[Any], float]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def rolled(group: pd.DataFrame) -> pd.DataFrame:
        ordered = group.sort_values("t")
        windows = ordered.set_index("t")["y"].rolling(f"{size}s")
        return ordered.assign(**{f"rise_{size}s": windows.apply(function, raw=True).to_numpy()})

    return rolled


# --- rows -----------------------------------------------------------------------------------------


def events(spark: SparkSession, count: int) -> DataFrame:
    """Return unordered rows at distinct seconds, on two partitions and in memory."""
    rng = np.random.default_rng(SEED)
    table = pa.table(
        {
            "row": np.arange(count),
            "k": rng.integers(0, KEYS, count),
            "t": pa.array(rng.permutation(count) * 10**6, pa.timestamp("us", "UTC")),
            "x": rng.integers(0, 10_000, count),
            "y": rng.normal(0, 1, count),
        }
    )
    rows = spark.createDataFrame(table).repartition(2).cache()
    rows.count()
    return rows


def _ddl(rows: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)


def seconds(count: int, per_window: int) -> int:
    """Return the size of a window that holds `per_window` rows of a key."""
    assert count // KEYS >= per_window
    return per_window * KEYS


def spec(sizes: list[int], **aggs: Monoid) -> dict[str, Any]:
    return {"keys": ["k"], "time": "t", "windows": [f"{size}s" for size in sizes], "aggs": aggs}


def over(size: int) -> Any:
    """Return the window (t - size, t]; bounds are inclusive, and times are whole seconds."""
    return Over.partitionBy("k").orderBy(F.col("t").cast("long")).rangeBetween(1 - size, 0)


# --- measuring ------------------------------------------------------------------------------------


def measured(
    spark: SparkSession,
    name: str,
    ours: DataFrame,
    theirs: DataFrame,
    *,
    segments: bool,
    spread: float = 0.0,
    repeats: int = REPEATS,
) -> float:
    """Return our time as a share of theirs, after their answers have been compared."""
    spark.conf.set(SEGMENTS, str(segments).lower())
    _require(name, ours, theirs, spread)
    spent: list[list[float]] = [[], []]
    for _ in range(repeats):
        for frame, seconds_spent in zip((ours, theirs), spent, strict=True):
            began = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            seconds_spent.append(time.perf_counter() - began)
    ours_s, theirs_s = (float(np.median(all_spent)) for all_spent in spent)
    print(f"  {name}: {ours_s:.2f} s, Spark {theirs_s:.2f} s, {theirs_s / ours_s:.1f} times as long", flush=True)
    return ours_s / theirs_s


def _require(name: str, ours: DataFrame, theirs: DataFrame, spread: float) -> None:
    """Compare row by row, estimates by their average difference; both runs warm up what is timed later."""
    results = [column for column in ours.columns if column not in ("row", "k", "t", "x", "y")]
    one, other = (frame.select("row", *results).toPandas().sort_values("row") for frame in (ours, theirs))
    for column in results:
        a, b = one[column].to_numpy(float), other[column].to_numpy(float)
        same = np.allclose(a, b, rtol=1e-9, atol=1e-6, equal_nan=True)
        if not same and not np.mean(np.abs(a - b) / b) < spread:
            raise SystemExit(f"{name}: {column} differs; nothing was measured.")


def main() -> None:
    """Measure and print."""
    from benchmarks.__main__ import print_claims

    print("Spark batch, local[2], medians of seconds", flush=True)
    print_claims(claims())


if __name__ == "__main__":
    main()
