"""rolling over a streaming DataFrame: pack, bucket, keep state, unpack."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from sash import durations
from sash.errors import ArgumentError, KindError
from sash.keyed.definition import require_monoids
from sash.keyed.emit_sessions import require_core
from sash.keyed.result_schema import require_readable
from sash.keyed.spec import Spec
from sash.monoids.arguments import checked_int
from sash.spark import schema
from sash.spark.columns import column
from sash.spark.retractions import MARK, condition_text, with_mark
from sash.spark.stream.history import WATERMARK_DELAY, initial_state_of
from sash.spark.stream.packing import PACKED, pack, unpack
from sash.spark.stream.plan import Plan
from sash.spark.stream.processor import OUTPUT, Processor
from sash.spark.stream.questions import Questions
from sash.spark.stream.upstream import description_of, digest_of, is_stateful

OBSERVED = "sash_"  # prefix of the observed metrics that hold the operators' counters
ASKING = f"{OBSERVED}asking_"  # of those that have questions
BUCKETS = 8


def roll_stream(
    df: DataFrame,
    spec: Spec,
    buckets: int | None = None,
    history: DataFrame | None = None,
    questions: Questions | None = None,
    **options: Any,
) -> DataFrame:
    """Return the results as a streaming DataFrame; `options` are fields of the plan."""
    _require_watermark(df, spec.time, "df")
    if questions is not None:
        _require_watermark(questions.df, questions.time, "at")
    df, plan = planned(df, spec, buckets, questions, **options)
    descriptions = [description_of(one) for one in (df, *([] if questions is None else [questions.df]))]
    operator = f"{plan.fingerprint[:8]}_{digest_of(descriptions[0])[:8]}"
    plan = replace(plan, operator=operator, chained=any(map(is_stateful, descriptions)))
    result = plan.result
    given = (df if questions is None else questions.df).schema
    output = spark.StructType([_field(given, field) for field in result])

    def packing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack(plan, batches)

    def packing_questions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack(plan, batches, asked=True)

    def unpacking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpack(result, batches)

    rows = _numbered(df, plan.schema).mapInArrow(packing, PACKED)
    if questions is not None and plan.asking is not None:
        rows = rows.union(_numbered(questions.df, plan.asking.schema).mapInArrow(packing_questions, PACKED))
    stateful = rows.groupBy("bucket").transformWithState(
        statefulProcessor=Processor(plan),
        outputStructType=OUTPUT,
        outputMode="Append",
        timeMode="EventTime",
        initialState=None if history is None else initial_state_of(history, df.schema, spec, plan),
    )
    kind = OBSERVED if questions is None else ASKING
    observed = stateful.observe(kind + plan.operator, F.collect_list("counts").alias("counts"))
    results = observed.select("data").mapInArrow(unpacking, output)
    return results.drop(MARK) if MARK in result.names else results


def _numbered(df: DataFrame, columns: pa.Schema) -> DataFrame:
    """Return columns named by position: Spark would take a dot in a name for a member of a struct."""
    return df.select(*[column(name) for name in columns.names]).toDF(*[f"c{i}" for i in range(len(columns))])


def planned(
    df: DataFrame, spec: Spec, buckets: int | None, questions: Questions | None = None, **options: Any
) -> tuple[DataFrame, Plan]:
    """Return rows with a column in place of a condition for deletes, and the plan for them."""
    spec.require_streamable()
    marked, own = with_mark(df, spec)
    condition = None if own is spec else condition_text(spec.retract)
    plan = plan_of(marked.schema, own, buckets, questions, condition=condition, **options)
    if spec.gap is not None:
        require_core(plan.definition)
    return marked, plan


def plan_of(
    columns: spark.StructType, spec: Spec, buckets: int | None, questions: Questions | None = None, **options: Any
) -> Plan:
    """Return the plan for the tasks, or raise for a spec that does not fit the columns, before anything runs."""
    if buckets is not None:
        buckets = checked_int("buckets", buckets, 1, 1 << 16)
    require_monoids(spec.aggs)
    everything = spec.emit == "arrival" and questions is None
    arguments = (dict.fromkeys(columns.names, "df") if everything else {}) | _columns_read(spec)
    for name, argument in arguments.items():
        schema.place_of(columns, name, argument)
    schema.require_plain_text(columns, spec)
    fields = [schema.arrow_field(columns[name], argument) for name, argument in arguments.items()]
    count = (BUCKETS if spec.keys else 1) if buckets is None else buckets
    plan = Plan(spec, pa.schema(fields), count, **options)
    if questions is not None:
        plan = replace(plan, asking=questions.columns(spec, plan.schema))
    require_readable(spec, plan.definition, plan.schema)
    if spec.lateness is not None:
        durations.ticks_of(spec.lateness, plan.definition.unit, "lateness", least=0)
    given = plan.schema if plan.asking is None else plan.asking.schema
    schema.require_result_types(field for field in plan.result if field.name not in given.names)
    return plan


def _columns_read(spec: Spec) -> dict[str, str]:
    """Return the columns that are read, each with the argument that names it."""
    named = [(name, "keys") for name in spec.keys] + [(spec.time, "time")]
    named += [(name, argument) for name, argument in ((spec.id, "id"), (spec.retract, "retract")) if name]
    named += [(name, "carry") for name in spec.carry]
    named += [(name, "aggs") for monoid in spec.aggs.values() for name in monoid.columns]
    columns: dict[str, str] = {}
    for name, argument in named:
        columns.setdefault(name, argument)
    return columns


def _field(columns: spark.StructType, field: pa.Field) -> spark.StructField:
    """Return a field of the results as Spark's; a column that passes through keeps its type."""
    if field.name in columns.names:
        return spark.StructField(field.name, columns[field.name].dataType)
    return spark.StructField(field.name, schema.spark_type(field.type))


def _require_watermark(df: DataFrame, time: str, argument: str) -> None:
    place = schema.place_of(df.schema, time, "time" if argument == "df" else "at_time")
    field = df.schema.fields[place]
    if not isinstance(field.dataType, (spark.TimestampType, spark.TimestampNTZType)):
        raise KindError(
            f"column {time!r} must hold timestamps to be the time of a stream, got {field.dataType.simpleString()}.",
            argument="time" if argument == "df" else "at_time",
            column=time,
        )
    if WATERMARK_DELAY not in (field.metadata or {}):
        raise ArgumentError(
            f"{argument} must have a watermark on {time!r}, or no result would ever be final; "
            f'call {argument}.withWatermark("{time}", "10 minutes").',
            argument=argument,
            column=time,
        )
