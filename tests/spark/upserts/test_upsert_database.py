"""The upsert sink through a DB-API connection: every database gives what the datasets give, killed or repeated."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial

import duckdb
import psycopg
import pytest
from pyspark.errors import StreamingQueryException

from sash.errors import ArgumentError, ConcurrentUseError, KindError, UnsupportedError
from sash.spark import upsert
from sash.spark.upserts import dialect
from sash.spark.upserts.dialect import Transaction
from support.upsert_rows import COUNTS, KEYS, SCHEMA, counts, live, merged, put_files, random_batches

MODULES = {"sqlite3": sqlite3, "duckdb": duckdb}


@pytest.fixture(params=[*MODULES, "psycopg"])
def connect(request, tmp_path):
    """A function that gives connections to a database of the test's own."""
    if request.param == "psycopg":
        return partial(psycopg.connect, request.getfixturevalue("postgres_dsn"), autocommit=True)
    return partial(MODULES[request.param].connect, str(tmp_path / "results"))


def selected(connect, query):
    with closing(connect()) as connection:
        return connection.execute(query).fetchall()


def shown_by(connect, table="totals"):
    """Return the rows of the view, with instants in UTC: SQLite has them as text, DuckDB in the zone of the session."""
    found = selected(connect, f"SELECT card, ts, id, total, revision FROM {table}")
    return {(card, instant(ts), *rest) for card, ts, *rest in found}


def instant(value):
    return datetime.fromisoformat(value).replace(tzinfo=UTC) if isinstance(value, str) else value.astimezone(UTC)


def test_a_table_holds_the_greatest_revision_of_each_row(spark, connect):
    """After each micro-batch; one that comes again changes nothing, and two tables of a database do not mix."""
    batches = list(random_batches(5))
    sink, other = (upsert(connect=connect, keys=KEYS, table=table) for table in ("totals", "oth%er"))
    for number, batch in enumerate(batches):
        sink(spark.createDataFrame(batch, SCHEMA), number)
        assert shown_by(connect) == live(batches[: number + 1])
    sink(spark.createDataFrame(batches[1], SCHEMA), 1)
    other(spark.createDataFrame(batches[0], SCHEMA), 0)
    assert shown_by(connect) == live(batches) and shown_by(connect, '"oth%er"') == live(batches[:1])
    assert selected(connect, "SELECT count(*) FROM totals__rows") == [(len(merged(batches)),)]


def test_rows_of_many_statements_and_long_keys(spark, connect):
    """More rows than one statement takes, keys longer than an index does, and without a revision the last wins."""
    sink = upsert(connect=connect, table="t", keys=["k", "word"], revision=None, deleted=None)
    rows = spark.range(2_000).selectExpr("id % 1500 AS k", "repeat(cast(id % 1500 AS string), 1000) AS word", "id AS v")
    for number in range(2):
        sink(rows.coalesce(1).orderBy("v"), number)
    assert selected(connect, "SELECT count(*), sum(v), max(length(word)) FROM t") == [
        (1500, sum(range(500, 2000)), 4000)
    ]


def test_duckdb_has_columns_of_the_rows_types(spark, tmp_path):
    """Numbers, times and bytes come back as they were, what is nested as JSON."""
    frame = spark.sql(
        "select 1Y a, cast(2.50 as decimal(9,2)) b, date'2026-01-02' c, timestamp_ntz'2026-01-02 03:04:05.000006' d, "
        "X'01' e, array(1, null) f, named_struct('x', 1) g, true h, cast('nan' as double) i, map('k', 1) `j.k`, "
        "timestamp'2026-01-02 03:04:05.000006' l, interval '1' day m, cast(null as string) n"
    )
    connect = partial(duckdb.connect, str(tmp_path / "results"))
    for number in range(2):
        keys = ["a", "b", "c", "d", "e", "h", "l", "n"]
        upsert(connect=connect, table="t", keys=keys, revision=None, deleted=None)(frame, number)
    ((*values, nan, nested, at, span, none),) = selected(connect, "SELECT * FROM t")
    assert values == [
        *(1, Decimal("2.50"), date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 6), b"\x01"),
        *("[1, null]", '{"x": 1}', True),
    ]
    assert nan != nan and nested == '[["k", 1]]' and at == datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    assert span == "1 day, 0:00:00" and none is None


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_failure_around_the_commit_writes_a_micro_batch_once(spark, tmp_path, connect, monkeypatch, moment):
    """Rows and number are there or neither; Spark repeats the batch, and it is merged, or known."""
    put_files(tmp_path, [range(number + 1) for number in range(3)])
    present, fails, commit = [], [1], Transaction.commit

    def committing(transaction):
        if moment == "after the commit":
            commit(transaction)
        if present[-1] in fails:
            fails.clear()
            raise RuntimeError(moment)
        if moment == "before the commit":
            commit(transaction)

    monkeypatch.setattr(Transaction, "commit", committing)
    sink = upsert(connect=connect, table="totals", **COUNTS)

    def failing(rows, number):
        present.append(number)
        sink(rows, number)

    def held():
        return dict(selected(connect, "SELECT k, revision FROM totals")), selected(
            connect, "SELECT batch FROM _sash_batches"
        )

    with pytest.raises(StreamingQueryException, match=moment):
        counts(spark, tmp_path, failing).awaitTermination(120)
    assert held() == (({0: 1}, [(0,)]) if moment == "before the commit" else ({0: 2, 1: 1}, [(1,)]))
    assert counts(spark, tmp_path, failing).awaitTermination(120)
    assert present == [0, 1, 1, 2] and held() == ({0: 3, 1: 2, 2: 1}, [(2,)])


def test_a_query_that_restarts_revisions_is_refused_the_table_of_another(spark, tmp_path, connect):
    for place in ("one", "two"):
        put_files(tmp_path / place, [[1]])
    sink = upsert(connect=connect, table="totals", **COUNTS)
    assert counts(spark, tmp_path / "one", sink).awaitTermination(120)
    with pytest.raises(StreamingQueryException, match=r"table 'totals' was written by query .* use a new table, or"):
        counts(spark, tmp_path / "two", sink).awaitTermination(120)


def test_a_table_stays_what_it_was_made(spark, connect):
    """Other keys, other columns, a table that is somebody's: each is refused in a sentence, and nothing is changed."""
    rows = spark.createDataFrame([(1, 2, 3, False)], "k int, j int, revision long, deleted boolean")
    upsert(connect=connect, keys="k", table="x")(rows, 0)
    with pytest.raises(
        ArgumentError, match=r"keys must be \('k',\), with which 'x' was created, got \('k', 'j'\); or use"
    ):
        upsert(connect=connect, keys=["k", "j"], table="x")(rows, 1)
    with pytest.raises(
        ArgumentError, match="table 'x' has the column 'j' as int, but the rows have it as bigint; write"
    ):
        upsert(connect=connect, keys="k", table="x")(rows.withColumn("j", rows.j.cast("long")), 1)
    with closing(connect()) as connection:
        connection.execute("CREATE TABLE mine (x INTEGER)")
    with pytest.raises(
        ArgumentError, match="table must be a new name or the table of an upsert, got 'mine', which exists"
    ):
        upsert(connect=connect, keys="k", table="mine")(rows, 0)
    with pytest.raises(ArgumentError, match="The rows must not have a column _sash_identity, which upserts reserve"):
        upsert(connect=connect, keys="k", table="x")(rows.withColumn("_sash_identity", rows.k), 1)
    assert selected(connect, "SELECT * FROM x") == [(1, 2, 3)]


def test_a_file_that_another_process_holds_is_said_to_be(spark, tmp_path):
    """DuckDB lets one process write a file."""
    path = str(tmp_path / "results")
    holder = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    sink = upsert(connect=partial(duckdb.connect, path), keys="k", table="t", revision=None, deleted=None)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", holder, path], **pipes) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(
            ConcurrentUseError, match="The database of connect is being written by another writer; stop it, or"
        ):
            sink(spark.createDataFrame([(1,)], "k int"), 0)
        process.stdin.close()
    sink(spark.createDataFrame([(1,)], "k int"), 0)
    with pytest.raises(ArgumentError, match=r"The database of connect cannot be written: .*nowhere"):
        upsert(connect=partial(duckdb.connect, f"{path}/nowhere/x"), keys="k", table="t", revision=None, deleted=None)(
            spark.createDataFrame([(1,)], "k int"), 0
        )


@pytest.mark.parametrize(
    "options, kind, said",
    [
        ({"connect": 7}, KindError, "connect must be a function that returns a DB-API connection, got 7."),
        ({"target": "t"}, ArgumentError, "target must be omitted with connect, got 't'."),
        ({"wait": "1 s"}, ArgumentError, "wait must be omitted with connect, whose connections decide how long"),
        ({"table": None}, ArgumentError, "table must be the name of the table in the database, got None."),
        ({"compact": 2}, ArgumentError, "compact must be omitted for a database, got 2."),
        (
            {"paramstyle": "?"},
            ArgumentError,
            "paramstyle must be one of qmark, format, numeric, named, pyformat, got '?'.",
        ),
        (
            {"connect": None, "target": "t", "table": None, "paramstyle": "qmark"},
            ArgumentError,
            "paramstyle must be omitted without connect, got 'qmark'.",
        ),
    ],
)
def test_wrong_arguments_are_named_at_the_call(options, kind, said):
    with pytest.raises(kind) as raised:
        upsert(**{"connect": sqlite3.connect, "table": "t", "keys": ["k"], **options})
    assert str(raised.value).startswith(said)
    assert raised.value.argument == said.split()[0]


class Recorded:
    """A DB-API connection of an unknown database, which records its statements."""

    autocommit = True

    def __init__(self):
        self.statements = []

    def cursor(self):
        return self

    def execute(self, *statement):
        self.statements.append(statement)

    commit = rollback = close = fetchall = lambda self: []


@pytest.mark.parametrize(
    "style, marks, values, name",
    [
        ("qmark", "(?, ?), (?, ?)", [1, 2, 3, 4], '"a%""b"'),
        ("numeric", "(:1, :2), (:3, :4)", [1, 2, 3, 4], '"a%""b"'),
        ("format", "(%s, %s), (%s, %s)", [1, 2, 3, 4], '"a%%""b"'),
        ("named", "(:p1, :p2), (:p3, :p4)", {"p1": 1, "p2": 2, "p3": 3, "p4": 4}, '"a%""b"'),
        ("pyformat", "(%(p1)s, %(p2)s), (%(p3)s, %(p4)s)", {"p1": 1, "p2": 2, "p3": 3, "p4": 4}, '"a%%""b"'),
    ],
)
def test_parameters_are_marked_in_every_style(style, marks, values, name):
    """As the DB-API has them; a percent sign in a name is doubled where it would be a mark."""
    connection = Recorded()
    transaction = Transaction(connection, style)
    assert transaction.marks(2, 2) == marks and transaction.named('a%"b') == name
    transaction.begin()
    transaction.execute("x", [1, 2, 3, 4])
    assert connection.statements == [("x", values)] and connection.autocommit is False


def test_sqlite_takes_named_parameters_too(spark, tmp_path):
    """A style that is given goes before the module's."""
    connect, batches = partial(sqlite3.connect, tmp_path / "results"), list(random_batches(6, count=2))
    sink = upsert(connect=connect, keys=KEYS, table="totals", paramstyle="named")
    for number, batch in enumerate(batches):
        sink(spark.createDataFrame(batch, SCHEMA), number)
    assert shown_by(connect) == live(batches)


def test_connections_that_cannot_be_used_say_why():
    """One without a paramstyle, one that commits by itself, and what is none at all."""
    with pytest.raises(
        ArgumentError, match=r"paramstyle must be one of qmark.*, because the module .* of the connection has none"
    ):
        Transaction(Recorded())
    stubborn = type("Stubborn", (Recorded,), {"autocommit": property(lambda self: True)})
    with pytest.raises(
        UnsupportedError, match="connect must return a connection with autocommit off, got one that commits"
    ):
        Transaction(stubborn(), "qmark").begin()
    with pytest.raises(KindError, match="connect must return a DB-API connection, got None"):
        Transaction(None)


def test_a_class_derived_from_a_known_connection_is_known(tmp_path):
    """The module of a base class says which database it is."""
    mine = type("Mine", (sqlite3.Connection,), {})
    with closing(sqlite3.connect(":memory:", factory=mine)) as connection:
        assert Transaction(connection).dialect is dialect._SQLITE
