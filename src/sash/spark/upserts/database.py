"""The latest revision of each row in a table of a database, written by the driver through a DB-API connection.

One transaction writes the rows of a micro-batch and its number, so both are stored or neither. The rows, including
tombstones, are in `<table>__rows`, each with its keys as one text, `_sash_identity`, because in a unique index no null
equals another; the view `<table>` shows those that are not deleted. `_sash_tables` has the definition of each table,
and its row there is the lock of a writer; `_sash_batches` has the last micro-batch of each query. Rows come to the
driver in Arrow pieces, one task at a time.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sash.errors import ArgumentError, ConcurrentUseError, SashError, shown
from sash.spark.durable import make_directory
from sash.spark.upserts.collected import collected
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.dialect import Transaction, quoted
from sash.spark.upserts.postgres import CopyWriter, refusal
from sash.spark.upserts.rows import IDENTITY, RowsTable, StatementWriter
from sash.spark.upserts.target import (
    Place,
    is_repetition,
    require_columns,
    require_late_decided,
    require_own_query,
    require_same,
    require_same_columns,
    without_late,
)

if TYPE_CHECKING:
    import pyarrow as pa

_TABLES, _BATCHES, _ROWS = "_sash_tables", "_sash_batches", "__rows"
_MADE = {
    _TABLES: "name TEXT PRIMARY KEY, definition TEXT, columns TEXT",
    _BATCHES: "name TEXT, query TEXT, batch BIGINT, PRIMARY KEY (name, query)",
}
_LOCKED = re.compile("is locked|set lock|obtain lock")


@dataclass(frozen=True)
class DatabaseUpsert:
    """A sink that keeps the latest revisions in a table of a database; `upsert` makes it."""

    connect: Callable[[], Any]
    path: Path | None  # of an SQLite file
    table: str
    definition: Definition
    style: str | None
    shared: bool
    late: str | None

    def check(self, schema: StructType) -> None:
        """Raise for rows that lack a column or have one of an unsupported type, before a query starts."""
        require_columns(self.definition, schema)
        require_late_decided(self.late, schema)
        if IDENTITY in schema.names:
            raise ArgumentError(
                f"The rows must not have a column {IDENTITY}, which upserts reserve; drop it.",
                argument="keys",
                column=IDENTITY,
            )

    def writers(self) -> set[str]:
        """Return the ids of the queries that have written to the table."""
        with closing(self._connect()) as connection:
            transaction = Transaction(connection, self.style)
            return set(self._last(transaction)) if transaction.has(_BATCHES) else set()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Merge a micro-batch into the table, in one transaction."""
        self.check(batch.schema)
        batch = without_late(batch, self.late)
        with collected(batch) as rows:
            tables = (table for table in rows.tables if table.num_rows)
            first = next(tables, None)
            if first is not None:
                self._transact(batch.schema, chain([first], tables), rows.query, batch_id)

    def overwrite(self, rows: DataFrame) -> None:
        """Replace all rows of the table, in one transaction."""
        self.check(rows.schema)
        rows = without_late(rows, self.late)
        with collected(rows) as found:
            self._transact(rows.schema, found.tables, None, 0, keep=False)

    def _transact(
        self, schema: StructType, tables: "Iterator[pa.Table]", query: str | None, batch_id: int, *, keep: bool = True
    ) -> None:
        with closing(self._connect()) as connection:
            transaction = Transaction(connection, self.style)
            existing = {name for name in (*_MADE, self.table, self._rows) if transaction.has(name)}
            self._begin(transaction)
            try:
                self._open(transaction, schema, existing)
                if not keep:
                    transaction.execute(f"DELETE FROM {quoted(self._rows)}")
                    transaction.execute(f"DELETE FROM {_BATCHES} WHERE name = {transaction.marks(1)}", [self.table])
                self._merge(transaction, tables, query, batch_id, schema.names)
                transaction.commit()
            except BaseException as error:
                transaction.rollback()
                if (refused := refusal(error, self.table)) is None:
                    raise
                raise refused from error

    def _connect(self) -> Any:
        try:
            return self.connect()
        except SashError:
            raise
        except Exception as error:
            raise self._access_error(error) from error

    def _begin(self, transaction: Transaction) -> None:
        try:
            transaction.begin()
        except SashError:
            raise
        except Exception as error:
            raise self._access_error(error) from error

    def _access_error(self, error: Exception) -> SashError:
        """Return the error for a database that cannot be written now."""
        reason = " ".join(str(error).split()).rstrip(".")
        argument = "connect" if self.path is None else "target"
        place = "The database of connect" if self.path is None else f"target {shown(self.path)}"
        if not _LOCKED.search(reason):
            return ArgumentError(f"{place} cannot be written: {reason}.", argument=argument)
        longer = "let its connections wait longer" if self.path is None else "pass a longer wait"
        return ConcurrentUseError(
            f"{place} is being written by another writer; stop it, or {longer}.", argument=argument
        )

    # --- the tables -------------------------------------------------------------------------------

    def _open(self, transaction: Transaction, schema: StructType, existing: set[str]) -> None:
        """Lock the table, and create it or check that it has the same definition and columns."""
        if len(existing) < len(_MADE) + 2:
            transaction.lock_creation()
        for name, columns in _MADE.items():
            if name not in existing:  # the user may not have the right to create tables
                transaction.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
        mine = f"WHERE name = {transaction.marks(1)}"
        transaction.execute(f"UPDATE {_TABLES} SET columns = columns {mine}", [self.table])
        found = transaction.rows(f"SELECT definition, columns FROM {_TABLES} {mine}", [self.table])
        if not found:
            self._create(transaction, schema, existing)
            return
        require_same(self.definition, Definition.from_json(found[0][0]), self._place)
        require_same_columns(StructType.fromJson(json.loads(found[0][1])), schema, self._place)

    def _create(self, transaction: Transaction, schema: StructType, existing: set[str]) -> None:
        if existing & {self.table, self._rows}:
            raise ArgumentError(
                f"table must be a new name or the table of an upsert, got {shown(self.table)}, which exists.",
                argument="table",
            )
        rows, view, flag = quoted(self._rows), quoted(self.table), self.definition.deleted
        self._require_short_names(transaction, schema)
        columns = [f"{IDENTITY} {transaction.dialect.identity} PRIMARY KEY"]
        columns += [f"{quoted(field.name)} {transaction.dialect.type_of(field.dataType)}" for field in schema]
        visible = ", ".join(quoted(name) for name in schema.names if name != flag)
        live = "" if flag is None else f" WHERE NOT coalesce({quoted(flag)}, FALSE)"
        room = "" if self.definition.revision is None else transaction.dialect.room
        transaction.execute(f"CREATE TABLE {rows} ({', '.join(columns)}){room}")
        transaction.execute(f"CREATE VIEW {view} AS SELECT {visible} FROM {rows}{live}")
        row = [self.table, self.definition.to_json(), schema.json()]
        transaction.execute(f"INSERT INTO {_TABLES} VALUES {transaction.marks(3)}", row)

    def _require_short_names(self, transaction: Transaction, schema: StructType) -> None:
        """Raise for names that the database would cut off, after which two of them may be equal."""
        longest = transaction.dialect.longest_name
        for name in [self._rows, *schema.names]:
            if longest is not None and len(name.encode()) > longest:
                what = f"table and its suffix {_ROWS}" if name == self._rows else "names of columns"
                raise ArgumentError(
                    f"{what} must have at most {longest} bytes in {transaction.dialect.name}, got {shown(name)}.",
                    argument="table",
                )

    @property
    def _place(self) -> Place:
        """Return the argument that named the table, and its value."""
        return Place("table", self.table) if self.path is None else Place("target", str(self.path))

    @property
    def _rows(self) -> str:
        return f"{self.table}{_ROWS}"

    # --- the rows ---------------------------------------------------------------------------------

    def _merge(
        self,
        transaction: Transaction,
        tables: "Iterator[pa.Table]",
        query: str | None,
        batch_id: int,
        columns: list[str],
    ) -> None:
        last = self._last(transaction)
        require_own_query(last, query, self.definition, self._place, self.shared)
        if is_repetition(last, query, batch_id, self._place):
            return
        target = RowsTable(self._rows, columns, self.definition)
        writer = CopyWriter(transaction, target) if transaction.copies() else StatementWriter(transaction, target)
        for table in tables:
            writer.add(table)
        writer.finish()
        if query is not None:
            transaction.execute(
                f"INSERT INTO {_BATCHES} VALUES {transaction.marks(3)} "
                "ON CONFLICT (name, query) DO UPDATE SET batch = excluded.batch",
                [self.table, query, batch_id],
            )

    def _last(self, transaction: Transaction) -> dict[str, int]:
        """Return the last micro-batch of each query that has written to the table."""
        mine = f"WHERE name = {transaction.marks(1)}"
        return dict(transaction.rows(f"SELECT query, batch FROM {_BATCHES} {mine}", [self.table]))


@dataclass(frozen=True)
class SqliteFile:
    """Opens connections to an SQLite file; a class, so that it can be pickled for a Spark Connect server."""

    path: Path
    wait_seconds: float

    def __call__(self) -> Any:
        """Return a connection, which waits for other writers."""
        import sqlite3

        make_directory(self.path.parent)
        return sqlite3.connect(self.path, timeout=self.wait_seconds)
