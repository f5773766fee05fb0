"""The request that a partition answers, checked against the columns of a DataFrame before anything runs."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from sash.errors import ArgumentError, shown
from sash.keyed.definition import Definition, require_monoids
from sash.keyed.result_schema import aggregate_fields, require_readable, result_schema
from sash.keyed.session_spec import SESSION
from sash.keyed.spec import Spec
from sash.spark import schema
from sash.spark.batch import partition
from sash.spark.batch.partition import Request

_WINDOW = ("window_start", "window_end", "session_start", "session_end")
_RESOLUTION = b"sash.resolution"


def request_of(columns: spark.StructType, spec: Spec) -> tuple[Request, spark.StructType]:
    """Return what a partition computes, and the columns of its answers."""
    places, read, definition = _read(columns, spec)
    answers = result_schema(_table_spec(spec), definition, read)
    events = spec.every is None and spec.gap is None
    own = places if events else [*spec.keys, *_WINDOW]
    results = pa.schema(field for field in answers if field.name not in own)
    request = _request(columns, spec, definition, places, results)
    output = _event_columns(columns, results) if events else _boundary_columns(columns, request, answers)
    return request, output


def question_request_of(columns: spark.StructType, spec: Spec) -> Request:
    """Return what a partition computes of the rows that questions are about."""
    places, _, definition = _read(columns, spec)
    return _request(columns, spec, definition, places, pa.schema(aggregate_fields(spec, definition)))


def _read(columns: spark.StructType, spec: Spec) -> tuple[dict[str, tuple[int, str]], pa.Schema, Definition]:
    """Return the positions of the columns that are read, their schema, and the definition of the engine for them."""
    require_monoids(spec.aggs)
    places = _places(columns, spec)
    read = pa.schema(schema.arrow_field(columns.fields[place], argument) for place, argument in places.values())
    table_spec = _table_spec(spec)
    definition = Definition.of(table_spec, read.empty_table())
    require_readable(table_spec, definition, read)
    return places, read, definition


def _request(
    columns: spark.StructType,
    spec: Spec,
    definition: Definition,
    places: dict[str, tuple[int, str]],
    results: pa.Schema,
) -> Request:
    schema.require_result_types(results)
    # Which of the rows of one time a window of the last rows holds is for their ids to say too.
    counts_rows = any(kind.kind == "rows" for _, kind in definition.windows)
    needs_ids = counts_rows or definition.foreign or not definition.native.commutative
    ids = [columns.names.index(spec.id)] if spec.id is not None and needs_ids else []
    return Request(
        keys=spec.keys,
        time=spec.time,
        options=_options(spec),
        places=tuple(place for place, _ in places.values()),
        names=tuple(places),
        results=results,
        spec=_table_spec(spec),
        ids=tuple(ids),
        rows=partition.ROWS,
        memory=partition.MEMORY,
    )


def _table_spec(spec: Spec) -> Spec:
    """Return the spec that `sash.rolling` has: of a table, without anything that only a stream has."""
    emit = "arrival" if spec.every is None and spec.gap is None else "final"
    return replace(spec, emit=emit, lateness=None, late="drop", retract=None, id=None, carry=())


def _options(spec: Spec) -> dict[str, Any]:
    """Return the options of `sash.rolling`."""
    if spec.gap is not None:
        return {"per": SESSION, "gap": spec.gap, "aggs": spec.aggs, "on_error": spec.on_error}
    options = {"windows": spec.windows, "aggs": spec.aggs, "on_error": spec.on_error, "closed": spec.closed}
    sliding = {"every": spec.every, "offset": spec.offset, "resolution": spec.resolution}
    kinds = {"zone": spec.zone, "min_rows": spec.min_rows, "idle": spec.idle}
    return options | kinds | ({} if spec.every is None else sliding)


# --- columns in -----------------------------------------------------------------------------------


def _places(columns: spark.StructType, spec: Spec) -> dict[str, tuple[int, str]]:
    """Return the position of each column that is read, and the argument that names it."""
    named = [(name, "keys") for name in spec.keys] + [(spec.time, "time")]
    named += [(name, "aggs") for monoid in spec.aggs.values() for name in monoid.columns]
    places: dict[str, tuple[int, str]] = {}
    for name, argument in named:
        places.setdefault(name, (schema.place_of(columns, name, argument), argument))
    schema.require_plain_text(columns, spec)
    return places


# --- columns out ----------------------------------------------------------------------------------


def _event_columns(columns: spark.StructType, results: pa.Schema) -> spark.StructType:
    """Return the columns of rows with their answers: all columns of the input, then the results."""
    require_extensible(columns, results.names, "df")
    return spark.StructType(columns.fields + fields_of(results))


def require_extensible(columns: spark.StructType, names: Iterable[str], argument: str) -> None:
    """Raise for columns that cannot come back with results of these names beside them."""
    schema.require_passable(columns, argument)
    for name in names:
        if name in columns.names:
            raise ArgumentError(
                f"aggs must give results new names, but {argument} has a column {shown(name)} already.",
                argument="aggs",
                column=name,
            )


def _boundary_columns(columns: spark.StructType, request: Request, answers: pa.Schema) -> spark.StructType:
    """Return the columns of boundaries: keys, the window, the results; the window's end carries the resolution."""
    places = dict(zip(request.names, request.places, strict=True))
    keys = [columns.fields[places[name]] for name in request.keys]
    windows = fields_of(field for field in answers if field.name in _WINDOW)
    resolution = (answers.metadata or {}).get(_RESOLUTION)
    if resolution is not None:
        windows[-1].metadata = {_RESOLUTION.decode(): resolution.decode()}
    return spark.StructType(keys + windows + fields_of(request.results))


def fields_of(fields: Iterable[pa.Field]) -> list[spark.StructField]:
    """Return columns of results as Spark's."""
    return [spark.StructField(field.name, schema.spark_type(field.type)) for field in fields]
