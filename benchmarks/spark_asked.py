"""Questions on a stream: one for ten events, against the same stream without questions, on local[2].

Three windows and three aggregates of 20,000 keys, by each way to emit. Without questions each event has results; with
them only the questions have. Before that a smaller stream is compared with `sash.rolling(at=)`, row by row.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.load import SEED
from benchmarks.spark_streaming import BATCHES, DELAY, MINUTE_US, ROWS, SPAN_US, Events, medians, run
from sash import monoids
from sash import rolling as rolled
from sash.spark import rolling, session

Claim = tuple[str, float, float]

SCHEMA = "name long, k long, q timestamp"
AGGS = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
WORDS: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": ["1h", "24h", "7d"], "aggs": AGGS}
AT_MOST = 1.3


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", "sash-bench", **{"spark.driver.memory": "3g"})
    try:
        _require_equal(spark)
        events, found = Events(20_000), []
        questions = Questions(20_000)
        for emit in ("arrival", "final", "update"):
            plain, asked = medians(
                [
                    lambda emit=emit: rolling(events.stream(spark), **WORDS, emit=emit),
                    lambda emit=emit: answered(events.stream(spark), questions.stream(spark), emit),
                ],
                repeats=2,
            )
            print(f"  {emit}: {plain:.0f} ms per micro-batch, with questions {asked:.0f}", flush=True)
            found.append((f"{emit}: stream with a question for ten events / without", asked / plain, AT_MOST))
        return found
    finally:
        spark.stop()


def answered(events: DataFrame, questions: DataFrame, emit: str) -> DataFrame:
    """Return a stream's answers."""
    return rolling(events, at=questions, at_time="q", at_id="name", **WORDS, emit=emit)


class Questions:
    """Files of questions, one for ten events of the same micro-batch, about times within its span."""

    def __init__(self, keys: int, batches: int = BATCHES, rows: int = ROWS // 10, span_us: int = SPAN_US) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="sash-questions-"))
        rng = np.random.default_rng(SEED + 1)
        for batch in range(batches):
            times = rng.integers(0, span_us, rows) + batch * span_us
            table = pa.table(
                {
                    "name": batch * rows + np.arange(rows),
                    "k": rng.integers(0, keys, rows),
                    "q": pa.array(times, pa.timestamp("us", "UTC")),
                }
            )
            pq.write_table(table, self.path / f"{batch:04}.parquet")
        marker = {"name": None, "k": None, "q": 253_400_000_000_000_000}
        pq.write_table(pa.Table.from_pylist([marker], schema=table.schema), self.path / "9999.parquet")
        for age, path in enumerate(sorted(self.path.glob("*.parquet"), reverse=True)):
            moment = time.time() - 60 - age
            os.utime(path, (moment, moment))

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the questions as a stream, one file at a time."""
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).option("latestFirst", False)
        return reader.parquet(str(self.path)).withWatermark("q", DELAY)


def _require_equal(spark: SparkSession) -> None:
    sizes = {"batches": 3, "span_us": 10 * MINUTE_US}
    events, questions = Events(20, rows=2_000, **sizes), Questions(20, rows=200, **sizes)
    _, where = run(answered(events.stream(spark), questions.stream(spark), "final"), "parquet")
    found = pq.read_table(where / "out").sort_by("name")
    instants = found["q"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))  # Parquet's older form has no zone
    found = found.set_column(found.column_names.index("q"), "q", instants)
    tables = [pq.read_table(sorted(one.path.glob("0*.parquet"))) for one in (events, questions)]
    wanted = rolled(tables[0], at=tables[1], at_time="q", **WORDS)
    names = wanted.column_names
    if not found.num_rows or found.select(names).to_pylist() != wanted.to_pylist():
        raise SystemExit("questions: a stream's answers differ from those in process; nothing was measured.")
    shutil.rmtree(where, ignore_errors=True)
