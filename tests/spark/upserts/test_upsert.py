"""The upsert sink: the latest revision of each row, whatever comes twice, late, or is killed on the way."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from sash.errors import ArgumentError, ConcurrentUseError, CorruptStateError, KindError, SashError, UnsupportedError
from sash.spark import read_upserted, upsert, upserted_files, upserted_table
from sash.spark.upserts import manifest as manifests
from support.upsert_rows import COUNTS, KEYS, SCHEMA, counts, live, merged, put_files, random_batches


def rows_of(table):
    return {tuple(row.values()) for row in table.to_pylist()}


def rows_in(path, table="totals"):
    """Return the rows of the view of an SQLite table, with instants parsed."""
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(f"SELECT card, ts, id, total, revision FROM {table}").fetchall()
    return {(card, datetime.fromisoformat(ts).replace(tzinfo=UTC), *rest) for card, ts, *rest in found}


@pytest.mark.parametrize(
    "options", [{"buckets": 3}, {"partition_by": ["ts"]}, {"partition_by": ["card"], "buckets": 2}]
)
def test_a_dataset_holds_the_greatest_revision_of_each_row(spark, tmp_path, options):
    """After each micro-batch, read by Spark and by Arrow; a micro-batch that comes again changes nothing."""
    sink, batches = upsert(tmp_path / "t", keys=KEYS, **options), list(random_batches(1))
    for number, batch in enumerate(batches):
        sink(spark.createDataFrame(batch, SCHEMA), number)
        assert rows_of(upserted_table(tmp_path / "t")) == live(batches[: number + 1])
    sink(spark.createDataFrame(batches[1], SCHEMA), 1)
    assert rows_of(read_upserted(spark, tmp_path / "t").toArrow()) == live(batches)
    held = [row for file in upserted_files(tmp_path / "t") for row in pq.read_table(file).to_pylist()]
    assert len(held) == len(merged(batches)) and sum(row["deleted"] for row in held) == len(held) - len(live(batches))


def test_a_table_holds_the_greatest_revision_of_each_row(spark, tmp_path):
    """The same in SQLite; two tables of one file do not mix."""
    path, batches = tmp_path / "new" / "t.sqlite", list(random_batches(2))
    sink, other = (upsert(path, keys=KEYS, table=table) for table in ("totals", "others"))
    for number, batch in enumerate(batches):
        sink(spark.createDataFrame(batch, SCHEMA), number)
        assert rows_in(path) == live(batches[: number + 1])
    sink(spark.createDataFrame(batches[1], SCHEMA), 1)
    other(spark.createDataFrame(batches[0], SCHEMA), 0)
    assert rows_in(path) == live(batches) and rows_in(path, "others") == live(batches[:1])


def test_values_of_all_types_come_back(spark, tmp_path):
    """Each type survives a merge in Parquet as it is, and in SQLite as the module says."""
    frame = spark.sql(
        "select 1Y a, cast(2.50 as decimal(9,2)) b, date'2026-01-02' c, timestamp_ntz'2026-01-02 03:04:05.000006' d, "
        "X'01' e, array(1, null) f, named_struct('x', 1) g, true h, cast(0.5 as float) i, map('k', 1) `j.k`"
    )
    names = {"keys": ["a", "b", "c", "d", "e", "h"], "revision": None, "deleted": None}
    for _ in range(2):
        upsert(tmp_path / "t", **names)(frame, 0)
        upsert(tmp_path / "t.db", table="t", **names)(frame, 0)
    assert read_upserted(spark, tmp_path / "t").collect() == frame.collect()
    assert upserted_table(tmp_path / "t").to_pylist() == frame.toArrow().to_pylist()
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        (row,) = database.execute("SELECT * FROM t").fetchall()
    wanted = (
        1,
        "2.50",
        "2026-01-02",
        "2026-01-02 03:04:05.000006",
        b"\x01",
        "[1, null]",
        '{"x": 1}',
        1,
        0.5,
        '[["k", 1]]',
    )
    assert row == wanted


def test_without_a_revision_the_last_row_wins(spark, tmp_path):
    sink = upsert(tmp_path / "t", keys="k", revision=None, deleted=None)
    sink(spark.createDataFrame([(1, "a"), (2, "b")], "k int, v string"), 0)
    sink(spark.createDataFrame([(2, "c")], "k int, v string"), 1)
    assert rows_of(upserted_table(tmp_path / "t")) == {(1, "a"), (2, "c")}


@pytest.mark.parametrize("name", ["t", "t.db"])
def test_late_rows_do_not_replace_results(spark, tmp_path, name):
    """They have the identity of a result, a greater revision and no values; what to do is asked, never guessed."""
    table = {} if name == "t" else {"table": "t"}
    rows = spark.createDataFrame([(1, 5, 1, False), (1, None, 2, True)], "k int, v int, revision long, late boolean")
    with pytest.raises(ArgumentError, match=r"^late must be 'drop', to leave out the rows that `rolling` marks") as no:
        upsert(tmp_path / name, keys="k", deleted=None, **table)(rows, 0)
    assert (no.value.argument, no.value.column) == ("late", "late")
    with pytest.raises(KindError, match=r"^late must be omitted unless the rows have a column late of booleans"):
        upsert(tmp_path / name, keys="k", deleted=None, late="drop", **table)(rows.drop("late"), 0)
    upsert(tmp_path / name, keys="k", deleted=None, late="drop", **table)(rows, 0)
    own = upsert(tmp_path / f"own-{name}", keys="k", deleted=None, late="keep", **table)
    own(rows.withColumn("revision", -rows.revision), 0)
    if name == "t":
        assert upserted_table(tmp_path / "t").to_pylist() == [{"k": 1, "v": 5, "revision": 1}]
        assert upserted_table(tmp_path / "own-t").to_pylist() == [{"k": 1, "v": 5, "revision": -1, "late": False}]
    else:
        with closing(sqlite3.connect(tmp_path / name)) as database:
            assert database.execute("SELECT * FROM t").fetchall() == [(1, 5, 1)]


def test_files_that_the_driver_does_not_see_are_not_committed(spark, tmp_path, monkeypatch):
    """A directory of the executors' own: the target stays as it was."""
    sink = upsert(tmp_path / "t", keys="k", revision=None, deleted=None)
    sink(spark.createDataFrame([(1,)], "k int"), 0)
    elsewhere = lambda root, generation: tmp_path / "executor" / "data"  # noqa: E731
    monkeypatch.setattr(manifests, "fresh_directory", elsewhere)
    monkeypatch.setattr("sash.spark.upserts.parquet.File", lambda path, part: manifests.File(f"_data/{part}.x", part))
    with pytest.raises(
        ArgumentError, match=r"target must be on a file system that the driver and executors share, got"
    ):
        sink(spark.createDataFrame([(2,)], "k int"), 1)
    assert upserted_table(tmp_path / "t")["k"].to_pylist() == [1]


def test_only_touched_parts_are_rewritten_and_readers_keep_their_files(spark, tmp_path):
    """A reader's files stay whole for `keep` generations, and then they are gone."""
    sink = upsert(tmp_path / "t", keys=["day", "k"], partition_by=["day"], revision="r", deleted=None, keep=2)

    def put(day, revision):
        sink(spark.createDataFrame([(day, 1, revision)], "day int, k int, r long"), revision)

    put(1, 0)
    put(2, 1)
    (first, second) = upserted_files(tmp_path / "t")
    put(2, 2)
    assert first in upserted_files(tmp_path / "t") and second not in upserted_files(tmp_path / "t")
    put(2, 3)
    assert pq.read_table(second).to_pylist() == [{"day": 2, "k": 1, "r": 1}]
    put(2, 4)
    assert not Path(second).exists() and Path(first).exists()
    assert rows_of(upserted_table(tmp_path / "t")) == {(1, 1, 0), (2, 1, 4)}
    assert sum(path.is_file() for path in (tmp_path / "t" / "_data").rglob("*")) == 4


def test_nobody_reads_the_directory_by_mistake(spark, tmp_path):
    """Read as plain Parquet, old files and all, the dataset is not found rather than wrong."""
    upsert(tmp_path / "t", keys="k", revision=None, deleted=None)(spark.createDataFrame([(1,)], "k int"), 0)
    with pytest.raises(Exception, match="UNABLE_TO_INFER_SCHEMA"):
        spark.read.parquet(str(tmp_path / "t"))


@pytest.mark.parametrize("name", ["t", "t.sqlite"])
def test_a_micro_batch_that_spark_repeats_is_written_once(spark, tmp_path, name):
    """The sink has committed and Spark has not: the repeated batch is skipped, and the stream continues."""
    put_files(tmp_path, [range(number + 1) for number in range(3)])
    sink = upsert(tmp_path / name, **COUNTS, **({} if name == "t" else {"table": "totals"}))
    seen = []

    def failing(rows, number):
        sink(rows, number)
        seen.append(number)
        if seen.count(number) == 1 and number == 1:
            raise RuntimeError("after the sink, before Spark")

    with pytest.raises(StreamingQueryException, match="after the sink"):
        counts(spark, tmp_path, failing).awaitTermination(120)
    assert counts(spark, tmp_path, failing).awaitTermination(120)
    assert seen == [0, 1, 1, 2]
    if name == "t":
        assert manifests.load(tmp_path / "t").generation == 3
        assert {row[:2] for row in rows_of(upserted_table(tmp_path / "t"))} == {(0, 3), (1, 2), (2, 1)}
    else:
        with closing(sqlite3.connect(tmp_path / name)) as database:
            assert database.execute("SELECT k, revision FROM totals ORDER BY k").fetchall() == [(0, 3), (1, 2), (2, 1)]


@pytest.mark.parametrize("name", ["t", "t.sqlite"])
def test_a_checkpoint_that_is_older_than_the_target_is_refused(spark, tmp_path, name):
    """Its next micro-batches have new rows under old numbers; to skip them as repetitions would lose them."""
    sink = upsert(tmp_path / name, **COUNTS, **({} if name == "t" else {"table": "totals"}))

    def put(k, number):
        sink(spark.createDataFrame([(k, 1)], "k int, revision long"), number)

    def held():
        if name == "t":
            return set(upserted_table(tmp_path / "t")["k"].to_pylist())
        with closing(sqlite3.connect(tmp_path / name)) as database:
            return {k for (k,) in database.execute("SELECT k FROM totals")}

    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "query")
    try:
        put(1, 3)
        put(2, 3)
        assert held() == {1}  # the last one, repeated
        with pytest.raises(ArgumentError, match=r"The checkpoint is older than the target .* at micro-batch 2,"):
            put(3, 2)
        assert held() == {1}
        put(4, 4)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    assert held() == {1, 4}


@pytest.mark.parametrize("name", ["t", "t.sqlite"])
def test_a_query_that_restarts_revisions_is_refused_the_target_of_another(spark, tmp_path, name):
    """Its first revisions would lose against the old ones in silence; shared=True takes that on."""
    options = {} if name == "t" else {"table": "totals"}
    for place in ("one", "two"):
        put_files(tmp_path / place, [[1]])
    sink = upsert(tmp_path / name, **COUNTS, **options)
    assert counts(spark, tmp_path / "one", sink).awaitTermination(120)
    with pytest.raises(StreamingQueryException, match="restarts its revisions; use a new target, or shared=True"):
        counts(spark, tmp_path / "two", sink).awaitTermination(120)
    sharing = upsert(tmp_path / name, **COUNTS, **options, shared=True)
    assert counts(spark, tmp_path / "two", sharing).awaitTermination(120)


def test_writers_exclude_each_other(spark, tmp_path):
    """While one holds the lock the next waits, and then says who holds it; a lock ends with its process."""
    (tmp_path / "t").mkdir()
    rows = spark.createDataFrame([(1,)], "k int")
    names = {"keys": "k", "revision": None, "deleted": None, "wait": "100ms"}
    with manifests.locked(tmp_path / "t", 0), pytest.raises(ConcurrentUseError, match="is being written by process"):
        upsert(tmp_path / "t", **names)(rows, 0)
    holder = "import sys, os; from pathlib import Path; from sash.spark.upserts import manifest as m\n"
    holder += "with m.locked(Path(sys.argv[1]), 0): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", holder, str(tmp_path / "t")], check=False).returncode == 9
    upsert(tmp_path / "t", **names)(rows, 0)
    with closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            ConcurrentUseError, match="is being written by another writer; stop it, or pass a longer wait"
        ):
            upsert(tmp_path / "t.db", table="t", **names)(rows, 0)


@pytest.mark.parametrize(
    "target, options, kind, said",
    [
        (
            7,
            {},
            KindError,
            "target must be a directory or an SQLite file such as results.sqlite, got 7.",
        ),
        (
            "jdbc:postgresql://host/db",
            {},
            UnsupportedError,
            "target must be a path, got 'jdbc:postgresql://host/db'; for a database pass connect=, a function",
        ),
        ("postgresql://host/db", {}, UnsupportedError, "target must be a path, got 'postgresql://host/db'; for a"),
        (
            "s3://bucket/t",
            {},
            UnsupportedError,
            "target must be an SQLite file on the driver, or a directory on a mounted file system that the driver and "
            "executors share, got 's3://bucket/t', which only Spark can open.",
        ),
        *[
            (uri, {}, UnsupportedError, "target must be an SQLite file on the driver, or a directory on a mounted")
            for uri in ("dbfs:/t", "hdfs:/t", "s3a://bucket/t", "abfss://c@a/t")
        ],
        ("file:t", {}, ArgumentError, "target must be an absolute path on this machine after file:, as in file:///"),
        ("C:\\t", {}, ArgumentError, "target must be a path on Linux or a URI, got 'C:"),
        ("t", {"keys": []}, ArgumentError, "keys must be distinct column names, got []."),
        ("t", {"keys": ["a", "a"]}, ArgumentError, "keys must be distinct column names, got ['a', 'a']"),
        (
            "t",
            {"partition_by": ["day"]},
            ArgumentError,
            "partition_by must be among the keys, or rows could change partition, got 'day'",
        ),
        ("t", {"buckets": 0}, ArgumentError, "buckets must be an integer from 1 to 1000000, got 0."),
        ("t", {"keep": 0}, ArgumentError, "keep must be an integer of at least 1, got 0."),
        ("t", {"late": "emit"}, ArgumentError, "late must be 'drop' or 'keep', got 'emit'."),
        ("t", {"wait": "soon"}, ArgumentError, "wait must be a duration such as"),
        (
            "t",
            {"table": "x"},
            ArgumentError,
            "table must be omitted without connect or an SQLite target such as results.sqlite, got 'x'.",
        ),
        ("t.db", {}, ArgumentError, "table must be the name of the table in"),
        (
            "t.db",
            {"table": "x", "buckets": 2},
            ArgumentError,
            "buckets must be omitted for a database, got 2.",
        ),
    ],
)
def test_wrong_arguments_are_named_at_the_call(target, options, kind, said):
    with pytest.raises(kind) as raised:
        upsert(target, **{"keys": ["k"], **options})
    assert str(raised.value).startswith(said)
    assert raised.value.argument == said.split()[0] or " must " not in said


def test_rows_that_do_not_fit_are_refused(spark, tmp_path):
    """At the first micro-batch, or before the query starts by `check`."""
    rows = spark.createDataFrame([], "k int, x double, revision long, deleted boolean")
    cases = [
        ({"keys": ["nope"]}, "keys must name columns of the rows (k, x, revision, deleted), got 'nope'."),
        (
            {"keys": ["x"]},
            "keys must hold integers, decimals, text, times, booleans or bytes, which have a stable equality, but "
            "column 'x' holds double.",
        ),
        ({"keys": ["k"], "revision": "x"}, "revision must hold integers, but column 'x' holds double."),
        ({"keys": ["k"], "deleted": "x"}, "deleted must hold booleans, but column 'x' holds double."),
    ]
    for options, said in cases:
        with pytest.raises(SashError) as raised:
            upsert(tmp_path / "t", **options).check(rows.schema)
        assert str(raised.value).startswith(said)
        assert raised.value.argument == said.split()[0]
        assert raised.value.column in ("nope", "x")


@pytest.mark.parametrize("name", ["t", "t.db"])
def test_a_target_stays_what_it_was_made(spark, tmp_path, name):
    """Other keys, other columns, or a place that holds something else: each is refused in a sentence."""
    table = {} if name == "t" else {"table": "x"}
    rows = spark.createDataFrame([(1, 2, 3, False)], "k int, j int, revision long, deleted boolean")
    upsert(tmp_path / name, keys="k", **table)(rows, 0)
    with pytest.raises(
        ArgumentError, match=r"keys must be \('k',\), with which .* was created, got \('k', 'j'\); or use a new"
    ):
        upsert(tmp_path / name, keys=["k", "j"], **table)(rows, 1)
    with pytest.raises(
        ArgumentError, match="has the column 'j' as int, but the rows have it as bigint; write rows with the same"
    ):
        upsert(tmp_path / name, keys="k", **table)(rows.withColumn("j", rows.j.cast("long")), 1)
    if name == "t":
        with pytest.raises(ArgumentError, match=r"buckets must be 16, with which .* was created, got 3; or use a new"):
            upsert(tmp_path / name, keys="k", buckets=3)(rows, 1)


def test_places_that_are_no_target(spark, tmp_path):
    rows = spark.createDataFrame([(1,)], "k int")
    names = {"keys": "k", "revision": None, "deleted": None}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file.txt").touch()
    with pytest.raises(
        ArgumentError, match=r"must be a new or empty directory, got .*, which has 'file\.txt' and no manifest"
    ):
        upsert(tmp_path / "other", **names)(rows, 0)
    with pytest.raises(ArgumentError, match="target must be a directory that can be created, got"):
        upsert(tmp_path / "other" / "file.txt", **names)(rows, 0)
    with pytest.raises(ArgumentError, match=r"cannot be written: .*File exists"):
        upsert(tmp_path / "other" / "file.txt" / "t.db", table="t", **names)(rows, 0)
    with closing(sqlite3.connect(tmp_path / "mine.db")) as database:
        database.execute("CREATE TABLE t (x)")
    with pytest.raises(
        ArgumentError, match=r"table must be a new name or the table of an upsert, got 't', which exists"
    ):
        upsert(tmp_path / "mine.db", table="t", **names)(rows, 0)
    with pytest.raises(ArgumentError, match="path must be the target of an upsert, got"):
        upserted_files(tmp_path / "other")
    (tmp_path / "other" / "_manifest.json").write_text("{")
    with pytest.raises(CorruptStateError, match="is not a manifest of sash; restore it"):
        upserted_files(tmp_path / "other")
