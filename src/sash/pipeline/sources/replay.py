"""Files replayed in order of arrival: the rows of Parquet, CSV or JSON files, with fixed row numbers; no Spark.

A file is read in units: row groups of Parquet, whole files otherwise. Row i is the i-th by the arrival column; rows
that arrived together are ordered by file name and position. Where files are in that order already, nothing is permuted
and a range of rows reads only its own units. The index, one number per row, exists only in the process that plans.
"""

import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash.errors import ArgumentError, KindError, shown
from sash.inputs.arrow import pyarrow
from sash.locations import local_path
from sash.pipeline.sources.options import Options

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, Field, RecordBatch, Schema, Table, TimestampType

_TYPES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Unit:
    """A range of rows that is read at once: a row group, or a whole file."""

    path: str
    group: int | None
    rows: int


@dataclass(frozen=True)
class Index:
    """The starts of the units, the arrival times of the rows, and their order where it is not that of the files."""

    starts: Places
    arrivals: Places | None
    order: Places | None


@dataclass(frozen=True)
class Replay:
    """A definition of files to replay, made by `replay`; rows are cast to `own_schema` if there is one."""

    path: str
    files: tuple[str, ...]
    filetype: str
    arrived_by: str | None
    own_schema: "Schema | None" = None

    @property
    def schema(self) -> "Schema":
        """The Arrow schema of the rows."""
        return self.own_schema or _schema_of(self.files, self.filetype)

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(_index(self).starts[-1])

    @property
    def fingerprint(self) -> str:
        """A short hash of what determines the rows: the names and sizes of the files, and the arrival column."""
        sizes = [f"{os.path.relpath(name, self.path)} {os.path.getsize(name)}" for name in self.files]
        return blake2b("\n".join([str(self.arrived_by), *sizes]).encode(), digest_size=8).hexdigest()

    def arrival(self, row: int) -> int:
        """Return the arrival time of a row, in microseconds since 1970."""
        return int(self._arrivals()[row])

    def arrived(self, time: int) -> int:
        """Return the number of rows that have arrived up to and including a time."""
        return int(np.searchsorted(self._arrivals(), time, side="right"))

    def places(self, start: int, stop: int) -> Places | None:
        """Return the positions of rows [start, stop) in the files, or None where they are consecutive."""
        order = _index(self).order
        return None if order is None else order[start:stop]

    def batches(
        self, start: int, stop: int, places: Places | None = None, size: int = 2**16
    ) -> Iterator["RecordBatch"]:
        """Yield rows [start, stop) in Arrow batches; with `places` a reader does not need the index of all rows."""
        if places is None:
            pieces = self._range(start, stop)
        else:
            pieces = (self._picked(places[at : at + size]) for at in range(0, places.size, size))
        for piece in pieces:
            yield from fitted(piece, self.schema).to_batches(max_chunksize=size)

    def _arrivals(self) -> Places:
        arrivals = _index(self).arrivals
        assert arrivals is not None
        return arrivals

    def _range(self, start: int, stop: int) -> Iterator["Table"]:
        first = 0
        for unit in _units(self.files, self.filetype):
            if first < stop and first + unit.rows > start:
                table = _read(self.filetype, unit.path, unit.group)
                yield table.slice(max(start - first, 0), min(stop, first + unit.rows) - max(start, first))
            first += unit.rows

    def _picked(self, places: Places) -> "Table":
        """Return rows at any positions, in the order given, reading each unit once."""
        pa, units = pyarrow(), _units(self.files, self.filetype)
        starts = _starts(units)
        at = np.searchsorted(starts, places, side="right") - 1
        by_unit = np.argsort(at, kind="stable")
        tables = []
        for number in np.unique(at):
            unit = units[number]
            rows = _read(self.filetype, unit.path, unit.group).take(pa.array(places[at == number] - starts[number]))
            tables.append(fitted(rows, self.schema))
        back = np.empty_like(by_unit)
        back[by_unit] = np.arange(by_unit.size)
        return pa.concat_tables(tables).take(pa.array(back))


def replay(schema: "Schema | None" = None, **options: Any) -> Replay:
    """Return a definition of files to replay from the options of the `replay` source."""
    read = Options(options, "replay")
    definition = read_replay(read, schema)
    read.done()
    return definition


def read_replay(read: Options, schema: "Schema | None" = None) -> Replay:
    """Return a definition of files to replay from options, which may include others."""
    path = read.text("path", None)
    if path is None:
        raise ArgumentError(
            "path must be a file, a directory or a pattern such as data/*.parquet, got None.", argument="path"
        )
    local = str(local_path(path, "path"))
    path = local if str(path).lower().startswith("file:") else str(path)
    files = _files_of(path)
    by_name = "" if read.has("files") else _type_of(files, path)
    filetype = read.choice("files", by_name, ("parquet", "csv", "json"))
    definition = Replay(_root_of(path), files, filetype, read.text("arrival", None), schema)
    if schema is not None:
        for name in schema.names:
            _require_column(name, _schema_of(files, filetype), "schema")
    if definition.arrived_by is not None:
        _require_column(definition.arrived_by, definition.schema, "arrival")
    if read.has("speed") and read.speed() is not None:
        _require_timestamps(definition)
    return definition


def _require_column(name: str, schema: "Schema", argument: str) -> None:
    if name not in schema.names:
        raise ArgumentError(
            f"{argument} must name columns of the files, {', '.join(schema.names)}, got {shown(name)}.",
            argument=argument,
            column=name,
        )


def _require_timestamps(definition: Replay) -> None:
    if definition.arrived_by is None:
        raise ArgumentError("speed needs the column of arrival times as the option arrival.", argument="speed")
    kind = definition.schema.field(definition.arrived_by).type
    if not pyarrow().types.is_timestamp(kind):
        raise KindError(
            f"arrival must be a column of timestamps for a speed, got {kind} in {shown(definition.arrived_by)}.",
            argument="arrival",
            column=definition.arrived_by,
        )


def _root_of(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(path) or "."


def _files_of(path: str) -> tuple[str, ...]:
    """Return the files of a path or pattern by name, without hidden ones, as Spark does."""
    if os.path.isdir(path):
        inside = (file for file in Path(path).rglob("*") if file.is_file())
        files = [str(file) for file in inside if not _hidden(file.relative_to(path))]
    else:
        files = [file for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
    if not files:
        raise ArgumentError(
            f"path must be a file, a directory or a pattern, got {shown(path)}, which matches no file.", argument="path"
        )
    return tuple(sorted(files))


def _hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _type_of(files: tuple[str, ...], path: str) -> str:
    types = {_TYPES.get(_suffix(file)) for file in files}
    (only, *others) = types
    if others or only is None:
        endings = ", ".join(sorted({_suffix(file) or "none" for file in files}))
        raise ArgumentError(
            f"files must be set to parquet, csv or json, because the files at {shown(path)} end in {endings}.",
            argument="files",
        )
    return only


def _suffix(file: str) -> str:
    for ending in _COMPRESSED:
        file = file.removesuffix(ending)
    return Path(file).suffix.lower()


@lru_cache(maxsize=4)
def _units(files: tuple[str, ...], filetype: str) -> tuple[Unit, ...]:
    if filetype != "parquet":
        return tuple(Unit(file, None, _read(filetype, file, None).num_rows) for file in files)
    units = []
    for file in files:
        metadata = _opened(file, lambda name: _parquet().ParquetFile(name).metadata)
        units += [Unit(file, group, metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)]
    return tuple(units)


@lru_cache(maxsize=4)
def _schema_of(files: tuple[str, ...], filetype: str) -> "Schema":
    """Return the schema that fits the rows of all files: int in one and float in another is float."""
    pa = pyarrow()
    if filetype == "parquet":
        schemas = [_opened(file, _parquet().read_schema) for file in files]
    else:
        schemas = [_read(filetype, file, None).schema for file in files]
    try:
        return pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        reason = " ".join(str(error).split())
        raise KindError(f"path must have files with compatible schemas: {reason}.", argument="path") from error


@lru_cache(maxsize=4)
def _read(filetype: str, file: str, group: int | None) -> "Table":
    """Return the rows of a unit; the last few are cached, because adjacent ranges of rows read the same ones."""
    if filetype == "parquet":
        return _opened(file, lambda name: _parquet().ParquetFile(name).read_row_group(group))
    if filetype == "csv":
        from pyarrow import csv

        return _opened(file, csv.read_csv)
    from pyarrow import json

    return _opened(file, json.read_json)


def _parquet() -> Any:
    import pyarrow.parquet

    return pyarrow.parquet


def _opened(file: str, read: Callable[[str], Any]) -> Any:
    """Return what `read` returns for a file, or raise an error that names the file."""
    try:
        return read(file)
    except (pyarrow().ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise ArgumentError(f"path has an unreadable file, {shown(file)}: {reason}.", argument="path") from error


def _starts(units: tuple[Unit, ...]) -> Places:
    return np.concatenate([[0], np.cumsum([unit.rows for unit in units], dtype=np.int64)]).astype(np.int64)


@lru_cache(maxsize=2)
def _index(definition: Replay) -> Index:
    units = _units(definition.files, definition.filetype)
    if definition.arrived_by is None:
        return Index(_starts(units), None, None)
    column = np.concatenate([_arrival_times(definition, unit) for unit in units] or [np.empty(0, dtype=np.int64)])
    if not (np.diff(column) < 0).any():
        return Index(_starts(units), column, None)
    order = np.argsort(column, kind="stable")
    return Index(_starts(units), column[order], order)


def _arrival_times(definition: Replay, unit: Unit) -> Places:
    """Return the arrival times of the rows of a unit as numbers; null sorts first."""
    pa, name = pyarrow(), definition.arrived_by
    assert name is not None
    if definition.filetype == "parquet":
        table = _parquet().ParquetFile(unit.path).read_row_group(unit.group, columns=[name])
    else:
        table = _read(definition.filetype, unit.path, unit.group)
    column = fitted(table, pa.schema([definition.schema.field(name)])).column(0)
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.int64())
    elif not pa.types.is_integer(kind):
        raise KindError(
            f"arrival must be a column of timestamps or integers, got {kind} in {shown(name)}.",
            argument="arrival",
            column=name,
        )
    return np.asarray(column.cast(pa.int64()).fill_null(-(2**63)))


def fitted(table: "Table", schema: "Schema") -> "Table":
    """Return a table with the columns and types of a schema; missing columns are null."""
    pa = pyarrow()
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(_cast(table.column(field.name), field))
        else:
            columns.append(pa.nulls(table.num_rows, field.type))
    return pa.table(columns, schema=schema) if columns else table.select([])


def _cast(column: "ChunkedArray", field: "Field") -> "ChunkedArray":
    pa = pyarrow()
    if column.type == field.type:
        return column
    try:
        if pa.types.is_timestamp(field.type) and pa.types.is_string(column.type):
            return _parsed(column, field.type)
        # Spark has no nanoseconds: timestamps are truncated to microseconds.
        return column.cast(field.type, safe=not pa.types.is_timestamp(field.type))
    except pa.ArrowInvalid as error:
        reason = " ".join(str(error).split())
        raise KindError(
            f"path has {column.type} in the column {shown(field.name)} that cannot be cast to {field.type}: {reason}.",
            argument="path",
            column=field.name,
        ) from error


def _parsed(column: "ChunkedArray", kind: "TimestampType") -> "ChunkedArray":
    """Return timestamps parsed from text, in UTC where they have no time zone."""
    pa = pyarrow()
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        other = pa.timestamp(kind.unit) if kind.tz else pa.timestamp(kind.unit, tz="UTC")
        return column.cast(other).cast(kind)
