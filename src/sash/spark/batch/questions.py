"""rolling over a batch of questions: shuffle events and questions by key, one pass of the engine over each partition.

A question is a row of the DataFrame `at`. All its columns travel with it and are null in the rows of events: a join
afterwards would need ids, which Spark assigns differently when it reads `at` once more.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sash.keyed.spec import Spec
from sash.spark.batch.question_chunks import answers_of_questions
from sash.spark.batch.question_columns import Layout
from sash.spark.batch.rolling import usable
from sash.spark.columns import column
from sash.spark.retractions import with_mark, without_deleted


def answer_batch(df: DataFrame, at: DataFrame, at_time: str | None, spec: Spec) -> DataFrame:
    """Return the rows of `at` with their results, or raise for arguments that do not fit, before anything runs."""
    marked, spec = with_mark(df, spec)
    constants = _constants(spec)
    layout = Layout.of(marked.schema, at.schema, spec, spec.time if at_time is None else at_time, constants)
    time, kind = column(spec.time), marked.schema[spec.time].dataType
    events = without_deleted(marked, spec).filter(time.isNotNull() if spec.emit == "arrival" else usable(time, kind))
    rows = layout.events(events).union(layout.questions(at))
    rows = rows.repartition(*layout.keys) if layout.keys else rows.repartition(1)
    request = layout.request

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return answers_of_questions(request, batches)

    answers = rows.mapInArrow(run, layout.output)
    return answers.select("*", *[F.lit(value).alias(name) for name, value in constants.items()])


def _constants(spec: Spec) -> dict[str, Any]:
    """Return the columns that a stream has besides: nothing is revised, deleted or late."""
    revised = {"revision": 1, "deleted": False} if spec.emit == "update" else {}
    return revised | ({"late": False} if spec.late == "emit" else {})
