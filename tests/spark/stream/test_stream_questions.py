"""`sash.spark.rolling(at=)` over two streams, on Spark itself: one query with all ways to emit, stopped and resumed."""

import json
import os
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oracles.keyed import Row
from sash import SashError, monoids
from sash.spark import export_checkpoint, inspect, rolling, verify_checkpoint
from support.buckets.questions import ASKED, Questioned, QuestionOracle
from support.buckets.trial import TICK_US, duration
from support.spark_streams import END

EVENTS = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC"), "i": pa.int64(), "x": pa.int64()})
DDL = {
    "events": "k string, t timestamp, i long, x long",
    "asked": "q timestamp, k string, name long, note array<string>",
}
DELAY = 8  # ticks
RESTART = 3  # micro-batches are taken before the query is started again
CASES = {
    emit: Questioned(emit=emit, late="emit" if emit == "arrival" else "drop", lateness=4) for emit in
    ("arrival", "final", "update")
}  # fmt: skip


def micro_batches(seed: int) -> list[tuple[list[Row], list[Row]]]:
    """Events and questions that move on in time, some of them late, and with keys that only one of the two has."""
    rng, made = np.random.default_rng(seed), []
    for at in range(5):
        base = 4000 + 25 * at
        events = [
            {"k": ["a", "b", None][rng.integers(3)], "t": int(base + rng.integers(-20, 25)), "i": 100 * at + n,
             "x": [None, 1, 2, 3][rng.integers(4)]} for n in range(30)
        ]  # fmt: skip
        questions = [
            {"q": None if n == 0 else int(base + rng.integers(-40, 60)), "k": ["a", "b", "z", None][rng.integers(4)],
             "name": 100 * at + n, "note": ["why", None]} for n in range(8)
        ]  # fmt: skip
        made.append((events, questions))
    return made


def write(folder: Path, name: str, at: int, rows: Sequence[Row], time: str) -> None:
    schema = EVENTS if name == "events" else pa.schema(ASKED)
    ready = [{**row, time: None if row[time] is None else row[time] * TICK_US} for row in rows]
    if at == 900:
        ready = [{**dict.fromkeys(schema.names), time: END}]
    (folder / name).mkdir(parents=True, exist_ok=True)
    hidden = folder / name / f".{at:03}"
    pq.write_table(pa.Table.from_pylist(ready, schema=schema), hidden)
    os.utime(hidden, (1_000_000_000 + at, 1_000_000_000 + at))
    hidden.rename(folder / name / f"{at:03}.parquet")


def read(spark: SparkSession, folder: Path, name: str, time: str) -> DataFrame:
    files = spark.readStream.schema(DDL[name]).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
    return files.withWatermark(time, f"{DELAY * TICK_US} microseconds")


def answers(spark: SparkSession, folder: Path, asking: Questioned, **more: Any) -> DataFrame:
    words: dict[str, Any] = {"emit": asking.emit, "late": asking.late, "lateness": duration(asking.lateness)}
    return rolling(
        read(spark, folder, "events", "t"), at=read(spark, folder, "asked", "q"), at_time="q", at_id="name",
        keys="k", time="t", id="i", windows=[duration(size) for size in asking.sizes], buckets=3, **(words | more),
        aggs={"n": monoids.count(), "s": monoids.sum("x"), "new": monoids.last("x")},
    )  # fmt: skip


def go(results: DataFrame, folder: Path) -> list[Any]:
    query = (
        results.writeStream.format("json").option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return list(query.recentProgress)


def as_text(name: str, results: DataFrame) -> DataFrame:
    columns = [F.unix_micros("q").alias("q") if column == "q" else column for column in results.columns]
    return results.select(
        F.lit(name).alias("case"), F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("row")
    )


def expected(asking: Questioned, batches: Sequence[tuple[list[Row], list[Row]]]) -> list[Row]:
    """What the oracle says, with the watermarks that Spark has: the smaller one of both, as of the batch before.

    What a query has seen of each of the two is gone when it starts again; the smaller one stays.
    """
    oracle, found = QuestionOracle(asking), []
    newest: list[int | None] = [None, None]
    watermark: int | None = None
    for at, (events, questions) in enumerate(batches):
        if at == RESTART:
            newest = [None, None]
        found += oracle.step(events, questions, None if watermark is None else watermark - asking.lateness)
        for i, times in enumerate(([row["t"] for row in events], [row["q"] for row in questions])):
            newest[i] = max(time for time in [*times, newest[i]] if time is not None)
        reached = min(time for time in newest if time is not None) * TICK_US // 1000 * 1000 // TICK_US - DELAY
        watermark = reached if watermark is None else max(watermark, reached)
    return found + oracle.step([], [], 10**12)


def shown(rows: Sequence[Row]) -> list[str]:
    """Rows as they are compared: without revisions, whose numbers only the engine knows."""
    return sorted(
        json.dumps({name: value for name, value in sorted(row.items()) if name != "revision"}) for row in rows
    )


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: Any) -> Any:
    """A query for all cases, in two goes, and the state between them."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    folder = tmp_path_factory.mktemp("questions")
    batches = micro_batches(3)
    for at, (events, questions) in enumerate(batches[:RESTART]):
        write(folder, "events", at, events, "t")
        write(folder, "asked", at, questions, "q")
    results = [as_text(name, answers(spark, folder, asking)) for name, asking in CASES.items()]
    go(reduce(DataFrame.union, results), folder)
    for at, (events, questions) in enumerate(batches[RESTART:], RESTART):
        write(folder, "events", at, events, "t")
        write(folder, "asked", at, questions, "q")
    for name, time in (("events", "t"), ("asked", "q")):
        write(folder, name, 900, [], time)
    again = [as_text(name, answers(spark, folder, asking)) for name, asking in CASES.items()]
    progress = go(reduce(DataFrame.union, again), folder)
    return folder, batches, progress


@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_the_oracle(ran: Any, spark: SparkSession, case: str) -> None:
    """Each of them, of every micro-batch, over a restart."""
    folder, batches, _ = ran
    rows = [json.loads(row["row"]) for row in spark.read.json(str(folder / "out")).collect() if row["case"] == case]
    for row in rows:
        row["q"] = None if row["q"] is None else row["q"] // TICK_US
    wanted = expected(CASES[case], batches)
    assert shown(rows) == shown(wanted)
    assert len(rows) > 30


def test_late_questions_are_counted(ran: Any) -> None:
    """Beside the questions that came."""
    _, _, progress = ran
    from sash.spark.stream.bucket import COUNTERS

    counts = dict.fromkeys(COUNTERS, 0)
    for batch in progress:
        for metrics in batch["observedMetrics"].values():
            for one in metrics["counts"]:
                counts |= {name: counts[name] + one[i] for i, name in enumerate(COUNTERS)}
    assert counts["questions"] > counts["late_questions"] > 0


def test_state_with_questions_is_sound_and_its_events_can_be_exported(ran: Any, spark: SparkSession) -> None:
    """The records of a stream with questions hold both."""
    folder = ran[0]
    checkpoint = str(folder / "checkpoint")
    for operator in range(3):
        assert not verify_checkpoint(checkpoint, operator=operator, batch=2, spark=spark).findings
        held = inspect(checkpoint, rows=True, operator=operator, batch=2, spark=spark)
        assert ("__sash_asked" in held.column_names) == (operator != 0)
    out = str(folder / "exported")
    export_checkpoint(checkpoint, out, operator=1, batch=2, spark=spark)
    exported = pq.read_table(out)
    assert exported.num_rows and {"k", "t", "i", "x"} <= set(exported.column_names)
    assert not [name for name in exported.column_names if name.startswith("__sash")]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"at_time": "name"}, "must hold timestamps to be the time of a stream"),
        ({"at_id": None, "emit": "update"}, "at_id must name a column that distinguishes questions"),
        ({"every": "1 minute"}, "every must be left out with at="),
        ({"carry": "x"}, "carry must be left out with at="),
        ({"at_id": "who"}, "at must have the column 'who' once"),
        ({"keys": ["k", "i"]}, "at must have the column 'i' once"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path, words: Any, text: str
) -> None:
    """In one sentence."""
    for name in ("events", "asked"):
        (tmp_path / name).mkdir()
    events, asked = read(spark, tmp_path, "events", "t"), read(spark, tmp_path, "asked", "q")
    usual: dict[str, Any] = {"at": asked, "at_time": "q", "at_id": "name", "keys": "k", "time": "t", "windows": "1h"}
    with pytest.raises(SashError, match=text):
        rolling(events, **(usual | {"aggs": {"n": monoids.count()}} | words))


def test_questions_must_have_a_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """And be a stream beside a stream."""
    for name in ("events", "asked"):
        (tmp_path / name).mkdir()
    events = read(spark, tmp_path, "events", "t")
    asked = spark.readStream.schema(DDL["asked"]).parquet(str(tmp_path / "asked"))
    usual: dict[str, Any] = {"at_time": "q", "keys": "k", "time": "t", "windows": "1h", "aggs": {"n": monoids.count()}}
    with pytest.raises(SashError, match="at must have a watermark on 'q'"):
        rolling(events, at=asked, **usual)
    batch = spark.createDataFrame([], DDL["asked"])
    with pytest.raises(SashError, match="at must be a streaming DataFrame, as df is, got a batch one"):
        rolling(events, at=batch, **usual)
    with pytest.raises(SashError, match="at must be a Spark DataFrame"):
        rolling(events, at={"q": []}, **usual)
