"""Late rows and deletes in a stream on Spark, without keys and per event, against the same stream in order.

The first micro-batch fills a window of two million rows; ten more of 100,000 rows follow, of which the first is
excluded. Before that a small stream is compared with the oracle. The two streams of a ratio take turns.
"""

import os
import shutil
import time
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark_streaming import BATCHES, DELAY, ROWS, SPAN_US, medians, run
from benchmarks.streams import Rows, windows_of
from sash import monoids
from sash.spark import metrics, rolling, session

Claim = tuple[str, float, float]

SIZE = 2_000_000
GAP_US = SPAN_US // ROWS
REPEATS = 2


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", "sash-late", **{"spark.driver.memory": "3g"})
    try:
        return [
            *_against_order(spark, "1% late", 1.3, late=0.01),
            *_against_order(spark, "1% deletes", 1.5, deletes=0.01, named=True),
        ]
    finally:
        spark.stop()


def _against_order(spark: SparkSession, what: str, bound: float, **words: Any) -> list[Claim]:
    _require_right(spark, **words)
    print(f"  {what}: a small stream is right", flush=True)
    both = [Files(SIZE, ROWS, BATCHES, **words), Files(SIZE, ROWS, BATCHES, **{**words, "late": 0.0, "deletes": 0.0})]
    case, in_order = medians([partial(made, spark, files) for files in both], REPEATS, _require_whole)
    for files in both:
        shutil.rmtree(files.path, ignore_errors=True)
    print(f"  {what}, {SIZE} rows in the window: {case:.0f} ms per micro-batch, in order {in_order:.0f}", flush=True)
    return [(f"stream per event, no keys, {what} / in order", case / in_order, bound)]


class Files:
    """A stream as files: the first fills the window, in order."""

    def __init__(self, size: int, batch: int, batches: int, keeps: bool = False, **words: Any) -> None:
        self.path = Path(mkdtemp(prefix="sash-late-"))
        self.size = size
        self.rows = Rows(size, batch, gap=GAP_US, keeps=keeps, **words)
        first = self.rows.in_order(size)
        for number, table in enumerate([first, *(self.rows.next() for _ in range(batches))]):
            path = self.path / f"{number:04}.parquet"
            times = pa.array(table["t"].to_numpy(), pa.timestamp("us", "UTC"))
            pq.write_table(table.set_column(0, "t", times), path)
            moment = time.time() - 3_600 + number  # by which Spark orders files
            os.utime(path, (moment, moment))

    @property
    def window(self) -> str:
        """Return the size of the window, which is also the lateness."""
        return f"{self.size * GAP_US // 1_000} milliseconds"


def made(spark: SparkSession, files: Files) -> DataFrame:
    """Return the stream of sums and maxima at each event."""
    schema = "t timestamp, x long" + (", id long, gone boolean" if files.rows.named else "")
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).option("latestFirst", False)
    named = {"id": "id", "retract": "gone"} if files.rows.named else {}
    return rolling(
        reader.parquet(str(files.path)).withWatermark("t", DELAY),
        keys=[],
        time="t",
        windows=[files.window],
        aggs={"total": monoids.sum("x"), "top": monoids.max("x")},
        emit="arrival",
        lateness=files.window,
        **named,
    )


def _require_whole(query: Any) -> None:
    counted = metrics(query)
    if sum(row["rows_in"] for row in counted) != SIZE + BATCHES * ROWS or sum(row["late"] for row in counted):
        raise SystemExit("late rows on Spark: rows were lost; nothing was measured.")


def _require_right(spark: SparkSession, **words: Any) -> None:
    """Compare the results of the last of three small micro-batches with the oracle, row by row."""
    files = Files(2_000, 500, 3, keeps=True, **words)
    _, where = run(made(spark, files), "parquet")
    found = spark.read.parquet(str(where / "out")).toPandas()
    shutil.rmtree(where, ignore_errors=True)
    shutil.rmtree(files.path, ignore_errors=True)
    times, _, gone = files.rows.kept[-1]
    ends = np.sort(times[~gone])
    names = [name for name in found.columns if name.startswith(("total_", "top_"))]
    found["t"] = found["t"].astype("datetime64[us]").astype("int64")
    last = found[found["t"].isin(ends)].sort_values("t")
    right = [np.array_equal(last["t"], ends)]
    size = files.size * GAP_US
    for name, wanted in zip(names, windows_of(*files.rows.held(), ends, size), strict=True):
        right.append(np.array_equal(last[name], wanted))
    if not all(right) or len(found) != sum((~part[2]).sum() for part in files.rows.kept):
        raise SystemExit("late rows on Spark: a wrong answer in the small case; nothing was measured.")
