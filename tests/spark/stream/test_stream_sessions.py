"""Sessions of streams on Spark: what the oracle and the batch say, and what Spark's own `session_window` says."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oracles.keyed import Row
from oracles.sessions import SessionOracle
from sash import SashError, monoids
from sash.spark import export_checkpoint, metrics, rolling, verify_checkpoint
from support import spark_streams as streams
from support.spark_streams import COMMUTATIVE, LATENESS, MINUTE, SECOND, assert_same, latest

GAP = 2 * MINUTE
FOLDS = COMMUTATIVE | {"f": ("affine", "a", "b"), "old": ("first", "x")}
WORDS: dict[str, Any] = {
    "keys": ["k.ey"],
    "time": "t",
    "per": "session",
    "gap": "2 minutes",
    "aggs": streams.monoids_of(FOLDS),
    "lateness": "1 minute",
    "id": "i",
}
CASES: dict[str, dict[str, Any]] = {
    "final": {"emit": "final", "retract": "op = 'delete'", "late": "emit"},
    "update": {"emit": "update", "retract": "gone"},
}


def go(results: DataFrame, folder: Path) -> list[dict[str, Any]]:
    writer = results.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return metrics(query)


def oracle_of(batches: list[list[Row]]) -> tuple[SessionOracle, list[Row]]:
    """An oracle that has seen all of it, and the late rows that it gave."""
    oracle = SessionOracle(
        keys=["k.ey"], time="t", aggs=FOLDS, gap=GAP, lateness=LATENESS, id="i", retract="gone", late="emit"
    )
    said = []
    for batch, watermark in zip(batches, streams.watermarks(batches), strict=True):
        said += [row for row in oracle.push(batch, watermark) if row.get("late")]
    return oracle, said


def in_time(batches: list[list[Row]]) -> list[Row]:
    """The rows that are not late, deletes and bad ones among them."""
    marks = zip(batches, streams.watermarks(batches), strict=True)
    return [
        row
        for batch, watermark in marks
        for row in batch
        if row["t"] is None or watermark is None or row["t"] >= watermark - LATENESS
    ]


def test_streams_are_what_the_oracle_and_the_batch_say(spark, tmp_path):
    """Ties, ids, deletes, late and bad rows, a restart in the middle; in the end nothing is wrong with the state."""
    batches = streams.stream(11, rows=200, ties=True, bad=True)
    streams.write(tmp_path / "in", batches[:3])
    rows = streams.read(spark, tmp_path / "in")
    parts = [streams.as_text(name, rolling(rows, **WORDS, **words, buckets=3)) for name, words in CASES.items()]
    results = parts[0].union(parts[1])
    go(results, tmp_path)
    for operator in (0, 1):
        found = verify_checkpoint(str(tmp_path / "checkpoint"), operator=operator, spark=spark)
        assert found.sound and found.rows, found.findings
    with pytest.raises(SashError, match="The checkpoint has sessions, and cannot be exported"):
        export_checkpoint(str(tmp_path / "checkpoint"), str(tmp_path / "export"), spark=spark)
    streams.write(tmp_path / "in", batches[3:], 3)
    streams.write_end(tmp_path / "in")
    counted = go(results, tmp_path)
    assert counted[-1]["live_rows"] == counted[-1]["records"] == 0
    oracle, late = oracle_of(batches)
    assert late
    brute = oracle.recomputed()
    final = streams.rows_in(spark, tmp_path / "out", "final")
    nobody = {"t": None, "i": None, "late": False}
    assert_same(final, [row | nobody for row in brute] + late)
    update = latest(streams.rows_in(spark, tmp_path / "out", "update"), "k.ey", "session_start")
    assert_same(update, brute)
    table = pa.Table.from_pylist(in_time(batches), schema=streams.SCHEMA)
    batch = rolling(spark.createDataFrame(table, streams.DDL), **WORDS, **CASES["final"])
    assert_same(streams.as_rows(streams.as_text("batch", batch).collect()), [row | nobody for row in brute])


# --- against Spark ---------------------------------------------------------------------------------


def punctual(seed: int, rows: int = 300) -> list[list[Row]]:
    """Micro-batches in which nothing is late, at whole seconds, many of them exactly the gap apart."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0, 1, 30, 60, 119, 120, 121, 200], rows)) * SECOND
    order = np.argsort(times + rng.integers(0, streams.DELAY - SECOND, rows), kind="stable")
    made = [streams._event(rng, at, int(times[at])) for at in order]
    return [made[start : start + rows // 4] for start in range(0, rows, rows // 4)]


def sparks_own(df: DataFrame) -> DataFrame:
    found = df.groupBy("`k.ey`", F.session_window("t", "2 minutes").alias("w"))
    found = found.agg(F.count("*").alias("n"), F.sum("x").alias("s"), F.max("x").alias("top"))
    own = [F.col("w.start").alias("session_start"), F.col("w.end").alias("session_end")]
    return found.select("`k.ey`", *own, "n", "s", "top")


def sashs_own(df: DataFrame, emit: str) -> DataFrame:
    aggs = {"n": monoids.count(), "s": monoids.sum("x"), "top": monoids.max("x")}
    return rolling(df, keys=["k.ey"], time="t", per="session", gap="2 minutes", aggs=aggs, emit=emit)


def test_a_stream_has_the_sessions_that_sparks_own_has(spark: SparkSession, tmp_path: Path):
    """Over the same accepted events, row for row; an event exactly the gap after the last one joins."""
    streams.write(tmp_path / "in", punctual(5))
    streams.write_end(tmp_path / "in")
    rows = streams.read(spark, tmp_path / "in")
    made = {"final": sashs_own(rows, "final"), "update": sashs_own(rows, "update"), "spark": sparks_own(rows)}
    found = {}
    for name, results in made.items():
        go(streams.as_text(name, results), tmp_path / name)
        found[name] = streams.rows_in(spark, tmp_path / name / "out", name)
    wanted = [row for row in found["spark"] if row["session_start"] < streams.END]
    assert len(wanted) > 20
    assert_same(found["final"], wanted)
    assert_same(latest(found["update"], "k.ey", "session_start"), wanted)


def test_what_is_refused(spark):
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    words: dict[str, Any] = {"time": "timestamp", "per": "session", "gap": "1m", "aggs": {"n": monoids.count()}}
    with pytest.raises(SashError, match='history is not available with per="session"'):
        rolling(rows, **words, history=spark.range(1).selectExpr("timestamp_seconds(id) AS timestamp"))
    with pytest.raises(SashError, match='windows must be left out with per="session"'):
        rolling(rows, **words, windows=["1h"])
    own = streams.letters("value")
    with pytest.raises(SashError, match='aggs must run in the core with per="session" in a stream'):
        rolling(rows, **(words | {"aggs": {"word": own}}))
