"""The upsert sink on a PostgreSQL server: types, names, writers at the same time, and a server that refuses."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import count

import psycopg
import psycopg2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from sash.errors import ArgumentError, ConcurrentUseError
from sash.spark import upsert
from sash.spark.upserts.dialect import Transaction
from support.upsert_rows import KEYS, SCHEMA, live, merged, pieces, random_batches

DRIVERS = {"psycopg": psycopg, "psycopg2": psycopg2}
NUMBERS = count()
SMALL = {"k": "string", "v": "long", "revision": "long", "deleted": "boolean"}
ARROW = [
    pa.field("k", pa.string()),
    *(pa.field(n, pa.int64()) for n in ("v", "revision")),
    pa.field("deleted", pa.bool_()),
]


@pytest.fixture(params=DRIVERS)
def connect(request, postgres_dsn):
    """A function that connects by one of the drivers."""
    return partial(DRIVERS[request.param].connect, postgres_dsn)


@pytest.fixture
def connected(postgres_dsn):
    """A function that connects by psycopg 3."""
    return partial(psycopg.connect, postgres_dsn)


def selected(connect, query):
    with closing(connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def schema_of(types):
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    return schema


def put(sink, rows, batch, query="query", size=10_000):
    """Write rows of SMALL as a micro-batch of a query, without Spark."""
    table = pa.Table.from_pylist([dict(zip(SMALL, row, strict=True)) for row in rows], pa.schema(ARROW))
    sink._transact(schema_of(SMALL), pieces(table, size), query, batch)


def by_statements(monkeypatch):
    monkeypatch.setattr(Transaction, "copies", lambda transaction: False)


# --- rows -----------------------------------------------------------------------------------------


def test_a_table_holds_the_greatest_revision_of_each_row(spark, connect):
    """By COPY with both drivers: also for null keys, tombstones, and older revisions that come later."""
    batches = list(random_batches(5))
    sink = upsert(connect=connect, keys=KEYS, table="totals")
    for number, batch in enumerate(batches):
        sink(spark.createDataFrame(batch, SCHEMA), number)
        found = selected(connect, "SELECT card, ts, id, total, revision FROM totals")
        assert {(card, ts.astimezone(UTC), *rest) for card, ts, *rest in found} == live(batches[: number + 1])
    assert selected(connect, "SELECT count(*) FROM totals__rows") == [(len(merged(batches)),)]


TYPED = """
    select 1Y a, 2S b, cast(2.50 as decimal(9,2)) c, cast(1e-9 as decimal(38,18)) d, date'2026-01-02' e,
    timestamp_ntz'2026-01-02 03:04:05.000006' f, timestamp'2026-01-02 03:04:05.000006+02:00' g, X'00ff' h, X'' i,
    array(1, null) j, named_struct('x', 'a\\tb') k, map('k', 1) l, true m, cast('nan' as double) n,
    cast('-infinity' as float) o, 0.1D p, cast(0.1 as float) q, interval '1' day r, '' s, 'NULL' t,
    'tab\\t line\\n return\\r quote" \\'one\\' back\\\\slash \\\\N \\\\. é 😀' u, cast(9223372036854775807 as long) v,
    5e-324D w, timestamp'0001-01-01 00:00:00Z' x, '\\\\.' y
"""


@pytest.mark.parametrize("way", ["copied", "by statements"])
def test_types_come_back_as_they_were(spark, connect, way, monkeypatch):
    """What is nested as JSON; a row of nulls beside the row of values; a second time it is an update."""
    if way == "by statements":
        by_statements(monkeypatch)
    frame = spark.sql(TYPED)
    nulls = frame.selectExpr(*[f"cast(null as {kind}) `{name}`" for name, kind in frame.dtypes])
    keys = ["a", "c", "e", "f", "g", "h", "m", "s", "u"]
    for number in range(2):
        upsert(connect=connect, table="t", keys=keys, revision=None, deleted=None)(frame.union(nulls), number)
    values, none = selected(connect, "SELECT * FROM t ORDER BY a NULLS LAST")
    assert set(none) == {None} and len(none) == 25
    found = dict(zip("abcdefghijklmnopqrstuvwxy", values, strict=True))
    nan = found.pop("n")
    assert nan != nan
    assert bytes(found.pop("h")) == b"\x00\xff" and bytes(found.pop("i")) == b""
    assert found.pop("g").astimezone(UTC) == datetime(2026, 1, 2, 1, 4, 5, 6, UTC)
    assert found.pop("x").astimezone(UTC) == datetime(1, 1, 1, tzinfo=UTC)
    assert found.pop("q") == pytest.approx(0.1) and found.pop("o") == -float("inf")
    wanted = {"a": 1, "b": 2, "c": Decimal("2.50"), "d": Decimal("1e-9"), "e": date(2026, 1, 2), "m": True}
    wanted |= {"f": datetime(2026, 1, 2, 3, 4, 5, 6), "j": "[1, null]", "k": '{"x": "a\\tb"}', "l": '[["k", 1]]'}
    wanted |= {"p": 0.1, "r": "1 day, 0:00:00", "s": "", "t": "NULL", "v": 2**63 - 1, "w": 5e-324, "y": "\\."}
    assert found == wanted | {"u": "tab\t line\n return\r quote\" 'one' back\\slash \\N \\. é 😀"}


def test_infinity_and_nan_keep_their_places(connected):
    """A float that is not a number is not null, and the greatest of floats in PostgreSQL."""
    sink = upsert(connect=connected, table="t", keys="k", revision=None, deleted=None)
    column = pa.array([float("nan"), float("inf"), -0.0, None, 1.7976931348623157e308])
    table = pa.table({"k": pa.array(range(5), pa.int32()), "x": column})
    sink._transact(schema_of({"k": "integer", "x": "double"}), pieces(table), "query", 0)
    found = selected(connected, "SELECT k, x::text FROM t ORDER BY k")
    assert found == [(0, "NaN"), (1, "Infinity"), (2, "-0"), (3, None), (4, "1.7976931348623157e+308")]


ROWS = st.tuples(
    st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.integers(0, 5) | st.just(-(2**63)),
    st.none() | st.booleans(),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=3), st.integers(1, 5))
def test_any_rows_are_stored_as_sqlite_stores_them(connected, tmp_path, batches, size):
    """Ties of revisions, null revisions, pieces of any size: two ways to one result."""
    number = next(NUMBERS)
    connects = {"postgres": connected, "sqlite": partial(sqlite3.connect, tmp_path / f"{number}.sqlite")}
    found = {}
    for name, connect in connects.items():
        sink = upsert(connect=connect, table=f"t{number}", keys="k")
        for batch, rows in enumerate(batches):
            put(sink, rows, batch, size=size)
        rows = selected(connect, f"SELECT _sash_identity, k, v, revision, deleted FROM t{number}__rows")
        visible = selected(connect, f"SELECT k, v, revision FROM t{number}")
        found[name] = sorted(rows), sorted(visible, key=repr)
    assert found["postgres"] == found["sqlite"]


def test_odd_names(spark, connect):
    """Quotes, percent signs, dots, upper case and reserved words, of tables and of columns."""
    columns = ["K.ey", 'quo"te', "per%cent", "%s", "select", "number", "identity", "c0", "revision", "Deleted"]
    table = 'My "odd" 100% %(p1)s ta.ble; DROP'
    rows = spark.createDataFrame(
        [(1, 2, 3, 4, 5, 6, 7, 8, 1, False)], ", ".join(f"{name} int" for name in "abcdefghi") + ", j boolean"
    )
    sink = upsert(connect=connect, table=table, keys=columns[:4], revision="revision", deleted="Deleted")
    for number in range(2):
        sink(rows.toDF(*columns), number)
    quoted = table.replace('"', '""')
    assert selected(connect, f'SELECT * FROM "{quoted}"') == [(1, 2, 3, 4, 5, 6, 7, 8, 1)]
    assert selected(connect, f'SELECT "K.ey", "quo""te", "Deleted" FROM "{quoted}__rows"') == [(1, 2, False)]


def test_names_that_postgresql_would_cut_off_are_refused(connected):
    with pytest.raises(
        ArgumentError, match="table and its suffix __rows must have at most 63 bytes in PostgreSQL, got"
    ):
        put(upsert(connect=connected, table="é" * 29, keys="k"), [("a", 1, 1, False)], 0)
    put(upsert(connect=connected, table="x" * 57, keys="k"), [("a", 1, 1, False)], 0)
    assert selected(connected, f"SELECT * FROM {'x' * 57}") == [("a", 1, 1)]


def test_the_search_path_of_the_connection_decides_where_tables_are(postgres, postgres_dsn, connected):
    """A dot in `table` is part of the name; schemas are chosen by the connection, as for every statement."""
    put(upsert(connect=connected, table="a.b", keys="k"), [("a", 1, 1, False)], 0)
    schema = postgres_dsn.rpartition("=")[2].rstrip("'")
    assert selected(postgres.connect(), f'SELECT k FROM {schema}."a.b"') == [("a",)]


def test_text_is_sent_as_utf8_whatever_the_connection_speaks(connected, postgres_dsn):
    latin = partial(psycopg.connect, postgres_dsn, client_encoding="latin1")
    put(upsert(connect=latin, table="t", keys="k"), [("é😀", 1, 1, False)], 0)
    assert selected(connected, "SELECT k FROM t") == [("é😀",)]


def test_nul_characters_are_refused_and_nothing_is_written(connected):
    sink = upsert(connect=connected, table="t", keys="k")
    put(sink, [("a", 1, 1, False)], 0)
    with pytest.raises(ArgumentError, match=r"Column 'k' must not have NUL characters, .*, got 'b\\x00'"):
        put(sink, [("c", 1, 1, False), ("b\0", 1, 1, False)], 1)
    assert selected(connected, "SELECT k FROM t") == [("a",)]
    assert selected(connected, "SELECT batch FROM _sash_batches") == [(0,)]


# --- micro-batches --------------------------------------------------------------------------------


def test_a_repeated_micro_batch_is_merged_again_and_an_older_one_refused(connect):
    """It may have other rows; the greatest revision wins."""
    sink = upsert(connect=connect, table="t", keys="k")
    put(sink, [("a", 1, 1, False)], 3)
    put(sink, [("a", 2, 2, False)], 3)
    put(sink, [("a", 1, 1, False)], 3)
    assert selected(connect, "SELECT v FROM t") == [(2,)]
    with pytest.raises(
        ArgumentError, match="The checkpoint is older than the table 't': the query is at micro-batch 2"
    ):
        put(sink, [("a", 3, 3, False)], 2)
    put(sink, [("a", 4, 4, False)], 4)
    assert selected(connect, "SELECT v FROM t") == [(4,)] and selected(connect, "SELECT batch FROM _sash_batches") == [
        (4,)
    ]


def test_a_tombstone_stays_when_an_older_revision_comes(connect):
    """Also within one micro-batch; a newer revision brings the row back."""
    sink = upsert(connect=connect, table="t", keys="k")
    put(sink, [("a", 1, 1, False), ("b", 1, 5, True), ("b", 1, 4, False)], 0)
    put(sink, [("a", None, 3, True)], 1)
    put(sink, [("a", 2, 2, False), ("b", 1, 3, False)], 2)
    assert selected(connect, "SELECT * FROM t") == []
    put(sink, [("b", 6, 6, False)], 3)
    assert selected(connect, "SELECT * FROM t") == [("b", 6, 6)]
    assert selected(connect, "SELECT k, revision FROM t__rows ORDER BY k") == [("a", 3), ("b", 6)]


def test_writers_that_start_together_wait_for_each_other(connect):
    """Eight queries create one table and write the same rows: none fails, and the greatest revision is there."""
    sink = upsert(connect=connect, table="t", keys="k", shared=True)

    def write(query):
        for batch in range(5):
            revision = batch * 8 + query
            put(sink, [(str(k), query, revision, False) for k in range(50)], batch, f"query {query}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert selected(connect, "SELECT DISTINCT v, revision FROM t") == [(7, 39)]
    assert selected(connect, "SELECT count(*), min(batch) FROM _sash_batches") == [(8, 4)]


# --- a server that refuses ------------------------------------------------------------------------


def test_a_writer_that_does_not_wait_says_who_is_in_the_way(connected, postgres_dsn):
    sink = upsert(connect=connected, table="t", keys="k")
    put(sink, [("a", 1, 1, False)], 0)
    impatient = partial(psycopg.connect, f"{postgres_dsn[:-1]} -c lock_timeout=50'")
    with closing(connected()) as holder:
        holder.execute("SELECT * FROM _sash_tables FOR UPDATE")
        with pytest.raises(
            ConcurrentUseError, match=r"table 't' is being written by another writer \(canceling .*\); stop"
        ):
            put(upsert(connect=impatient, table="t", keys="k"), [("a", 2, 2, False)], 1)
    assert selected(connected, "SELECT v FROM t") == [(1,)]


@pytest.mark.parametrize("moment", ["copy", "commit"])
def test_a_connection_that_is_lost_leaves_the_table_as_it_was(connect, monkeypatch, moment):
    """The server ends it within the transaction; the same micro-batch is then written by the next connection."""
    sink, whole = upsert(connect=connect, table="t", keys="k"), getattr(Transaction, moment)
    put(sink, [("a", 1, 1, False)], 0)

    def lost(transaction, *arguments):
        pid = transaction.rows("SELECT pg_backend_pid()")[0][0]
        selected(connect, f"SELECT pg_terminate_backend({pid}, 10000)")
        whole(transaction, *arguments)

    monkeypatch.setattr(Transaction, moment, lost)
    with pytest.raises(ArgumentError, match=r"table 't' cannot be written: .*terminat"):
        put(sink, [("a", 2, 2, False)], 1)
    monkeypatch.undo()
    assert selected(connect, "SELECT v FROM t") == [(1,)]
    put(sink, [("a", 2, 2, False)], 1)
    assert selected(connect, "SELECT v FROM t") == [(2,)]


def test_a_value_that_the_database_refuses_is_named(connected):
    """A constraint of the user's own, for example."""
    sink = upsert(connect=connected, table="t", keys="k")
    put(sink, [("a", 1, 1, False)], 0)
    with closing(connected()) as connection:
        connection.execute("ALTER TABLE t__rows ADD CONSTRAINT small CHECK (v < 10)")
        connection.commit()
    with pytest.raises(ArgumentError, match=r"table 't' cannot be written: new row .* violates check constraint"):
        put(sink, [("a", 11, 2, False)], 1)


def test_a_user_without_temporary_tables_writes_by_statements(postgres, postgres_dsn, connected):
    """Slower, but with the rights to the tables alone."""
    put(upsert(connect=connected, table="t", keys="k"), [("a", 1, 1, False)], 0)
    schema = postgres_dsn.rpartition("=")[2].rstrip("'")
    with closing(postgres.connect()()) as connection:
        connection.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
        connection.execute(f"CREATE ROLE modest LOGIN; GRANT USAGE ON SCHEMA {schema} TO modest")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO modest")
        connection.commit()
    modest = partial(psycopg.connect, postgres_dsn, user="modest")
    with closing(modest()) as connection:
        assert not Transaction(connection).copies()
    put(upsert(connect=modest, table="t", keys="k"), [("a", 2, 2, False), ("b", 1, 1, False)], 1)
    assert selected(connected, "SELECT k, v FROM t ORDER BY k") == [("a", 2), ("b", 1)]
    with pytest.raises(ArgumentError, match="table 'u' cannot be written: permission denied for schema"):
        put(upsert(connect=modest, table="u", keys="k"), [("a", 1, 1, False)], 0)


@pytest.mark.parametrize("name", DRIVERS)
def test_a_server_that_cannot_be_reached_is_named_in_one_sentence(postgres, name):
    """No server at the port, no such database: what the driver says, on one line."""
    for dsn, said in {
        "host=127.0.0.1 port=1 user=postgres": "Connection refused",
        f"{postgres.dsn} dbname=nowhere": 'database "nowhere" does not exist',
    }.items():
        sink = upsert(connect=partial(DRIVERS[name].connect, dsn), table="t", keys="k")
        with pytest.raises(ArgumentError, match=rf"^The database of connect cannot be written: .*{said}.*\.$") as told:
            put(sink, [("a", 1, 1, False)], 0)
        assert "\n" not in str(told.value)
