"""The latest revision of each row: a sink for `writeStream.foreachBatch`.

The identity of a row is its keys: those of the aggregation and the columns of the anchor, including nulls. The greatest
revision of an identity is kept, and readers do not see one with `deleted`.

Spark repeats the last micro-batch after a failure, and the target has the id of its query and its number. A repetition
is skipped, or merged again where nothing tells whether it has the same rows: that changes nothing, because the greatest
revision wins again. With other rows, because the checkpoint was set back by one, it is merged, and so are those that
follow. A smaller number means that the checkpoint is older than the target, and raises an error: nothing is written.
Where Spark does not report the id (calls outside a stream), neither is noticed.
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from sash.durations import nanoseconds
from sash.errors import ArgumentError, KindError, UnsupportedError, shown
from sash.locations import local_path, location
from sash.spark.upserts import delta_table
from sash.spark.upserts.database import DatabaseUpsert, SqliteFile
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.delta import DeltaUpsert
from sash.spark.upserts.delta_files import Upkeep
from sash.spark.upserts.dialect import checked_style
from sash.times import is_integer

_SQLITE = (".db", ".sqlite", ".sqlite3")
_DATABASE = re.compile(r"(jdbc|postgres|postgresql|cockroachdb|duckdb|sqlite)[a-z0-9+]*:")


def upsert(
    target: str | os.PathLike[str] | None = None,
    *,
    keys: Sequence[str],
    revision: str | None = "revision",
    deleted: str | None = "deleted",
    partition_by: Sequence[str] | None = None,
    compact: int | None = None,
    retain: Any = "7 days",
    storage_options: dict[str, str] | None = None,
    table: str | None = None,
    connect: Callable[[], Any] | None = None,
    paramstyle: str | None = None,
    wait: Any = None,
    shared: bool = False,
    late: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `writeStream.foreachBatch` that keeps the latest revision of each row in a target.

    `target` is a directory or a URI of an object store, for a Delta table, or an SQLite file on the driver (ending in
    .db, .sqlite or .sqlite3, with `table`). Any other database that supports `INSERT … ON CONFLICT … DO UPDATE`, such
    as PostgreSQL, CockroachDB or DuckDB, is written through `connect`, which returns a DB-API connection on the driver
    for each micro-batch, and `table`; `paramstyle` defaults to that of its module. `keys` names all columns that
    identify a row, such as card, ts and id, or card and window_end. Without `revision` the last row wins.

    A Delta table is written by the driver, in a session with Delta Lake by the executors. Every `compact` commits
    (default 50, 0 for never) its files are put in the order of the first key that holds times, and files that no
    version of the last `retain` needs are removed (None keeps them). `partition_by` columns must be among the keys;
    `storage_options` are those of delta-rs for an object store.

    A query with a new checkpoint restarts its revisions, so a target that another query wrote raises an error, unless
    `shared` declares that their revisions belong together. Writers of an SQLite file `wait` for each other (default 1
    minute). Late rows, which `rolling` emits with `late="emit"`, have no results, and would replace those of an earlier
    row: `late="drop"` leaves them out, and their column; `"keep"` is for a column `late` of another meaning.

    Columns that the target lacks are added; those that the rows lack are null in rows that are written. The query that
    has written to a target may begin or cease to have `revision` and `deleted`.
    """
    definition, style = _definition(keys, revision, deleted, partition_by), checked_style(paramstyle)
    _require_choices(compact, late)
    only_delta = {"partition_by": partition_by, "compact": compact, "storage_options": storage_options}
    if connect is not None:
        _require_connect(connect, target, wait)
        name = _table_name(table, "the database", only_delta)
        return DatabaseUpsert(connect, None, name, definition, style, shared, late)
    _require_omitted("paramstyle", style, "without connect")
    text = _text_of(target)
    if text.lower().endswith(_SQLITE):
        path = local_path(text, "target", "an SQLite file on the driver")
        name = _table_name(table, shown(path), only_delta)
        seconds = nanoseconds("1 minute" if wait is None else wait, "wait") / 1e9
        return DatabaseUpsert(SqliteFile(path, seconds), path, name, definition, None, shared, late)
    _require_omitted("table", table, "without connect or an SQLite target such as results.sqlite")
    _require_omitted("wait", wait, "for a Delta table, whose writers do not wait")
    place = location(text, "target")
    delta_table.uri_of(place)
    delta_table.require_package()
    hours = None if retain is None else nanoseconds(retain, "retain") / 3.6e12
    upkeep = Upkeep(50 if compact is None else compact, hours)
    return DeltaUpsert(place, definition, shared, late, storage_options, upkeep)


def _definition(keys: Any, revision: Any, deleted: Any, partition_by: Any) -> Definition:
    names = _names(keys, "keys")
    parts = () if partition_by is None else _names(partition_by, "partition_by")
    for name in parts:
        if name not in names:
            raise ArgumentError(
                f"partition_by must be among the keys, or rows could change partition, got {shown(name)}.",
                argument="partition_by",
                column=name,
            )
    return Definition(names, revision, deleted, parts)


def _require_choices(compact: Any, late: Any) -> None:
    if compact is not None and (not is_integer(compact) or compact < 0):
        raise ArgumentError(f"compact must be an integer of at least 0, got {shown(compact)}.", argument="compact")
    if late not in (None, "drop", "keep"):
        raise ArgumentError(f"late must be 'drop' or 'keep', got {shown(late)}.", argument="late")


def _require_connect(connect: Any, target: Any, wait: Any) -> None:
    if not callable(connect):
        raise KindError(
            f"connect must be a function that returns a DB-API connection, got {shown(connect)}.", argument="connect"
        )
    _require_omitted("target", target, "with connect")
    _require_omitted("wait", wait, "with connect, whose connections decide how long they wait")


def _require_omitted(name: str, value: Any, when: str) -> None:
    if value is not None:
        raise ArgumentError(f"{name} must be omitted {when}, got {shown(value)}.", argument=name)


def _table_name(table: Any, where: str, only_delta: dict[str, Any]) -> str:
    if not table or not isinstance(table, str):
        raise ArgumentError(f"table must be the name of the table in {where}, got {shown(table)}.", argument="table")
    for name, value in only_delta.items():
        _require_omitted(name, value, "for a database")
    return table


def _names(names: Any, argument: str) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) or not hasattr(names, "__iter__") else tuple(names)
    if not listed or not all(isinstance(name, str) for name in listed) or len(set(listed)) < len(listed):
        raise ArgumentError(f"{argument} must be distinct column names, got {shown(names)}.", argument=argument)
    return listed


def _text_of(target: Any) -> str:
    text = os.fspath(target) if isinstance(target, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise KindError(
            "target must be a directory or URI for a Delta table, or an SQLite file such as results.sqlite, got "
            f"{shown(target)}.",
            argument="target",
        )
    if _DATABASE.match(text):
        raise UnsupportedError(
            f"target must be a path, got {shown(text)}; for a database pass connect=, a function that returns a DB-API "
            "connection, and table=.",
            argument="target",
        )
    return text
