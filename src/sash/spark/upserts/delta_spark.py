"""The same merge on the executors, through Delta's own MERGE, in a session that has Delta Lake."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType
from pyspark.sql.utils import is_remote

from sash.spark.columns import column
from sash.spark.upserts.definition import Definition

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_APP, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_LEAST = "-9223372036854775808L"
_TIMES = (TimestampType, TimestampNTZType, DateType)
_RANK, _VIEW = "_sash_rank", "_sash_upserted"


def is_enabled(spark: SparkSession) -> bool:
    """Return whether a session has Delta Lake."""
    return not is_remote() and _EXTENSION in str(spark.conf.get("spark.sql.extensions", ""))


def latest(rows: DataFrame, definition: Definition) -> DataFrame:
    """Return the latest row of each identity."""
    order = [F.lit(0)] if definition.revision is None else [column(definition.revision).desc_nulls_last()]
    window = Window.partitionBy(*map(column, definition.keys)).orderBy(*order)
    ranked = rows.withColumn(_RANK, F.row_number().over(window))
    return ranked.filter(F.col(_RANK) == 1).drop(_RANK)


def by_time(rows: DataFrame, definition: Definition) -> DataFrame:
    """Return rows in the order of the first key that holds times, so that files and merges have few times each."""
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    time = next((name for name in definition.keys if isinstance(kinds[name], _TIMES)), None)
    return rows if time is None else rows.orderBy(column(time))


def merge(uri: str, batch: DataFrame, definition: Definition, noted: tuple[str, int] | None) -> None:
    """Merge a micro-batch into a table, and note it as the version of an application."""
    spark = batch.sparkSession
    latest(batch, definition).createOrReplaceTempView(_VIEW)
    names = [name for name in batch.columns if name != definition.deleted]
    try:
        if noted is not None:
            spark.conf.set(_APP, noted[0])
            spark.conf.set(_VERSION, str(noted[1]))
        spark.sql(statement(uri, names, definition))
    finally:
        spark.conf.unset(_APP)
        spark.conf.unset(_VERSION)
        spark.catalog.dropTempView(_VIEW)


def statement(uri: str, names: list[str], definition: Definition) -> str:
    """Return the MERGE statement for rows in the view of a micro-batch."""
    same = " AND ".join(f"target.{_quoted(name)} <=> source.{_quoted(name)}" for name in definition.keys)
    newer, gone = "true", "false"
    if definition.revision is not None:
        sides = (f"coalesce({side}.{_quoted(definition.revision)}, {_LEAST})" for side in ("source", "target"))
        newer = " >= ".join(sides)
    if definition.deleted is not None:
        gone = f"coalesce(source.{_quoted(definition.deleted)}, false)"
    columns = [_quoted(name) for name in names]
    return (
        f"MERGE INTO delta.{_quoted(uri)} AS target USING {_VIEW} AS source ON {same} "
        f"WHEN MATCHED AND {newer} AND {gone} THEN DELETE "
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {', '.join(f'target.{name} = source.{name}' for name in columns)} "
        f"WHEN NOT MATCHED AND NOT {gone} THEN INSERT ({', '.join(columns)}) "
        f"VALUES ({', '.join(f'source.{name}' for name in columns)})"
    )


def _quoted(name: Any) -> str:
    return "`" + str(name).replace("`", "``") + "`"
