"""rolling over a batch DataFrame: shuffle by key, one pass of the engine over each partition."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampNTZType, TimestampType

from sash.keyed.spec import Spec
from sash.spark import schema
from sash.spark.batch.partition import answers_of
from sash.spark.batch.request import request_of
from sash.spark.batch.session_chunks import sessions_of
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
    by = [columns[name] for name in request.keys]
    if request.makes_rows:
        places = list(dict.fromkeys([*request.places, *request.ids]))
        rows = rows.select(*[f"c{place}" for place in places]).filter(F.col(columns[request.time]).isNotNull())
        request = request.at_places(range(len(columns)), [places.index(place) for place in request.ids])
    rows = rows.repartition(*by) if by else rows.repartition(1)
    answers = answers_of if spec.gap is None else sessions_of

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return answers(request, batches)

    return rows.mapInArrow(run, output)
