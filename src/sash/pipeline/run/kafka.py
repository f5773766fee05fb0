"""Kafka in pipelines: records of topics as rows, results as records, and what to say where the connector is missing."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from sash.errors import shown
from sash.pipeline.config.errors import PipelineFileError
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run.error_text import cause_of
from sash.pipeline.run.option_text import text_of
from sash.pipeline.run.steps import MALFORMED, ORIGIN
from sash.spark.columns import column
from sash.spark.jars import kafka_connector

FORMAT = "kafka"
# The columns that a source adds to those of the value, and where the connector has them.
COLUMNS = {
    "kafka_key": "key",
    "kafka_headers": "headers",
    "kafka_timestamp": "timestamp",
    "kafka_topic": "topic",
    "kafka_partition": "partition",
    "kafka_offset": "offset",
}
_VALUE, _BROKEN = "value", "__sash_broken"
_OLDER = "spark.sql.sources.useV1SourceList"
_NOT_FOUND = "Failed to find data source: kafka"
# Times in full: with milliseconds, as in Spark's default, results of different times would have one key.
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}


# --- the source -----------------------------------------------------------------------------------


def rows_of(pipeline: Pipeline, reader: Any, schema: StructType | None) -> DataFrame:
    """Return the records of the topics as rows; `schema` has the columns of their values in JSON."""
    taken = [name for name in schema.names if name in COLUMNS] if schema is not None else []
    if taken:
        message = f"must not have a column {shown(taken[0])}, which the source adds."
        raise pipeline.mistake(("source", "schema"), message)
    options = _source_options(pipeline)
    try:
        records: DataFrame = reader.format(FORMAT).options(**options).load()
    except Exception as error:
        raise _mistake(pipeline, "source", error) from error
    place = F.struct("topic", "partition", "offset").alias(ORIGIN)
    around = [F.col(of).alias(name) for name, of in COLUMNS.items() if of in records.columns]
    if schema is None:
        return records.select(F.col(_VALUE), *around, place)
    return records.select(*_decoded(schema, options), *around, place)


def _decoded(schema: StructType, options: dict[str, str]) -> list[Column]:
    """Return the columns of values in JSON, and the text of those that are malformed."""
    text = F.col(_VALUE).cast("string")
    # As the only field of an object: Spark's parser ignores what comes after the end of a value that stands alone.
    whole = F.concat(F.lit(f'{{"{_VALUE}":'), text, F.lit("}"))
    shape = StructType().add(_VALUE, schema).add(_BROKEN, StringType())
    parsed = F.from_json(whole, shape, {**options, "columnNameOfCorruptRecord": _BROKEN})
    good = F.is_valid_utf8(text) & parsed[_BROKEN].isNull() & parsed[_VALUE].isNotNull()
    shown_text = F.coalesce(F.make_valid_utf8(text), F.lit("null"))
    malformed = F.when(~F.coalesce(good, F.lit(False)), shown_text)
    return [*[parsed[_VALUE][name].alias(name) for name in schema.names], malformed.alias(MALFORMED)]


def _source_options(pipeline: Pipeline) -> dict[str, str]:
    source = pipeline.source
    # From the beginning, so that a stream and a batch read the same records.
    options = {"startingOffsets": "earliest", "includeHeaders": "true"}
    if any(name.lower().startswith("starting") for name in source.options):
        del options["startingOffsets"]
    if source.topic is not None:
        options["subscribe"] = ",".join(source.topic)
    return options | _options(source.servers, source.options)


def unread(pipeline: Pipeline) -> list[str]:
    """Return the columns of the source's own that nothing after the steps reads, to be left behind there.

    Of questions, whose columns all come back, those stay that a step selects.
    """
    rolling = pipeline.rolling
    read = {*rolling.keys, rolling.time, rolling.id, *rolling.carry, pipeline.quarantine.ahead_of}
    read |= {name for agg in rolling.aggs.values() for name in agg.columns}
    read |= set(re.findall(r"\w+", rolling.retract or ""))
    if pipeline.origin.table == "at":
        read |= {name for step in pipeline.steps for one in step.select or () for name in re.findall(r"\w+", one)}
    return [name for name in COLUMNS if name not in read]


# --- the sink -------------------------------------------------------------------------------------


def records_of(results: DataFrame, identity: list[str]) -> DataFrame:
    """Return results as records: the identity as the key, the row as the value, null for one that is deleted.

    The revision is a header too, because a record without a value has no other place for it.
    """
    names = results.columns
    row = _json([name for name in names if name != "deleted"])
    value = row if "deleted" not in names else F.when(~F.coalesce(F.col("deleted"), F.lit(False)), row)
    columns = [_json(identity).alias("key"), value.alias(_VALUE)]
    if "revision" in names:
        header = F.struct(
            F.lit("revision").alias("key"), F.col("revision").cast("string").cast("binary").alias("value")
        )
        columns.append(F.array(header).alias("headers"))
    return results.select(*columns)


def _json(names: list[str]) -> Column:
    return F.to_json(F.struct(*[column(name) for name in names]), _JSON)


def sink_options(pipeline: Pipeline) -> dict[str, str]:
    """Return the options of the writer."""
    sink = pipeline.sink
    return {"topic": str(sink.topic), "includeHeaders": "true"} | _options(sink.servers, sink.options)


@contextmanager
def observed_writes(spark: SparkSession) -> Iterator[None]:
    """Have Spark write batches by the newer of its two interfaces for the connector.

    By the older one, its default, the plan runs outside of the command that writes. Nothing completes the observations
    of the plan then, and whoever asks for the counts waits forever.
    """
    before = str(spark.conf.get(_OLDER))
    spark.conf.set(_OLDER, ",".join(name for name in before.split(",") if name.strip().lower() != FORMAT))
    try:
        yield
    finally:
        spark.conf.set(_OLDER, before)


def _options(servers: list[str] | None, options: dict[str, Any]) -> dict[str, str]:
    given = {name: text_of(value) for name, value in options.items()}
    return given if servers is None else {"kafka.bootstrap.servers": ",".join(servers), **given}


# --- the connector --------------------------------------------------------------------------------


def uses_kafka(pipeline: Pipeline) -> bool:
    """Return whether a pipeline reads from Kafka or writes to it."""
    history = None if pipeline.history is None else pipeline.history.format
    return reads_kafka(pipeline) or FORMAT in (pipeline.sink.format, history)


def reads_kafka(pipeline: Pipeline) -> bool:
    """Return whether events or questions come from Kafka."""
    return FORMAT in (pipeline.source.format, None if pipeline.at is None else pipeline.at.format)


def _mistake(pipeline: Pipeline, table: str, error: Exception) -> PipelineFileError:
    """Return an error of the connector, or that it is missing, as a mistake at the key that it is about."""
    if _NOT_FOUND in str(error):
        return missing_connector(pipeline, table)
    return pipeline.mistake((table, "options"), cause_of(error))


def missing_connector(pipeline: Pipeline, table: str) -> PipelineFileError:
    """Return the error for a session that was started without the connector."""
    message = (
        "Spark's Kafka connector is not on the class path of the running session; start it with spark.jars.packages "
        f"set to {shown(kafka_connector())}, or with the jars in spark.jars."
    )
    return pipeline.mistake((table, "format"), message)
