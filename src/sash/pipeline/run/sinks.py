"""Where results go: an upsert, any Spark format, or a table; for streams and batches."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from sash.durations import nanoseconds
from sash.errors import SashError
from sash.pipeline.config.read import Pipeline, PipelineFileError
from sash.pipeline.run.dataframes import absolute, text_of
from sash.spark import upsert


def upsert_of(pipeline: Pipeline, results: DataFrame) -> Callable[[DataFrame, int], None]:
    """Return the function that merges results into the target, or raise an error for its options."""
    columns, options = results.columns, dict(pipeline.sink.options)
    options.setdefault("keys", identity(pipeline))
    try:
        merge = upsert(
            str(pipeline.sink.path),
            **options,
            revision="revision" if "revision" in columns else None,
            deleted="deleted" if "deleted" in columns else None,
        )
        merge.check(results.schema)  # type: ignore[attr-defined]
    except SashError as error:
        raise _mistake(pipeline, error) from error
    return merge


def _mistake(pipeline: Pipeline, error: SashError) -> PipelineFileError:
    """Return an error of `upsert` as a mistake at the key of the file that it is about."""
    argument = error.argument
    if argument is not None and argument in pipeline.sink.options:
        return pipeline.mistake(("sink", "options", argument), str(error))
    if argument == "table":
        message = 'a database file needs a table for the results, as in options = { table = "results" }.'
        return pipeline.mistake(("sink", "path"), message)
    return pipeline.mistake(("sink", "path"), str(error))


def identity(pipeline: Pipeline) -> list[str]:
    """Return the columns that identify a result: the keys and the time, and the id where there is one."""
    rolling = pipeline.rolling
    if rolling.every is not None:
        return [*rolling.keys, "window_end"]
    return [*rolling.keys, rolling.time, *([rolling.id] if rolling.id is not None else [])]


def start(pipeline: Pipeline, results: DataFrame, *, once: bool) -> StreamingQuery:
    """Start the query of a stream."""
    sink = pipeline.sink
    writer = results.writeStream.queryName(pipeline.name).outputMode("append")
    writer = writer.option("checkpointLocation", absolute(str(pipeline.checkpoint)))
    if once:
        writer = writer.trigger(availableNow=True)
    elif pipeline.trigger is not None:
        writer = writer.trigger(processingTime=_trigger(pipeline.trigger))
    if sink.format == "upsert":
        return writer.foreachBatch(upsert_of(pipeline, results)).start()
    writer = _configured(writer, pipeline)
    query: StreamingQuery = writer.toTable(sink.table) if sink.table is not None else writer.start()
    return query


def write(pipeline: Pipeline, results: DataFrame) -> None:
    """Write the results of a batch."""
    sink = pipeline.sink
    if sink.format == "upsert":
        upsert_of(pipeline, results)(results, 0)
        return
    writer = _configured(results.write, pipeline).mode(sink.mode)
    writer.saveAsTable(sink.table) if sink.table is not None else writer.save()


def _configured(writer: Any, pipeline: Pipeline) -> Any:
    sink = pipeline.sink
    if sink.format != "table":
        writer = writer.format(sink.format)
    if sink.path is not None:
        writer = writer.option("path", absolute(sink.path))
    return writer.options(**{name: text_of(value) for name, value in sink.options.items()})


def _trigger(duration: str) -> str:
    return f"{nanoseconds(duration, 'trigger') // 10**6} milliseconds"
