"""The tables of an upsert in a database: how they are created, and how they follow the rows of a query that changes.

All of it is part of the transaction that writes a micro-batch. A flag of deleted rows that a query no longer has stays
in the table, where nobody reads it: its field in `_sash_tables` is hidden from the view.
"""

import json
from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType

from sash.errors import ArgumentError, shown
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.dialect import Transaction, quoted
from sash.spark.upserts.rows import IDENTITY

TABLES, BATCHES, ROWS = "_sash_tables", "_sash_batches", "__rows"
_MADE = {
    TABLES: "name TEXT PRIMARY KEY, definition TEXT, columns TEXT",
    BATCHES: "name TEXT, query TEXT, batch BIGINT, PRIMARY KEY (name, query)",
}
_HIDDEN = "sash.hidden"  # in the metadata of a field


@dataclass(frozen=True)
class Stored:
    """What a table has: the definition of its upsert, and the columns of its rows."""

    definition: Definition
    columns: StructType

    def after(self, definition: Definition, rows: StructType) -> "Stored":
        """Return what the table has when it has followed rows: their new columns come last."""
        unused = [name for name in (self.definition.deleted,) if name is not None and definition.deleted is None]
        kept = [one for one in self.columns if one.name not in unused and _HIDDEN not in one.metadata]
        added = [one for one in rows if one.name not in {other.name for other in kept}]
        hidden = [one for one in self.columns if one not in kept and one.name not in rows.names]
        return Stored(definition, StructType([*kept, *added, *map(_hidden, hidden)]))

    def visible(self) -> list[str]:
        """Return the columns that the view shows."""
        return [one.name for one in self.columns if one.name != self.definition.deleted and _HIDDEN not in one.metadata]


@dataclass(frozen=True)
class DatabaseTable:
    """A table and its view within a transaction."""

    transaction: Transaction
    name: str

    @property
    def rows(self) -> str:
        """The name of the table that has the rows."""
        return f"{self.name}{ROWS}"

    def existing(self) -> set[str]:
        """Return the tables and views that exist; only before the transaction begins."""
        return {name for name in (*_MADE, self.name, self.rows) if self.transaction.has(name)}

    def opened(self, existing: set[str]) -> Stored | None:
        """Lock the table and return what it has, or None if there is none."""
        transaction = self.transaction
        if len(existing) < len(_MADE) + 2:
            transaction.lock_creation()
        for name, columns in _MADE.items():
            if name not in existing:  # the user may not have the right to create tables
                transaction.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
        transaction.execute(f"UPDATE {TABLES} SET columns = columns {self._mine()}", [self.name])
        found = transaction.rows(f"SELECT definition, columns FROM {TABLES} {self._mine()}", [self.name])
        if found:
            return Stored(Definition.from_json(found[0][0]), StructType.fromJson(json.loads(found[0][1])))
        if existing & {self.name, self.rows}:
            raise ArgumentError(
                f"table must be a new name or the table of an upsert, got {shown(self.name)}, which exists.",
                argument="table",
            )
        return None

    def created(self, made: Stored) -> Stored:
        """Create the table and its view, and return what it has."""
        transaction, definition = self.transaction, made.definition
        self._require_short_names([self.rows, *made.columns.names])
        columns = [f"{IDENTITY} {transaction.dialect.identity} PRIMARY KEY", *map(self._declared, made.columns)]
        room = "" if definition.revision is None else transaction.dialect.room
        transaction.execute(f"CREATE TABLE {quoted(self.rows)} ({', '.join(columns)}){room}")
        transaction.execute(f"CREATE VIEW {self._view(made)}")
        self._store(made)
        return made

    def follow(self, before: Stored, after: Stored) -> None:
        """Change the table to the columns and the definition of its rows."""
        transaction, rows = self.transaction, quoted(self.rows)
        added = [one for one in after.columns if one.name not in before.columns.names]
        self._require_short_names([one.name for one in added])
        transaction.lock_readers(self.name)
        for field in added:
            transaction.execute(f"ALTER TABLE {rows} ADD COLUMN {self._declared(field)}")
        if before.definition != after.definition:
            self._begin_again(before, after)
        self._replace_view(before, after)
        self._store(after)

    def last(self) -> dict[str, int]:
        """Return the last micro-batch of each query that has written to the table."""
        return dict(self.transaction.rows(f"SELECT query, batch FROM {BATCHES} {self._mine()}", [self.name]))

    def note(self, query: str, batch_id: int) -> None:
        """Note the last micro-batch of a query."""
        self.transaction.execute(
            f"INSERT INTO {BATCHES} VALUES {self.transaction.marks(3)} "
            "ON CONFLICT (name, query) DO UPDATE SET batch = excluded.batch",
            [self.name, query, batch_id],
        )

    def forget_queries(self) -> None:
        """Remove the queries that have written to the table."""
        self.transaction.execute(f"DELETE FROM {BATCHES} {self._mine()}", [self.name])

    def clear(self) -> None:
        """Remove all rows, and the queries that have written them."""
        self.transaction.execute(f"DELETE FROM {quoted(self.rows)}")
        self.forget_queries()

    def _begin_again(self, before: Stored, after: Stored) -> None:
        """Remove what belonged to other revisions: tombstones that nothing marks any more, and old values."""
        rows, old, new = quoted(self.rows), before.definition, after.definition
        if old.deleted is not None and new.deleted is None:
            self.transaction.execute(f"DELETE FROM {rows} WHERE {quoted(old.deleted)}")
        for was, name in ((old.revision, new.revision), (old.deleted, new.deleted)):
            if was is None and name is not None and name in before.columns.names:
                column = quoted(name)
                self.transaction.execute(f"UPDATE {rows} SET {column} = NULL WHERE {column} IS NOT NULL")
        self.forget_queries()

    def _replace_view(self, before: Stored, after: Stored) -> None:
        """Show the columns of the table, without dropping the view where that can be avoided: it may have readers."""
        old, new = before.visible(), after.visible()
        if self.transaction.dialect.replaces_views and new[: len(old)] == old:
            self.transaction.execute(f"CREATE OR REPLACE VIEW {self._view(after)}")
            return
        self.transaction.execute(f"DROP VIEW {quoted(self.name)}")
        self.transaction.execute(f"CREATE VIEW {self._view(after)}")

    def _store(self, stored: Stored) -> None:
        self.transaction.execute(
            f"INSERT INTO {TABLES} VALUES {self.transaction.marks(3)} "
            "ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, columns = excluded.columns",
            [self.name, stored.definition.to_json(), stored.columns.json()],
        )

    def _view(self, stored: Stored) -> str:
        """Return the view of the rows that are not deleted, as SQL declares it."""
        flag, visible = stored.definition.deleted, ", ".join(map(quoted, stored.visible()))
        live = "" if flag is None else f" WHERE NOT coalesce({quoted(flag)}, FALSE)"
        return f"{quoted(self.name)} AS SELECT {visible} FROM {quoted(self.rows)}{live}"

    def _declared(self, field: StructField) -> str:
        """Return a column as SQL declares it."""
        return f"{quoted(field.name)} {self.transaction.dialect.type_of(field.dataType)}"

    def _mine(self) -> str:
        return f"WHERE name = {self.transaction.marks(1)}"

    def _require_short_names(self, names: list[str]) -> None:
        """Raise for names that the database would cut off, after which two of them may be equal."""
        longest = self.transaction.dialect.longest_name
        for name in names:
            if longest is not None and len(name.encode()) > longest:
                what = f"table and its suffix {ROWS}" if name == self.rows else "names of columns"
                raise ArgumentError(
                    f"{what} must have at most {longest} bytes in {self.transaction.dialect.name}, got {shown(name)}.",
                    argument="table",
                )


def _hidden(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, _HIDDEN: True})
