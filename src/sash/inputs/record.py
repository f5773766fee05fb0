"""Records: rows of several inputs on their way into the core, and a slide's results on their way out.

A monoid that the core runs as a record reads inputs: a column each, as a number, a truth or a hash. Where its columns
are named, a batch is a dict of columns, a table, or a list of dicts; otherwise a column, or rows of tuples. Nulls are
kept beside an input as a mask.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sash import _core
from sash.errors import ArgumentError, KindError, shown
from sash.inputs.coerce import Rows, column_kind, integers, is_there, objects, reals, refuse_row, refuse_table, rows_of
from sash.monoid import Layout, Monoid, Read
from sash.times import is_null

Mask = NDArray[np.bool_] | None
Record = tuple[Any, ...]  # what the core takes: how many rows, then the words and the nulls of each input


class Input(NamedTuple):
    """A column as it was given, filled where it is null."""

    name: str
    rows: Rows
    nulls: Mask


# --- what was given -------------------------------------------------------------------------------


def inputs_of(layout: Layout, values: Any) -> tuple[dict[str | int, Input], int]:
    """Return the columns of a batch by name or position, and how many rows they have."""
    if layout.named:
        names = dict.fromkeys(str(read.where) for read in layout.reads)  # each once: a column may be an iterator
        named: dict[str | int, Input] = {name: _column(layout, _named(values, name), name) for name in names}
        return named, _length(list(named.values()))
    if layout.arity > 1:
        columns = _transposed(values, layout.arity)
        placed: dict[str | int, Input] = {}
        for i, column in enumerate(columns):
            placed[i] = _column(layout, column, f"values[:, {i}]")
        return placed, _length(list(placed.values()))
    one = _column(layout, values, "values")
    return {0: one}, len(one.rows)


def rows_of_struct(monoid: Monoid, values: Any) -> list[Any]:
    """Return a batch for a struct that Python runs as it would be given row by row."""
    reads = tuple(Read(name, "any", None) for name in monoid.columns) or (Read(0, "any", None),)
    layout = Layout(reads, (), bool(monoid.columns), True, True, 1)
    return objects_of(layout, *inputs_of(layout, values))


def _named(values: Any, name: str) -> Any:
    if isinstance(values, (list, tuple, np.ndarray)):
        return [_item(row, name, i) for i, row in enumerate(values)]
    if not isinstance(values, Mapping) and not hasattr(values, "columns"):
        raise KindError(f"values: {shown(values)} has no columns; give a dict of columns, a table or a list of dicts.")
    try:
        return values[name]
    except (KeyError, ValueError, LookupError):
        raise KindError(f"values: there is no column {shown(name)}; give one.") from None
    except TypeError:  # a lazy table has columns, and none of them to give
        raise KindError(f"values: {type(values).__name__} gives no columns by name; collect it to a table.") from None
    except Exception as error:  # polars has errors of its own
        if "NotFound" not in type(error).__name__:
            raise
        raise KindError(f"values: there is no column {shown(name)}; give one.") from None


def _item(row: Any, name: str, i: int) -> Any:
    if not isinstance(row, Mapping):
        raise KindError(f"values[{i}]: {shown(row)} is no mapping of columns to values; give a dict.")
    if name not in row:
        raise KindError(f"values[{i}]: {shown(row)} has no column {shown(name)}; give one, or None for a null.")
    return row[name]


def _transposed(values: Any, arity: int) -> list[Any]:
    """Return the columns of rows of tuples, or of an array of two dimensions."""
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == arity:
        return [values[:, i] for i in range(arity)]
    rows = rows_of(values, "values")
    for i, row in enumerate(rows):
        if not isinstance(row, (tuple, list)) or len(row) != arity:
            raise KindError(f"values[{i}]: {shown(row)} is no tuple of {arity} values; give one.")
    return [[row[i] for row in rows] for i in range(arity)]


def _length(inputs: list[Input]) -> int:
    for one in inputs:
        if len(one.rows) != len(inputs[0].rows):
            raise ArgumentError(
                f"{one.name}: it has {len(one.rows)} rows and {inputs[0].name} {len(inputs[0].rows)}; "
                "give columns of one length."
            )
    return len(inputs[0].rows) if inputs else 0


# --- nulls ----------------------------------------------------------------------------------------


def _column(layout: Layout, column: Any, name: str) -> Input:
    if layout.nullable and layout.reads:
        rows, nulls = _filled(column, name)
        return Input(name, _flat(rows, name), nulls)
    rows = _flat(rows_of(column, name), name)
    if layout.reads and isinstance(rows, list):
        refuse_row(rows, name, is_there, "is no value; leave the row out", KindError)
    return Input(name, rows, None)


def _flat(rows: Rows, name: str) -> Rows:
    if isinstance(rows, np.ndarray) and rows.ndim != 1:
        raise ArgumentError(f"{name}: an array of shape {rows.shape} is no column; give one of one dimension.")
    return rows


def _filled(column: Any, name: str) -> tuple[Rows, Mask]:
    """Return rows with something in place of nulls, and where they were."""
    refuse_table(column, name)
    if hasattr(column, "null_count"):
        return _filled_native(column, name)
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
    rows = rows_of(column, name)
    return _filled_list(rows) if isinstance(rows, list) else (rows, None)


def _filled_native(column: Any, name: str) -> tuple[Rows, Mask]:
    """Fill a column of Arrow or polars."""
    count = column.null_count() if callable(column.null_count) else column.null_count
    if not count:
        return rows_of(column, name), None
    kind = str(column.type if hasattr(column, "type") else column.dtype).lower()
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        return rows_of(column.fill_null(0), name), np.asarray(column.is_null(), dtype=bool)
    return _filled_list(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())


def _filled_list(rows: list[Any]) -> tuple[Rows, Mask]:
    nulls = np.fromiter(map(is_null, rows), dtype=bool, count=len(rows))
    if not nulls.any():
        return rows, None
    filler = next((row for row, null in zip(rows, nulls, strict=True) if not null), 0)
    return [filler if null else row for row, null in zip(rows, nulls, strict=True)], nulls


# --- kinds ----------------------------------------------------------------------------------------


def kinds_of_value(layout: Layout, value: Any) -> str:
    """Return the kinds of a window's inputs that starts with this value."""
    try:
        inputs, _ = inputs_of(layout, [value])
    except (KindError, ArgumentError) as error:
        raise type(error)(str(error).replace("values[0]", "value", 1)) from None
    return kinds_of(layout, inputs)


def kinds_of(layout: Layout, inputs: Mapping[str | int, Input]) -> str:
    """Return the kinds of all inputs as one text, or "object" where one of them has none in the core."""
    kinds = [_kind(read, inputs[read.where]) for read in layout.reads]
    return "object" if "object" in kinds else f"({','.join(kinds)})"


def _kind(read: Read, column: Input) -> str:
    if read.form in ("hash", "truth", "any"):
        return str(read.form)
    if read.dtype is None and isinstance(column.rows, list) and column.nulls is not None and column.nulls.all():
        return {"float": "float64", "int": "int64"}.get(read.form, "object")  # nulls do not tell ints from floats
    kind = read.dtype or column_kind(column.rows)
    if kind == "object":
        return kind
    if read.form == "float":
        return "float64"
    return "object" if read.form == "int" and kind != "int64" else kind


def fits(layout: Layout, kinds: str) -> bool:
    """Return whether these could be the kinds of a window with this layout."""
    known = {"number": ("int64", "float64"), "float": ("float64",), "int": ("int64",)}
    if not (kinds.startswith("(") and kinds.endswith(")")):
        return False
    given = kinds[1:-1].split(",") if len(kinds) > 2 else []
    return len(given) == len(layout.reads) and all(
        kind in known.get(read.form, (read.form,)) for kind, read in zip(given, layout.reads, strict=True)
    )


# --- what the core takes --------------------------------------------------------------------------


def record_of(layout: Layout, inputs: Mapping[str | int, Input], kinds: str, rows: int) -> Record:
    """Return a batch as the core takes it."""
    wanted = kinds[1:-1].split(",") if len(kinds) > 2 else []
    columns = [_words(inputs[read.where], kind) for read, kind in zip(layout.reads, wanted, strict=True)]
    _refuse_negatives(layout, inputs, columns)
    return rows, *columns


def _words(column: Input, kind: str) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
    nulls = None if column.nulls is None else np.ascontiguousarray(column.nulls, dtype=np.uint8)
    return np.ascontiguousarray(_converted(column, kind)).view(np.int64), nulls


def _converted(column: Input, kind: str) -> NDArray[Any]:
    rows = column.rows
    if kind == "int64":
        return integers(rows, column.name, "an int, but this window aggregates int64; give ints, or use dtype=float")
    if kind == "float64":
        return reals(rows, column.name, "a number; give floats or ints", exact=False)
    if kind == "hash":
        return _hashes(rows)
    if kind == "truth":
        return np.array([bool(row) for row in rows] if isinstance(rows, list) else rows != 0, dtype=np.int64)
    return np.zeros(len(rows), dtype=np.int64)


def _hashes(rows: Rows) -> NDArray[np.int64]:
    hashes = np.empty(len(rows), dtype=np.int64)
    if isinstance(rows, np.ndarray):
        native = {"i": np.int64, "b": np.int64, "f": np.float64}.get(rows.dtype.kind)
        rows = np.ascontiguousarray(rows, dtype=native) if native else rows.tolist()
    _core.hash_rows(rows, hashes)
    return hashes


def _refuse_negatives(layout: Layout, inputs: Mapping[str | int, Input], columns: list[Any]) -> None:
    for part in layout.parts:
        if part[0] != "geomean":
            continue
        (at,) = part[1]
        words, nulls = columns[at]
        wrong = (words.view(np.float64) < 0) & (True if nulls is None else nulls == 0)
        if wrong.any():
            row, name = int(np.argmax(wrong)), inputs[layout.reads[at].where].name
            raise ArgumentError(
                f"{name}[{row}]: {words.view(np.float64)[row]} has no geometric mean; "
                "give numbers that are not negative."
            )


def objects_of(layout: Layout, inputs: Mapping[str | int, Input], rows: int) -> list[Any]:
    """Return a batch as Python values, as one by one they would have been given."""
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

Room = tuple[NDArray[np.int64], NDArray[np.uint8]]  # the words of all results, and which parts are there


def room_for(result_kinds: list[str], rows: int) -> Room:
    """Return what the core writes a slide's results into."""
    words = sum(len(kinds) + kinds.count("I") for kinds in result_kinds)
    return np.empty((words, rows), dtype=np.int64), np.empty((len(result_kinds), rows), dtype=np.uint8)
