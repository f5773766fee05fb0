"""The same merge on the executors, through Delta's own MERGE, in a session that has Delta Lake."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, TimestampNTZType, TimestampType
from pyspark.sql.utils import is_remote

from sash.spark.columns import column, quoted
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.rows import LEAST

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_APP, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_CONFLICT = "[DELTA_CONCURRENT_"  # the beginning of the names of such errors
_TIMES = (TimestampType, TimestampNTZType, DateType)
_PLACE, _RANK = "_sash_place", "_sash_rank"


def is_enabled(spark: SparkSession) -> bool:
    """Return whether a session has Delta Lake."""
    return not is_remote() and _EXTENSION in str(spark.conf.get("spark.sql.extensions", ""))


def latest(rows: DataFrame, definition: Definition) -> DataFrame:
    """Return the latest row of each identity: that of the greatest revision, the last one of equal ones."""
    order = [] if definition.revision is None else [column(definition.revision).desc_nulls_last()]
    window = Window.partitionBy(*map(column, definition.keys)).orderBy(*order, F.col(_PLACE).desc())
    placed = rows.withColumn(_PLACE, F.monotonically_increasing_id())
    ranked = placed.withColumn(_RANK, F.row_number().over(window))
    return ranked.filter(F.col(_RANK) == 1).drop(_PLACE, _RANK)


def by_time(rows: DataFrame, definition: Definition) -> DataFrame:
    """Return rows in the order of the first key that holds times, so that files and merges have few times each."""
    times = _times(rows, definition)
    return rows.orderBy(column(next(iter(times)))) if times else rows


@dataclass(frozen=True)
class Source:
    """The latest rows of a micro-batch, how many they are, and the range of each key that holds times."""

    rows: DataFrame
    count: int
    ranges: dict[str, tuple[str, str]]  # as SQL; without keys that have nulls


@contextmanager
def source(batch: DataFrame, definition: Definition) -> Iterator[Source]:
    """Run a whole micro-batch once and yield its latest rows, which the executors keep meanwhile.

    A MERGE reads its source more than once, and each time would run the stateful operators of a stream again.
    """
    rows = latest(batch, definition).persist()
    try:
        times = _times(rows, definition)
        ends = [(F.min(column(name)), F.max(column(name)), F.count(column(name))) for name in times]
        texts = [_sql(end, kind) for pair, kind in zip(ends, times.values(), strict=True) for end in pair[:2]]
        found = rows.agg(F.count(F.lit(1)), *(count for _, _, count in ends), *texts).first()
        assert found is not None
        count, present, bounds = found[0], found[1 : 1 + len(times)], found[1 + len(times) :]
        pairs = zip(bounds[::2], bounds[1::2], strict=True)
        ranges = {name: pair for name, here, pair in zip(times, present, pairs, strict=True) if here == count}
        yield Source(rows, count, ranges)
    finally:
        rows.unpersist()


def merge(uri: str, source: Source, definition: Definition, absent: list[str], noted: tuple[str, int] | None) -> None:
    """Merge a micro-batch into a table, and note it as the version of an application.

    The columns of the table that are `absent` from the rows become null.
    """
    spark, view = source.rows.sparkSession, f"_sash_{uuid4().hex}"
    source.rows.createOrReplaceTempView(view)
    try:
        if noted is not None:
            spark.conf.set(_APP, noted[0])
            spark.conf.set(_VERSION, str(noted[1]))
        spark.sql(statement(uri, view, source, definition, absent))
    finally:
        spark.conf.unset(_APP)
        spark.conf.unset(_VERSION)
        spark.catalog.dropTempView(view)


def is_conflict(error: Exception) -> bool:
    """Return whether a MERGE failed because another writer changed the same rows meanwhile."""
    return _CONFLICT in str(error)


def statement(uri: str, view: str, source: Source, definition: Definition, absent: list[str]) -> str:
    """Return the MERGE statement for rows in the view of a micro-batch.

    The ranges of times are literals, so that files with other times are skipped by their statistics.
    """
    same = [f"target.{quoted(name)} <=> source.{quoted(name)}" for name in definition.keys]
    same += [f"target.{quoted(name)} BETWEEN {least} AND {most}" for name, (least, most) in source.ranges.items()]
    newer, gone = "true", "false"
    if definition.revision is not None:
        sides = (f"coalesce({side}.{quoted(definition.revision)}, {LEAST}L)" for side in ("source", "target"))
        newer = " >= ".join(sides)
    if definition.deleted is not None:
        gone = f"coalesce(source.{quoted(definition.deleted)}, false)"
    names = [quoted(name) for name in source.rows.columns if name != definition.deleted]
    columns = {name: f"source.{name}" for name in names} | {quoted(name): "NULL" for name in absent}
    assigned = [f"target.{name} = {value}" for name, value in columns.items()]
    return (
        f"MERGE INTO delta.{quoted(uri)} AS target USING {view} AS source ON {' AND '.join(same)} "
        f"WHEN MATCHED AND {newer} AND {gone} THEN DELETE "
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {', '.join(assigned)} "
        f"WHEN NOT MATCHED AND NOT {gone} THEN INSERT ({', '.join(columns)}) "
        f"VALUES ({', '.join(columns.values())})"
    )


def _times(rows: DataFrame, definition: Definition) -> dict[str, DataType]:
    """Return the keys that hold dates or times, and their types."""
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    return {name: kinds[name] for name in definition.keys if isinstance(kinds[name], _TIMES)}


def _sql(value: Column, kind: DataType) -> Column:
    """Return a date or a time as SQL that does not depend on the session's time zone."""
    if isinstance(kind, TimestampType):
        return F.format_string("timestamp_micros(%d)", F.unix_micros(value))
    return F.format_string(f"{kind.typeName()}'%s'", value.cast("string"))
