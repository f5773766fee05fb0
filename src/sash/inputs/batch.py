"""Conversion of batches for the core: times and values as native columns.

A column is a contiguous int64 or float64 array, or a list of Python objects. Accepts lists, tuples, iterators, NumPy
arrays, and pandas, polars and Arrow columns. The first batch as a whole determines the kinds of a window; nothing here
changes a window.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash import times as kinds_of_time
from sash.errors import ArgumentError, KindError, shown
from sash.inputs import record
from sash.inputs.coerce import Aware, column_kind, integers, is_there, objects, reals, refuse_row, rows_of, value_kind
from sash.monoid import Monoid
from sash.times import Instants

if TYPE_CHECKING:
    from sash import _core

Kinds = tuple[str, Instants | None, str]
Column = NDArray[Any] | list[Any] | record.Record


def kinds_of(monoid: Monoid, entry: tuple[Any, Any]) -> Kinds:
    """Return the kinds of a window whose first entry has this time and value."""
    time, value = entry
    time_kind, codec = kinds_of_time.kind_of(time)
    if is_record(monoid) and time_kind != "object":
        return time_kind, codec, record.kinds_of_value(monoid.layout(), value)
    return time_kind, codec, _allowed(monoid, time_kind, value_kind(value))


def is_record(monoid: Monoid) -> bool:
    """Return whether the core runs this monoid as a record, given values of a native kind."""
    return bool(monoid.parts) and not monoid.native


def is_struct(monoid: Monoid) -> bool:
    """Return whether this is a struct."""
    return monoid.name == "struct" and monoid.built_in


def read_batch(window: "_core.Window", times: Any, values: Any) -> tuple[Kinds | None, Column, Column]:
    """Return the kinds of a batch and its two columns; None for the kinds of an empty batch in a new window."""
    if is_record(window.monoid):
        return _record_batch(window, times, values)
    monoid = window.monoid
    time_rows = rows_of(times, "times")
    value_rows = _value_rows(monoid, values)
    kinds = window._kinds  # after the rows: reading them may have run user code
    _require_flat(time_rows, "times")
    _require_flat(value_rows, "values")
    _require_as_many(len(time_rows), len(value_rows))
    if not len(time_rows):
        return kinds, [], []
    if kinds is None:
        time_kind, codec = _time_kind(time_rows)
        kinds = time_kind, codec, _allowed(monoid, time_kind, column_kind(value_rows))
    if monoid.native and kinds[2] != "any" and isinstance(value_rows, list):
        refuse_row(value_rows, "values", is_there, "not be null", KindError)
    return kinds, _time_column(time_rows, kinds), _value_column(value_rows, kinds[2])


def _value_rows(monoid: Monoid, values: Any) -> NDArray[Any] | list[Any]:
    if is_struct(monoid):
        return record.rows_of_struct(monoid, values)
    if monoid.name == "count" and monoid.built_in:
        return record.rows_with_nulls(values)
    return rows_of(values, "values")


def _record_batch(window: "_core.Window", times: Any, values: Any) -> tuple[Kinds | None, Column, Column]:
    layout = window.monoid.layout()
    time_rows, (inputs, rows) = rows_of(times, "times"), record.inputs_of(layout, values)
    kinds = window._kinds  # after the rows: reading them may have run user code
    _require_flat(time_rows, "times")
    _require_as_many(len(time_rows), rows)
    if not rows:
        return kinds, [], []
    if kinds is None:
        time_kind, codec = _time_kind(time_rows)
        kinds = time_kind, codec, "object" if time_kind == "object" else record.kinds_of(layout, inputs)
    if kinds[2] == "object":
        return kinds, _time_column(time_rows, kinds), record.objects_of(layout, inputs, rows)
    return kinds, _time_column(time_rows, kinds), record.record_of(layout, inputs, kinds[2], rows)


def _require_as_many(times: int, values: int) -> None:
    if times != values:
        raise ArgumentError(
            f"values must have as many rows as times, got {values} values and {times} times.", argument="values"
        )


def _require_flat(rows: NDArray[Any] | list[Any], argument: str) -> None:
    if not isinstance(rows, np.ndarray) or rows.ndim == 1:
        return
    pairs = argument == "times" and rows.ndim == 2 and rows.shape[1] == 2 and rows.dtype.kind in "iu"
    if not pairs:
        raise ArgumentError(
            f"{argument} must be one-dimensional, got an array of shape {rows.shape}.", argument=argument
        )


# --- times ----------------------------------------------------------------------------------------


def _time_kind(rows: NDArray[Any] | list[Any]) -> tuple[str, Instants | None]:
    if isinstance(rows, Aware):
        unit = np.datetime_data(rows.instants.dtype)[0]
        return "instant", Instants(unit, "pandas" if unit == "ns" else "datetime", True, rows.zone)
    if isinstance(rows, list):
        kind = kinds_of_time.kind_of(rows[0], "times[0]")
        mixed = kind[0] == "int" and any(isinstance(row, (float, np.floating)) for row in rows)
        return ("float", None) if mixed else kind
    if rows.ndim == 2 and rows.shape[1] == 2 and rows.dtype.kind in "iu":
        return "pair", None
    return kinds_of_time.kind_of(rows[0] if rows.ndim == 1 else None, "times[0]")


def _time_column(rows: NDArray[Any] | list[Any], kinds: Kinds) -> Column:
    kind, codec, _ = kinds
    if kind == "int":
        return integers(rows, "times", "an int, as this window's times are")
    if kind == "float":
        return _float_times(rows)
    if kind == "pair":
        return _pairs(rows)
    if kind == "instant":
        assert codec is not None
        return _instants(rows, codec)
    return objects(rows)


def _float_times(rows: NDArray[Any] | list[Any]) -> NDArray[Any]:
    column = reals(rows, "times", "a float, as this window's times are", exact=True)
    missing = np.isnan(column)
    if missing.any():
        raise ArgumentError(f"times[{int(np.argmax(missing))}] must be a number, got nan.", argument="times")
    return column


def _pairs(rows: NDArray[Any] | list[Any]) -> NDArray[Any]:
    if isinstance(rows, list):
        for i, row in enumerate(rows):
            if not (isinstance(row, tuple) and len(row) == 2 and all(map(kinds_of_time.is_integer, row))):
                raise KindError(
                    f"times[{i}] must be a pair of ints, as this window's times are, got {shown(row)}.",
                    argument="times",
                )
        flat = integers([part for row in rows for part in row], "times", "an int")
        return flat.reshape(-1, 2)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        raise KindError(
            f"times must be pairs of ints, as this window's times are, got an array of {rows.dtype}.",
            argument="times",
        )
    return integers(rows.reshape(-1), "times", "an int").reshape(-1, 2)


def _instants(rows: NDArray[Any] | list[Any], codec: Instants) -> NDArray[Any]:
    if isinstance(rows, Aware):
        if not codec.aware:
            raise KindError(
                f"each row of times must be a {codec.wanted}, as this window's times are, "
                f"got a column in time zone {rows.zone}.",
                argument="times",
            )
        return codec.ticks(rows.instants)
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "M" and not codec.aware:
        return codec.ticks(rows)
    return np.array([codec.encode(time, f"times[{i}]") for i, time in enumerate(rows)], dtype=np.int64)


# --- values ---------------------------------------------------------------------------------------


def _allowed(monoid: Monoid, time_kind: str, kind: str) -> str:
    """Return the kind in which the monoid stores such values: its dtype, a native kind, or "object"."""
    native = dict(monoid.native)
    if time_kind == "object" or not native:
        return "object"
    kind = monoid.dtype or kind
    if "any" in native:
        return "any"
    if kind == "object" or kind in native:
        return kind
    return "float64"  # the only other native kind, to which ints are converted


def _value_column(rows: NDArray[Any] | list[Any], kind: str) -> Column:
    if kind == "int64":
        return integers(rows, "values", record.WANTED_INT)
    if kind == "float64":
        return reals(rows, "values", "a number", exact=False)
    if kind == "any" and isinstance(rows, np.ndarray) and rows.dtype.kind in "if":
        return np.ascontiguousarray(rows, dtype=np.int64 if rows.dtype.kind == "i" else np.float64)
    return objects(rows)
