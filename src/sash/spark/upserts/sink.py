"""The latest revision of each row: a sink for `writeStream.foreachBatch`, and functions that read its target.

The identity of a row is its keys: those of the aggregation and the columns of the anchor, including nulls. The greatest
revision of an identity is kept. One with `deleted` is kept as a tombstone, which readers skip: an older revision that
comes later cannot bring the row back. Tombstones are kept forever, as the rows of the table are.

A micro-batch is written once. Spark repeats the last one after a failure; the manifest has the id of its query and its
number, so the repetition is skipped. A smaller number means that the checkpoint is older than the target, and raises an
error: nothing is written. Where Spark does not report the id (Spark Connect, calls outside a stream), neither is
noticed, and a repetition gives the same rows, because the greatest revision wins again.
"""

import os
import re
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sash.durations import nanoseconds
from sash.errors import ArgumentError, KindError, UnsupportedError, shown
from sash.inputs.arrow import pyarrow
from sash.locations import local_path
from sash.spark.columns import column
from sash.spark.upserts import manifest as manifests
from sash.spark.upserts.database import DatabaseUpsert, SqliteFile
from sash.spark.upserts.dialect import checked_style
from sash.spark.upserts.manifest import Definition, Manifest
from sash.spark.upserts.parquet import ParquetUpsert, rows_of
from sash.times import is_integer

if TYPE_CHECKING:
    import pyarrow as pa

_BUCKETS = 16
_SQLITE = (".db", ".sqlite", ".sqlite3")
_DATABASE = re.compile(r"(jdbc|postgres|postgresql|cockroachdb|duckdb|sqlite)[a-z0-9+]*:")


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
    late: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `writeStream.foreachBatch` that keeps the latest revision of each row in a target.

    `target` is a directory on a file system that the driver and all executors share, for a Parquet dataset, or an
    SQLite file on the driver (ending in .db, .sqlite or .sqlite3, with `table`). Any other database that supports
    `INSERT … ON CONFLICT … DO UPDATE`, such as PostgreSQL, CockroachDB or DuckDB, is written through `connect`, which
    returns a DB-API connection on the driver for each micro-batch, and `table`; `paramstyle` defaults to that of its
    module. `keys` names all columns that identify a row, such as card, ts and id, or card and window_end. Without
    `revision` the last row wins.

    A micro-batch rewrites only the parts of the dataset that it touches: `buckets` (default 16) of the identity's hash,
    or rows with equal `partition_by` columns, which must be among the keys. Replaced files are removed `keep`
    generations later. One writer works at a time; others `wait` (default 1 minute; with `connect` the database
    decides). A query with a new checkpoint restarts its revisions, so a target that another query wrote raises an
    error, unless `shared` declares that their revisions belong together.

    Late rows, which `rolling` emits with `late="emit"`, have no results, and would replace those of an earlier row.
    `late="drop"` leaves them out, and their column; `"keep"` is for a column `late` of another meaning.
    """
    definition, style = _definition(keys, revision, deleted, partition_by, buckets), checked_style(paramstyle)
    _require_choices(keep, late)
    if connect is not None:
        _require_connect(connect, target, wait)
        name = _table_name(table, "the database", partition_by, buckets)
        return DatabaseUpsert(connect, None, name, definition, style, shared, late)
    _require_omitted("paramstyle", style, "without connect")
    seconds, path = nanoseconds("1 minute" if wait is None else wait, "wait") / 1e9, _path_of(target)
    if path.suffix.lower() in _SQLITE:
        name = _table_name(table, shown(path), partition_by, buckets)
        return DatabaseUpsert(SqliteFile(path, seconds), path, name, definition, None, shared, late)
    _require_omitted("table", table, "without connect or an SQLite target such as results.sqlite")
    return ParquetUpsert(path, definition, buckets is not None, keep, seconds, shared, late)


def read_upserted(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """Return an upserted dataset as a DataFrame: the latest revision of each row, without deleted ones."""
    manifest = _manifest(path)
    rows = rows_of(spark, _path_of(path), manifest, manifest.files)
    flag = manifest.definition.deleted
    return rows if flag is None else rows.filter(~F.coalesce(column(flag), F.lit(False))).drop(flag)


def upserted_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the live files of an upserted dataset; they include tombstones, the rows whose `deleted` is true."""
    return [str(_path_of(path) / file.path) for file in _manifest(path).files]


def upserted_table(path: str | os.PathLike[str]) -> "pa.Table":
    """Return an upserted dataset as an Arrow table, without Spark."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    manifest = _manifest(path)
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
                f"partition_by must be among the keys, or rows could change partition, got {shown(name)}.",
                argument="partition_by",
                column=name,
            )
    if buckets is not None and (not is_integer(buckets) or not 1 <= buckets <= 10**6):
        raise ArgumentError(f"buckets must be an integer from 1 to 1000000, got {shown(buckets)}.", argument="buckets")
    return Definition(names, revision, deleted, parts, buckets or (1 if parts else _BUCKETS))


def _require_choices(keep: Any, late: Any) -> None:
    if not is_integer(keep) or keep < 1:
        raise ArgumentError(f"keep must be an integer of at least 1, got {shown(keep)}.", argument="keep")
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


def _table_name(table: Any, where: str, partition_by: Any, buckets: Any) -> str:
    if not table or not isinstance(table, str):
        raise ArgumentError(f"table must be the name of the table in {where}, got {shown(table)}.", argument="table")
    _require_omitted("partition_by", partition_by, "for a database")
    _require_omitted("buckets", buckets, "for a database")
    return table


def _names(names: Any, argument: str) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) or not hasattr(names, "__iter__") else tuple(names)
    if not listed or not all(isinstance(name, str) for name in listed) or len(set(listed)) < len(listed):
        raise ArgumentError(f"{argument} must be distinct column names, got {shown(names)}.", argument=argument)
    return listed


def _path_of(target: Any) -> Path:
    if not isinstance(target, (str, os.PathLike)):
        raise KindError(
            f"target must be a directory or an SQLite file such as results.sqlite, got {shown(target)}.",
            argument="target",
        )
    text = os.fspath(target)
    if isinstance(text, str) and _DATABASE.match(text):
        raise UnsupportedError(
            f"target must be a path, got {shown(text)}; for a database pass connect=, a function that returns a DB-API "
            "connection, and table=.",
            argument="target",
        )
    return local_path(
        target,
        "target",
        "an SQLite file on the driver, or a directory on a mounted file system that the driver and executors share",
    )


def _manifest(path: str | os.PathLike[str]) -> Manifest:
    manifest = manifests.load(_path_of(path))
    if manifest is None:
        raise ArgumentError(f"path must be the target of an upsert, got {shown(path)}.", argument="path")
    return manifest


def _arrow_schema(schema: StructType) -> "pa.Schema":
    """Return the Arrow schema, with instants in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # The keyword is new in Spark 4.2; before, UTC was the default.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)
