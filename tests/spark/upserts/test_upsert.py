"""The upsert sink: the latest revision of each row, whatever comes twice, late, or is killed on the way."""

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import StreamingQueryException

from sash.errors import ArgumentError, ConcurrentUseError, CorruptStateError, KindError, SashError, UnsupportedError
from sash.spark import read_upserted, upsert, upserted_files, upserted_table
from sash.spark.upserts import collected, delta, delta_files
from support.upsert_rows import COUNTS, KEYS, SCHEMA, counts, live, put_files, random_batches


def rows_of(table):
    return {tuple(row.values()) for row in table.to_pylist()}


def rows_in(path, table="totals"):
    """Return the rows of the view of an SQLite table, with instants parsed."""
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(f"SELECT card, ts, id, total, revision FROM {table}").fetchall()
    return {(card, datetime.fromisoformat(ts).replace(tzinfo=UTC), *rest) for card, ts, *rest in found}


@pytest.mark.parametrize("options", [{}, {"partition_by": ["card"]}, {"partition_by": ["ts"], "compact": 2}])
@pytest.mark.parametrize("way", ["at once", "in pieces"])
def test_a_delta_table_holds_the_greatest_revision_of_each_row(spark, tmp_path, monkeypatch, options, way):
    """After each micro-batch, read by Spark and by Arrow; a micro-batch that comes again changes nothing."""
    sink, batches = upsert(tmp_path / "t", keys=KEYS, **options), list(random_batches(1, growing=True))
    if way == "at once":
        for module in (collected, delta):
            monkeypatch.setattr(module, "driver_query", lambda batch: "query")
    else:
        monkeypatch.setattr(delta, "ROWS_AT_ONCE", 7)
    for number, batch in enumerate(batches):
        frame = spark.createDataFrame(batch, SCHEMA)
        sink(frame if way == "at once" else frame.repartition(5), number)
        assert rows_of(upserted_table(tmp_path / "t")) == live(batches[: number + 1])
    sink(spark.createDataFrame(batches[-1], SCHEMA), len(batches) - 1)
    assert rows_of(read_upserted(spark, tmp_path / "t").toArrow()) == live(batches)
    held = sum(pq.ParquetFile(file).metadata.num_rows for file in upserted_files(tmp_path / "t"))
    assert held == len(live(batches))  # deleted rows are gone, not marked


def test_others_read_the_table(spark, tmp_path):
    """Polars, DuckDB and delta-rs see the rows as they are, and a micro-batch as an application transaction."""
    put_files(tmp_path, [[1, 2], [1]])
    query = counts(spark, tmp_path, upsert(tmp_path / "t", **COUNTS))
    assert query.awaitTermination(120)
    table = DeltaTable(tmp_path / "t")
    assert table.transaction_version(f"sash-{query.id}") == 1
    wanted = [(1, 2), (2, 1)]
    assert pl.read_delta(str(tmp_path / "t")).select("k", "revision").sort("k").rows() == wanted
    with closing(duckdb.connect()) as database:
        database.register("rows", table.to_pyarrow_dataset())
        assert database.sql("SELECT k, revision FROM rows ORDER BY k").fetchall() == wanted


def test_a_large_batch_fills_an_empty_table_in_one_commit(spark, tmp_path):
    """However many pieces it comes in, and with an identity in several of them."""
    rows = spark.range(1000, numPartitions=4).selectExpr(
        "id % 300 AS k", "id AS revision", "id % 300 = 7 AND id > 800 AS deleted", "cast(id AS string) AS x"
    )
    upsert(tmp_path / "t", keys="k")(rows, 0)
    assert DeltaTable(tmp_path / "t").version() == 1  # created, filled
    found = {k: int(x) for k, x in zip(*(upserted_table(tmp_path / "t")[n].to_pylist() for n in "kx"), strict=True)}
    assert found == {k: k + 900 if k < 100 else k + 600 for k in range(300) if k != 7}


def test_a_micro_batch_of_several_merges_is_noted(spark, tmp_path, monkeypatch):
    """Where Spark refuses to send so many rows at once; also if the merges change nothing."""
    monkeypatch.setattr(delta, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(collected, "_at_once", lambda batch: None)
    sink = upsert(tmp_path / "t", keys="k", deleted=None)

    def put(revision, number):
        sink(spark.range(30, numPartitions=5).selectExpr("id AS k", f"{revision} AS revision"), number)
        return DeltaTable(tmp_path / "t")

    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "query")
    try:
        put("5L", 0)
        table = put("id % 2 + 5", 1)
        assert table.transaction_version("sash-query") == 1
        assert put("9L", 1).version() == table.version()
        assert put("1L", 2).transaction_version("sash-query") == 2
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    assert rows_of(upserted_table(tmp_path / "t")) == {(k, k % 2 + 5) for k in range(30)}


def test_a_batch_overwrites(spark, tmp_path):
    """All rows and the columns are those of the last one; the definition stays."""
    sink = upsert(tmp_path / "t", keys="k", revision=None, deleted=None)
    sink.overwrite(spark.createDataFrame([(1, "a"), (2, "b")], "k int, v string"))
    sink.overwrite(spark.createDataFrame([(3, 5)], "k int, w long"))
    assert upserted_table(tmp_path / "t").to_pylist() == [{"k": 3, "w": 5}]
    sink(spark.createDataFrame([(3, 6), (4, 7)], "k int, w long"), 0)
    assert rows_of(upserted_table(tmp_path / "t")) == {(3, 6), (4, 7)}
    with pytest.raises(ArgumentError, match="keys must be"):
        upsert(tmp_path / "t", keys="w", revision=None, deleted=None).overwrite(
            spark.createDataFrame([(3, 5)], "k int, w long")
        )


def days_of(path):
    """The files of a table, by the days in them."""
    table = DeltaTable(path)
    return [(file.least.as_py().day, file.most.as_py().day, file.rows) for file in delta_files.files_of(table, "ts")]


def test_a_merge_leaves_other_times_alone_and_files_stay_apart(spark, tmp_path, monkeypatch):
    """A file of another day is not rewritten; one that grows is split in the order of time; old versions go."""
    monkeypatch.setattr(delta_files, "FILE_ROWS", 10)
    sink = upsert(tmp_path / "t", keys=["ts", "k"], revision="r", deleted=None, compact=8, retain="0 seconds")

    def put(day, ks, revision):
        rows = [(datetime(2026, 1, day, 12, k % 60, tzinfo=UTC), k, revision) for k in ks]
        sink(spark.createDataFrame(rows, "ts timestamp, k int, r long"), revision)

    put(1, range(8), 1)
    (first,) = upserted_files(tmp_path / "t")
    put(2, range(5), 2)
    assert first in upserted_files(tmp_path / "t")
    for revision in range(3, 6):
        put(2, range(10 * revision, 10 * revision + 10), revision)
    assert first in upserted_files(tmp_path / "t")
    for revision in range(6, 9):
        put(2, [1], revision)
    assert first in upserted_files(tmp_path / "t")
    files = days_of(tmp_path / "t")
    assert len(files) > 3 and sum(rows for _, _, rows in files) == 8 + 35 and files[0][:2] == (1, 1)
    assert len(list((tmp_path / "t").glob("*.parquet"))) == len(files)  # what was replaced is gone
    assert {row[1:] for row in rows_of(upserted_table(tmp_path / "t")) if row[0].day == 2 and row[1] < 2} == {
        (0, 2),
        (1, 8),
    }


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
    """Each type survives a merge in Delta as it is, and in SQLite as the module says."""
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
        assert DeltaTable(tmp_path / "t").version() == 3  # created, and a commit for each micro-batch
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
        with pytest.raises(ArgumentError, match=r"The checkpoint is older than the target .* at micro-batch 2,"):
            put(3, 2)
        assert held() == {1}
        put(4, 4)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    assert held() == {1, 4}


@pytest.mark.parametrize("name", ["t", "t.sqlite"])
def test_a_checkpoint_that_is_set_back_by_one_micro_batch_loses_nothing(spark, tmp_path, name):
    """Its next micro-batch has the number of the last one, and other rows."""
    sink = upsert(tmp_path / name, **COUNTS, **({} if name == "t" else {"table": "totals"}))

    def run(*files):
        shutil.rmtree(tmp_path / "in", ignore_errors=True)
        put_files(tmp_path, files)
        assert counts(spark, tmp_path, sink).awaitTermination(120)

    run(range(3))
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    run(range(3), range(2))
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "copy").rename(tmp_path / "checkpoint")
    run(range(3), range(1, 4), [0])
    if name == "t":
        found = {row[:2] for row in rows_of(upserted_table(tmp_path / "t"))}
    else:
        with closing(sqlite3.connect(tmp_path / name)) as database:
            found = set(database.execute("SELECT k, revision FROM totals"))
    assert found == {(0, 2), (1, 2), (2, 2), (3, 1)}


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


def test_writers_exclude_each_other(spark, tmp_path, monkeypatch):
    """Of two that change the same rows at once the second is told; SQLite's writers wait."""
    rows = spark.createDataFrame([(1, 1)], "k int, v int")
    names = {"keys": "k", "revision": None, "deleted": None}
    sink = upsert(tmp_path / "t", **names)
    sink(rows, 0)
    ranges = delta.ranges_of

    def meanwhile(*arguments):
        monkeypatch.setattr(delta, "ranges_of", ranges)
        upsert(tmp_path / "t", **names)(rows.withColumn("v", rows.v + 1), 1)
        return ranges(*arguments)

    monkeypatch.setattr(delta, "ranges_of", meanwhile)
    with pytest.raises(ConcurrentUseError, match="is being written by another writer, which changed the same rows"):
        sink(rows.withColumn("v", rows.v + 2), 1)
    assert rows_of(upserted_table(tmp_path / "t")) == {(1, 2)}
    sink(rows.withColumn("v", rows.v + 2), 1)
    assert rows_of(upserted_table(tmp_path / "t")) == {(1, 3)}
    names["wait"] = "100ms"
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
            "target must be a directory or URI for a Delta table, or an SQLite file such as results.sqlite, got 7.",
        ),
        (
            "jdbc:postgresql://host/db",
            {},
            UnsupportedError,
            "target must be a path, got 'jdbc:postgresql://host/db'; for a database pass connect=, a function",
        ),
        ("postgresql://host/db", {}, UnsupportedError, "target must be a path, got 'postgresql://host/db'; for a"),
        *[
            (uri, {}, UnsupportedError, "target must be a directory, or a URI that begins with one of s3, gs, az, abfs")
            for uri in ("dbfs:/t", "hdfs:/t", "hdfs://host/t", "http://host/t")
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
        ("t", {"compact": -1}, ArgumentError, "compact must be an integer of at least 0, got -1."),
        ("t", {"retain": "soon"}, ArgumentError, "retain must be a duration such as"),
        ("t", {"late": "emit"}, ArgumentError, "late must be 'drop' or 'keep', got 'emit'."),
        ("t.db", {"table": "x", "wait": "soon"}, ArgumentError, "wait must be a duration such as"),
        ("t", {"wait": "1s"}, ArgumentError, "wait must be omitted for a Delta table, whose writers do not wait, got"),
        (
            "t",
            {"table": "x"},
            ArgumentError,
            "table must be omitted without connect or an SQLite target such as results.sqlite, got 'x'.",
        ),
        ("t.db", {}, ArgumentError, "table must be the name of the table in"),
        (
            "t.db",
            {"table": "x", "compact": 2},
            ArgumentError,
            "compact must be omitted for a database, got 2.",
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
    with pytest.raises(KindError, match="Delta tables have no interval day, the type of the column 'd'; cast it"):
        upsert(tmp_path / "d", keys="k").check(rows.selectExpr("*", "INTERVAL '1' DAY AS d").schema)


def test_places_that_are_no_target(spark, tmp_path):
    rows = spark.createDataFrame([(1,)], "k int")
    names = {"keys": "k", "revision": None, "deleted": None}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file.txt").touch()
    with pytest.raises(
        ArgumentError, match=r"must be a new or empty directory, got .*, which has 'file\.txt' and no _delta_log"
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
    (tmp_path / "other" / "_manifest.json").touch()
    with pytest.raises(UnsupportedError, match="has the format of earlier versions, a manifest of Parquet files; ups"):
        upsert(tmp_path / "other", **names)(rows, 0)
    write_deltalake(tmp_path / "foreign", rows.toArrow())
    with pytest.raises(ArgumentError, match="a Delta table that something else has created"):
        upsert(tmp_path / "foreign", **names)(rows, 0)
    table = DeltaTable(tmp_path / "foreign")
    table.alter.set_table_properties({"sash.definition": "{"}, raise_if_not_exists=False)
    with pytest.raises(CorruptStateError, match=r"has a property sash\.definition that cannot be read"):
        upserted_table(tmp_path / "foreign")


def test_a_lost_log_does_not_lose_rows(spark, tmp_path):
    """Files without the log that names them are left alone, and the writer says so."""
    sink = upsert(tmp_path / "t", keys="k", revision=None, deleted=None)
    sink(spark.createDataFrame([(1,)], "k int"), 0)
    (tmp_path / "t" / "_delta_log").rename(tmp_path / "lost")
    files = set((tmp_path / "t").iterdir())
    with pytest.raises(ArgumentError, match=r"must be a new or empty directory, got .* and no _delta_log of a Delta"):
        upsert(tmp_path / "t", keys="k", revision=None, deleted=None)(spark.createDataFrame([(2,)], "k int"), 1)
    assert set((tmp_path / "t").iterdir()) == files
