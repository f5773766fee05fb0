"""What databases differ in, as far as an upsert needs it: types of columns, how values and parameters are written.

All of them know `INSERT … ON CONFLICT … DO UPDATE` and transactions that hold CREATE TABLE too. SQLite has few types:
there instants are text in UTC with microseconds, dates and decimals text, and NaN becomes null. Everywhere else columns
have the types of the SQL standard. Nested values are JSON in both.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import DataType, DecimalType

from sash.errors import ArgumentError, KindError, UnsupportedError, shown
from sash.inputs.arrow import pyarrow

_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_OF_SQLITE = {**dict.fromkeys((*_NUMBERS, "boolean"), "INTEGER"), "float": "REAL", "double": "REAL", "binary": "BLOB"}
_STANDARD = dict(zip(_NUMBERS, ("SMALLINT", "SMALLINT", "INTEGER", "BIGINT"), strict=True))
_STANDARD |= {"boolean": "BOOLEAN", "float": "REAL", "double": "DOUBLE PRECISION", "binary": "BYTEA"}
_STANDARD |= {"date": "DATE", "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP"}

_POSITIONS = {"qmark": "?", "format": "%s", "numeric": ":{}"}
_NAMES = {"named": ":p{}", "pyformat": "%(p{})s"}
STYLES = (*_POSITIONS, *_NAMES)


@dataclass(frozen=True)
class Dialect:
    """One kind of database; `begin` is None where a DB-API connection begins transactions by itself."""

    name: str
    types: dict[str, str]
    begin: str | None
    most_parameters: int  # of one statement

    def type_of(self, kind: DataType) -> str:
        """Give the type of a column of Spark's."""
        if isinstance(kind, DecimalType) and self.types is _STANDARD:
            return f"NUMERIC({kind.precision}, {kind.scale})"
        return self.types.get(kind.simpleString(), "TEXT")

    def values(self, column: Any) -> list[Any]:
        """Give an Arrow column's values as the database takes them."""
        return plain(column) if self.types is _OF_SQLITE else typed(column)


# Old SQLites take 999 parameters, PostgreSQL 65,535. IMMEDIATE: who reads first and writes then may have to give up.
_SQLITE = Dialect("SQLite", _OF_SQLITE, "BEGIN IMMEDIATE", 900)
_DUCKDB = Dialect("DuckDB", _STANDARD, "BEGIN TRANSACTION", 30_000)
_OTHER = Dialect("SQL", _STANDARD, None, 30_000)
_BY_MODULE = dict.fromkeys(("sqlite3", "pysqlite3", "sqlcipher3"), _SQLITE) | dict.fromkeys(
    ("duckdb", "_duckdb"), _DUCKDB
)


class Transaction:
    """A transaction that has begun on a DB-API connection; statements mark their parameters with `marks`."""

    def __init__(self, connection: Any, style: str | None = None) -> None:
        if not all(hasattr(connection, name) for name in ("cursor", "commit", "rollback", "close")):
            raise KindError(f"connect: it gave {shown(connection)}, which is no DB-API connection; give one.")
        modules = list(_modules_of(connection))
        known = [_BY_MODULE[root] for root in (name.split(".")[0] for name in modules) if root in _BY_MODULE]
        self.dialect = known[0] if known else _OTHER
        self._style = style or _style_of(modules)
        self._connection = connection
        # A cursor of DuckDB's is another connection, with transactions of its own.
        self._cursor = connection if self.dialect is _DUCKDB else connection.cursor()

    def begin(self) -> None:
        """Begin, whatever the connection does by itself."""
        if getattr(self._connection, "in_transaction", False):
            return
        if self.dialect is _SQLITE:
            # Without an isolation level Python leaves transactions to us, those around CREATE TABLE too.
            self._connection.isolation_level = None
        if self.dialect.begin is not None:
            self._cursor.execute(self.dialect.begin)
        elif getattr(self._connection, "autocommit", False):
            try:
                self._connection.autocommit = False
            except Exception as error:
                raise UnsupportedError(
                    "connect: its connection commits each statement by itself; give one with autocommit off."
                ) from error

    def execute(self, statement: str, values: Any = ()) -> None:
        """Run a statement; with values, in which marks stand for them."""
        if not values:
            self._cursor.execute(statement)
        elif self._style in _NAMES:
            self._cursor.execute(statement, {f"p{place}": value for place, value in enumerate(values, 1)})
        else:
            self._cursor.execute(statement, list(values))

    def rows(self, statement: str, values: Any = ()) -> list[Any]:
        """Give all rows of a query."""
        self.execute(statement, values)
        return list(self._cursor.fetchall())

    def has(self, name: str) -> bool:
        """Say whether there is such a table or view, by asking for none of its rows; outside of `begin` only."""
        try:
            self._cursor.execute(f"SELECT 1 FROM {quoted(name)} WHERE 1 = 0")
            self._cursor.fetchall()
        except Exception:
            return False
        finally:
            self.rollback()
        return True

    def commit(self) -> None:
        """Make it last."""
        self._connection.commit()

    def rollback(self) -> None:
        """Leave everything as it was; that there is nothing to undo is no error."""
        with suppress(Exception):
            self._connection.rollback()

    def marks(self, count: int, rows: int = 1) -> str:
        """Give marks for the parameters of some rows of values, each row in parentheses."""
        mark = (_POSITIONS | _NAMES)[self._style]
        places = iter(range(1, count * rows + 1))
        lists = (", ".join(mark.format(next(places)) for _ in range(count)) for _ in range(rows))
        return ", ".join(f"({listed})" for listed in lists)

    def named(self, name: str) -> str:
        """Give a name for a statement with marks, in which a percent sign may be one of them."""
        return quoted(name).replace("%", "%%") if "%" in (_POSITIONS | _NAMES)[self._style] else quoted(name)


def quoted(name: str) -> str:
    """Give a name as SQL has it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def checked_style(style: Any) -> str | None:
    """Give a paramstyle of the DB-API, or refuse another."""
    if style is not None and style not in STYLES:
        raise ArgumentError(f"paramstyle: {shown(style)} is not known; give one of {', '.join(STYLES)}.")
    return None if style is None else str(style)


def _modules_of(connection: Any) -> Iterator[str]:
    """Give the modules of a connection's classes and the packages around them, the nearest first."""
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
        f"paramstyle: the module {modules[0]} of the connection has none; give one of {', '.join(STYLES)}."
    )


def plain(column: Any) -> list[Any]:
    """Give an Arrow column's values as numbers, text and bytes."""
    import pyarrow.compute as pc

    pa, kind = pyarrow(), column.type
    if pa.types.is_timestamp(kind):
        wanted = pa.timestamp("us", tz="UTC" if kind.tz else None)
        return list(pc.strftime(column.cast(wanted), "%Y-%m-%d %H:%M:%S").to_pylist())
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return list(column.cast(pa.string()).to_pylist())
    return typed(column)


def typed(column: Any) -> list[Any]:
    """Give an Arrow column's values as Python has them, those that SQL has not as text."""
    pa, values = pyarrow(), list(column.to_pylist())
    if pa.types.is_nested(column.type):
        return [None if value is None else json.dumps(value, default=str) for value in values]
    if pa.types.is_duration(column.type):
        return [None if value is None else str(value) for value in values]
    return values


def identities(columns: list[Any]) -> list[str]:
    """Give each row's keys as one text, in which a null is a value too: to a unique index no null equals another."""
    rows = zip(*[plain(column) for column in columns], strict=True)
    return [_short(json.dumps(row, separators=(",", ":"), default=bytes.hex)) for row in rows]


def _short(text: str) -> str:
    """Give a text that every database can have in an index: PostgreSQL takes 2,700 bytes."""
    return text if len(text) <= 1000 else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
