"""Tests of a pipeline file on a few rows: what its target holds after them, without a stream.

    from sash.pipeline.testing import results_of

    def test_totals():
        rows = [{"card": "a", "at": at("10:00"), "amount": 5.0}, {"card": "a", "at": at("10:20"), "amount": 2.0}]
        assert results_of("pipeline.toml", rows)["total_1h"].to_pylist() == [5.0, 7.0]

A file without steps, deletes and ids is computed in process, in milliseconds. Steps and conditions are SQL, which takes
Spark: pass a session that several tests share, or a local one is started.
"""

import os
from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sash.errors import ArgumentError, shown
from sash.inputs.tables import table_of
from sash.keyed.rolling import rolling
from sash.pipeline.config.read import Pipeline, read

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_AS_TABLE: dict[str, Any] = {
    "format": None,
    "path": None,
    "topic": None,
    "servers": None,
    "columns": None,
    "options": {},
}
_IN_PROCESS = tuple(signature(rolling).parameters)[1:]


def results_of(
    pipeline: "Pipeline | str | os.PathLike[str]",
    rows: Any,
    *,
    at: Any = None,
    spark: "SparkSession | None" = None,
    overrides: Sequence[str] = (),
) -> "pa.Table":
    """Return the results of some rows by a pipeline: those of a batch, which a stream's target holds in the end.

    `rows` is a list of dicts, or whatever `rolling` takes as a table, with the columns of the source; `overrides` are
    those of `sash run --set`. For a pipeline with `[at]`, `at` are the questions, which are rows too. Those that the
    quarantine would take are left out; nothing is late, and nothing is written.
    """
    if not isinstance(pipeline, Pipeline):
        pipeline = read(pipeline, overrides)
    if (at is None) != (pipeline.at is None):
        got = f"got {shown(at)}"
        wanted = (
            f"omitted for a pipeline without [at], {got}" if pipeline.at is None else f"the questions of [at], {got}"
        )
        raise ArgumentError(f"at must be {wanted}.", argument="at")
    table, questions = _table_of(rows, "rows"), None if at is None else _table_of(at, "at")
    if spark is None and not needs_spark(pipeline):
        words = {name: value for name, value in pipeline.rolling.arguments().items() if name in _IN_PROCESS}
        if questions is not None:
            words |= {"at": _usable(questions, pipeline), "at_time": pipeline.anchor_time}
        return rolling(table, **words)
    return _on_spark(pipeline, table, questions, spark)


def needs_spark(pipeline: Pipeline) -> bool:
    """Return whether only Spark can compute a pipeline's results: its steps, conditions and deletes."""
    rolled, aside = pipeline.rolling, pipeline.quarantine
    asked = [] if pipeline.at is None else pipeline.at.steps
    parts = (pipeline.steps, asked, pipeline.output.steps, rolled.retract, rolled.id, aside.ahead)
    return any(parts) or aside.null_keys == "quarantine"


def _usable(questions: "pa.Table", pipeline: Pipeline) -> "pa.Table":
    """Return the questions that have a time, and an id where they need one."""
    assert pipeline.at is not None
    for name in (pipeline.anchor_time, pipeline.at.id):
        if name in questions.column_names:
            questions = questions.filter(questions.column(name).is_valid())
    return questions


def _table_of(rows: Any, argument: str) -> "pa.Table":
    import pyarrow as pa

    if isinstance(rows, (list, tuple)):
        return pa.Table.from_pylist(list(rows))
    return table_of(rows, argument)


def _on_spark(
    pipeline: Pipeline, table: "pa.Table", questions: "pa.Table | None", spark: "SparkSession | None"
) -> "pa.Table":
    from sash.pipeline.config.model import Quarantine
    from sash.pipeline.run.dataframes import frames_of
    from sash.spark import session

    spark = session("local[2]", app="sash-testing") if spark is None else spark
    views = {
        name: (f"sash_testing_{uuid4().hex}", source, rows)
        for name, source, rows in (("source", pipeline.source, table), ("at", pipeline.at, questions))
        if source is not None and rows is not None
    }
    for name, _, rows in views.values():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    aside = pipeline.quarantine.model_copy(update={"path": None})
    assert isinstance(aside, Quarantine)
    tables = {name: source.model_copy(update=_AS_TABLE | {"table": view}) for name, (view, source, _) in views.items()}
    batch = pipeline.model_copy(update=tables | {"mode": "batch", "quarantine": aside})
    try:
        return frames_of(batch, spark, streaming=False).results.toArrow()
    finally:
        for name, _, _ in views.values():
            spark.catalog.dropTempView(name)
