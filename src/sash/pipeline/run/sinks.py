"""Where results go: an upsert, any format of Spark's, or a table; of a stream and of a batch."""

from typing import Any

from pyspark.sql import DataFrame

from sash.durations import nanoseconds
from sash.errors import SashError
from sash.pipeline.config.errors import after_its_name
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run.dataframes import placed, text_of
from sash.spark import upsert


def upsert_of(pipeline: Pipeline, results: DataFrame) -> Any:
    """Give the function that merges results into what is there, or refuse its options."""
    columns, options = results.columns, dict(pipeline.sink.options)
    revised = "revision" in columns
    options.setdefault("keys", identity(pipeline))
    try:
        merge = upsert(
            str(pipeline.sink.path),
            **options,
            revision="revision" if revised else None,
            deleted="deleted" if "deleted" in columns else None,
        )
        merge.check(results.schema)  # type: ignore[attr-defined]
    except SashError as error:
        argument, said = after_its_name(error)
        if argument == "table" and "table" not in pipeline.sink.options:
            said = 'a table in it is needed; give one by options, as in options = { table = "results" }.'
        known = argument is not None and argument in pipeline.sink.options
        raise pipeline.mistake(("sink", "options", str(argument)) if known else ("sink", "path"), said) from error
    return merge


def identity(pipeline: Pipeline) -> list[str]:
    """Give the columns that tell results apart: the keys and the instant, and the id of an event that has one."""
    rolling = pipeline.rolling
    if rolling.every is not None:
        return [*rolling.keys, "window_end"]
    return [*rolling.keys, rolling.time, *([rolling.id] if rolling.id is not None else [])]


def started(pipeline: Pipeline, results: DataFrame, *, once: bool) -> Any:
    """Start the query of a stream."""
    sink = pipeline.sink
    writer = results.writeStream.queryName(pipeline.name).outputMode("append")
    writer = writer.option("checkpointLocation", placed(str(pipeline.checkpoint)))
    if once:
        writer = writer.trigger(availableNow=True)
    elif pipeline.trigger is not None:
        writer = writer.trigger(processingTime=_trigger(pipeline.trigger))
    if sink.format == "upsert":
        return writer.foreachBatch(upsert_of(pipeline, results)).start()
    writer = _described(writer, pipeline)
    return writer.toTable(sink.table) if sink.table is not None else writer.start()


def written(pipeline: Pipeline, results: DataFrame) -> None:
    """Write the results of a batch."""
    sink = pipeline.sink
    if sink.format == "upsert":
        upsert_of(pipeline, results)(results, 0)
        return
    writer = _described(results.write, pipeline).mode(sink.mode)
    writer.saveAsTable(sink.table) if sink.table is not None else writer.save()


def _described(writer: Any, pipeline: Pipeline) -> Any:
    sink = pipeline.sink
    if sink.format != "table":
        writer = writer.format(sink.format)
    if sink.path is not None:
        writer = writer.option("path", placed(sink.path))
    return writer.options(**{name: text_of(value) for name, value in sink.options.items()})


def _trigger(duration: str) -> str:
    return f"{nanoseconds(duration, 'trigger') // 10**6} milliseconds"
