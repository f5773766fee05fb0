"""rolling over a DataFrame that is all there: shuffle by key, sort by time, one pass of the engine over a partition."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sash.keyed.spec import Asked
from sash.spark import schema
from sash.spark.batch.partition import answered
from sash.spark.batch.request import question_of
from sash.spark.columns import column
from sash.spark.retractions import MARK, left_of, with_mark
from sash.spark.stream.query import plan_of


def batched(df: DataFrame, asked: Asked) -> DataFrame:
    """Give the answers as a DataFrame, or refuse what is asked before anything runs."""
    marked, asked = with_mark(df, asked)
    question_of(marked.schema, asked)
    whole = asked.emit == "arrival" and asked.every is None
    shape = None if whole else plan_of(marked.schema, asked, None).result
    rows = left_of(marked, asked)
    if not whole:
        rows = rows.filter(column(asked.time).isNotNull())
    answers = rolled(rows.drop(MARK), replace(asked, retract=None))
    if asked.late == "emit" and whole:
        answers = answers.withColumn("late", F.lit(False))
    return answers if shape is None else _as_a_stream(answers, shape)


def _as_a_stream(answers: DataFrame, shape: pa.Schema) -> DataFrame:
    """Give the columns that a stream has: nothing is revised, deleted or late, and no event comes as itself."""
    same = {"revision": F.lit(1).cast("long"), "deleted": F.lit(False), "late": F.lit(False)}
    chosen = []
    for name in shape.names:
        if name in answers.columns:
            chosen.append(column(name))
        else:
            kind = schema.spark_type(shape.field(name).type)
            chosen.append(same.get(name, F.lit(None).cast(kind)).alias(name))
    return answers.select(*chosen)


def rolled(df: DataFrame, asked: Asked) -> DataFrame:
    """Give the answers to rows all of which count."""
    question, shape = question_of(df.schema, asked)
    # By place, because a name may hold a dot, which Spark takes for a member of a struct, or stand in df twice.
    rows = df.toDF(*[f"c{place}" for place in range(len(df.columns))])
    columns = dict(zip(question.names, [f"c{place}" for place in question.places], strict=True))
    ties = [f"c{df.columns.index(asked.id)}"] if asked.id is not None else []
    if question.grid is not None:
        rows = rows.select(*dict.fromkeys([*columns.values(), *ties])).filter(F.col(columns[question.time]).isNotNull())
        question = question.over(range(len(columns)))
    by = [columns[name] for name in question.keys]
    rows = rows.repartition(*by) if by else rows.repartition(1)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return answered(question, batches)

    return rows.sortWithinPartitions(*by, columns[question.time], *ties).mapInArrow(run, shape)
