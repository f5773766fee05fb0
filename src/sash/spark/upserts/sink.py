"""Keeping the latest revision of each row: a sink for `writeStream.foreachBatch`, and how to read what it kept.

A row's identity is its keys: those of the aggregation and the anchor's columns, nulls among them. Of all revisions of
an identity the greatest stays, and one that says `deleted` stays as a tombstone that readers leave out: an older
revision that comes later cannot bring the row back. Tombstones stay for ever, as the rows of the table do.

A micro-batch is written once. Spark repeats the last one after a failure; its query's id and number stand in the
manifest, so it is known, and where Spark does not tell the id (Spark Connect, calls outside a stream) the repetition
gives the same rows, because the greatest revision wins again.
"""

import os
import re
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sash.durations import nanoseconds
from sash.errors import ArgumentError, KindError, UnsupportedError, shown
from sash.inputs.arrow import pyarrow
from sash.spark.columns import column
from sash.spark.upserts import manifest as manifests
from sash.spark.upserts.database import DatabaseUpsert, SqliteFile
from sash.spark.upserts.dialect import checked_style
from sash.spark.upserts.manifest import Definition, Manifest
from sash.spark.upserts.parquet import ParquetUpsert, rows_of
from sash.times import is_integer

_BUCKETS = 16
_SQLITE = (".db", ".sqlite", ".sqlite3")
_DATABASE = re.compile(r"(jdbc|postgres|postgresql|cockroachdb|duckdb|sqlite)[a-z0-9+]*:")
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def upsert(
    target: str | os.PathLike[str] | None = None,
    *,
    keys: Sequence[str],
    revision: str | None = "revision",
    deleted: str | None = "deleted",
    partition_by: Sequence[str] | None = None,
    buckets: int | None = None,
    table: str | None = None,
    connect: Callable[[], Any] | None = None,
    paramstyle: str | None = None,
    keep: int = 10,
    wait: Any = None,
    shared: bool = False,
) -> Callable[[DataFrame, int], None]:
    """Give a function for `writeStream.foreachBatch` that keeps the latest revision of each row in a target.

    `target` is a directory on a file system that the driver and all executors share, for a Parquet dataset, or an
    SQLite file on the driver (ending in .db, .sqlite or .sqlite3, with `table`). Any other database that knows
    `INSERT … ON CONFLICT … DO UPDATE`, such as PostgreSQL, CockroachDB or DuckDB, is written through `connect`, which
    gives the driver a DB-API connection for each micro-batch, and `table`; `paramstyle` is its module's unless given.
    `keys` names all columns that identify a row, such as card, ts and id, or card and window_end. Without `revision`
    the row that comes last wins.

    A micro-batch rewrites only the parts of the dataset that it touches: `buckets` of the identity's hash (16, where
    nothing is said), or rows with equal `partition_by` columns, which must be among the keys. Replaced files are
    removed `keep` generations later. One writer works at a time, others `wait` (1 minute; a database says itself how
    long). A query with a new checkpoint counts its revisions anew and is refused a target that another one wrote,
    unless `shared` says that they go together.
    """
    definition, style = _definition(keys, revision, deleted, partition_by, buckets), checked_style(paramstyle)
    if not is_integer(keep) or keep < 1:
        raise ArgumentError(f"keep: {shown(keep)} is out of range; give a whole number of at least 1.")
    if connect is not None:
        _require_connect(connect, target, wait)
        made = DatabaseUpsert(connect, None, _table(table, "the database"), definition, style, shared)
        _refuse_parts(partition_by, buckets)
        return made
    if style is not None:
        raise ArgumentError(f"paramstyle: {shown(style)} needs connect; leave it out.")
    seconds, path = nanoseconds("1 minute" if wait is None else wait, "wait") / 1e9, _path_of(target)
    if path.suffix.lower() not in _SQLITE:
        if table is not None:
            raise ArgumentError(
                f"table: {shown(table)} needs connect, or an SQLite target such as results.sqlite; leave it out."
            )
        return ParquetUpsert(path, definition, buckets is not None, keep, seconds, shared)
    _refuse_parts(partition_by, buckets)
    name = _table(table, shown(path))
    return DatabaseUpsert(SqliteFile(path, seconds), path, name, definition, None, shared)


def read_upserted(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """Give the rows of an upserted dataset as a DataFrame: the latest revision of each, the deleted left out."""
    manifest = _present(path)
    rows = rows_of(spark, _path_of(path), manifest, manifest.files)
    flag = manifest.definition.deleted
    return rows if flag is None else rows.filter(~F.coalesce(column(flag), F.lit(False))).drop(flag)


def upserted_files(path: str | os.PathLike[str]) -> list[str]:
    """Give the live files of an upserted dataset; they hold the tombstones too, as rows whose `deleted` is true."""
    return [str(_path_of(path) / file.path) for file in _present(path).files]


def upserted_table(path: str | os.PathLike[str]) -> Any:
    """Give the rows of an upserted dataset as an Arrow table, without Spark."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    manifest = _present(path)
    schema = _arrow_schema(StructType.fromJson(manifest.schema))
    tables = [pq.ParquetFile(file).read().cast(schema) for file in upserted_files(path)]
    rows = pyarrow().concat_tables([schema.empty_table(), *tables])
    flag = manifest.definition.deleted
    return rows if flag is None else rows.filter(pc.invert(rows[flag].fill_null(False))).drop_columns([flag])


def _definition(keys: Any, revision: Any, deleted: Any, partition_by: Any, buckets: Any) -> Definition:
    names = _names(keys, "keys")
    parts = () if partition_by is None else _names(partition_by, "partition_by")
    for name in parts:
        if name not in names:
            raise ArgumentError(
                f"partition_by: {shown(name)} is not among the keys, so rows could change partition; name it in both."
            )
    if buckets is not None and (not is_integer(buckets) or not 1 <= buckets <= 10**6):
        raise ArgumentError(f"buckets: {shown(buckets)} is out of range; give a whole number from 1 to 1000000.")
    return Definition(names, revision, deleted, parts, buckets or (1 if parts else _BUCKETS))


def _require_connect(connect: Any, target: Any, wait: Any) -> None:
    if not callable(connect):
        raise KindError(f"connect: {shown(connect)} cannot be called; give a function that gives a DB-API connection.")
    if target is not None:
        raise ArgumentError(f"target: {shown(target)} and connect are two places; give one of them.")
    if wait is not None:
        raise ArgumentError(f"wait: {shown(wait)} cannot be had from connect; let its connections wait, leave it out.")


def _table(table: Any, where: str) -> str:
    if not table or not isinstance(table, str):
        raise ArgumentError(
            f"table: {shown(table)} is no name; give that of the table in {where}.",
            argument="table",
        )
    return table


def _refuse_parts(partition_by: Any, buckets: Any) -> None:
    if partition_by is not None or buckets is not None:
        raise ArgumentError("partition_by, buckets: a table of a database has no parts; leave them out.")


def _names(names: Any, argument: str) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) or not hasattr(names, "__iter__") else tuple(names)
    if not listed or not all(isinstance(name, str) for name in listed) or len(set(listed)) < len(listed):
        raise ArgumentError(f"{argument}: {shown(names)} is no list of different columns; give their names.")
    return listed


def _path_of(target: Any) -> Path:
    if not isinstance(target, (str, os.PathLike)):
        raise KindError(
            f"target: {shown(target)} is no path; give a directory, an SQLite file such as results.sqlite, or connect=."
        )
    text = os.fspath(target).removeprefix("file://")
    if _DATABASE.match(text):
        raise UnsupportedError(
            f"target: {shown(text)} is no path, and a database is reached from Python; give connect=, a function that "
            "gives a DB-API connection, and table=."
        )
    if _ELSEWHERE.match(text):
        raise UnsupportedError(
            f"target: {shown(text)} cannot be renamed or committed as a whole from Python; give a directory on a file "
            "system that driver and executors share, an SQLite file such as results.sqlite, or connect=."
        )
    return Path(text).absolute()


def _present(path: str | os.PathLike[str]) -> Manifest:
    manifest = manifests.load(_path_of(path))
    if manifest is None:
        raise ArgumentError(f"path: there is no upserted dataset at {shown(path)}; give the target of an upsert.")
    return manifest


def _arrow_schema(given: StructType) -> Any:
    """Give columns as Arrow has them, instants in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # The keyword is new in Spark 4.2; before, instants were in UTC unless told.
    told: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(given, **told)
