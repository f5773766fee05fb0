"""The latest revision of each row in a table of a database, written by the driver through a DB-API connection.

One transaction writes the rows of a micro-batch and its number, so both are stored or neither. The rows, including
tombstones, are in `<table>__rows`, each with its keys as one text, `_sash_identity`, because in a unique index no null
equals another; the view `<table>` shows those that are not deleted. `_sash_tables` has the definition of each table,
and its row there is the lock of a writer; `_sash_batches` has the last micro-batch of each query. Rows come to the
driver in Arrow pieces, one task at a time.
"""

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
from sash.spark.upserts.database_table import BATCHES, DatabaseTable, Stored
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.dialect import Transaction
from sash.spark.upserts.postgres import CopyWriter, refusal
from sash.spark.upserts.rows import IDENTITY, RowsTable, StatementWriter
from sash.spark.upserts.target import (
    Place,
    added_columns,
    is_changed,
    is_repetition,
    require_columns,
    require_late_decided,
    require_own_query,
    without_late,
)

if TYPE_CHECKING:
    import pyarrow as pa

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
            return set(DatabaseTable(transaction, self.table).last()) if transaction.has(BATCHES) else set()

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
            table = DatabaseTable(transaction, self.table)
            existing = table.existing()
            self._begin(transaction)
            try:
                target = self._prepared(table, schema, query, batch_id, existing)
                if not keep:
                    table.clear()
                if target is not None:
                    self._merge(transaction, tables, target)
                    if query is not None:
                        table.note(query, batch_id)
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

    @property
    def _place(self) -> Place:
        """Return the argument that named the table, and its value."""
        return Place("table", self.table) if self.path is None else Place("target", str(self.path))

    # --- the rows ---------------------------------------------------------------------------------

    def _prepared(
        self, table: DatabaseTable, schema: StructType, query: str | None, batch_id: int, existing: set[str]
    ) -> RowsTable | None:
        """Lock the table and let it follow the rows, or create it; return None if it must not have them again.

        A micro-batch that comes again is merged again where that does no harm: it may have other rows, because the
        query was changed after it had written them, or because the checkpoint was set back by one.
        """
        before = table.opened(existing) or table.created(Stored(self.definition, schema))
        last = table.last()
        changed = is_changed(self.definition, before.definition, query in last, self._place)
        added_columns(before.columns, schema, self._place, tells_case=table.transaction.dialect.tells_case)
        writers = [one for one in last if one == query or not changed]
        require_own_query(writers, query, self.definition, self._place, self.shared)
        after = before.after(self.definition, schema)
        harmless = self.definition.revision is not None or list(last) == [query]
        if is_repetition(last, query, batch_id, self._place) and after == before and not harmless:
            return None  # rows that another query has written since would be replaced
        if after != before:
            table.follow(before, after)
        absent = tuple(name for name in after.columns.names if name not in schema.names)
        return RowsTable(table.rows, schema.names, self.definition, absent)

    def _merge(self, transaction: Transaction, tables: "Iterator[pa.Table]", target: RowsTable) -> None:
        writer = CopyWriter(transaction, target) if transaction.copies() else StatementWriter(transaction, target)
        for table in tables:
            writer.add(table)
        writer.finish()


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
