"""What is asked of a DataFrame, checked against its columns before anything runs.

The engine itself answers for a table of these columns without a row. Whatever it refuses is refused here, on the
driver, and the columns that it gives are those of the result.
"""

from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from sash import durations
from sash.errors import ArgumentError, shown
from sash.inputs import arrow
from sash.keyed.rolling import rolling
from sash.keyed.spec import Asked
from sash.monoid import Monoid
from sash.spark import schema
from sash.spark.batch import partition
from sash.spark.batch.partition import Grid, Question

_WINDOW = ("window_start", "window_end")
_RESOLUTION = b"sash.resolution"


def question_of(given: spark.StructType, asked: Asked) -> tuple[Question, spark.StructType]:
    """Give what a partition is asked, and the columns of its answers."""
    names, time, options = list(asked.keys), asked.time, _options(asked)
    places = _places(given, names, time, asked.aggs)
    nothing = _nothing(given, places)
    answers = rolling(nothing, keys=names, time=time, **options).schema
    unit = arrow.unit_of(nothing, time)
    largest = max(durations.ticks_of(size, unit, "windows") for size in durations.listed(options["windows"]))
    grid = _grid(options, unit, largest)
    own = places if grid is None else [*names, *_WINDOW]
    results = _known([field for field in answers if field.name not in own])
    question = Question(
        keys=tuple(names),
        time=time,
        options=options,
        places=tuple(place for place, _ in places.values()),
        names=tuple(places),
        results=results,
        reach=largest if options.get("closed") == "left" else largest - 1,
        grid=grid,
        rows=partition.ROWS,
    )
    return question, _events(given, question) if grid is None else _boundaries(given, question, answers)


def _options(asked: Asked) -> dict[str, Any]:
    """Give the words that `sash.rolling` takes."""
    words = {"windows": list(asked.windows), "aggs": asked.aggs, "on_error": asked.on_error, "closed": asked.closed}
    sliding = {"every": asked.every, "offset": asked.offset, "resolution": asked.resolution}
    return words | ({} if asked.every is None else sliding)


# --- columns in -----------------------------------------------------------------------------------


def _places(given: spark.StructType, keys: list[str], time: Any, aggs: Any) -> dict[str, tuple[int, str]]:
    """Give where each column is that is read, and the argument that names it."""
    wanted = [(name, "keys") for name in keys] + [(time, "time")]
    monoids = aggs.values() if isinstance(aggs, dict) else ()
    wanted += [(name, "aggs") for monoid in monoids if isinstance(monoid, Monoid) for name in monoid.columns]
    places: dict[str, tuple[int, str]] = {}
    for name, argument in wanted:
        places.setdefault(name, (schema.place_of(given, name, argument), argument))
    for name in keys:
        schema.require_plain_text(given.fields[places[name][0]])
    return places


def _nothing(given: spark.StructType, places: dict[str, tuple[int, str]]) -> pa.Table:
    """Give the columns that are read as a table without rows."""
    fields = [schema.arrow_field(given.fields[place], argument) for place, argument in places.values()]
    return pa.schema(fields).empty_table()


def _grid(options: dict[str, Any], unit: str | None, largest: int) -> Grid | None:
    if options.get("every") is None:
        return None
    offset, resolution = options.get("offset"), options.get("resolution")
    return Grid(
        every=durations.ticks_of(options["every"], unit, "every"),
        offset=0 if offset is None else durations.ticks_of(offset, unit, "offset", least=-(2**62)),
        resolution=1 if resolution is None else durations.ticks_of(resolution, unit, "resolution"),
        largest=largest,
    )


# --- columns out ----------------------------------------------------------------------------------


def _known(results: list[pa.Field]) -> pa.Schema:
    """Give the results, all of whose types must be known before they are there."""
    for field in results:
        if pa.types.is_null(field.type):
            raise ArgumentError(
                f"aggs: the type of {field.name} is not known before it runs; give its monoid returns=, as in "
                'returns="float64".'
            )
    return pa.schema(results)


def _events(given: spark.StructType, question: Question) -> spark.StructType:
    """Give the columns of rows with their answers: all that there were, then the results."""
    schema.require_passable(given)
    for name in question.results.names:
        if name in given.names:
            raise ArgumentError(f"aggs: df has a column {shown(name)} already; give the aggregate another name.")
    return spark.StructType(given.fields + _fields(question.results))


def _boundaries(given: spark.StructType, question: Question, answers: pa.Schema) -> spark.StructType:
    """Give the columns of boundaries: keys, the window, the results; a resolution is said with the window's end."""
    known = dict(zip(question.names, question.places, strict=True))
    keys = [given.fields[known[name]] for name in question.keys]
    windows = _fields(field for field in answers if field.name in _WINDOW)
    resolution = (answers.metadata or {}).get(_RESOLUTION)
    if resolution is not None:
        windows[-1].metadata = {_RESOLUTION.decode(): resolution.decode()}
    return spark.StructType(keys + windows + _fields(question.results))


def _fields(fields: Any) -> list[spark.StructField]:
    return [spark.StructField(field.name, schema.spark_type(field.type)) for field in fields]
