"""A pipeline as DataFrames: source, steps, quarantine, watermark, rolling; of a stream and of a batch alike.

Nothing runs here. What Spark or `sash.spark.rolling` refuse is told with the line of the key that it is about.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, StructType

from sash import durations
from sash.errors import ArgumentError, SashError, shown
from sash.pipeline.config.errors import Mistake, PipelineFileError, after_its_name
from sash.pipeline.config.read import Pipeline
from sash.pipeline.config.toml_lines import Path
from sash.pipeline.run import quarantine
from sash.pipeline.run.error_text import told
from sash.pipeline.run.quarantine import MALFORMED
from sash.spark import rolling
from sash.spark.columns import column

OURS = ("demo", "replay")
_RECORDS = ("csv", "json", "xml")  # formats that can tell what they could not read
_SIGNS = {"PATH_NOT_FOUND": "path", "DATA_SOURCE_NOT_FOUND": "format", "TABLE_OR_VIEW_NOT_FOUND": "table"}
_NOT_THEIRS = re.compile(f",? ?`{MALFORMED}`")  # a column of ours, which Spark suggests among others
_ABSOLUTE = re.compile(r"/|[a-zA-Z][a-zA-Z0-9+.-]*:")


@dataclass(frozen=True)
class Frames:
    """What a pipeline is made of, and what counts while it runs: observations of a batch, none of a stream."""

    source: DataFrame
    rows: DataFrame
    results: DataFrame
    drawn: str | None
    observed: dict[str, Observation]


def frames_of(pipeline: Pipeline, spark: SparkSession, *, streaming: bool, finishing: bool = False) -> Frames:
    """Build the DataFrames of a pipeline, or refuse it before anything runs."""
    names: dict[str, Any] = {name: name if streaming else Observation(name) for name in ("quarantine", "results")}
    source = source_of(pipeline, spark, streaming=streaming)
    stepped = _stepped(pipeline, source)
    _require_columns(pipeline, [name for name in stepped.columns if name != MALFORMED])
    with _blamed(pipeline, ("quarantine",)):
        rows = quarantine.kept(quarantine.counted(stepped, pipeline, names["quarantine"]), pipeline)
    if streaming:
        rows = _watched(pipeline, rows, spark, finishing)
    try:
        results = rolling(rows, **pipeline.rolling.words())
    except SashError as error:
        argument, said = after_its_name(error)
        raise pipeline.mistake(_path_of(pipeline, argument, said), said.replace("df has", "the rows have")) from error
    drawn = drawn_column(pipeline, results.schema)
    observed = {} if streaming else names
    return Frames(source, rows, _observed(pipeline, results, drawn, names["results"]), drawn, observed)


# --- the source -----------------------------------------------------------------------------------


def source_of(pipeline: Pipeline, spark: SparkSession, *, streaming: bool) -> DataFrame:
    """Give the rows as they come."""
    source = pipeline.source
    reader: Any = spark.readStream if streaming else spark.read
    options = {name: text_of(value) for name, value in source.options.items()}
    if source.format in OURS:
        from sash.pipeline.sources import spark_source  # which older versions of pyspark lack the means for

        spark_source.register(spark)
    with _blamed(pipeline, ("source",), options):
        if source.table is not None:
            rows: DataFrame = reader.options(**options).table(source.table)
            return rows
        corrupt = None
        if source.columns is not None:
            with _blamed(pipeline, ("source", "schema")):
                schema = _columns(source.columns)
            schema, corrupt = _with_corrupt(schema, source.format, options)
            reader = reader.schema(schema)
        reader = reader.format(source.format).options(**options)
        df: DataFrame = reader.load() if source.path is None else reader.load(placed(source.path))
    return df if corrupt is None else df.withColumnRenamed(corrupt, MALFORMED)


def _columns(text: str) -> StructType:
    found = StructType.fromDDL(text)
    if not isinstance(found, StructType):
        raise ArgumentError(f'{shown(text)} names no columns; give them, as in "card string, at timestamp".')
    return found


def _with_corrupt(schema: StructType, kind: str | None, options: dict[str, str]) -> tuple[StructType, str | None]:
    """Have malformed records come with their text, unless the file says otherwise what becomes of them."""
    given = {name.lower(): value for name, value in options.items()}
    name = given.get("columnnameofcorruptrecord", "_corrupt_record")
    if kind not in _RECORDS or given.get("mode", "PERMISSIVE").upper() != "PERMISSIVE" or name in schema.names:
        return schema, None
    options["columnNameOfCorruptRecord"] = name
    if kind == "csv":
        # A reader of some columns would not see what is wrong with the others.
        options.setdefault("columnPruning", "false")
    return StructType(schema.fields).add(name, StringType()), name


def placed(path: str) -> str:
    """Give a path that means the same wherever Spark runs: a relative one is relative to the working directory."""
    return path if _ABSOLUTE.match(path) else os.path.abspath(path)


def text_of(value: Any) -> str:
    """Give an option as Spark takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- steps, watermark, results --------------------------------------------------------------------


def _stepped(pipeline: Pipeline, df: DataFrame) -> DataFrame:
    """Apply the steps; malformed records go around them, for their columns are null and say nothing."""
    marked = MALFORMED in df.columns
    for place, step in enumerate(pipeline.steps):
        if step.where is not None:
            with _blamed(pipeline, ("steps", place, "where")):
                condition = F.expr(step.where)
                df = df.filter(condition | F.col(MALFORMED).isNotNull() if marked else condition)
        else:
            with _blamed(pipeline, ("steps", place, "select")):
                chosen = df.selectExpr(*(step.select or []))
                lost = marked and MALFORMED not in chosen.columns
                df = df.selectExpr(*(step.select or []), MALFORMED) if lost else chosen
    return df


def _watched(pipeline: Pipeline, rows: DataFrame, spark: SparkSession, finishing: bool) -> DataFrame:
    """Give a stream its watermark, and its end where it is to have one."""
    if pipeline.finish:
        from sash.pipeline.sources.end_of_stream import FORMAT, EndSource

        spark.dataSource.register(EndSource)
        end = spark.readStream.format(FORMAT).schema(rows.schema)
        rows = rows.unionAll(end.options(time=pipeline.rolling.time, finishing=text_of(finishing)).load())
    with _blamed(pipeline, ("rolling", "time")):
        return rows.withWatermark(_quoted(pipeline.rolling.time), _interval(str(pipeline.source.watermark)))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _interval(duration: str) -> str:
    """Give a duration in the words of Spark's, which knows no "10m"."""
    return f"{durations.nanoseconds(duration, 'watermark') // 1000} microseconds"


def drawn_column(pipeline: Pipeline, schema: StructType) -> str | None:
    """Give the column of results that the view draws: the one asked for, or the first that holds numbers."""
    wanted = pipeline.view.column
    if wanted is not None and wanted not in schema.names:
        said = f"there is no column {shown(wanted)}; the results have {', '.join(schema.names)}."
        raise pipeline.mistake(("view", "column"), said)
    sizes = [durations.name_of(size) for size in pipeline.rolling.windows]
    names = [f"{name}_{size}" for name in pipeline.rolling.aggs for size in sizes] if wanted is None else [wanted]
    numbers = (name for name in names if name in schema.names and isinstance(schema[name].dataType, NumericType))
    return next(numbers, None)


def _observed(pipeline: Pipeline, results: DataFrame, drawn: str | None, name: Any) -> DataFrame:
    """Have results counted, and the drawn value taken at the latest instant."""
    when = "window_end" if pipeline.rolling.every is not None else pipeline.rolling.time
    live = F.lit(True) if "deleted" not in results.columns else ~F.col("deleted")
    value = F.max(F.lit(None)) if drawn is None else F.max_by(column(drawn), F.when(live, column(when)))
    return results.observe(name, F.count(F.lit(1)).alias("emitted"), value.cast("double").alias("value"))


# --- whose mistake --------------------------------------------------------------------------------


@contextmanager
def _blamed(pipeline: Pipeline, path: Path, options: Any = ()) -> Iterator[None]:
    """Tell what Spark refuses with the line of a key; an option that it names has a line of its own."""
    try:
        yield
    except PipelineFileError:
        raise
    except Exception as error:
        said = _NOT_THEIRS.sub("", told(error))
        name, _, rest = said.partition(": ")
        own = next((option for option in options if option.lower() == name), None)
        if own is not None:
            raise pipeline.mistake((*path, "options", own), rest) from error
        if path == ("source",):
            path = next((("source", key) for sign, key in _SIGNS.items() if sign in str(error)), path)
        raise pipeline.mistake(path, said) from error


def _require_columns(pipeline: Pipeline, names: list[str]) -> None:
    """Refuse columns that are not there, all at once."""
    rolling, wanted = pipeline.rolling, [(("rolling", "time"), pipeline.rolling.time)]
    asked: list[tuple[Path, str | None]] = [*wanted, (("rolling", "id"), rolling.id)]
    asked += [(("rolling", "keys", place), key) for place, key in enumerate(rolling.keys)]
    asked += [(("rolling", "carry", place), name) for place, name in enumerate(rolling.carry)]
    asked += [(("rolling", "aggs", name), read) for name, agg in rolling.aggs.items() for read in agg.columns]
    asked += [(("quarantine", "ahead_of"), pipeline.quarantine.ahead_of)]
    mistakes = [
        Mistake(path, f"there is no column {shown(name)}; the rows have {', '.join(names)}.")
        for path, name in asked
        if name is not None and name not in names
    ]
    if mistakes:
        raise pipeline.origin.error(mistakes)


def _path_of(pipeline: Pipeline, argument: str | None, said: str) -> Path:
    """Give the key that a refusal of rolling's is about; of an aggregate the one whose column it names."""
    if argument == "df" and "watermark" in said:
        return "source", "watermark"
    if argument == "aggs":
        for name, monoid in pipeline.rolling.aggs.items():
            if any(shown(read) in said for read in monoid.columns) or f" {name}_" in said:
                return "rolling", "aggs", name
    known = argument in type(pipeline.rolling).model_fields
    return ("rolling", argument) if argument is not None and known else ("rolling",)
