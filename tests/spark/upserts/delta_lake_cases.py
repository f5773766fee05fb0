"""Merges on the executors, and those of the driver beside them: what `test_upsert_delta_lake` runs on Spark 4.2."""

import json
import os
import re
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pyspark
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from sash import monoids
from sash.errors import ArgumentError, ConcurrentUseError
from sash.spark import read_upserted, rolling, session, upsert, upserted_files, upserted_table
from sash.spark.upserts import delta, delta_spark
from support import delta_lake
from support.upsert_rows import KEYS, SCHEMA, live, random_batches


@pytest.fixture(scope="session")
def spark():
    """A session with Delta Lake."""
    assert pyspark.__version__ == delta_lake.PYSPARK
    running = session("local[2]", app="delta-lake", **delta_lake.settings())
    assert delta_spark.is_enabled(running)
    yield running
    running.stop()


@pytest.fixture
def query(spark):
    """The id of a query that the micro-batches of a test belong to."""
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "query")
    yield "query"
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)


@contextmanager
def merging(on):
    """Merge on the executors or on the driver, as a session without Delta Lake does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_spark, "is_enabled", lambda spark: on == "executors")
        yield


def rows_of(table):
    return {tuple(row.values()) for row in table.to_pylist()}


def state_of(path):
    """The version of a table, and the last micro-batch of the query that it has."""
    table = DeltaTable(path)
    return table.version(), table.transaction_version("sash-query")


def test_a_table_holds_the_greatest_revision_whoever_merges(spark, query, tmp_path, monkeypatch):
    """Executors and driver take turns; a micro-batch is one commit, above the driver's budget too; all readers agree.

    Keys have nulls, identities come several times within a micro-batch, and some rows are deleted.
    """
    monkeypatch.setattr(delta, "ROWS_AT_ONCE", 7)
    batches = list(random_batches(1, growing=True))
    for number, batch in enumerate(batches):
        with merging("driver" if number == 1 else "executors"):
            upsert(tmp_path / "t", keys=KEYS)(spark.createDataFrame(batch, SCHEMA).repartition(3), number)
        assert rows_of(upserted_table(tmp_path / "t")) == live(batches[: number + 1])
        assert state_of(tmp_path / "t") == (number + 1, number)
    assert rows_of(read_upserted(spark, tmp_path / "t").toArrow()) == live(batches)
    assert set(pl.read_delta(str(tmp_path / "t")).rows()) == live(batches)


def latest(batches):
    """The row of each key with the greatest revision, the last of equal ones; a null is the least revision."""
    kept = {}
    for key, revision, gone, value in (row for batch in batches for row in batch):
        if key not in kept or (kept[key][0] is None) or (revision is not None and revision >= kept[key][0]):
            kept[key] = revision, gone, value
    return {(key, revision, value) for key, (revision, gone, value) in kept.items() if not gone}


def test_revisions_and_names_of_all_kinds(spark, tmp_path):
    """Greater, smaller, equal and missing revisions, and names that have to be quoted."""
    first = [(1, 5, False, "a"), (2, None, False, "b"), (3, 5, None, "c"), (4, 5, False, "d"), (None, 1, False, "e")]
    first += [(6, 1, True, "never there"), (7, 1, False, "f")]
    second = [(1, 4, False, "smaller"), (2, None, False, "equal"), (3, 5, False, "equal"), (4, None, False, "missing")]
    second += [(None, 2, False, "greater"), (5, 1, False, "x"), (5, 1, False, "last of equals"), (5, 0, False, "y")]
    second += [(7, 2, True, None), (4, 4, True, "smaller")]
    names = {"keys": ["k.ey"], "revision": "rev`ision", "deleted": "is gone"}
    sink = upsert(tmp_path / "a table's `t`", **names)
    for number, batch in enumerate([first, second]):
        sink(spark.createDataFrame(batch, "`k.ey` int, `rev``ision` int, `is gone` boolean, `va, lue` string"), number)
    assert rows_of(upserted_table(tmp_path / "a table's `t`")) == latest([first, second])


@pytest.mark.parametrize("first, second", [("executors", "driver"), ("driver", "executors")])
def test_a_micro_batch_is_merged_once(spark, query, tmp_path, first, second):
    """Whoever merged it; an older one is refused, and one that changes nothing is noted nevertheless."""
    sink = upsert(tmp_path / "t", keys="k", deleted=None)

    def put(on, revision, number):
        with merging(on):
            sink(spark.createDataFrame([(1, revision)], "k int, revision long"), number)

    put(first, 5, 3)
    assert state_of(tmp_path / "t") == (1, 3)
    put(second, 6, 3)
    assert state_of(tmp_path / "t") == (1, 3)
    for on in (first, second):
        with pytest.raises(ArgumentError, match=r"The checkpoint is older than the target .* at micro-batch 2,"):
            put(on, 7, 2)
    put(first, 4, 4)
    assert state_of(tmp_path / "t") == (2, 4)
    put(second, 8, 4)
    assert upserted_table(tmp_path / "t").to_pylist() == [{"k": 1, "revision": 5}]
    with merging(first):
        sink(spark.createDataFrame([], "k int, revision long"), 5)
    assert state_of(tmp_path / "t") == (2, 4)  # no rows, no commit


def test_columns_and_revisions_come_and_go(spark, query, tmp_path):
    """The executors write null where the rows have no value, into columns that driver or executors have added."""

    def put(on, columns, rows, number):
        own = {name: name if name in columns else None for name in ("revision", "deleted")}
        with merging(on):
            upsert(tmp_path / "t", keys="k", **own)(spark.createDataFrame(rows, columns), number)
        return {row["k"]: tuple(row.values())[1:] for row in upserted_table(tmp_path / "t").to_pylist()}

    assert put("executors", "k int, v string", [(1, "a"), (2, "a"), (3, "a")], 0)[3] == ("a",)
    changed = "k int, `w.x` array<int>, n timestamp_ntz, revision long, deleted boolean"
    for _ in range(2):
        found = put("executors", changed, [(1, [1], None, 5, False), (2, None, None, 1, True)], 1)
        assert found == {1: (None, [1], None, 5), 3: ("a", None, None, None)}
    assert state_of(tmp_path / "t") == (4, 1)  # created, filled; columns, definition, rows are a commit each
    found = put("executors", f"{changed}, y int", [(1, [1], None, 4, False, 7), (3, [3], None, 0, False, 8)], 2)
    assert found == {1: (None, [1], None, 5, None), 3: (None, [3], None, 0, 8)}
    found = put("driver", "k int, v string, z int", [(1, "b", 1)], 3)
    assert found[1] == ("b", None, None, None, None, 1)
    found = put("executors", "k int, v string, deleted boolean, revision long", [(3, "c", False, 0)], 4)
    assert found == {1: ("b", None, None, None, None, 1), 3: ("c", None, None, 0, None, None)}
    assert rows_of(read_upserted(spark, tmp_path / "t").toArrow()) == {(k, *row) for k, row in found.items()}


def test_a_batch_overwrites_and_merges_skip_files_of_other_times(spark, tmp_path):
    """The predicate has the range of each key that holds times; after `compact` commits files are put in order."""
    schema, noon = "day date, ts timestamp, at timestamp_ntz, v int", datetime(2026, 1, 1, 12, 0, 0, 1)
    times = [noon + timedelta(days) for days in range(3)]
    first, second, third = ((time.date(), time.replace(tzinfo=UTC), time, 0) for time in times)
    sink = upsert(tmp_path / "t", keys=["ts", "day", "at"], revision=None, deleted=None, compact=1, retain=None)
    sink.overwrite(spark.createDataFrame([first], schema).withColumn("w", F.lit(1)))
    sink.overwrite(spark.createDataFrame([first, third], schema))
    sink(spark.createDataFrame([second], schema), 0)
    predicate = DeltaTable(tmp_path / "t").history()[0]["operationParameters"]["predicate"]
    for name, end in {
        "day": "2026-01-02",
        "ts": "2026-01-02 12:00:00.000001",
        "at": "2026-01-02 12:00:00.000001",
    }.items():
        assert re.search(rf"\({name}#\d+ >= {end}\) AND \({name}#\d+ <= {end}\)", predicate)
    assert len(upserted_files(tmp_path / "t")) == 2
    sink(spark.createDataFrame([(*second[:3], 7)], schema), 1)
    assert rows_of(upserted_table(tmp_path / "t")) == {first, third, (*second[:3], 7)}
    assert len(upserted_files(tmp_path / "t")) == 1  # their times overlapped


def test_of_two_writers_the_second_is_told(spark, tmp_path, monkeypatch):
    """A commit to the same rows while the executors merge: nothing of the second is written."""
    path, flag, merge = str(tmp_path / "t"), tmp_path / "met", delta_spark.merge
    sink = upsert(path, keys="k", revision=None, deleted=None)
    sink(spark.createDataFrame([(1, 1)], "k int, v int"), 0)

    def meanwhile(batches):
        with suppress(FileExistsError):  # one of the tasks, once
            flag.touch(exist_ok=False)
            DeltaTable(path).update({"v": "2"})
        yield from batches

    def meeting(uri, source, *rest):
        merge(uri, replace(source, rows=source.rows.mapInArrow(meanwhile, source.rows.schema)), *rest)

    monkeypatch.setattr(delta_spark, "merge", meeting)
    with pytest.raises(ConcurrentUseError, match="is being written by another writer, which changed the same rows"):
        sink(spark.createDataFrame([(1, 3)], "k int, v int"), 1)
    assert rows_of(upserted_table(path)) == {(1, 2)}
    sink(spark.createDataFrame([(1, 3)], "k int, v int"), 1)
    assert rows_of(upserted_table(path)) == {(1, 3)}


def test_a_stream_of_windows_that_fails_and_resumes(spark, tmp_path):
    """A micro-batch that Spark repeats is written once, its state is right, and it runs once for each merge."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    events = [(n % 3, start + timedelta(minutes=17 * n), n) for n in range(12)]
    (tmp_path / "in").mkdir()
    for number in range(3):
        lines = [json.dumps({"k": k, "t": t.isoformat(), "x": x}) for k, t, x in events[number::3][::-1]]
        path = tmp_path / "in" / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + number,) * 2)
    sink, seen, runs = upsert(tmp_path / "t", keys=["k", "t"]), Counter(), tmp_path / "runs"
    runs.mkdir()

    def failing(rows, number):
        def counted(batches):
            tempfile.mkstemp(prefix=f"{number}-", dir=runs)
            yield from batches

        sink(rows.mapInArrow(counted, rows.schema), number)
        seen[number] += 1
        if seen == {0: 1, 1: 1}:
            raise RuntimeError("after the sink, before Spark")

    def run():
        stream = spark.readStream.schema("k int, t timestamp, x long").option("maxFilesPerTrigger", 1)
        rolled = rolling(
            stream.json(str(tmp_path / "in")).withWatermark("t", "1 day"),
            keys=["k"],
            time="t",
            windows=["1h"],
            aggs={"n": monoids.count(), "total": monoids.sum("x")},
            emit="update",
            buckets=2,
        )
        query = rolled.writeStream.foreachBatch(failing).trigger(availableNow=True)
        return query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    with pytest.raises(StreamingQueryException, match="after the sink"):
        run().awaitTermination(300)
    assert run().awaitTermination(300)
    assert (seen[0], seen[1], seen[2]) == (1, 2, 1)
    assert Counter(int(task.name.partition("-")[0]) for task in runs.iterdir()) == {n: 2 * seen[n] for n in seen}
    wanted = {}
    for key, time, _ in events:
        inside = [x for k, t, x in events if k == key and time - timedelta(hours=1) < t <= time]
        wanted[key, time] = len(inside), sum(inside)
    found = upserted_table(tmp_path / "t").to_pylist()
    assert {(row["k"], row["t"]): (row["n_1h"], row["total_1h"]) for row in found} == wanted
