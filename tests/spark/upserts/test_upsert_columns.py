"""Targets follow the rows of a stream whose definition changes: columns come and go, and so do revisions."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructType

from sash.errors import ArgumentError, ConcurrentUseError
from sash.spark import read_upserted, upsert, upserted_table
from sash.spark.schema import utc_schema
from sash.spark.upserts import delta, delta_table
from sash.spark.upserts.collected import Collected, digest_of
from sash.spark.upserts.delta import DeltaUpsert
from sash.spark.upserts.dialect import Transaction
from support.upsert_rows import pieces

FINAL, UPDATE = "k string, v long", "k string, v long, revision long, deleted boolean"
KINDS = ["delta", "sqlite", "duckdb", "postgres"]


def schema_of(columns):
    """Return the schema for names and types, such as "k string, v long"."""
    schema = StructType()
    for column in columns.split(", "):
        schema.add(*column.rsplit(" ", 1))
    return schema


@dataclass
class Target:
    """A target of a kind, written as a stream writes it, but without Spark."""

    kind: str
    place: dict[str, Any]

    def sink(self, names, **options):
        """Return the sink of a query, whose revision and flag are those that the rows have."""
        own = {name: name if name in names else None for name in ("revision", "deleted")}
        return upsert(**{**self.place, "keys": "k", **own, **options})

    def put(self, columns, rows, batch, query="query", **options):
        """Write rows as a micro-batch of a query."""
        schema = columns if isinstance(columns, StructType) else schema_of(columns)
        sink, kind = self.sink(schema.names, **options), utc_schema(schema)
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], kind)
        sink.check(schema)
        if self.kind == "delta":
            sink._merge_all(schema, Collected(query, iter([table]), True, digest_of(table)), batch)
        else:
            sink._transact(schema, pieces(table), query, batch)

    def selected(self, query):
        with closing(self.place["connect"]()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            return [one[0] for one in cursor.description], cursor.fetchall()

    def held(self, *names):
        """Return the rows that readers see, by key; all columns or some."""
        if self.kind == "delta":
            table = upserted_table(self.place["target"])
            found = table.column_names, [tuple(row.values()) for row in table.to_pylist()]
        else:
            found = self.selected("SELECT * FROM t")
        rows = [dict(zip(found[0], row, strict=True)) for row in found[1]]
        return {row["k"]: tuple(row[name] for name in names or found[0]) for row in rows}

    def columns(self):
        """Return the names of the columns that readers see."""
        if self.kind == "delta":
            return upserted_table(self.place["target"]).column_names
        return self.selected("SELECT * FROM t")[0]


def target_of(kind, request, tmp_path):
    places = {
        "delta": lambda: {"target": tmp_path / "t"},
        "sqlite": lambda: {"connect": partial(sqlite3.connect, tmp_path / "t.sqlite"), "table": "t"},
        "duckdb": lambda: {"connect": partial(duckdb.connect, str(tmp_path / "t.duckdb")), "table": "t"},
        "postgres": lambda: {
            "connect": partial(psycopg.connect, request.getfixturevalue("postgres_dsn")),
            "table": "t",
        },
    }
    return Target(kind, places[kind]())


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    return target_of(request.param, request, tmp_path)


@pytest.fixture(params=KINDS[1:])
def database(request, tmp_path):
    return target_of(request.param, request, tmp_path)


@pytest.fixture
def lake(request, tmp_path):
    return target_of("delta", request, tmp_path)


@pytest.fixture
def server(request, tmp_path):
    return target_of("postgres", request, tmp_path)


# --- columns --------------------------------------------------------------------------------------


def test_columns_come_and_go(target):
    """A new column is null in older rows, one that is gone in newer ones; one that comes again is as it was."""
    target.put("k string, v long, revision long", [("a", 1, 1), ("b", 2, 1)], 0)
    target.put("k string, revision long, w string", [("a", 2, "x"), ("c", 1, "y")], 1)
    assert target.columns() == ["k", "v", "revision", "w"]
    assert target.held() == {"a": ("a", None, 2, "x"), "b": ("b", 2, 1, None), "c": ("c", None, 1, "y")}
    target.put("k string, w string, v long, revision long", [("a", "old", 9, 1), ("c", "z", 3, 2)], 2)
    target.put("k string, revision long", [("b", 2)], 3)
    assert target.columns() == ["k", "v", "revision", "w"]
    assert target.held() == {"a": ("a", None, 2, "x"), "b": ("b", None, 2, None), "c": ("c", 3, 2, "z")}


def test_types_of_new_columns(target):
    """Each comes as it would in a new table; instants without a time zone are a feature of their own in Delta."""
    at = datetime(2026, 1, 2, 3, 4, 5, 6)
    target.put("k string", [("a",)], 0)
    kinds = {"b": ("boolean", True), "d": ("double", 0.5), "y": ("binary", b"\0"), "n": ("timestamp_ntz", at)}
    kinds |= {"i": (ArrayType(LongType()), [1, None]), "s": (StructType().add("x", "long"), {"x": 1})}
    kinds |= {"m": (MapType(StringType(), LongType()), {"x": 1})}
    schema = StructType().add("k", "string")
    for name, (kind, _) in kinds.items():
        schema.add(name, kind)
    row = [value for _, value in kinds.values()]
    target.put(schema, [("b", *row), ("c", *row)], 1)
    target.put("k string", [("c",)], 2)
    found = target.held(*kinds)
    assert found["a"] == found["c"] == (None,) * len(kinds)
    flag, half, raw, instant, *nested = found["b"]
    assert (flag, half, bytes(raw)) == (True, 0.5, b"\0")
    assert instant in (at, "2026-01-02 03:04:05.000006")
    assert nested in (["[1, null]", '{"x": 1}', '[["x", 1]]'], [[1, None], {"x": 1}, [("x", 1)]])


def test_names_that_need_quotes(target):
    """Dots, spaces, quotation and percent signs, and words of SQL."""
    names = ["w.x", 'quo"te', "100%s", "select", "a b", "source", "number", "c0"]
    target.put("k string, re.v%s long, revision long", [("a", 1, 1)], 0)
    target.put(", ".join(["k string", *(f"{name} long" for name in names)]), [("a", *range(8))], 1, revision=None)
    target.put("k string, re.v%s long", [("b", 5)], 2, revision=None)
    assert target.held("re.v%s", "revision", *names) == {
        "a": (None, None, *range(8)),
        "b": (5, None, *(None for _ in names)),
    }


def test_a_repetition_changes_nothing(target):
    """Of the micro-batch that added a column too; other rows under its number are merged."""
    target.put("k string, v long", [("a", 1)], 0)
    for _ in range(2):
        target.put("k string, v long, w long", [("a", 2, 2)], 1)
        assert target.held() == {"a": ("a", 2, 2)}
    target.put("k string, v long", [("b", 4)], 1)
    assert target.held() == {"a": ("a", 2, 2), "b": ("b", 4, None)}
    with pytest.raises(ArgumentError, match=r"The checkpoint is older than the t.*: the query is at micro-batch 0"):
        target.put("k string, v long, new long", [("a", 5, 5)], 0)
    assert target.columns() == ["k", "v", "w"]


def test_a_number_that_comes_again_with_new_columns_is_merged(target):
    """The query stopped between its target and Spark, and was changed: the old rows lack what the new ones have."""
    target.put("k string, v long, revision long", [("a", 1, 1), ("b", 1, 1)], 0)
    target.put("k string, v long, revision long, w long", [("a", 1, 1, 7), ("b", 1, 0, 8)], 0)
    assert target.held("v", "w") == {"a": (1, 7), "b": (1, None)}
    target.put("k string, v long, revision long, w long", [("a", 1, 0, 9), ("b", 1, 1, 9)], 0)
    assert target.held("v", "w") == {"a": (1, 7), "b": (1, 9)}


def test_what_may_not_change(target):
    """Types, keys, partitions: each is refused in a sentence, and the table stays what it was."""
    target.put("k string, v long", [("a", 1)], 0)
    refused = {
        "has the column 'v' as bigint, but the rows have it as string; write rows with the same types, or use": (
            "k string, v string, w long",
            {},
        ),
        r"keys must be \('k',\), with which .* was created, got \('k', 'v'\)": (FINAL, {"keys": ["k", "v"]}),
    }
    if target.kind == "delta":
        refused["partition_by must be .*, with which .* was created, got"] = (FINAL, {"partition_by": ["k"]})
    for said, (columns, options) in refused.items():
        row = tuple("a" if column.endswith("string") else 2 for column in columns.split(", "))
        with pytest.raises(ArgumentError, match=said):
            target.put(columns, [row], 1, **options)
    assert target.columns() == ["k", "v"] and target.held() == {"a": ("a", 1)}


def test_names_that_differ_by_case_only(target):
    """PostgreSQL tells them apart; the others do not, and refuse the new one, whether or not the old one is left."""
    target.put("k string, v long", [("a", 1)], 0)
    if target.kind == "postgres":
        target.put("k string, V long", [("a", 2)], 1)
        assert target.held() == {"a": ("a", None, 2)}
        return
    for columns in ("k string, V long", "k string, w long, W long"):
        with pytest.raises(ArgumentError, match=r"has the column '[vw]', and the rows have '[VW]', which .* by case"):
            target.put(columns, [("a", 2, 3)[: columns.count(",") + 1]], 1)
    assert target.held() == {"a": ("a", 1)}


def test_a_writer_with_older_columns_writes_beside_one_with_newer_ones(target):
    """Each finds the table as the other left it."""
    for batch in range(2):
        target.put("k string, v long, revision long", [("a", batch, 2 * batch)], batch, "one", shared=True)
        target.put("k string, w long, revision long", [("b", batch, 2 * batch)], batch, "two", shared=True)
    assert target.held("v", "w") == {"a": (1, None), "b": (None, 1)}


# --- revisions ------------------------------------------------------------------------------------


def test_a_query_changes_what_it_emits(target):
    """From final results to revisions and back, and once more: the latest row of the query is always the one."""
    target.put(FINAL, [("a", 1), ("b", 1), ("c", 1)], 0)
    target.put(UPDATE, [("a", 2, 1, False), ("b", None, 1, True), ("d", 2, 9, False), ("e", None, 9, True)], 1)
    assert target.held() == {"a": ("a", 2, 1), "c": ("c", 1, None), "d": ("d", 2, 9)}
    target.put(UPDATE, [("a", 0, 0, False), ("c", 3, 0, False)], 2)
    assert target.held("v", "revision") == {"a": (2, 1), "c": (3, 0), "d": (2, 9)}
    target.put(FINAL, [("a", 4), ("b", 4)], 3)
    assert target.columns() == ["k", "v", "revision"]
    assert target.held("v", "revision") == {"a": (4, None), "b": (4, None), "c": (3, 0), "d": (2, 9)}
    target.put(UPDATE, [("a", 5, 1, False), ("d", 5, 1, False), ("e", 5, 0, False), ("b", None, 0, True)], 4)
    assert target.columns() == ["k", "v", "revision"]
    assert target.held("v", "revision") == {"a": (5, 1), "c": (3, None), "d": (5, 1), "e": (5, 0)}


def test_a_flag_becomes_a_column_and_a_flag_again(target):
    """The same rows, in which `deleted` means something else for a while."""
    target.put(UPDATE, [("a", 1, 1, False), ("b", 1, 1, True)], 0)
    target.put(UPDATE, [("b", 2, 2, True), ("c", 2, 2, False)], 1, deleted=None)
    assert target.held("v", "deleted")["b"] == (2, True) and len(target.held()) == 3
    target.put(UPDATE + ", w long", [("c", 3, 3, True, 0), ("d", 3, 3, False, 7)], 2)
    assert target.held("v", "w") == {"a": (1, None), "b": (2, None), "d": (3, 7)}


def test_the_definition_is_that_of_one_query(target):
    """Another query may not change it, nor a batch; the one that did is then the only one that is known."""
    target.put(FINAL, [("a", 1)], 0, "one")
    target.put(FINAL, [("b", 1)], 0, "two")
    for query in ("three", None):
        with pytest.raises(ArgumentError, match=r"revision must be None, with which .* was created, got 'revision'"):
            target.put(UPDATE, [("a", 2, 1, False)], 1, query)
    target.put(UPDATE, [("a", 2, 1, False)], 1, "two")
    assert target.sink(()).writers() == {"two"}
    for query, shared in (("one", False), ("one", True)):
        with pytest.raises(ArgumentError, match=r"revision must be 'revision', with which .* was created, got None"):
            target.put(FINAL, [("a", 3)], 1, query, shared=shared)
    with pytest.raises(ArgumentError, match="was written by query two, and query one restarts its revisions"):
        target.put(UPDATE, [("a", 3, 1, False)], 1, "one")
    with pytest.raises(ArgumentError, match=r"revision must be 'revision', with which .* created, got 'version'"):
        target.put("k string, version long, deleted boolean", [("a", 1, False)], 2, "two", revision="version")
    target.put(UPDATE, [("a", 4, 2, False)], 2, "two")
    assert target.held("v", "revision") == {"a": (4, 2), "b": (1, None)}


def test_a_number_that_comes_again_with_revisions_is_merged(target):
    """What was final before the change is now provisional, so it is written under its number, once."""
    target.put(FINAL, [("a", 1)], 0)
    for _ in range(2):
        target.put(UPDATE, [("a", 2, 1, False), ("b", 2, 1, False)], 0)
        assert target.held("v", "revision") == {"a": (2, 1), "b": (2, 1)}


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns, row", [(UPDATE, ("a", 2, 1, False)), ("k string, w long", ("a", 2))])
def test_a_database_has_columns_and_rows_or_neither(database, monkeypatch, columns, row):
    """Columns, view, definition and rows are one transaction."""

    def state():
        tables = database.selected("SELECT definition, columns FROM _sash_tables")
        return database.selected("SELECT * FROM t"), database.selected("SELECT * FROM t__rows"), tables

    database.put(FINAL, [("a", 1)], 0)
    before = state()

    def failing(transaction):
        raise RuntimeError("before the commit")

    monkeypatch.setattr(Transaction, "commit", failing)
    with pytest.raises(RuntimeError, match="before the commit"):
        database.put(columns, [row], 1)
    monkeypatch.undo()
    assert state() == before
    database.put(columns, [row], 1)
    assert database.held()["a"][-1] == row[2 if columns == UPDATE else 1]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("step", ["add_columns", "forget", "note", "_merge"])
def test_a_writer_that_dies_between_the_commits_of_a_change(lake, monkeypatch, step, again):
    """Of a Delta table: columns, revisions, definition, rows. A repetition completes it, also one of an old number."""
    for batch, (columns, row) in enumerate([(UPDATE, ("a", 1, 5, False)), (FINAL, ("b", 1))]):
        lake.put(columns, [row], batch)
    identity = DeltaTable(lake.place["target"]).metadata().id
    changed, batch = f"{UPDATE}, w long", 1 if again else 2
    owner = DeltaUpsert if step == "_merge" else delta_table
    whole = getattr(owner, step)

    def dying(*arguments):
        if step != "_merge":
            whole(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, step, dying)
    with pytest.raises(KeyboardInterrupt):
        lake.put(changed, [("a", 2, 1, False, 7)], batch)
    monkeypatch.undo()
    assert lake.held("v")["a"] == (1,)
    versions = []
    for _ in range(2):
        lake.put(changed, [("a", 2, 1, False, 7), ("b", 2, 0, False, 8)], batch)
        versions.append(DeltaTable(lake.place["target"]).version())
    assert versions[0] == versions[1]
    assert lake.held("v", "revision", "w") == {"a": (2, 1, 7), "b": (2, 0, 8)}
    assert DeltaTable(lake.place["target"]).metadata().id == identity  # those who follow the table go on


def test_a_writer_is_told_that_another_changed_the_columns_meanwhile(lake, monkeypatch):
    lake.put(FINAL, [("a", 1)], 0)
    ranges = delta.ranges_of

    def meanwhile(*arguments):
        monkeypatch.undo()
        lake.put("k string, v long, w long", [("b", 2, 2)], 0, "other")
        return ranges(*arguments)

    monkeypatch.setattr(delta, "ranges_of", meanwhile)
    with pytest.raises(ConcurrentUseError, match="is being written by another writer, which changed the same rows"):
        lake.put(FINAL, [("a", 2)], 1)
    lake.put(FINAL, [("a", 2)], 1)
    assert lake.held() == {"a": ("a", 2, None), "b": ("b", 2, 2)}


# --- PostgreSQL -----------------------------------------------------------------------------------


def test_names_that_postgresql_would_cut_off_are_refused(server):
    server.put(FINAL, [("a", 1)], 0)
    with pytest.raises(ArgumentError, match="names of columns must have at most 63 bytes in PostgreSQL, got 'éé"):
        server.put(f"k string, {'é' * 32} long", [("a", 1)], 1)
    server.put(f"k string, {'é' * 31} long", [("a", 2)], 1)
    assert server.held() == {"a": ("a", None, 2)}


def test_readers_keep_their_rights_and_views(server):
    """The view is replaced and not dropped, so what depends on it stays."""
    server.put(FINAL, [("a", 1)], 0)
    with closing(server.place["connect"]()) as connection:
        connection.execute("CREATE VIEW mine AS SELECT sum(v) AS total FROM t")
        connection.execute("GRANT SELECT ON t TO PUBLIC")
        connection.commit()
    rights = "SELECT has_table_privilege('public', 't', 'SELECT')"
    for batch, columns in enumerate([UPDATE, f"{UPDATE}, w long", FINAL, f"{FINAL}, x long", UPDATE], 1):
        values = {"k": "a", "v": batch, "revision": batch, "deleted": False, "w": 0, "x": 0}
        server.put(columns, [tuple(values[column.split()[0]] for column in columns.split(", "))], batch)
        assert server.selected(rights)[1] == [(True,)]
        assert server.selected("SELECT total FROM mine")[1] == [(batch,)]
    assert server.columns() == ["k", "v", "revision", "w", "x"]


def test_a_user_who_may_not_change_the_table_is_refused(server):
    """The rights to write rows are enough as long as the columns stay."""
    server.put(FINAL, [("a", 1)], 0)
    with closing(server.place["connect"]()) as connection:
        schema = connection.execute("SELECT current_schema()").fetchone()[0]
        connection.execute(f"CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA {schema} TO writer")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO writer")
        connection.commit()
    writer = Target("postgres", {**server.place, "connect": partial(server.place["connect"], user="writer")})
    writer.put("k string", [("b",)], 1)
    with pytest.raises(ArgumentError, match=r"table 't' cannot be written: (permission denied for|must be owner of)"):
        writer.put("k string, w long", [("b", 1)], 2)
    assert server.held() == {"a": ("a", 1), "b": ("b", None)}


def test_writers_and_readers_at_once(server):
    """Eight writers add a column each, and one that all have, while readers read: nobody fails."""

    def write(number):
        names = [f"k string, revision long, own{number} long", "k string, revision long, all long"]
        for batch in range(4):
            server.put(names[batch % 2], [(str(number), batch, number)], batch, f"query {number}", shared=True)

    def read(number):
        for _ in range(40):
            server.selected("SELECT * FROM t ORDER BY k")

    server.put("k string, revision long", [("x", 0)], 0, "first", shared=True)
    with ThreadPoolExecutor(12) as pool:
        done = [*pool.map(write, range(8), chunksize=1), *pool.map(read, range(4))]
    assert len(done) == 12 and set(server.columns()) == {"k", "revision", "all", *(f"own{n}" for n in range(8))}
    assert server.held("all") == {"x": (None,), **{str(n): (n,) for n in range(8)}}


# --- with Spark -----------------------------------------------------------------------------------


def test_rows_of_spark(spark, tmp_path):
    """By a batch and by a stream's micro-batch, into files of several versions of a table; a batch overwrites."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = spark.createDataFrame([(1, at, "a"), (2, at, "b")], "k int, t timestamp, v string").coalesce(1)
    places = [{"target": tmp_path / "t", "compact": 1}, {"target": tmp_path / "t.sqlite", "table": "t"}]
    places.append({"target": tmp_path / "parts", "compact": 1, "partition_by": ["k"]})
    for place in places:
        sink = upsert(**place, keys=["k", "t"], revision=None, deleted=None)
        sink(rows, 0)
        sink(rows.where("k = 2").selectExpr("k + 1 AS k", "t", "k AS w"), 1)
    for place in (tmp_path / "t", tmp_path / "parts"):
        found = {(row.k, row.v, row.w) for row in read_upserted(spark, place).collect()}
        assert found == {(1, "a", None), (2, "b", None), (3, None, 2)}
    sink = upsert(**places[1], keys=["k", "t"], revision=None, deleted=None)
    sink.overwrite(rows.where("k = 1").selectExpr("k", "t", "k AS x"))
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as database:
        assert database.execute("SELECT k, v, w, x FROM t").fetchall() == [(1, None, None, 1)]


def test_an_empty_table_is_filled_with_other_columns(spark, tmp_path):
    """All rows were deleted, or the writer died before it wrote any."""
    sink = upsert(tmp_path / "t", keys="k")
    sink(spark.createDataFrame([(1, 5, 1, True)], "k int, v int, revision long, deleted boolean"), 0)
    sink(spark.createDataFrame([(1, 6, 2, False)], "k int, w int, revision long, deleted boolean"), 1)
    assert upserted_table(tmp_path / "t").to_pylist() == [{"k": 1, "v": None, "revision": 2, "w": 6}]
