"""rolling over a batch DataFrame: shuffle by key, sort by time, one pass of the engine over each partition."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampNTZType, TimestampType

from sash.keyed.spec import Spec
from sash.spark import schema
from sash.spark.batch.partition import Chunks, answers_of
from sash.spark.batch.request import request_of
from sash.spark.batch.session_chunks import GroupedSessionChunks, SessionChunks
from sash.spark.batch.session_order import ORDER, order_of
from sash.spark.columns import column
from sash.spark.retractions import MARK, with_mark, without_deleted
from sash.spark.stream.packing import END
from sash.spark.stream.query import plan_of


def roll_batch(df: DataFrame, spec: Spec) -> DataFrame:
    """Return the results as a DataFrame, or raise for a spec that does not fit, before anything runs."""
    marked, spec = with_mark(df, spec)
    request_of(marked.schema, spec)
    whole = spec.emit == "arrival"
    result = None if whole else plan_of(marked.schema, spec, None).result
    rows = without_deleted(marked, spec)
    if not whole:
        rows = rows.filter(usable(column(spec.time), marked.schema[spec.time].dataType))
    answers = _roll(rows.drop(MARK), replace(spec, retract=None))
    if spec.late == "emit" and whole:
        answers = answers.withColumn("late", F.lit(False))
    return answers if result is None else _with_stream_columns(answers, result)


def usable(time: Column, kind: DataType) -> Column:
    """Return the condition for times that a stream takes: it would count others as bad."""
    if isinstance(kind, TimestampType):
        return time < F.timestamp_micros(F.lit(END))
    if isinstance(kind, TimestampNTZType):
        return time < F.lit("9999-01-01").cast(kind)
    return time.isNotNull()


def _with_stream_columns(answers: DataFrame, result: pa.Schema) -> DataFrame:
    """Return the columns that a stream has: nothing is revised, deleted or late."""
    constants = {"revision": F.lit(1).cast("long"), "deleted": F.lit(False), "late": F.lit(False)}
    columns = []
    for name in result.names:
        if name in answers.columns:
            columns.append(column(name))
        else:
            kind = schema.spark_type(result.field(name).type)
            columns.append(constants.get(name, F.lit(None).cast(kind)).alias(name))
    return answers.select(*columns)


def _roll(df: DataFrame, spec: Spec) -> DataFrame:
    """Return the results for rows without deletes."""
    request, output = request_of(df.schema, spec)
    # By position: a name may hold a dot, which Spark takes for a member of a struct, or occur twice.
    rows = df.toDF(*[f"c{place}" for place in range(len(df.columns))])
    columns = dict(zip(request.names, [f"c{place}" for place in request.places], strict=True))
    ties = [f"c{df.columns.index(spec.id)}"] if spec.id is not None else []
    if request.makes_rows:
        rows = rows.select(*dict.fromkeys([*columns.values(), *ties])).filter(F.col(columns[request.time]).isNotNull())
        request = request.at_places(range(len(columns)))
    by = [columns[name] for name in request.keys]
    kind: type[Chunks] | None = SessionChunks if spec.gap is not None else None
    time = columns[request.time]
    sorted_by_one = spec.gap is not None and not request.orderly
    order = order_of(by, F.col(time), df.schema[spec.time].dataType) if sorted_by_one else None
    if order is not None:
        rows, kind = rows.select(*columns.values(), order.alias(ORDER)), GroupedSessionChunks
    rows = rows.repartition(*by) if by else rows.repartition(1)
    sorts = [*by, time, *ties] if order is None else [ORDER]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return answers_of(request, batches, kind)

    return rows.sortWithinPartitions(*sorts).mapInArrow(run, output)
