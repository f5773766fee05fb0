"""The latest revision of each row in an SQLite table, written by the driver.

One transaction holds a micro-batch's rows and its number, so both are there or neither. The rows, tombstones among
them, live in `<table>__rows`; the view `<table>` shows those that are not deleted. Rows come to the driver in Arrow
pieces, one task's at a time. Instants are text in UTC with microseconds, dates and decimals text, nested values JSON;
SQLite turns NaN into null.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sash.errors import ArgumentError, ConcurrentUseError, shown
from sash.spark.manifest import Definition
from sash.spark.targets import (
    numbered,
    query_id,
    require_columns,
    require_own_query,
    require_same,
    require_same_columns,
)
from sash.tables import arrow

_TYPES = {"tinyint": "INTEGER", "smallint": "INTEGER", "int": "INTEGER", "bigint": "INTEGER", "boolean": "INTEGER"}
_TYPES |= {"float": "REAL", "double": "REAL", "binary": "BLOB"}


@dataclass(frozen=True)
class SqliteUpsert:
    """A sink that keeps the latest revisions in an SQLite table; `upsert` makes it."""

    path: Path
    table: str
    definition: Definition
    wait_seconds: float
    shared: bool

    def check(self, schema: StructType) -> None:
        """Refuse rows that lack a column or have one of a type that cannot be used, before a query starts."""
        require_columns(self.definition, schema)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Merge a micro-batch into the table, in one transaction."""
        self.check(batch.schema)
        pieces = numbered(batch).mapInArrow(_pieces, "query string, piece binary").persist()
        try:
            # This runs the whole micro-batch, also one that turns out to be known: state that it commits is needed
            # by the next, and only a job over all rows commits it.
            told = pieces.select("query").collect()
            if told:
                self._transact(batch.schema, pieces, told[0].query, batch_id)
        finally:
            pieces.unpersist()

    def _transact(self, schema: StructType, pieces: DataFrame, query: str | None, batch_id: int) -> None:
        with closing(self._connected()) as database:
            try:
                self._open(database, schema)
                self._merge(database, pieces, query, batch_id, schema.names)
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def _connected(self) -> sqlite3.Connection:
        """Give a connection on which a transaction has begun; no other can write meanwhile."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Without an isolation level Python leaves transactions to us, those around CREATE TABLE too.
            database = sqlite3.connect(self.path, timeout=self.wait_seconds, isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, OSError) as error:
            if "locked" in str(error):
                raise ConcurrentUseError(
                    f"target: {shown(str(self.path))} is being written by another; stop it, or give a longer wait."
                ) from error
            raise ArgumentError(f"target: {shown(str(self.path))} cannot be written: {error}.") from error
        return database

    def _open(self, database: sqlite3.Connection, schema: StructType) -> None:
        """Make the table, or see that it is the one that was made."""
        database.execute(
            "CREATE TABLE IF NOT EXISTS _sash_tables (name TEXT PRIMARY KEY, definition TEXT, columns TEXT)"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS _sash_batches (name TEXT, query TEXT, batch INTEGER, PRIMARY KEY (name, query))"
        )
        found = database.execute("SELECT definition, columns FROM _sash_tables WHERE name = ?", [self.table]).fetchone()
        if found is None:
            self._create(database, schema)
            return
        made = json.loads(found[0])
        lists = {name: tuple(made[name]) for name in ("keys", "partition_by")}
        require_same(self.definition, Definition(**{**made, **lists}), str(self.path))
        require_same_columns(StructType.fromJson(json.loads(found[1])), schema, str(self.path))

    def _create(self, database: sqlite3.Connection, schema: StructType) -> None:
        taken = database.execute(
            "SELECT 1 FROM sqlite_master WHERE name IN (?, ?)", [self.table, self._rows]
        ).fetchone()
        if taken:
            raise ArgumentError(
                f"table: {shown(self.table)} exists in {shown(str(self.path))} and is no upsert's; give another name."
            )
        columns = ", ".join(
            f"{_quoted(field.name)} {_TYPES.get(field.dataType.simpleString(), 'TEXT')}" for field in schema
        )
        rows, view = _quoted(self._rows), _quoted(self.table)
        flag = self.definition.deleted
        shown_columns = ", ".join(_quoted(name) for name in schema.names if name != flag)
        live = "1" if flag is None else f"coalesce({_quoted(flag)}, 0) = 0"
        database.execute(f"CREATE TABLE {rows} ({columns})")
        database.execute(f"CREATE UNIQUE INDEX {_quoted(self._rows + '_identity')} ON {rows} ({self._identity})")
        database.execute(f"CREATE VIEW {view} AS SELECT {shown_columns} FROM {rows} WHERE {live}")
        told = [self.table, json.dumps(asdict(self.definition)), schema.json()]
        database.execute("INSERT INTO _sash_tables VALUES (?, ?, ?)", told)

    @property
    def _rows(self) -> str:
        return f"{self.table}__rows"

    @property
    def _identity(self) -> str:
        """Give the keys as SQLite can hold them unique: to it no null equals another, so whether it is null counts."""
        return ", ".join(f"coalesce({_quoted(key)}, 0), {_quoted(key)} IS NULL" for key in self.definition.keys)

    def _merge(
        self, database: sqlite3.Connection, pieces: DataFrame, query: str | None, batch_id: int, columns: list[str]
    ) -> None:
        last = dict(database.execute("SELECT query, batch FROM _sash_batches WHERE name = ?", [self.table]).fetchall())
        require_own_query(last, query, self.definition, str(self.path), self.shared)
        if query is not None and last.get(query, -1) >= batch_id:
            return
        statement = self._statement(columns)
        for row in pieces.select("piece").toLocalIterator():
            database.executemany(statement, _values(arrow().ipc.open_stream(row.piece).read_all()))
        if query is not None:
            database.execute("INSERT OR REPLACE INTO _sash_batches VALUES (?, ?, ?)", [self.table, query, batch_id])

    def _statement(self, columns: list[str]) -> str:
        names = [_quoted(name) for name in columns]
        newer = "1"
        if self.definition.revision is not None:
            revision, least = _quoted(self.definition.revision), -(2**63)
            newer = f"coalesce(excluded.{revision}, {least}) >= coalesce({_quoted(self._rows)}.{revision}, {least})"
        return (
            f"INSERT INTO {_quoted(self._rows)} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
            f"ON CONFLICT ({self._identity}) DO UPDATE SET "
            f"{', '.join(f'{name} = excluded.{name}' for name in names)} WHERE {newer}"
        )


def _pieces(batches: Iterator[Any]) -> Iterator[Any]:
    """Give each Arrow batch as bytes in one row, so that rows reach the driver without becoming objects on the way."""
    pa, query = arrow(), query_id()
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        piece = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_pydict({"query": pa.array([query], pa.string()), "piece": piece})


def _values(table: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*[_plain(column) for column in table.columns], strict=True)


def _plain(column: Any) -> list[Any]:
    """Give a column's values as SQLite holds them."""
    import pyarrow.compute as pc

    pa, kind = arrow(), column.type
    if pa.types.is_timestamp(kind):
        wanted = pa.timestamp("us", tz="UTC" if kind.tz else None)
        return list(pc.strftime(column.cast(wanted), "%Y-%m-%d %H:%M:%S").to_pylist())
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return list(column.cast(pa.string()).to_pylist())
    values = list(column.to_pylist())
    if pa.types.is_nested(kind):
        return [None if value is None else json.dumps(value, default=str) for value in values]
    return values


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
