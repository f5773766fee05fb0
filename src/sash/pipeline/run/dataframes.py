"""A pipeline as DataFrames: source, steps, quarantine, watermark, rolling, steps; for streams and batches alike.

Nothing runs here. Errors of Spark and `sash.spark.rolling` are reported with the line of the key they are about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, StructType

from sash import durations
from sash.errors import ArgumentError, SashError, shown
from sash.pipeline.config.errors import Mistake, PipelineFileError
from sash.pipeline.config.read import Pipeline
from sash.pipeline.config.toml_lines import Path
from sash.pipeline.run import kafka, quarantine, steps
from sash.pipeline.run.checkpoint import Checkpoint
from sash.pipeline.run.error_text import cause_of, condition_of, reported_at
from sash.pipeline.run.option_text import absolute, text_of
from sash.pipeline.run.steps import HIDDEN, MALFORMED
from sash.spark import rolling
from sash.spark.columns import column
from sash.spark.stream.compatibility import require_compatible
from sash.spark.stream.history import is_export
from sash.spark.stream.query import planned
from sash.spark.stream.questions import Questions

BUILT_IN_SOURCES = ("demo", "replay")
_RECORDS = ("csv", "json", "xml")  # formats that return the text of malformed records
_OTHER_TABLES: dict[str | None, Path] = {
    "history": ("history",),
    "at": ("at",),
    "at_time": ("at", "time"),
    "at_id": ("at", "id"),
}
_KEY_OF_CONDITION = {"PATH_NOT_FOUND": "path", "DATA_SOURCE_NOT_FOUND": "format", "TABLE_OR_VIEW_NOT_FOUND": "table"}


@dataclass(frozen=True)
class Frames:
    """The DataFrames of a pipeline, and the observations that count its rows; a stream has none."""

    source: DataFrame
    rows: DataFrame
    results: DataFrame
    plotted: str | None
    observations: dict[str, Observation]
    questions: Questions | None = None


def frames_of(
    pipeline: Pipeline, spark: SparkSession, *, streaming: bool, finishing: bool = False, seeded: bool = True
) -> Frames:
    """Return the DataFrames of a pipeline, or raise an error for its mistakes before anything runs.

    A stream starts after the rows of `[history]` where it is `seeded`: with a new checkpoint.
    """
    observed = ("quarantine", "results") if pipeline.at is None else ("quarantine", "questions", "results")
    names: dict[str, Any] = {name: name if streaming else Observation(name) for name in observed}
    source, rows = usable_rows(pipeline, spark, names["quarantine"], streaming=streaming)
    history, questions = None, None
    if streaming:
        rows = _with_watermark(pipeline, rows, spark, finishing)
        history = history_rows(pipeline, spark) if seeded else None
    if pipeline.at is not None:
        asking = _reading_questions(pipeline)
        _, asked = usable_rows(asking, spark, names["questions"], streaming=streaming, asked_by=pipeline)
        asked = _with_watermark(asking, asked, spark, finishing) if streaming else asked
        questions = Questions(asked, pipeline.anchor_time, pipeline.at.id)
    results = rolled(pipeline, rows, history, questions)
    return with_results(pipeline, source, rows, results, names, questions)


def usable_rows(
    pipeline: Pipeline,
    spark: SparkSession,
    name: str | Observation | None,
    *,
    streaming: bool,
    asked_by: Pipeline | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Return the rows of the source, and those after the steps that can be used; `name` counts the others.

    `asked_by` is the pipeline whose questions they are, if they are.
    """
    source = source_of(pipeline, spark, streaming=streaming)
    stepped = steps.applied(pipeline, source, ("steps",))
    if asked_by is not None and pipeline.quarantine.ahead_of not in stepped.columns:
        pipeline = _with_quarantine(pipeline, ahead_of=None)
    _require_columns(pipeline, [name for name in stepped.columns if name not in HIDDEN])
    if pipeline.source.format == kafka.FORMAT:
        stepped = stepped.drop(*kafka.unread(pipeline))
    with reported_at(pipeline, ("quarantine",)):
        counted = quarantine.counted(stepped, pipeline, name)
        return source, quarantine.usable(counted, asked_by or pipeline, asked=asked_by is not None)


def rolled(
    pipeline: Pipeline, rows: DataFrame, history: DataFrame | None, questions: Questions | None = None
) -> DataFrame:
    """Return the results of rows, or those as of questions, without late ones."""
    words = pipeline.rolling.arguments() | {"history": history}
    if questions is not None:
        words |= {"at": questions.df, "at_time": questions.time, "at_id": questions.id}
    try:
        return quarantine.without_late(rolling(rows, **words), pipeline)
    except SashError as error:
        raise pipeline.mistake(_rolling_key(pipeline, error), str(error)) from error


def with_results(
    pipeline: Pipeline,
    source: DataFrame,
    rows: DataFrame,
    results: DataFrame,
    names: dict[str, Any],
    questions: Questions | None = None,
) -> Frames:
    """Return the DataFrames of a pipeline whose results are there: they are observed, and pass the output steps."""
    plotted = plotted_column(pipeline, results.schema)
    observations = {} if rows.isStreaming else names
    written = steps.applied(pipeline, _observed(pipeline, results, plotted, names["results"]), ("output", "steps"))
    _require_identity(pipeline, results, written)
    return Frames(source, rows, written, plotted, observations, questions)


# --- questions, the history -----------------------------------------------------------------------


def _reading_questions(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline that reads the questions in place of its source."""
    at = pipeline.at
    assert at is not None
    own: dict[str, Any] = {"time": pipeline.anchor_time, "id": at.id, "carry": [], "aggs": {}, "retract": None}
    read = {"source": at, "steps": at.steps, "rolling": pipeline.rolling.model_copy(update=own)}
    return pipeline.model_copy(update=read | {"history": None, "at": None, "origin": pipeline.origin.of("at")})


def reading_history(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline that is a batch over the history in place of its source."""
    assert pipeline.history is not None
    past = {"source": pipeline.history, "steps": pipeline.history.steps, "mode": "batch"}
    return pipeline.model_copy(update=past | {"history": None, "at": None, "origin": pipeline.origin.of("history")})


def history_rows(pipeline: Pipeline, spark: SparkSession) -> DataFrame | None:
    """Return the rows of the history that can be used, or an export as it is; None without a history."""
    if pipeline.history is None:
        return None
    past = reading_history(pipeline)
    exported = steps.applied(past, source_of(past, spark, streaming=False), ("steps",))
    if is_export(exported):
        return exported
    return usable_rows(_with_quarantine(past, path=None), spark, None, streaming=False)[1]


def _with_quarantine(pipeline: Pipeline, **changed: Any) -> Pipeline:
    return pipeline.model_copy(update={"quarantine": pipeline.quarantine.model_copy(update=changed)})


def require_own_checkpoint(pipeline: Pipeline, frames: Frames, checkpoint: Checkpoint) -> list[str]:
    """Return how the definition differs from the one that the checkpoint of a stream was written with.

    Raise an error if the checkpoint cannot be read, or its state cannot follow the change.
    """
    spark, place = frames.rows.sparkSession, str(checkpoint.place)
    _, plan = planned(frames.rows, pipeline.rolling.spec, pipeline.rolling.buckets, frames.questions)
    try:
        return require_compatible(spark, place, plan)
    except SashError as error:
        raise pipeline.mistake(("checkpoint",), str(error)) from error


# --- the source -----------------------------------------------------------------------------------


def source_of(pipeline: Pipeline, spark: SparkSession, *, streaming: bool) -> DataFrame:
    """Return the rows of the source."""
    source = pipeline.source
    options = {name: text_of(value) for name, value in source.options.items()}
    schema, corrupt = None, None
    if source.columns is not None and source.table is None:
        with reported_at(pipeline, ("source", "schema")):
            schema = _columns(source.columns)
        schema, corrupt = _with_corrupt(schema, source.format, options)
    if source.format == kafka.FORMAT:
        return kafka.rows_of(pipeline, spark.readStream if streaming else spark.read, schema)
    if source.format in BUILT_IN_SOURCES:
        with reported_at(pipeline, ("source", "format")):
            from sash.pipeline.sources import spark_source  # needs a newer pyspark than the rest

        spark_source.register(spark)
    try:
        df = _loaded(pipeline, spark.readStream if streaming else spark.read, schema, options)
    except Exception as error:
        raise _source_mistake(pipeline, schema, options, error) from error
    return df if corrupt is None else df.withColumnRenamed(corrupt, MALFORMED)


def _loaded(pipeline: Pipeline, reader: Any, schema: StructType | None, options: dict[str, str]) -> DataFrame:
    source = pipeline.source
    reader = reader.options(**options)
    if source.table is not None:
        rows: DataFrame = reader.table(source.table)
        return rows
    if schema is not None:
        reader = reader.schema(schema)
    reader = reader.format(source.format)
    df: DataFrame = reader.load() if source.path is None else reader.load(absolute(source.path))
    return df


def _source_mistake(
    pipeline: Pipeline, schema: StructType | None, options: dict[str, str], error: Exception
) -> PipelineFileError:
    """Return an error of a source as a mistake at the key that it is about."""
    refusal = _refusal(pipeline, schema, options)
    if refusal is not None:
        return pipeline.mistake(_source_key(pipeline, refusal.argument), str(refusal))
    key = _KEY_OF_CONDITION.get(str(condition_of(error)))
    return pipeline.mistake(("source",) if key is None else ("source", key), cause_of(error))


def _source_key(pipeline: Pipeline, argument: str | None) -> Path:
    """Return the key that an option of a built-in source comes from."""
    for name in pipeline.source.options:
        if name.lower() == argument:
            return "source", "options", name
    return ("source", argument) if argument in ("path", "schema") else ("source",)


def _refusal(pipeline: Pipeline, schema: StructType | None, options: dict[str, str]) -> SashError | None:
    """Return the error of a built-in source, raised again in this process: through Spark it comes as text only."""
    source = pipeline.source
    if source.format not in BUILT_IN_SOURCES:
        return None
    from sash.pipeline.sources import spark_source

    try:
        location = {} if source.path is None else {"path": absolute(source.path)}
        spark_source.check(source.format, {**options, **location}, schema)
    except SashError as error:
        return error
    return None


def _columns(text: str) -> StructType:
    schema = StructType.fromDDL(text)
    if not isinstance(schema, StructType):
        raise ArgumentError(
            f'schema must name columns, as in "card string, at timestamp", got {shown(text)}.', argument="schema"
        )
    return schema


def _with_corrupt(schema: StructType, kind: str | None, options: dict[str, str]) -> tuple[StructType, str | None]:
    """Add a column with the text of malformed records, unless the options handle those already."""
    lower = {name.lower(): value for name, value in options.items()}
    name = lower.get("columnnameofcorruptrecord", "_corrupt_record")
    if kind not in _RECORDS or lower.get("mode", "PERMISSIVE").upper() != "PERMISSIVE" or name in schema.names:
        return schema, None
    options["columnNameOfCorruptRecord"] = name
    if kind == "csv":
        # A reader of some columns would not notice errors in the others.
        options.setdefault("columnPruning", "false")
    return StructType(schema.fields).add(name, StringType()), name


# --- watermark, results ---------------------------------------------------------------------------


def _with_watermark(pipeline: Pipeline, rows: DataFrame, spark: SparkSession, finishing: bool) -> DataFrame:
    """Return a stream with its watermark, and with the source of its end where `finish` is set."""
    if pipeline.finish:
        with reported_at(pipeline, ("finish",)):
            from sash.pipeline.sources.end_of_stream import FORMAT, EndSource  # needs a newer pyspark than the rest

        spark.dataSource.register(EndSource)
        end = spark.readStream.format(FORMAT).schema(rows.schema)
        rows = rows.unionAll(end.options(time=pipeline.rolling.time, finishing=text_of(finishing)).load())
    with reported_at(pipeline, ("rolling", "time")):
        return rows.withWatermark(_quoted(pipeline.rolling.time), _interval(str(pipeline.source.watermark)))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _interval(duration: str) -> str:
    """Return a duration as a Spark interval, which does not accept "10m"."""
    return f"{durations.nanoseconds(duration, 'watermark') // 1000} microseconds"


def plotted_column(pipeline: Pipeline, schema: StructType) -> str | None:
    """Return the result column that the view plots: the one in the file, or the first that is numeric."""
    chosen = pipeline.view.column
    if chosen is not None and chosen not in schema.names:
        raise pipeline.mistake(("view", "column"), _missing_column(chosen, "results", schema.names))
    names = [name for agg in pipeline.rolling.aggs for name in _result_columns(pipeline, agg)]
    candidates = names if chosen is None else [chosen]
    numeric = (name for name in candidates if name in schema.names and isinstance(schema[name].dataType, NumericType))
    return next(numeric, None)


def _result_columns(pipeline: Pipeline, agg: str) -> list[str]:
    """Return the result columns of an aggregate, one per window."""
    return [f"{agg}_{window}" for window in pipeline.rolling.spec.windows]


def _missing_column(name: str, what: str, names: Sequence[str]) -> str:
    return f"column {shown(name)} does not exist; the {what} have {', '.join(names)}."


def _observed(pipeline: Pipeline, results: DataFrame, plotted: str | None, name: Any) -> DataFrame:
    """Count the results, and observe the plotted value at the latest time."""
    live = F.lit(True) if "deleted" not in results.columns else ~F.col("deleted")
    value = (
        F.max(F.lit(None)) if plotted is None else F.max_by(column(plotted), F.when(live, column(pipeline.anchor_time)))
    )
    return results.observe(name, F.count(F.lit(1)).alias("emitted"), value.cast("double").alias("value"))


# --- the key that an error is about ---------------------------------------------------------------


def _require_columns(pipeline: Pipeline, names: list[str]) -> None:
    """Raise an error that lists all columns that do not exist."""
    rolling = pipeline.rolling
    columns: list[tuple[Path, str | None]] = [(("rolling", "time"), rolling.time), (("rolling", "id"), rolling.id)]
    columns += [(("rolling", "keys", place), key) for place, key in enumerate(rolling.keys)]
    columns += [(("rolling", "carry", place), name) for place, name in enumerate(rolling.carry)]
    columns += [(("rolling", "aggs", name), input) for name, agg in rolling.aggs.items() for input in agg.columns]
    columns += [(("quarantine", "ahead_of"), pipeline.quarantine.ahead_of)]
    what = "rows" if pipeline.origin.table is None else f"rows of [{pipeline.origin.table}]"
    mistakes = [
        Mistake(path, _missing_column(name, what, names))
        for path, name in columns
        if name is not None and name not in names
    ]
    if mistakes:
        raise pipeline.origin.error(mistakes)


def _require_identity(pipeline: Pipeline, results: DataFrame, written: DataFrame) -> None:
    """Raise an error for output steps that drop what a sink needs to replace a result by its revision."""
    if not pipeline.keeps_latest or not pipeline.output.steps:
        return
    options = pipeline.sink.options
    named = options.get("keys") if pipeline.sink.format == "upsert" else None
    needed = [*(pipeline.identity if named is None else []), "revision", "deleted"]
    for name in needed:
        if name in results.columns and name not in written.columns:
            message = f"must keep the column {shown(name)}, which a sink in the format {pipeline.sink.format} needs."
            raise pipeline.mistake(("output", "steps"), message)


def _rolling_key(pipeline: Pipeline, error: SashError) -> Path:
    """Return the key that an error of `rolling` is about; for an aggregate the one that reads or writes the column."""
    argument, column = error.argument, error.column
    if argument in _OTHER_TABLES:
        return _OTHER_TABLES[argument]
    if argument == "aggs":
        for name, monoid in pipeline.rolling.aggs.items():
            if column in (*monoid.columns, name, *_result_columns(pipeline, name)):
                return "rolling", "aggs", name
    is_key = argument in type(pipeline.rolling).model_fields
    return ("rolling", argument) if argument is not None and is_key else ("rolling",)
