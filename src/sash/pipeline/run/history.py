"""The backfill of a pipeline with a history: the results that its stream does not emit, written before it starts.

It is a batch over the history, of which the results that are not final at the seam are left to the stream. It is
complete once the checkpoint has a file that says so: until then the stream has not started, and a run that was killed
writes the same rows again.
"""

import json
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from sash import durations
from sash.inputs import arrow
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run.checkpoint import Checkpoint
from sash.pipeline.run.dataframes import Frames, history_rows, reading_history, rolled, usable_rows, with_results
from sash.spark.columns import column
from sash.spark.stream.history import is_export
from sash.spark.stream.initial_state import Seam
from sash.spark.stream.query import planned

DONE = "sash-backfill"  # the name of the file


def is_due(pipeline: Pipeline, checkpoint: Checkpoint) -> bool:
    """Return whether a backfill is to be written before the stream starts: there is none of questions."""
    if pipeline.at is not None:
        return False
    return pipeline.history is not None and checkpoint.last_commit() < 0 and checkpoint.note(DONE) is None


def finish(checkpoint: Checkpoint) -> None:
    """Note that the backfill is complete."""
    checkpoint.add_note(DONE, json.dumps({"version": 1}))


def backfill_of(pipeline: Pipeline, spark: SparkSession) -> tuple[Pipeline, Frames] | None:
    """Return the batch that writes the backfill; None for an export, whose results have been written already."""
    usable = history_rows(pipeline, spark)
    if usable is None or is_export(usable):
        return None
    past = reading_history(pipeline)
    names: dict[str, Any] = {name: Observation(name) for name in ("quarantine", "results")}
    source, rows = usable_rows(past, spark, names["quarantine"], streaming=False)
    results = rolled(past, rows, None)
    wanted = _supplied(pipeline, usable, results)
    results = results if wanted is None else results.filter(wanted)
    if "revision" in results.columns:  # every revision of the stream replaces it
        results = results.withColumn("revision", F.lit(0).cast("long"))
    return past, with_results(past, source, rows, results, names)


def _supplied(pipeline: Pipeline, usable: DataFrame, results: DataFrame) -> Column | None:
    """Return which results the stream does not emit unless they change; None if it is all of them."""
    spec = pipeline.rolling.spec
    if spec.every is None and spec.emit != "final":
        return None
    marked, plan = planned(usable, spec, None)
    newest = arrow.ticks(marked.agg(F.max(column(spec.time)).alias(spec.time)).toArrow(), spec.time)
    if newest[1] is not None and newest[1].any():  # there are no rows
        return F.lit(False)
    delay_ms = durations.nanoseconds(str(pipeline.source.watermark), "watermark") // 10**6
    seam = Seam.after(plan, int(newest[0][0]), delay_ms)
    horizon = seam.position["horizon"]
    if spec.every is None:
        return F.lit(False) if horizon is None else column(spec.time) < _instant(horizon, results, spec.time)
    end = horizon if spec.emit == "final" else seam.watermark
    return F.lit(False) if end is None else F.col("window_end") <= _instant(end, results, "window_end")


def _instant(ticks: int, results: DataFrame, name: str) -> Column:
    """Return a time in microseconds as a literal of a column's type."""
    moment = F.timestamp_micros(F.lit(ticks))
    if isinstance(results.schema[name].dataType, TimestampType):
        return moment
    return F.to_timestamp_ntz(F.lit(arrow.pyarrow().scalar(ticks, "timestamp[us]").as_py().isoformat(sep=" ")))
