"""A stream on Spark that starts after a history: with a backfill it gives what one over everything gives.

Two queries, each with several aggregations: one that is stopped and starts again without its history, one that fails in
its first micro-batch, and whose stream repeats rows of the history.
"""

import json
import shutil
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sash import SashError, monoids
from sash.keyed.spec import Spec
from sash.spark import metrics, rolling
from sash.spark.stream.query import planned
from support import spark_streams as streams
from support.spark_streams import COMMUTATIVE, DELAY, LATENESS, ORDERED, Case, Row, assert_same, latest

EVERY = {"every": "1 minute"}
DISTINCT = {
    "final": Case(COMMUTATIVE | ORDERED, words={"emit": "final", "carry": ("row",)}),
    "update": Case(COMMUTATIVE | ORDERED, words={"emit": "update", "carry": ("row",)}),
    "panes": Case(COMMUTATIVE, words=EVERY),
    "panes, update": Case(COMMUTATIVE, words=EVERY | {"emit": "update"}),
}
NAMED = {
    "final": Case(COMMUTATIVE | ORDERED, words={"emit": "final", "id": "i", "retract": "op = 'delete'"}),
    "every, update": Case(COMMUTATIVE, words=EVERY | {"emit": "update", "id": "i", "retract": "gone"}),
    "arrival": Case(COMMUTATIVE, words={"emit": "arrival", "id": "i", "retract": "gone"}),
}
IDENTITY = {"update": ("k.ey", "t", "row"), "panes, update": ("k.ey", "window_end")}
IDENTITY |= {"every, update": ("k.ey", "window_end")}


class Failed(Exception):
    """What the first micro-batch dies of."""


def results_of(spark: SparkSession, folder: Path, cases: dict[str, Case]) -> DataFrame:
    rows = streams.read(spark, folder / "in")
    history = spark.read.schema(streams.DDL).parquet(str(folder / "history")).withColumn("extra", F.lit(1))
    parts = [
        streams.as_text(name, rolling(rows, **case.arguments, buckets=3, history=history))
        for name, case in cases.items()
    ]
    return reduce(DataFrame.union, parts)


def go(results: DataFrame, folder: Path, fails: bool = False) -> list[dict]:
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))
        if fails:
            raise Failed

    writer = results.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    if not fails:
        query.awaitTermination()
        return metrics(query)
    with pytest.raises(Exception, match="Failed"):
        query.awaitTermination()
    return []


def seam_of(history: Sequence[Row]) -> tuple[int, int]:
    """The watermark and the horizon after a history."""
    newest = max(row["t"] for row in history if row["t"] is not None)
    watermark = newest // 1000 * 1000 - DELAY
    return watermark, watermark - LATENESS


def backfill(spark: SparkSession, case: Case, history: Sequence[Row]) -> list[Row]:
    """What a batch over the history supplies, as revision 0: what is final, or shown, at the seam."""
    table = pa.Table.from_pylist(list(history), schema=streams.SCHEMA)
    batch = rolling(spark.createDataFrame(table, streams.DDL), **case.arguments)
    rows = streams.as_rows(streams.as_text("", batch).collect())
    watermark, horizon = seam_of(history)
    update = case.words.get("emit") == "update"
    if case.every:
        rows = [row for row in rows if row["window_end"] <= (watermark if update else horizon)]
    elif not update:
        rows = [row for row in rows if row["t"] < horizon]
    return [row | {"revision": 0} for row in rows] if update else rows


def assert_whole(spark: SparkSession, folder: Path, cases: dict[str, Case], batches: list[list[Row]]) -> None:
    """What the backfill and the stream give is what all rows give."""
    for name, case in cases.items():
        if name == "arrival":
            continue
        oracle, _ = case.oracle(batches)
        said, before = streams.rows_in(spark, folder / "out", name), backfill(spark, case, batches[0])
        got = latest(before + said, *IDENTITY[name]) if name in IDENTITY else before + said
        assert before
        assert_same(got, case.wanted(oracle))


def test_a_history_then_a_stream(spark, tmp_path):
    """Whatever is final or shown at the seam is not emitted, and a restart reads no history."""
    first, second, *rest = streams.stream(11, batches=5)
    batches = [first + second, *rest]
    streams.write(tmp_path / "history", [first, second])
    streams.write(tmp_path / "in", rest[:1])
    results = results_of(spark, tmp_path, DISTINCT)
    go(results, tmp_path)
    shutil.rmtree(tmp_path / "history")
    streams.write(tmp_path / "in", rest[1:], 1)
    streams.write_end(tmp_path / "in")
    counted = go(results, tmp_path)
    assert counted and sum(row["rows_in"] for row in counted) == len(DISTINCT) * sum(map(len, rest[1:]))
    assert_whole(spark, tmp_path, DISTINCT, batches)


def test_rows_in_both_count_once_though_the_first_micro_batch_fails(spark, tmp_path):
    """With an id, and deletes on either side; only rows of the stream arrive."""
    history, *rest = streams.stream(12, batches=4, ties=True, bad=True)
    _, horizon = seam_of(history)
    usable = [row for row in history if row["t"] is not None and row["i"] is not None]
    both = [row for row in usable if row["t"] >= horizon]
    rest = [rest[0] + both, *rest[1:]]
    streams.write(tmp_path / "history", [history])
    streams.write(tmp_path / "in", rest)
    streams.write_end(tmp_path / "in")
    results = results_of(spark, tmp_path, NAMED)
    go(results, tmp_path, fails=True)
    counted = go(results, tmp_path)
    assert len(both) > 5 and sum(row["repeated"] for row in counted) > 0
    batches = [history, *rest]
    assert_whole(spark, tmp_path, NAMED, batches)
    _, said = NAMED["arrival"].oracle(batches)
    _, before = NAMED["arrival"].oracle(batches[:1])
    assert_same(streams.rows_in(spark, tmp_path / "out", "arrival"), said[len(before) :])


# --- before it starts -----------------------------------------------------------------------------


def test_what_is_no_history_is_refused(spark):
    """Each with a sentence."""
    aggs = {"n": monoids.count(), "s": monoids.sum("x")}
    words = {"keys": ["k"], "time": "t", "windows": ["1h"], "aggs": aggs, "emit": "final"}
    stream = spark.readStream.format("rate").load()
    stream = stream.selectExpr("CAST(value AS STRING) AS k", "timestamp AS t", "value AS x").withWatermark("t", "1 day")
    good = spark.sql("SELECT 'a' AS k, timestamp'2026-01-01' AS t, 1L AS x")

    def refusal(df: DataFrame, history: object, **more: object) -> str:
        with pytest.raises(SashError) as caught:
            rolling(df, **{**words, **more}, history=history)
        assert caught.value.argument == "history"
        return str(caught.value)

    assert rolling(stream, **words, history=good).isStreaming
    assert refusal(stream, stream) == "history must be a batch DataFrame, got a streaming one."
    assert refusal(stream, 3) == "history must be a batch DataFrame, got 3."
    assert refusal(good, good).startswith("history must be omitted for a batch")
    missing, other = good.drop("x"), good.withColumn("x", F.lit("1"))
    assert refusal(stream, missing) == "history must have one column 'x', as df has; it has k, t."
    sentence = "history must hold bigint in the column 'x', as df does, got string; cast it."
    assert refusal(stream, other) == sentence
    sentence = "history must have the columns that retract reads, 'x > 3'; it has k, t."
    assert refusal(stream, missing, retract="x > 3") == sentence
    assert "_sash_definition" in refusal(stream, good.withColumn("_sash_position", F.lit("{}")))


@pytest.fixture(scope="module")
def exported(spark):
    """A stream, what is asked of it, and a row of it in the form of an export at a position."""
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 day")
    stream = stream.selectExpr("CAST(value AS STRING) AS k", "timestamp AS t", "value AS x", "value > 3 AS gone")
    aggs = {"s": monoids.sum("x")}
    words = {"keys": ["k"], "time": "t", "windows": ["1h"], "aggs": aggs, "emit": "final", "retract": "NOT gone"}
    _, plan = planned(stream, Spec.of(**words), 2)

    def at(revision: int) -> DataFrame:
        position = {"horizon": 0, "watermark": 0, "finished": 0, "shown": 0, "newest": 5, "revision": revision}
        row = "SELECT 'a' AS k, timestamp'2026-01-01' AS t, true AS __sash_retract, 1L AS x"
        definition = json.dumps(plan.stored_plain)
        return spark.sql(row).withColumns(
            {"_sash_position": F.lit(json.dumps(position)), "_sash_definition": F.lit(definition)}
        )

    return stream, words, at


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"keys": ["x"]}, 'be changed to this one: keys is ["x"], was ["k"], and cannot change. Use its definition'),
        ({"retract": "gone"}, 'retract is "gone", was "NOT gone", and cannot change'),
        ({"retract": "gone AND true"}, 'retract is "gone AND true", was "NOT gone", and cannot change'),
        ({"windows": ["2h"]}, "window 2h needs rows that have expired: they are stored for 1h"),
        ({"aggs": {"s": monoids.sum("x"), "n": monoids.count("k")}, "id": "t"}, 'id is "t", was None, and cannot'),
        ({"emit": "arrival"}, 'rows that came while it was "final" are not final yet'),
    ],
)
def test_an_export_by_a_definition_that_cannot_change_is_refused_before_the_query_starts(exported, change, said):
    stream, words, at = exported
    assert rolling(stream, **words, buckets=3, history=at(1)).isStreaming
    with pytest.raises(SashError) as caught:
        rolling(stream, **words | change, history=at(1))
    assert caught.value.argument == "history"
    assert said in str(caught.value) and str(caught.value).startswith("history was exported from a stream by another")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            lambda at: at(1).drop("x"),
            "history must have one column 'x', as the export has; it has k, t, __sash_retract, ",
        ),
        (lambda at: at(1).withColumn("x", F.lit("1")), "history must hold int64 in the column 'x', as the export does"),
        (lambda at: at(1).union(at(2)), "history must be one export, got rows of several, whose streams were not at"),
        (lambda at: at(1).where("false"), "history must have rows: an export without rows does not say where its"),
        (lambda at: at(1).withColumn("_sash_position", F.lit("{")), "as it was written, but _sash_position or _sash_d"),
        (lambda at: at(1).withColumn("_sash_position", F.lit("{}")), "cannot be read: KeyError('watermark')."),
    ],
)
def test_rows_that_are_not_those_of_one_export_are_refused_before_the_query_starts(exported, changed, said):
    stream, words, at = exported
    with pytest.raises(SashError) as caught:
        rolling(stream, **words, history=changed(at))
    assert (caught.value.argument, said in str(caught.value)) == ("history", True), str(caught.value)
