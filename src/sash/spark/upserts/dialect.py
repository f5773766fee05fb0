"""Differences between databases that matter to an upsert: column types, values and parameters.

All of them support `INSERT … ON CONFLICT … DO UPDATE` and transactions that include CREATE TABLE. SQLite has few types:
instants are text in UTC with microseconds, dates and decimals are text, and NaN becomes null. Everywhere else columns
have the types of the SQL standard. Nested values are JSON in both. PostgreSQL also copies rows, which is faster.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, DecimalType

from sash.errors import ArgumentError, KindError, UnsupportedError, shown
from sash.spark.upserts.values import plain_values, typed_values

if TYPE_CHECKING:
    from sash.spark.upserts.values import ArrowColumn

_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_OF_SQLITE = {**dict.fromkeys((*_NUMBERS, "boolean"), "INTEGER"), "float": "REAL", "double": "REAL", "binary": "BLOB"}
_STANDARD = dict(zip(_NUMBERS, ("SMALLINT", "SMALLINT", "INTEGER", "BIGINT"), strict=True))
_STANDARD |= {"boolean": "BOOLEAN", "float": "REAL", "double": "DOUBLE PRECISION", "binary": "BYTEA"}
_STANDARD |= {"date": "DATE", "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP"}

_POSITIONS = {"qmark": "?", "format": "%s", "numeric": ":{}"}
_NAMES = {"named": ":p{}", "pyformat": "%(p{})s"}
STYLES = (*_POSITIONS, *_NAMES)


@dataclass(frozen=True, eq=False)
class Dialect:
    """A kind of database; `begin` is None if a DB-API connection begins transactions implicitly."""

    name: str
    types: dict[str, str]
    begin: str | None
    most_parameters: int  # of one statement
    identity: str = "TEXT"  # the type of identities
    longest_name: int | None = None  # in bytes
    room: str = ""  # what CREATE TABLE says to leave room for revisions
    tells_case: bool = True  # names of columns that differ by case only are different
    replaces_views: bool = False  # by views that have more columns

    def type_of(self, kind: DataType) -> str:
        """Return the SQL type for a Spark type."""
        if isinstance(kind, DecimalType) and self.types is _STANDARD:
            return f"NUMERIC({kind.precision}, {kind.scale})"
        return self.types.get(kind.simpleString(), "TEXT")

    def values(self, column: "ArrowColumn") -> list[Any]:
        """Return the values of an Arrow column as parameters."""
        return plain_values(column) if self.types is _OF_SQLITE else typed_values(column)


# Old SQLites accept 999 parameters, PostgreSQL 65,535. IMMEDIATE, because a transaction that reads first may fail when
# it writes.
_SQLITE = Dialect("SQLite", _OF_SQLITE, "BEGIN IMMEDIATE", 900, tells_case=False)
_DUCKDB = Dialect("DuckDB", _STANDARD, "BEGIN TRANSACTION", 30_000, tells_case=False)
# Identities are compared by their bytes, which is faster than in the order of a language.
# A revision that fits into the page of the row it replaces leaves the index as it is.
_POSTGRES = Dialect(
    "PostgreSQL", _STANDARD, None, 30_000, 'TEXT COLLATE "C"', 63, " WITH (fillfactor = 60)", replaces_views=True
)
_OTHER = Dialect("SQL", _STANDARD, None, 30_000)
_MODULES = {
    _SQLITE: ("sqlite3", "pysqlite3", "sqlcipher3"),
    _DUCKDB: ("duckdb", "_duckdb"),
    _POSTGRES: ("psycopg", "psycopg2"),
}
_BY_MODULE = {module: dialect for dialect, modules in _MODULES.items() for module in modules}
_CREATING = 7_356_431_201  # the advisory lock of writers that create tables


class Transaction:
    """A transaction on a DB-API connection; statements mark their parameters with `marks`."""

    def __init__(self, connection: Any, style: str | None = None) -> None:
        if not all(hasattr(connection, name) for name in ("cursor", "commit", "rollback", "close")):
            raise KindError(f"connect must return a DB-API connection, got {shown(connection)}.", argument="connect")
        modules = list(_modules_of(connection))
        dialects = [_BY_MODULE[root] for root in (name.split(".")[0] for name in modules) if root in _BY_MODULE]
        self.dialect = dialects[0] if dialects else _OTHER
        self._style = style or _style_of(modules)
        self._connection = connection
        # A cursor of DuckDB is another connection, with its own transactions.
        self._cursor = connection if self.dialect is _DUCKDB else connection.cursor()

    def begin(self) -> None:
        """Begin the transaction, also on a connection that does not do so implicitly."""
        if getattr(self._connection, "in_transaction", False):
            return
        if self.dialect is _SQLITE:
            # Without an isolation level Python leaves transactions to the caller, also around CREATE TABLE.
            self._connection.isolation_level = None
        if self.dialect.begin is not None:
            self._cursor.execute(self.dialect.begin)
        elif getattr(self._connection, "autocommit", False):
            try:
                self._connection.autocommit = False
            except Exception as error:
                raise UnsupportedError(
                    "connect must return a connection with autocommit off, got one that commits each statement.",
                    argument="connect",
                ) from error

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Run a statement, with values for its marks."""
        if not values:
            self._cursor.execute(statement)
        elif self._style in _NAMES:
            self._cursor.execute(statement, {f"p{place}": value for place, value in enumerate(values, 1)})
        else:
            self._cursor.execute(statement, list(values))

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query."""
        self.execute(statement, values)
        return list(self._cursor.fetchall())

    def has(self, name: str) -> bool:
        """Return whether a table or view exists, by selecting none of its rows; only before `begin`."""
        try:
            self._cursor.execute(f"SELECT 1 FROM {quoted(name)} WHERE 1 = 0")
            self._cursor.fetchall()
        except Exception:
            return False
        finally:
            self.rollback()
        return True

    def copies(self) -> bool:
        """Return whether rows can be copied: by the drivers of PostgreSQL, where temporary tables are allowed."""
        # CockroachDB has temporary tables only as an experiment.
        if not self._is_postgres():
            return False
        return bool(self.rows("SELECT has_database_privilege(current_database(), 'TEMP')")[0][0])

    def copy(self, statement: str, data: memoryview) -> None:
        """Run a COPY of PostgreSQL that reads data."""
        if hasattr(self._cursor, "copy"):
            with self._cursor.copy(statement) as copy:
                copy.write(data)
        else:  # psycopg 2
            self._cursor.copy_expert(statement, BytesIO(data))

    def lock_creation(self) -> None:
        """Wait for others that create tables: in PostgreSQL even `CREATE TABLE IF NOT EXISTS` fails beside another."""
        if self.dialect is _POSTGRES:
            self.execute(f"SELECT pg_advisory_xact_lock({_CREATING})")

    def lock_readers(self, view: str) -> None:
        """Wait for the readers of a view: in PostgreSQL they lock it before its table, so a writer must too."""
        if self._is_postgres():
            self.execute(f"LOCK TABLE {quoted(view)} IN ACCESS EXCLUSIVE MODE")

    def _is_postgres(self) -> bool:
        """Return whether the database is PostgreSQL, and not CockroachDB, which speaks its protocol."""
        return self.dialect is _POSTGRES and not self._connection.info.parameter_status("crdb_version")

    def commit(self) -> None:
        """Commit the transaction."""
        self._connection.commit()

    def rollback(self) -> None:
        """Roll the transaction back; ignore errors, because there may be nothing to undo."""
        with suppress(Exception):
            self._connection.rollback()

    def marks(self, count: int, rows: int = 1) -> str:
        """Return marks for the parameters of some rows of values, each row in parentheses."""
        mark = (_POSITIONS | _NAMES)[self._style]
        places = iter(range(1, count * rows + 1))
        lists = (", ".join(mark.format(next(places)) for _ in range(count)) for _ in range(rows))
        return ", ".join(f"({listed})" for listed in lists)

    def named(self, name: str) -> str:
        """Return a quoted name for a statement with marks, with percent signs escaped where they start a mark."""
        return quoted(name).replace("%", "%%") if "%" in (_POSITIONS | _NAMES)[self._style] else quoted(name)


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def checked_style(style: Any) -> str | None:
    """Return a paramstyle of the DB-API or None, or raise ArgumentError."""
    if style is not None and style not in STYLES:
        raise ArgumentError(
            f"paramstyle must be one of {', '.join(STYLES)}, got {shown(style)}.", argument="paramstyle"
        )
    return None if style is None else str(style)


def _modules_of(connection: Any) -> Iterator[str]:
    """Yield the modules of a connection's classes and the packages around them, the nearest first."""
    for cls in type(connection).__mro__:
        name = cls.__module__
        while name:
            yield name
            name = name.rpartition(".")[0]


def _style_of(modules: list[str]) -> str:
    for name in modules:
        style = getattr(sys.modules.get(name), "paramstyle", None)
        if style in STYLES:
            return str(style)
    raise ArgumentError(
        f"paramstyle must be one of {', '.join(STYLES)}, because the module {modules[0]} of the connection has none.",
        argument="paramstyle",
    )
