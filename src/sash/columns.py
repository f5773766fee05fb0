"""Batches on their way into the core: times and values as native columns.

A column is a contiguous int64 or float64 array, or a list of Python objects. Lists, tuples, iterators, NumPy arrays,
pandas, polars and Arrow columns are taken. A batch decides the kinds of a window that has none yet, as a whole; nothing
here changes a window.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import times as kinds_of_time
from sash.errors import ArgumentError, KindError
from sash.monoid import Monoid
from sash.times import Instants

Kinds = tuple[str, Instants | None, str]
Column = NDArray[Any] | list[Any]

_INT64 = np.iinfo(np.int64)


def kinds_of(monoid: Monoid, entry: tuple[Any, Any]) -> Kinds:
    """Give the kinds of a window that starts with this time and value."""
    time, value = entry
    time_kind, codec = kinds_of_time.kind_of(time)
    return time_kind, codec, _allowed(monoid, time_kind, _value_kind(value))


def batch(monoid: Monoid, kinds: Kinds | None, times: Any, values: Any) -> tuple[Kinds | None, Column, Column]:
    """Give a batch as two columns and the kinds they have; no kinds where the batch is empty and decides nothing."""
    time_rows, value_rows = _rows(times, "times"), _rows(values, "values")
    if len(time_rows) != len(value_rows):
        raise ArgumentError(
            f"values: {len(value_rows)} values came with {len(time_rows)} times; give as many values as times."
        )
    if not len(time_rows):
        return kinds, [], []
    if kinds is None:
        time_kind, codec = _time_kind(time_rows)
        kinds = time_kind, codec, _allowed(monoid, time_kind, _column_kind(value_rows))
    if monoid.native and kinds[2] != "any" and isinstance(value_rows, list):
        _refuse_row(value_rows, "values", _is_there, "is no value; leave the row out", KindError)
    return kinds, _time_column(time_rows, kinds), _value_column(value_rows, kinds[2])


# --- rows of any kind, as an array or a list ------------------------------------------------------


class _Aware(list[Any]):
    """A datetime64 array of instants in UTC, with the zone to show them in."""

    def __init__(self, instants: NDArray[Any], zone: Any) -> None:
        super().__init__(instants)
        self.instants = instants
        self.zone = zone


def _rows(column: Any, argument: str) -> NDArray[Any] | list[Any]:
    if isinstance(column, (list, tuple, range)):
        return list(column)
    if hasattr(column, "null_count") and hasattr(column, "type"):  # Arrow
        return _arrow_rows(column, argument)
    if hasattr(column, "dt") and getattr(getattr(column, "dtype", None), "tz", None) is not None:  # pandas, aware
        return _Aware(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), column.dtype.tz)
    if hasattr(column, "tz_convert") and getattr(column, "tz", None) is not None:  # pandas index, aware
        return _Aware(column.tz_convert("UTC").tz_localize(None).to_numpy(), column.tz)
    if hasattr(column, "to_numpy"):
        if callable(getattr(column, "null_count", None)) and column.null_count():  # polars
            _refuse_null(argument, list(column.is_null()).index(True))
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        return column.tolist() if column.dtype.kind in "OUS" else np.atleast_1d(column)
    if isinstance(column, Iterable) and not isinstance(column, (str, bytes)):
        return list(column)
    raise KindError(f"{argument}: {column!r} is no column; give a list, an array, or an Arrow or pandas column.")


def _arrow_rows(column: Any, argument: str) -> NDArray[Any] | list[Any]:
    if column.null_count:
        _refuse_null(argument, column.is_null().to_pylist().index(True))
    zone = getattr(column.type, "tz", None)
    if str(column.type).startswith(("int", "uint", "float", "double", "timestamp", "halffloat")):
        rows = column.to_numpy(zero_copy_only=False) if not hasattr(column, "chunks") else column.to_numpy()
        if zone is None:
            return np.asarray(rows)
        from zoneinfo import ZoneInfo

        return _Aware(rows, ZoneInfo(zone))
    return list(column.to_pylist())


def _refuse_null(argument: str, row: int) -> None:
    raise KindError(f"{argument}[{row}]: null is neither a time nor a value; leave the row out.")


# --- times ----------------------------------------------------------------------------------------


def _time_kind(rows: NDArray[Any] | list[Any]) -> tuple[str, Instants | None]:
    if isinstance(rows, _Aware):
        return "instant", Instants(np.datetime_data(rows.instants.dtype)[0], "pandas", True, rows.zone)
    if isinstance(rows, list):
        return kinds_of_time.kind_of(rows[0], "times[0]")
    if rows.ndim == 2 and rows.shape[1] == 2 and rows.dtype.kind in "iu":
        return "pair", None
    return kinds_of_time.kind_of(rows[0] if rows.ndim == 1 else None, "times[0]")


def _time_column(rows: NDArray[Any] | list[Any], kinds: Kinds) -> Column:
    kind, codec, _ = kinds
    if kind == "int":
        return _integers(rows, "times", "an int, but this window's times are ints; give ints")
    if kind == "float":
        return _float_times(rows)
    if kind == "pair":
        return _pairs(rows)
    if kind == "instant":
        assert codec is not None
        return _instants(rows, codec)
    return rows if isinstance(rows, list) else rows.tolist()


def _float_times(rows: NDArray[Any] | list[Any]) -> NDArray[Any]:
    column = _reals(rows, "times", "a float, but this window's times are floats; give floats", exact=True)
    missing = np.isnan(column)
    if missing.any():
        raise ArgumentError(f"times[{int(np.argmax(missing))}]: nan is not a time; give floats that are numbers.")
    return column


def _pairs(rows: NDArray[Any] | list[Any]) -> NDArray[Any]:
    if isinstance(rows, list):
        for i, row in enumerate(rows):
            if not (isinstance(row, tuple) and len(row) == 2 and all(map(kinds_of_time.is_integer, row))):
                raise KindError(f"times[{i}]: {row!r} is not a pair of ints, but this window's times are; give pairs.")
        flat = _integers([part for row in rows for part in row], "times", "an int")
        return flat.reshape(-1, 2)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        raise KindError(
            f"times: an array of {rows.dtype} is not one of pairs of ints, but this window's times are pairs."
        )
    return _integers(rows.reshape(-1), "times", "an int").reshape(-1, 2)


def _instants(rows: NDArray[Any] | list[Any], codec: Instants) -> NDArray[Any]:
    if isinstance(rows, _Aware) and codec.aware:
        return codec.ticks(rows.instants)
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "M" and not codec.aware:
        return codec.ticks(rows)
    return np.array([codec.encode(time, f"times[{i}]") for i, time in enumerate(rows)], dtype=np.int64)


# --- values ---------------------------------------------------------------------------------------


def _value_kind(value: Any) -> str:
    if isinstance(value, (int, np.integer, np.bool_)):
        return "int64"
    return "float64" if isinstance(value, (float, np.floating)) else "object"


def _column_kind(rows: NDArray[Any] | list[Any]) -> str:
    if isinstance(rows, np.ndarray):
        return {"i": "int64", "u": "int64", "b": "int64", "f": "float64"}.get(rows.dtype.kind, "object")
    kinds = {_value_kind(value) for value in rows}
    if kinds == {"int64", "float64"}:
        return "float64"
    return kinds.pop() if len(kinds) == 1 else "object"


def _allowed(monoid: Monoid, time_kind: str, kind: str) -> str:
    """Give the kind that the monoid keeps such values as: its own dtype, a native form, or Python objects."""
    if time_kind == "object" or not monoid.native:
        return "object"
    kind = monoid.dtype or kind
    if "any" in monoid.native:
        return "any"
    if kind == "object" or kind in monoid.native:
        return kind
    return "float64"  # the only other native kind: ints are floats to it


def _value_column(rows: NDArray[Any] | list[Any], kind: str) -> Column:
    if kind == "int64":
        return _integers(rows, "values", "an int, but this window aggregates int64; give ints, or use dtype=float")
    if kind == "float64":
        return _reals(rows, "values", "a number; give floats or ints", exact=False)
    if kind == "any" and isinstance(rows, np.ndarray) and rows.dtype.kind in "if":
        return np.ascontiguousarray(rows, dtype=np.int64 if rows.dtype.kind == "i" else np.float64)
    return rows if isinstance(rows, list) else rows.tolist()


# --- numbers --------------------------------------------------------------------------------------


def _integers(rows: NDArray[Any] | list[Any], argument: str, wanted: str) -> NDArray[Any]:
    is_time = argument == "times"

    def fits(value: Any) -> bool:
        return kinds_of_time.is_integer(value) or (not is_time and isinstance(value, (bool, np.bool_)))

    if isinstance(rows, np.ndarray):
        if rows.ndim != 1 or rows.dtype.kind not in ("iu" if is_time else "iub"):
            raise KindError(f"{argument}: an array of {rows.dtype} holds something that is not {wanted}.")
        if rows.dtype.kind == "u" and rows.size and rows.max() > _INT64.max:
            _refuse_row(rows.tolist(), argument, lambda v: v <= _INT64.max, "does not fit int64", ArgumentError)
        return np.ascontiguousarray(rows, dtype=np.int64)
    if not all(map(fits, rows)):
        _refuse_row(rows, argument, fits, f"is not {wanted}", KindError)
    try:
        return np.array(rows, dtype=np.int64)
    except OverflowError:
        _refuse_row(rows, argument, lambda v: _INT64.min <= v <= _INT64.max, "does not fit int64", ArgumentError)
        raise


def _reals(rows: NDArray[Any] | list[Any], argument: str, wanted: str, exact: bool) -> NDArray[Any]:
    def fits(value: Any) -> bool:
        return isinstance(value, (float, np.floating)) or (
            isinstance(value, (int, np.integer)) and not (exact and isinstance(value, bool))
        )

    def is_exact(value: Any) -> bool:
        return isinstance(value, (float, np.floating)) or _exactly(value)

    if isinstance(rows, np.ndarray):
        if rows.ndim != 1 or rows.dtype.kind not in ("iuf" if exact else "iubf"):
            raise KindError(f"{argument}: an array of {rows.dtype} holds something that is not {wanted}.")
        column = np.ascontiguousarray(rows, dtype=np.float64)
        if exact and rows.dtype.kind in "iu" and rows.size and np.abs(column).max() >= 2**53:
            _refuse_row(rows.tolist(), argument, is_exact, "is no exact float", ArgumentError)
        return column
    if not all(map(fits, rows)):
        _refuse_row(rows, argument, fits, f"is not {wanted}", KindError)
    if exact:
        _refuse_row(rows, argument, is_exact, "is no exact float", ArgumentError)
    try:
        return np.array([float(value) for value in rows], dtype=np.float64)
    except OverflowError:
        _refuse_row(rows, argument, _has_float, "does not fit float64", ArgumentError)
        raise


def _is_there(value: Any) -> bool:
    return value is not None


def _has_float(value: Any) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _exactly(value: Any) -> bool:
    return _has_float(value) and int(float(value)) == value


def _refuse_row(
    rows: list[Any],
    argument: str,
    fits: Callable[[Any], bool],
    wrong: str,
    error: type[ArgumentError] | type[KindError],
) -> None:
    for i, value in enumerate(rows):
        if not fits(value):
            raise error(f"{argument}[{i}]: {value!r} {wrong}.")
