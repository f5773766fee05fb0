"""Files read again by order of arrival: the rows of Parquet, CSV or JSON files, numbered once and for all; no Spark.

A file is read in units, row groups of Parquet and whole files otherwise. Row i is the i-th by the arrival column, rows
that arrived together by file name and place; where files are in that order already, nothing is permuted and a stretch
of rows touches only its own units. The index, one number per row, lives in the process that plans the reading.
"""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.errors import ArgumentError, KindError, shown
from sash.inputs.arrow import pyarrow
from sash.pipeline.sources.options import Options

_TYPES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Unit:
    """A stretch of rows that is read at once: a row group, or a whole file."""

    path: str
    group: int | None
    rows: int


@dataclass(frozen=True)
class Index:
    """What is known of all rows: where units begin, when rows arrive, and their order where the files have another."""

    starts: Places
    arrivals: Places | None
    order: Places | None


@dataclass(frozen=True)
class Replay:
    """A definition of files to read again; `replay` makes it. `schema` is what rows are cast to, None for their own."""

    path: str
    files: tuple[str, ...]
    filetype: str
    arrived_by: str | None
    schema_given: Any = None

    @property
    def schema(self) -> Any:
        """The Arrow schema of the rows."""
        return self.schema_given or _schema_of(self.files, self.filetype)

    @property
    def total(self) -> int:
        """How many rows there are."""
        return int(_index(self).starts[-1])

    @property
    def fingerprint(self) -> str:
        """A short hash of what says which row is which: the files' names and sizes, and their order."""
        told = [f"{os.path.relpath(name, self.path)} {os.path.getsize(name)}" for name in self.files]
        return blake2b("\n".join([str(self.arrived_by), *told]).encode(), digest_size=8).hexdigest()

    def arrival(self, row: int) -> int:
        """Return when a row arrives, in microseconds since 1970."""
        return int(self._arrivals()[row])

    def arrived(self, time: int) -> int:
        """Return how many rows have arrived by an instant, itself included."""
        return int(np.searchsorted(self._arrivals(), time, side="right"))

    def places(self, start: int, stop: int) -> Places | None:
        """Return where rows [start, stop) stand in the files, or None where they stand in a row."""
        order = _index(self).order
        return None if order is None else order[start:stop]

    def batches(self, start: int, stop: int, places: Places | None = None, size: int = 2**16) -> Iterator[Any]:
        """Return rows [start, stop) in Arrow batches; `places` spares a process that reads the index of all rows."""
        if places is None:
            pieces = self._stretch(start, stop)
        else:
            pieces = (self._picked(places[at : at + size]) for at in range(0, places.size, size))
        for piece in pieces:
            yield from fitted(piece, self.schema).to_batches(max_chunksize=size)

    def _arrivals(self) -> Places:
        arrivals = _index(self).arrivals
        assert arrivals is not None
        return arrivals

    def _stretch(self, start: int, stop: int) -> Iterator[Any]:
        first = 0
        for unit in _units(self.files, self.filetype):
            if first < stop and first + unit.rows > start:
                table = _read(self.filetype, unit.path, unit.group)
                yield table.slice(max(start - first, 0), min(stop, first + unit.rows) - max(start, first))
            first += unit.rows

    def _picked(self, places: Places) -> Any:
        """Return rows from anywhere, in the order asked for, reading each unit once."""
        pa, units = pyarrow(), _units(self.files, self.filetype)
        starts = _starts(units)
        at = np.searchsorted(starts, places, side="right") - 1
        by_unit = np.argsort(at, kind="stable")
        tables = []
        for number in np.unique(at):
            wanted = places[at == number] - starts[number]
            tables.append(
                fitted(
                    _read(self.filetype, units[number].path, units[number].group).take(pa.array(wanted)), self.schema
                )
            )
        back = np.empty_like(by_unit)
        back[by_unit] = np.arange(by_unit.size)
        return pa.concat_tables(tables).take(pa.array(back))


def replay(schema: Any = None, **options: Any) -> Replay:
    """Return a definition of files to read again from the options of the `replay` source, all of them checked."""
    read = Options(options, "replay")
    made = read_replay(read, schema)
    read.done()
    return made


def read_replay(read: Options, schema: Any = None) -> Replay:
    """Return a definition of files to read again from options that may hold more."""
    path = read.text("path", None)
    if path is None:
        raise ArgumentError("path: nothing was given; give a file, a directory or a pattern such as data/*.parquet.")
    files = _files_of(str(path))
    by_name = "" if read.has("files") else _type_of(files, str(path))
    filetype = read.choice("files", by_name, ("parquet", "csv", "json"))
    made = Replay(_root_of(str(path)), files, filetype, read.text("arrival", None), schema)
    if schema is not None:
        for name in schema.names:
            _require_column(name, _schema_of(files, filetype), "schema")
    if made.arrived_by is not None:
        _require_column(made.arrived_by, made.schema, "arrival")
    if read.has("speed") and read.speed() is not None:
        _require_instants(made)
    return made


def _require_column(name: str, schema: Any, argument: str) -> None:
    if name not in schema.names:
        known = ", ".join(schema.names)
        raise ArgumentError(f"{argument}: there is no column {shown(name)}; the files have {known}.")


def _require_instants(made: Replay) -> None:
    if made.arrived_by is None:
        raise ArgumentError("speed: it needs to know when rows arrived; give the column as arrival too.")
    kind = made.schema.field(made.arrived_by).type
    if not pyarrow().types.is_timestamp(kind):
        raise KindError(f"arrival: the column {shown(made.arrived_by)} holds {kind}; a speed needs timestamps.")


def _root_of(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(path) or "."


def _files_of(path: str) -> tuple[str, ...]:
    """Return the files of a path or pattern by name; hidden ones are left out, as Spark does."""
    path = path.removeprefix("file://")
    if os.path.isdir(path):
        inside = (found for found in Path(path).rglob("*") if found.is_file())
        found = [str(file) for file in inside if not _hidden(file.relative_to(path))]
    else:
        found = [file for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
    if not found:
        raise ArgumentError(f"path: there is no file at {shown(path)}; give a file, a directory or a pattern.")
    return tuple(sorted(found))


def _hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _type_of(files: tuple[str, ...], path: str) -> str:
    types = {_TYPES.get(_suffix(file)) for file in files}
    (only, *others) = types
    if others or only is None:
        endings = ", ".join(sorted({_suffix(file) or "none" for file in files}))
        raise ArgumentError(
            f"path: the files at {shown(path)} end in {endings}; name the one kind they are of with files=, "
            "parquet, csv or json."
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
        about = _told(file, lambda name: _parquet().ParquetFile(name).metadata)
        units += [Unit(file, group, about.row_group(group).num_rows) for group in range(about.num_row_groups)]
    return tuple(units)


@lru_cache(maxsize=4)
def _schema_of(files: tuple[str, ...], filetype: str) -> Any:
    """Return the schema that fits the rows of all files: what one calls int and another float is float."""
    pa = pyarrow()
    if filetype == "parquet":
        schemas = [_told(file, _parquet().read_schema) for file in files]
    else:
        schemas = [_read(filetype, file, None).schema for file in files]
    try:
        return pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise KindError(f"path: the files do not go together: {' '.join(str(error).split())}.") from error


@lru_cache(maxsize=4)
def _read(filetype: str, file: str, group: int | None) -> Any:
    """Read a unit; the last few stay in memory, because neighbouring stretches of rows read the same."""
    if filetype == "parquet":
        return _told(file, lambda name: _parquet().ParquetFile(name).read_row_group(group))
    if filetype == "csv":
        from pyarrow import csv

        return _told(file, csv.read_csv)
    from pyarrow import json

    return _told(file, json.read_json)


def _parquet() -> Any:
    import pyarrow.parquet

    return pyarrow.parquet


def _told(file: str, read: Any) -> Any:
    """Read a file, or say which one cannot be read."""
    try:
        return read(file)
    except (pyarrow().ArrowException, OSError) as error:
        raise ArgumentError(f"path: {shown(file)} cannot be read: {' '.join(str(error).split())}.") from error


def _starts(units: tuple[Unit, ...]) -> Places:
    return np.concatenate([[0], np.cumsum([unit.rows for unit in units], dtype=np.int64)]).astype(np.int64)


@lru_cache(maxsize=2)
def _index(made: Replay) -> Index:
    units = _units(made.files, made.filetype)
    if made.arrived_by is None:
        return Index(_starts(units), None, None)
    column = np.concatenate([_instants(made, unit) for unit in units] or [np.empty(0, dtype=np.int64)])
    if not (np.diff(column) < 0).any():
        return Index(_starts(units), column, None)
    order = np.argsort(column, kind="stable")
    return Index(_starts(units), column[order], order)


def _instants(made: Replay, unit: Unit) -> Places:
    """Return when the rows of a unit arrived, as numbers; those that do not say so come first."""
    pa, name = pyarrow(), made.arrived_by
    assert name is not None
    if made.filetype == "parquet":
        table = _parquet().ParquetFile(unit.path).read_row_group(unit.group, columns=[name])
    else:
        table = _read(made.filetype, unit.path, unit.group)
    column = fitted(table, pa.schema([made.schema.field(name)])).column(0)
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.int64())
    elif not pa.types.is_integer(kind):
        raise KindError(f"arrival: the column {shown(name)} holds {kind}; give one of timestamps or whole numbers.")
    return np.asarray(column.cast(pa.int64()).fill_null(-(2**63)))


def fitted(table: Any, schema: Any) -> Any:
    """Return a table with the columns and types of a schema; a column that a file lacks is null there."""
    pa = pyarrow()
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(_cast(table.column(field.name), field))
        else:
            columns.append(pa.nulls(table.num_rows, field.type))
    return pa.table(columns, schema=schema) if columns else table.select([])


def _cast(column: Any, field: Any) -> Any:
    pa = pyarrow()
    if column.type == field.type:
        return column
    try:
        if pa.types.is_timestamp(field.type) and pa.types.is_string(column.type):
            return _parsed(column, field.type)
        # Spark has no nanoseconds: what is finer than its microseconds is cut off.
        return column.cast(field.type, safe=not pa.types.is_timestamp(field.type))
    except pa.ArrowInvalid as error:
        raise KindError(
            f"path: the column {shown(field.name)} holds {column.type} that are no {field.type}: "
            f"{' '.join(str(error).split())}."
        ) from error


def _parsed(column: Any, kind: Any) -> Any:
    """Return instants from text, in UTC where they name no zone."""
    pa = pyarrow()
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        other = pa.timestamp(kind.unit) if kind.tz else pa.timestamp(kind.unit, tz="UTC")
        return column.cast(other).cast(kind)
