"""rolling over a streaming DataFrame: pack, bucket, keep state, unpack."""

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from sash.errors import ArgumentError, KindError, shown
from sash.keyed.definition import require_monoids
from sash.keyed.spec import Asked
from sash.monoids.arguments import checked_int
from sash.spark import schema
from sash.spark.columns import column
from sash.spark.retractions import MARK, with_mark
from sash.spark.stream.packing import PACKED, pack, unpack
from sash.spark.stream.plan import Plan
from sash.spark.stream.processor import OUTPUT, Processor

OBSERVED = "sash_"  # how the names begin under which a micro-batch's progress has what operators counted
BUCKETS = 8


def streamed(df: DataFrame, asked: Asked, buckets: int | None = None, **more: Any) -> DataFrame:
    """Give the results as a streaming DataFrame."""
    _require_watermark(df, asked.time)
    df, asked = with_mark(df, asked)
    plan = plan_of(df.schema, asked, buckets, **more)
    result = plan.result
    shape = spark.StructType([_field(df.schema, field) for field in result])

    def packing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack(plan, batches)

    def unpacking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpack(result, batches)

    rows = df.select(*[column(name) for name in plan.schema.names])
    # By place: Spark would take a dot in a name for a member of a struct.
    rows = rows.toDF(*[f"c{place}" for place in range(len(plan.schema))]).mapInArrow(packing, PACKED)
    held = rows.groupBy("bucket").transformWithState(
        statefulProcessor=Processor(plan), outputStructType=OUTPUT, outputMode="Append", timeMode="EventTime"
    )
    counted = held.observe(OBSERVED + plan.operator[:8], F.collect_list("counts").alias("counts"))
    given = counted.select("data").mapInArrow(unpacking, shape)
    return given.drop(MARK) if MARK in result.names else given


def plan_of(given: spark.StructType, asked: Asked, buckets: int | None, **more: Any) -> Plan:
    """Give what the tasks must know, or refuse what is asked before anything runs."""
    if buckets is not None:
        buckets = checked_int("buckets", buckets, 1, 1 << 16)
    require_monoids(asked.aggs)
    columns = (dict.fromkeys(given.names, "df") if asked.emit == "arrival" else {}) | _columns(asked)
    for name, argument in columns.items():
        schema.place_of(given, name, argument)
    for name in asked.keys:
        schema.require_plain_text(given[name])
    fields = [schema.arrow_field(given[name], argument) for name, argument in columns.items()]
    count = (BUCKETS if asked.keys else 1) if buckets is None else buckets
    plan = Plan(asked, pa.schema(fields), count, uuid.uuid4().hex, **more)
    for field in plan.result:
        if pa.types.is_null(field.type) and field.name not in plan.schema.names:
            raise ArgumentError(
                f"aggs: the type of {field.name} is not known before it runs; give its monoid returns=, as in "
                'returns="float64".'
            )
    return plan


def _columns(asked: Asked) -> dict[str, str]:
    """Give the columns that are read, and the argument that names each."""
    named = [(name, "keys") for name in asked.keys] + [(asked.time, "time")]
    named += [(name, argument) for name, argument in ((asked.id, "id"), (asked.retract, "retract")) if name]
    named += [(name, "carry") for name in asked.carry]
    named += [(name, "aggs") for monoid in asked.aggs.values() for name in monoid.columns]
    columns: dict[str, str] = {}
    for name, argument in named:
        columns.setdefault(name, argument)
    return columns


def _field(given: spark.StructType, field: pa.Field) -> spark.StructField:
    """Give a column of results as Spark has it: one that passes through as it was."""
    if field.name in given.names:
        return spark.StructField(field.name, given[field.name].dataType)
    return spark.StructField(field.name, schema.spark_type(field.type))


def _require_watermark(df: DataFrame, time: str) -> None:
    place = schema.place_of(df.schema, time, "time")
    field = df.schema.fields[place]
    if not isinstance(field.dataType, (spark.TimestampType, spark.TimestampNTZType)):
        raise KindError(f"time: the column {shown(time)} holds {field.dataType.simpleString()}; give timestamps.")
    if "spark.watermarkDelayMs" not in (field.metadata or {}):
        raise ArgumentError(
            f"df: it has no watermark on {shown(time)}, so nothing would ever be final; "
            f'give df.withWatermark("{time}", "10 minutes").'
        )
