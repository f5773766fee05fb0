"""Readers of an upsert's Delta table, without Delta support in Spark."""

import os
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from sash.errors import ArgumentError, shown
from sash.locations import location
from sash.spark.columns import column
from sash.spark.schema import utc_schema
from sash.spark.upserts import delta_spark, delta_table

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


def read_upserted(
    spark: SparkSession, path: str | os.PathLike[str], storage_options: dict[str, str] | None = None
) -> DataFrame:
    """Return an upserted Delta table as a DataFrame, as it is now.

    A session with Delta Lake reads the table itself; another one reads the files that are live at the time of the call,
    which must then be where its executors find them.
    """
    table = _opened(path, storage_options)
    if delta_spark.is_enabled(spark):
        return spark.read.format("delta").load(str(location(path, "path")))
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], delta_table.columns_of(table))
    schema, base = delta_table.columns_of(table), delta_table.uri_of(location(path, "path"))
    rows = spark.read.schema(schema).option("basePath", base).parquet(*files)
    return rows.select(*map(column, schema.names))  # Spark puts those of partitions last


def upserted_files(path: str | os.PathLike[str], storage_options: dict[str, str] | None = None) -> list[str]:
    """Return the Parquet files of an upserted Delta table as it is now."""
    return list(_opened(path, storage_options).file_uris())


def upserted_table(path: str | os.PathLike[str], storage_options: dict[str, str] | None = None) -> "pa.Table":
    """Return an upserted Delta table as an Arrow table, without Spark."""
    table = _opened(path, storage_options)
    schema = utc_schema(delta_table.columns_of(table))
    return table.to_pyarrow_table().select(schema.names).cast(schema)


def _opened(path: Any, storage: dict[str, str] | None) -> "DeltaTable":
    place = location(path, "path")
    delta_table.require_package()
    table = delta_table.opened(place, storage)
    if table is None:
        raise ArgumentError(f"path must be the target of an upsert, got {shown(path)}.", argument="path")
    delta_table.definition_of(table, place)
    return table
