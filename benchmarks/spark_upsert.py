"""A micro-batch with an upsert to a Delta table against the same with a sink that discards results.

Micro-batches of 20,000 rows have about a thousand results each, which change those of the last hour. One table is new;
the other has five million results of thirty days and a thousand commits. What the stream leaves in the new one is
compared with a recomputation before anything is timed. The sinks take turns.
"""

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from sash import monoids
from sash import rolling as rolled
from sash.spark import rolling, session, upsert, upserted_table
from sash.spark.upserts.delta import DeltaUpsert

Claim = tuple[str, float, float]
Sink = Callable[[DataFrame, int], None]

ROWS, BATCHES, SKIPPED = 20_000, 14, 3
KEYS, MINUTE_US = 200, 60_000_000
START_US = 1_790_000_000 * 1_000_000 // MINUTE_US * MINUTE_US
SPAN_US = 5 * MINUTE_US  # of event time in a micro-batch: about a thousand results
LARGE, DAYS, COMMITS = 5_000_000, 30, 1_000
TURNS = 3
ARGUMENTS: dict[str, Any] = {
    "keys": ["card"],
    "time": "t",
    "windows": ["10m"],
    "every": "1 minute",
    "aggs": {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")},
}


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    spark = session("local[2]", "sash-upsert", **{"spark.driver.memory": "3g"})
    where = Path(mkdtemp(prefix="sash-upsert-"))
    try:
        table = events()
        write(table, where / "in")
        _require_right(spark, where, table)
        print("  the table is what a recomputation gives", flush=True)
        fill_large(where / "large")
        return measured(spark, where)
    finally:
        spark.stop()
        shutil.rmtree(where, ignore_errors=True)


def measured(spark: SparkSession, where: Path) -> list[Claim]:
    """Return the ratios of both tables."""
    found: dict[str, list[float]] = {"noop": [], "small": [], "large": []}
    for turn in range(TURNS):
        sinks = {"noop": discard, "small": upsert_to(where / f"small-{turn}"), "large": upsert_to(where / "large")}
        for name, sink in sinks.items():
            found[name].append(median_ms(run(spark, where, sink)))
    best = {name: min(times) for name, times in found.items()}
    print("  " + ", ".join(f"{name} {ms:.0f} ms per micro-batch" for name, ms in best.items()), flush=True)
    return [
        ("micro-batch of 20,000 rows, Delta upsert to a new table / noop", best["small"] / best["noop"], 1.3),
        ("the same, to 5M rows over 30 days after 1,000 commits / noop", best["large"] / best["noop"], 1.5),
    ]


def upsert_to(path: Path) -> Sink:
    return upsert(path, keys=["card", "window_end"], shared=True)


def discard(rows: DataFrame, batch: int) -> None:
    """Run a micro-batch and drop its results."""
    rows.write.format("noop").mode("append").save()


def run(spark: SparkSession, where: Path, sink: Sink) -> Any:
    """Run the stream to its end, and return the query."""
    checkpoint = mkdtemp(prefix="sash-upsert-")
    reader = spark.readStream.schema("card string, t timestamp, x long").option("maxFilesPerTrigger", 1)
    rows = reader.option("latestFirst", False).parquet(str(where / "in")).withWatermark("t", "1 minute")
    results = rolling(rows, **ARGUMENTS, emit="update", lateness="10 minutes")
    writer = results.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return query


def median_ms(query: Any) -> float:
    """Return the median milliseconds of micro-batches with data, without the first ones."""
    full = [progress for progress in query.recentProgress if progress.numInputRows >= ROWS]
    return statistics.median(progress.batchDuration for progress in full[SKIPPED:])


def events() -> pa.Table:
    """Return the rows of all micro-batches; some are late by a minute or two."""
    rng = np.random.default_rng(0)
    count = ROWS * BATCHES
    times = START_US + np.arange(count) * SPAN_US // ROWS
    times = times - np.where(rng.random(count) < 0.02, rng.integers(0, 2 * MINUTE_US, count), 0)
    cards = np.char.add("card-", rng.integers(0, KEYS, count).astype(str))
    return pa.table({"card": cards, "t": pa.array(times, pa.timestamp("us", "UTC")), "x": rng.integers(0, 1000, count)})


def write(table: pa.Table, folder: Path) -> None:
    folder.mkdir()
    for number in range(BATCHES):
        path = folder / f"{number:04}.parquet"
        pq.write_table(table.slice(number * ROWS, ROWS), path)
        os.utime(path, (time.time() - 3_600 + number,) * 2)  # by which Spark orders files


def _require_right(spark: SparkSession, where: Path, table: pa.Table) -> None:
    """Compare the boundaries that the watermark has passed with those of the whole table at once."""
    run(spark, where, upsert_to(where / "checked"))
    wanted = rolled(table, **ARGUMENTS)
    found = upserted_table(where / "checked").select(wanted.column_names)
    order = [("card", "ascending"), ("window_end", "ascending")]
    last = found["window_end"].to_numpy().max()
    wanted = wanted.filter(pa.array(wanted["window_end"].to_numpy() <= last)).sort_by(order)
    if not found.sort_by(order).cast(wanted.schema).equals(wanted):
        raise SystemExit("upsert to Delta: a wrong answer; nothing was measured.")


def fill_large(path: Path) -> None:
    """Write a table of thirty days up to the stream's first row, and commit a thousand times to its last hour."""
    sink = upsert_to(path)
    assert isinstance(sink, DeltaUpsert)
    schema = spark_types.StructType.fromJson(_fields())
    table = sink.open_for(schema, None, 0)
    assert table is not None
    per_day, day = LARGE // DAYS, 24 * 60 * MINUTE_US
    from deltalake import write_deltalake

    for number in range(DAYS):
        write_deltalake(table, results(START_US - (DAYS - number) * day, day, per_day, number), mode="append")
    hour = results(START_US - 60 * MINUTE_US, 60 * MINUTE_US, COMMITS, DAYS)
    for number in range(COMMITS):
        rows = hour.set_column(hour.column_names.index("revision"), "revision", pa.array([number + 2] * hour.num_rows))
        sink._merge(table, rows.append_column("deleted", pa.array([False] * rows.num_rows)), None)
        sink.upkeep.after(table, sink.definition)
        if number % 200 == 199:
            print(f"  {number + 1} commits", flush=True)


def _fields() -> dict[str, Any]:
    kinds = {"window_start": "timestamp", "window_end": "timestamp", "card": "string", "n_10m": "long"}
    kinds |= {"total_10m": "long", "top_10m": "long", "revision": "long", "deleted": "boolean"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return {"type": "struct", "fields": fields}


def results(start: int, span: int, rows: int, seed: int) -> pa.Table:
    """Return made-up results of a span of time, in its order."""
    rng = np.random.default_rng(seed)
    ends = start + np.arange(rows) * (span // MINUTE_US) // rows * MINUTE_US
    instants = [pa.array(ends - back, pa.timestamp("us", "UTC")) for back in (10 * MINUTE_US, 0)]
    cards = np.char.add("card-", (np.arange(rows) % 100_000).astype(str))
    numbers = {name: rng.integers(0, 1000, rows) for name in ("n_10m", "total_10m", "top_10m")}
    return pa.table(
        {"card": cards, "window_start": instants[0], "window_end": instants[1], **numbers}
        | {"revision": np.ones(rows, dtype=np.int64)}
    )
