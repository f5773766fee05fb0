"""Starting a stream after a history of ten million rows, against reading and packing the same rows alone.

The history is in Parquet files and all of it is in the window, so all of it becomes state. What is timed is the first
micro-batch of a new checkpoint, less the same micro-batch without a history. Its only row has no time, so no bucket
is rebuilt from the state yet. The second has a row for each of some keys: it rebuilds them all, and its results are
compared with those of the history, added up by NumPy. The three take turns in one session; the first turn, in which
Java compiles what the others use, is printed and does not count.
"""

import shutil
import statistics
import time
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.load import SEED
from benchmarks.spark_streaming import MINUTE_US, run
from sash import monoids
from sash.keyed.spec import Spec
from sash.spark import rolling, session
from sash.spark.stream.packing import PACKED, pack
from sash.spark.stream.query import plan_of

Claim = tuple[str, float, float]

ROWS, KEYS, FILES = 10_000_000, 100_000, 8
SPAN_US = 24 * 60 * MINUTE_US
ASKED = 200  # keys whose results are compared
REPEATS = 3
SCHEMA = "k long, t timestamp, x long"


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", "sash-history", **{"spark.driver.memory": "2g"})
    history = History()
    try:
        return [
            *_against_packing(spark, history, "rows", {"emit": "arrival"}),
            *_against_packing(spark, history, "panes of 1 hour", {"every": "1 hour", "emit": "update"}),
        ]
    finally:
        spark.stop()
        shutil.rmtree(history.path, ignore_errors=True)


class History:
    """Rows of a day in files, in order, and the files of a stream that follows: one row, then one for some keys."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="sash-history-"))
        rng = np.random.default_rng(SEED)
        self.counts, self.sums = np.zeros(KEYS, dtype=np.int64), np.zeros(KEYS, dtype=np.int64)
        for number in range(FILES):
            size = ROWS // FILES
            keys, values = rng.integers(0, KEYS, size), rng.integers(0, 10_000, size)
            times = np.sort(rng.integers(0, SPAN_US // FILES, size)) + number * (SPAN_US // FILES) + MINUTE_US
            self.counts += np.bincount(keys, minlength=KEYS)
            self.sums += np.bincount(keys, values, KEYS).astype(np.int64)
            self._write("history", number, keys, times, values)
        self.asked = rng.choice(KEYS, ASKED, replace=False)
        after = SPAN_US + MINUTE_US
        self._write("stream", 0, np.array([KEYS]), pa.nulls(1, pa.int64()), np.array([0]))
        keys, times = np.append(self.asked, KEYS), np.append(np.full(ASKED, after), after + 3 * SPAN_US // 24)
        self._write("stream", 1, keys, times, np.zeros(ASKED + 1, dtype=np.int64))  # the last is for the watermark

    def _write(self, folder: str, number: int, keys: Any, times: Any, values: Any) -> None:
        (self.path / folder).mkdir(exist_ok=True)
        table = pa.table({"k": keys, "t": pa.array(times, pa.timestamp("us", "UTC")), "x": values})
        pq.write_table(table, self.path / folder / f"{number:02}.parquet")
        time.sleep(0.01)  # Spark orders the files of a stream by their times

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the history as a batch."""
        return spark.read.schema(SCHEMA).parquet(str(self.path / "history"))

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the stream, a file at a time."""
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.path / "stream"))
        return files.withWatermark("t", "1 minute")


def arguments(words: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked; every row of the history is in the window of the rows after it."""
    aggs = {"n": monoids.count(), "s": monoids.sum("x")}
    return {"keys": ["k"], "time": "t", "windows": ["48h"], "aggs": aggs} | words


def _against_packing(spark: SparkSession, history: History, what: str, words: dict[str, Any]) -> list[Claim]:
    cases = [partial(_first, spark, history, words, seeded) for seeded in (True, False)]
    cases += [partial(_packed, spark, history, words)]
    found: list[list[float]] = [[] for _ in cases]
    for turn in range(1 + REPEATS):
        for case, seconds in zip(cases, found, strict=True):
            seconds.append(case())
        shown = "first micro-batch {:.1f} s, without a history {:.1f}, packing alone {:.1f}"
        print(f"  {what}, turn {turn}: {shown.format(*(seconds[-1] for seconds in found))}", flush=True)
    found = [seconds[1:] for seconds in found]
    ratios = [(seeded - bare) / packed for seeded, bare, packed in zip(*found, strict=True)]
    ours = min(seeded - bare for seeded, bare in zip(*found[:2], strict=True))
    print(f"  history of {ROWS} rows, {what}: {ours:.1f} s, {ROWS / ours / 1e6:.2f}M rows/s", flush=True)
    return [(f"a history, {what} / reading and packing it", statistics.median(ratios), 1.5)]


def _packed(spark: SparkSession, history: History, words: dict[str, Any]) -> float:
    rows = history.read(spark)
    plan = plan_of(rows.schema, Spec.of(**arguments(words)), None)

    def packing(batches: Any) -> Any:
        return pack(plan, batches)

    began = time.perf_counter()
    rows.toDF("c0", "c1", "c2").mapInArrow(packing, PACKED).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def _first(spark: SparkSession, history: History, words: dict[str, Any], seeded: bool) -> float:
    """Return the seconds of the first micro-batch."""
    past = {"history": history.read(spark)} if seeded else {}
    query, where = run(rolling(history.stream(spark), **arguments(words), **past), "parquet")
    if seeded:
        _require_right(history, spark.read.parquet(str(where / "out")).toPandas(), "every" in words)
    shutil.rmtree(where, ignore_errors=True)
    return float(query.recentProgress[0].batchDuration) / 1000


def _require_right(history: History, found: Any, boundaries: bool) -> None:
    """Compare the last results of the keys that were asked for."""
    found = found[found["k"].isin(history.asked)]
    if boundaries:
        found = found[found["window_end"] == found["window_end"].max()]
    found = found.set_index("k").loc[history.asked]
    right = np.array_equal(found["n_48h"], history.counts[history.asked] + 1)
    if not right or not np.array_equal(found["s_48h"], history.sums[history.asked]):
        raise SystemExit("history on Spark: a wrong answer; nothing was measured.")
