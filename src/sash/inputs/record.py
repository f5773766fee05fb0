"""Conversion of records for the core: rows of several inputs, and the room for a slide's results.

A monoid that the core runs as a record reads inputs: a column each, as a number, a truth value or a hash. If its
columns are named, a batch is a dict of columns, a table, or a list of dicts; otherwise a column, or rows of tuples. The
nulls of an input are a separate mask.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sash import _core
from sash.errors import ArgumentError, KindError, SashError, argument_name, row_place, shown
from sash.inputs.coerce import Rows, column_kind, integers, is_there, objects, reals, refuse_row, refuse_table, rows_of
from sash.monoid import Layout, Monoid, Read
from sash.monoids.hashes import hashed_instants
from sash.times import is_null

Mask = NDArray[np.bool_] | None
Record = tuple[Any, ...]  # what the core reads: the number of rows, then the words and the nulls of each input

WANTED_INT = "an int because this window aggregates int64 (dtype=float accepts all numbers)"


class Input(NamedTuple):
    """A column with nulls replaced, and its place and name for error messages."""

    place: str
    column: str | None
    rows: Rows
    nulls: Mask


@contextmanager
def _naming(column: str | None) -> Iterator[None]:
    """Set the column of an error that is raised inside."""
    try:
        yield
    except SashError as error:
        error.column = error.column or column
        raise


# --- columns --------------------------------------------------------------------------------------


def inputs_of(layout: Layout, values: Any, argument: str = "values") -> tuple[dict[str | int, Input], int]:
    """Return the columns of a batch by name or position, and their number of rows."""
    inputs: dict[str | int, Input] = {}
    if layout.named:
        for name in dict.fromkeys(str(read.where) for read in layout.reads):  # once: a column may be an iterator
            with _naming(name):
                inputs[name] = _column(layout, _named(values, name, argument), f"{argument}[{name!r}]", name)
    elif layout.arity > 1:
        for i, column in enumerate(_transposed(values, layout.arity, argument)):
            inputs[i] = _column(layout, column, f"{argument}[:, {i}]")
    else:
        inputs[0] = _column(layout, values, argument)
    return inputs, _length(list(inputs.values()))


def rows_of_struct(monoid: Monoid, values: Any) -> list[Any]:
    """Return a batch as the list of its rows, for a struct that runs in Python."""
    reads = tuple(Read(name, "any", None) for name in monoid.columns) or (Read(0, "any", None),)
    layout = Layout(reads, (), bool(monoid.columns), True, True, 1)
    return objects_of(layout, *inputs_of(layout, values))


def rows_with_nulls(values: Any) -> Rows:
    """Return a column of values, for a monoid that counts nulls like any other value."""
    return _filled(values, "values")[0]


def _named(values: Any, name: str, argument: str) -> Any:
    if isinstance(values, (list, tuple, np.ndarray)):
        return [_item(row, name, row_place(argument, i)) for i, row in enumerate(values)]
    if not isinstance(values, Mapping) and not hasattr(values, "columns"):
        raise KindError(
            f"{argument} must be a dict of columns, a table or a list of dicts, got {shown(values)}.",
            argument=argument,
        )
    try:
        return values[name]
    except (KeyError, ValueError, LookupError):
        raise _missing(name, argument) from None
    except TypeError:  # a lazy table lists its columns but cannot be indexed
        raise KindError(
            f"{argument} must be a table in memory, got a {type(values).__name__}; collect it.", argument=argument
        ) from None
    except Exception as error:  # polars raises its own exceptions
        if "NotFound" not in type(error).__name__:
            raise
        raise _missing(name, argument) from None


def _missing(name: str, argument: str) -> KindError:
    return KindError(f"{argument} must have a column {shown(name)}.", argument=argument, column=name)


def _item(row: Any, name: str, place: str) -> Any:
    argument = argument_name(place)
    if not isinstance(row, Mapping):
        raise KindError(f"{place} must be a dict of columns, got {shown(row)}.", argument=argument)
    if name not in row:
        raise KindError(f"{place} must have a column {shown(name)}, got {shown(row)}.", argument=argument, column=name)
    return row[name]


def _transposed(values: Any, arity: int, argument: str) -> list[Any]:
    """Return the columns of rows of tuples, or of a two-dimensional array."""
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == arity:
        return [values[:, i] for i in range(arity)]
    rows = rows_of(values, argument)
    for i, row in enumerate(rows):
        if not isinstance(row, (tuple, list)) or len(row) != arity:
            raise KindError(
                f"{row_place(argument, i)} must be a tuple of {arity} values, got {shown(row)}.", argument=argument
            )
    return [[row[i] for row in rows] for i in range(arity)]


def _length(inputs: list[Input]) -> int:
    for one in inputs:
        if len(one.rows) != len(inputs[0].rows):
            raise ArgumentError(
                f"{one.place} must have as many rows as {inputs[0].place}, "
                f"got {len(one.rows)} and {len(inputs[0].rows)}.",
                argument=argument_name(one.place),
                column=one.column,
            )
    return len(inputs[0].rows) if inputs else 0


# --- nulls ----------------------------------------------------------------------------------------


def _column(layout: Layout, column: Any, place: str, name: str | None = None) -> Input:
    if layout.nullable and layout.reads:
        rows, nulls = _filled(column, place)
        return Input(place, name, _flat(rows, place), nulls)
    rows = _flat(rows_of(column, place), place)
    if layout.reads and isinstance(rows, list):
        refuse_row(rows, place, is_there, "not be null", KindError)
    return Input(place, name, rows, None)


def _flat(rows: Rows, place: str) -> Rows:
    if isinstance(rows, np.ndarray) and rows.ndim != 1:
        raise ArgumentError(
            f"{place} must be one-dimensional, got an array of shape {rows.shape}.", argument=argument_name(place)
        )
    return rows


def _filled(column: Any, place: str) -> tuple[Rows, Mask]:
    """Return rows with nulls replaced by some value, and the mask of the nulls."""
    refuse_table(column, place)
    if hasattr(column, "null_count"):
        return _filled_native(column, place)
    if hasattr(column, "isna") and not isinstance(column.dtype, np.dtype):
        nulls = np.asarray(column.isna(), dtype=bool)
        kind = getattr(column.dtype, "kind", "O")
        if kind in "iufb":
            dtype = getattr(column.dtype, "numpy_dtype", None)
            return column.fillna(kind != "b" and 0).to_numpy(dtype=dtype), nulls if nulls.any() else None
        return _filled_list([None if null else row for row, null in zip(column, nulls, strict=True)])
    if isinstance(column, np.ma.MaskedArray):
        if column.dtype.kind in "iufb":
            return np.asarray(column.filled(0)), np.ma.getmaskarray(column)
        return _filled_list([None if row is np.ma.masked else row for row in column])
    rows = rows_of(column, place)
    return _filled_list(rows) if isinstance(rows, list) else (rows, None)


def _filled_native(column: Any, place: str) -> tuple[Rows, Mask]:
    """Return an Arrow or polars column with nulls replaced, and the mask of the nulls."""
    count = column.null_count() if callable(column.null_count) else column.null_count
    if not count:
        return rows_of(column, place), None
    kind = str(column.type if hasattr(column, "type") else column.dtype).lower()
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        return rows_of(column.fill_null(0), place), np.asarray(column.is_null(), dtype=bool)
    if kind.startswith(("timestamp", "datetime")) and count < len(column):  # as without nulls: datetime64, in UTC
        filler = (column.drop_null() if hasattr(column, "drop_null") else column.drop_nulls())[0]
        return rows_of(column.fill_null(filler), place), np.asarray(column.is_null(), dtype=bool)
    return _filled_list(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())


def _filled_list(rows: list[Any]) -> tuple[Rows, Mask]:
    nulls = np.fromiter(map(is_null, rows), dtype=bool, count=len(rows))
    if not nulls.any():
        return rows, None
    filler = next((row for row, null in zip(rows, nulls, strict=True) if not null), 0)
    return [filler if null else row for row, null in zip(rows, nulls, strict=True)], nulls


# --- kinds ----------------------------------------------------------------------------------------


def kinds_of_value(layout: Layout, value: Any) -> str:
    """Return the kinds of the inputs of a window whose first value this is."""
    inputs, _ = inputs_of(layout, [value], "value")
    return kinds_of(layout, inputs)


def kinds_of(layout: Layout, inputs: Mapping[str | int, Input]) -> str:
    """Return the kinds of all inputs as one string, or "object" if one of them is not native."""
    kinds = [_kind(read, inputs[read.where]) for read in layout.reads]
    return "object" if "object" in kinds else f"({','.join(kinds)})"


def _kind(read: Read, column: Input) -> str:
    if read.form in ("hash", "truth", "any"):
        return str(read.form)
    if read.dtype is None and isinstance(column.rows, list) and column.nulls is not None and column.nulls.all():
        return {"float": "float64", "int": "int64"}.get(read.form, "object")  # nulls may be ints or floats
    kind = read.dtype or column_kind(column.rows)
    if kind == "object":
        return kind
    if read.form == "float":
        return "float64"
    return "object" if read.form == "int" and kind != "int64" else kind


def fits(layout: Layout, kinds: str) -> bool:
    """Return whether these can be the kinds of a window with this layout."""
    allowed = {"number": ("int64", "float64"), "float": ("float64",), "int": ("int64",)}
    if not (kinds.startswith("(") and kinds.endswith(")")):
        return False
    names = _split(kinds)
    return len(names) == len(layout.reads) and all(
        kind in allowed.get(read.form, (read.form,)) for kind, read in zip(names, layout.reads, strict=True)
    )


def _split(kinds: str) -> list[str]:
    return kinds[1:-1].split(",") if len(kinds) > 2 else []


# --- records --------------------------------------------------------------------------------------


def record_of(
    layout: Layout, inputs: Mapping[str | int, Input], kinds: str, rows: int, *, strict: bool = True
) -> Record:
    """Return a batch as the record that the core reads; unless `strict`, it may have values without a result."""
    columns = [_words(inputs[read.where], kind) for read, kind in zip(layout.reads, _split(kinds), strict=True)]
    if strict:
        _refuse_negatives(layout, inputs, columns)
    return rows, *columns


def _words(column: Input, kind: str) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
    nulls = None if column.nulls is None else np.ascontiguousarray(column.nulls, dtype=np.uint8)
    with _naming(column.column):
        return np.ascontiguousarray(_converted(column, kind)).view(np.int64), nulls


def _converted(column: Input, kind: str) -> NDArray[Any]:
    rows = column.rows
    if kind == "int64":
        return integers(rows, column.place, WANTED_INT)
    if kind == "float64":
        return reals(rows, column.place, "a number", exact=False)
    if kind == "hash":
        return _hashes(rows)
    if kind == "truth":
        return np.array([bool(row) for row in rows] if isinstance(rows, list) else rows != 0, dtype=np.int64)
    return np.zeros(len(rows), dtype=np.int64)


def _hashes(rows: Rows) -> NDArray[np.int64]:
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "M" and not np.isnat(rows).any():
        return hashed_instants(rows)
    hashes = np.empty(len(rows), dtype=np.int64)
    if isinstance(rows, np.ndarray):
        native = {"i": np.int64, "b": np.int64, "f": np.float64}.get(rows.dtype.kind)
        rows = np.ascontiguousarray(rows, dtype=native) if native else rows.tolist()
    _core.hash_rows(rows, hashes)
    return hashes


def _refuse_negatives(layout: Layout, inputs: Mapping[str | int, Input], columns: list[Any]) -> None:
    for part in layout.parts:
        if part.op != "geomean":
            continue
        (at,) = part.reads
        words, nulls = columns[at]
        negative = (words.view(np.float64) < 0) & (True if nulls is None else nulls == 0)
        if negative.any():
            row, column = int(np.argmax(negative)), inputs[layout.reads[at].where]
            raise ArgumentError(
                f"{row_place(column.place, row)} must not be negative for a geometric mean, "
                f"got {words.view(np.float64)[row]}.",
                argument=argument_name(column.place),
                column=column.column,
            )


def objects_of(layout: Layout, inputs: Mapping[str | int, Input], rows: int) -> list[Any]:
    """Return a batch as a list of Python values, one per row."""
    columns = {where: _with_nulls(column) for where, column in inputs.items()}
    if layout.named:
        return [{name: column[i] for name, column in columns.items()} for i in range(rows)]
    if layout.arity > 1:
        return list(zip(*columns.values(), strict=True))
    return columns[0]


def _with_nulls(column: Input) -> list[Any]:
    rows = objects(column.rows)
    if column.nulls is None:
        return rows
    return [None if null else row for row, null in zip(rows, column.nulls, strict=True)]


# --- room for results -----------------------------------------------------------------------------

Room = tuple[NDArray[np.int64], NDArray[np.uint8]]  # the words of all results, and which parts are not null


def room_for(result_kinds: list[str], rows: int) -> Room:
    """Return the arrays that the core writes a slide's results into."""
    words = sum(len(kinds) + kinds.count("I") for kinds in result_kinds)
    return np.empty((words, rows), dtype=np.int64), np.empty((len(result_kinds), rows), dtype=np.uint8)
