"""Where results go: an upsert, Kafka, any Spark format, or a table; for streams and batches."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.utils import is_remote

from sash.durations import nanoseconds
from sash.errors import SashError, UnsupportedError, shown
from sash.pipeline.config.model import TO_PATHS
from sash.pipeline.config.read import Pipeline, PipelineFileError
from sash.pipeline.config.rules import FILES
from sash.pipeline.run import kafka, postgresql
from sash.pipeline.run.error_text import cause_of, reported_at
from sash.pipeline.run.option_text import absolute, text_of
from sash.spark import upsert

# What Spark's writer of streams accepts.
_STREAMED = (
    "org.apache.spark.sql.sources.StreamSinkProvider",
    "org.apache.spark.sql.execution.datasources.FileFormat",
    "org.apache.spark.sql.connector.catalog.TableProvider",
)


def upsert_of(pipeline: Pipeline, results: DataFrame) -> Callable[[DataFrame, int], None]:
    """Return the function that merges results into the target, or raise an error for its options."""
    columns = results.columns
    try:
        merge = upsert(
            **{"keys": pipeline.identity, **_target(pipeline)},
            revision="revision" if "revision" in columns else None,
            deleted="deleted" if "deleted" in columns else None,
            late="keep",  # the quarantine has taken those of `rolling`; any other column of the name is the user's
        )
        merge.check(results.schema)  # type: ignore[attr-defined]
    except SashError as error:
        raise _mistake(pipeline, error) from error
    return merge


def _target(pipeline: Pipeline) -> dict[str, Any]:
    """Return the arguments of `upsert` that say where the results go, and its options."""
    sink = pipeline.sink
    if sink.format in TO_PATHS:
        return {"target": str(sink.path), **sink.options}
    own = {name: value for name, value in sink.options.items() if name not in ("dsn", "dsn_env")}
    return {"connect": postgresql.connect_of(pipeline), "table": sink.table, **own}


def check(pipeline: Pipeline, results: DataFrame) -> None:
    """Raise an error for a sink that cannot be written, as far as it is known before anything runs."""
    if pipeline.sink.upserts:
        upsert_of(pipeline, results)
        return
    if pipeline.sink.format != "table" and not is_remote():
        _require_format(pipeline, results.sparkSession, results.isStreaming)
    with reported_at(pipeline, ("sink", "format")):
        _written(pipeline, results)


def _require_format(pipeline: Pipeline, spark: Any, streaming: bool) -> None:
    """Raise an error for a format that Spark does not have, or cannot write a stream to."""
    jvm, state, name = spark._jvm, spark._jsparkSession.sessionState(), pipeline.sink.format
    if state.dataSourceManager().dataSourceExists(name):  # one in Python
        return
    try:
        source = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, state.conf())
    except Exception as error:
        if name == kafka.FORMAT:
            raise kafka.missing_connector(pipeline, "sink") from error
        known = ("upsert", "delta", "postgresql", "kafka", "console", "table", *FILES)
        own = ", ".join(f'"{name}"' for name in known)
        message = f"{cause_of(error)} Accepted are {own}, and the name of any other data source that Spark has."
        raise pipeline.mistake(("sink", "format"), message) from error
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    if streaming and not any(loader.loadClass(kind).isAssignableFrom(source) for kind in _STREAMED):
        message = f'must be a format that Spark can write a stream to, got {shown(name)}; or use mode = "batch".'
        raise pipeline.mistake(("sink", "format"), message)


def _mistake(pipeline: Pipeline, error: SashError) -> PipelineFileError:
    """Return an error of `upsert` as a mistake at the key of the file that it is about."""
    argument = error.argument
    if argument is not None and argument in pipeline.sink.options:
        return pipeline.mistake(("sink", "options", argument), str(error))
    if isinstance(error, UnsupportedError) and pipeline.sink.format == "postgresql":
        return pipeline.mistake(("sink", "format"), str(error))
    if argument == "table" and pipeline.sink.format in TO_PATHS:
        message = 'a database file needs a table for the results, as in options = { table = "results" }.'
        return pipeline.mistake(("sink", "path"), message)
    return pipeline.mistake(("sink", _place(pipeline)), str(error))


def _place(pipeline: Pipeline) -> str:
    """Return the key that names the target of an upsert."""
    return "path" if pipeline.sink.format in TO_PATHS else "table"


def start(pipeline: Pipeline, results: DataFrame, *, once: bool) -> StreamingQuery:
    """Start the query of a stream."""
    sink = pipeline.sink
    results = _written(pipeline, results)
    writer = results.writeStream.queryName(pipeline.name).outputMode("append")
    writer = writer.option("checkpointLocation", absolute(str(pipeline.checkpoint)))
    if once:
        writer = writer.trigger(availableNow=True)
    elif pipeline.trigger is not None:
        writer = writer.trigger(processingTime=_trigger(pipeline.trigger))
    if sink.upserts:
        return writer.foreachBatch(upsert_of(pipeline, results)).start()
    writer = _configured(writer, pipeline)
    query: StreamingQuery = writer.toTable(sink.table) if sink.table is not None else writer.start()
    return query


def write(pipeline: Pipeline, results: DataFrame) -> None:
    """Write the results of a batch."""
    sink = pipeline.sink
    if sink.upserts:
        merge: Any = upsert_of(pipeline, results)
        if sink.mode == "overwrite":
            merge.overwrite(results)
            return
        if "revision" in results.columns and not sink.options.get("shared") and merge.writers():
            place = _place(pipeline)
            message = f"was written by a stream, whose revisions would win over those of a batch; use another {place}."
            raise pipeline.mistake(("sink", place), message)
        merge(results, 0)
        return
    writer = _configured(_written(pipeline, results).write, pipeline).mode(sink.mode)
    if sink.format == kafka.FORMAT:
        with kafka.observed_writes(results.sparkSession):
            writer.save()
        return
    writer.saveAsTable(sink.table) if sink.table is not None else writer.save()


def _written(pipeline: Pipeline, results: DataFrame) -> DataFrame:
    """Return what is written of the results: the rows themselves, or records of Kafka."""
    return kafka.records_of(results, pipeline.identity) if pipeline.sink.format == kafka.FORMAT else results


def _configured(writer: Any, pipeline: Pipeline) -> Any:
    sink = pipeline.sink
    if sink.format == kafka.FORMAT:
        return writer.format(kafka.FORMAT).options(**kafka.sink_options(pipeline))
    if sink.format != "table":
        writer = writer.format(sink.format)
    if sink.path is not None:
        writer = writer.option("path", absolute(sink.path))
    return writer.options(**{name: text_of(value) for name, value in sink.options.items()})


def _trigger(duration: str) -> str:
    return f"{nanoseconds(duration, 'trigger') // 10**6} milliseconds"
