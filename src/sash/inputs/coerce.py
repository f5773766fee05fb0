"""Conversion of columns of any type to arrays or lists, and of their rows to numbers.

Accepts lists, tuples, iterators, NumPy arrays, and pandas, polars and Arrow columns. Rows that do not fit a native
column raise an error with the argument's name and the row's number.
"""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sash import times as kinds_of_time
from sash.errors import ArgumentError, KindError, argument_name, row_place, shown

Rows = NDArray[Any] | list[Any]

_INT64 = np.iinfo(np.int64)
_FITS_INT64 = "fit int64, -2**63 to 2**63 - 1"
_EXACT_FLOAT = "be exactly representable as a float"


# --- columns of any type, as an array or a list ---------------------------------------------------


class Aware(list[Any]):
    """A datetime64 array of instants in UTC, with the zone to return them in."""

    def __init__(self, instants: NDArray[Any], zone: Any) -> None:
        super().__init__(instants)
        self.instants = instants
        self.zone = zone


def rows_of(column: Any, argument: str) -> NDArray[Any] | list[Any]:
    """Return a column as an array or as a list of Python values, or raise if it has nulls."""
    if isinstance(column, (list, tuple, range)):
        return list(column)
    refuse_table(column, argument)
    if isinstance(column, (set, frozenset, dict)):
        raise KindError(
            f"{argument} must be ordered, such as a list or an array, got {shown(column)}.",
            argument=argument_name(argument),
        )
    if hasattr(column, "null_count") and hasattr(column, "type"):  # Arrow
        return _arrow_rows(column, argument)
    if hasattr(column, "to_numpy"):
        _refuse_nulls(column, argument)
        aware = _aware_rows(column) if argument == "times" else None
        if aware is not None:
            return aware
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        if np.ma.is_masked(column):
            _refuse_null(argument, int(np.argmax(np.ma.getmaskarray(column))))
        return column.tolist() if column.dtype.kind in "OUS" else np.asarray(column)
    if isinstance(column, Iterable) and not isinstance(column, (str, bytes)):
        return list(column)
    raise KindError(
        f"{argument} must be a list, an array, or a pandas, polars or Arrow column, got {shown(column)}.",
        argument=argument_name(argument),
    )


def refuse_table(column: Any, argument: str) -> None:
    """Raise for a pandas, polars or Arrow table instead of a column."""
    if hasattr(column, "columns") and hasattr(column, "shape"):
        raise KindError(
            f"{argument} must be a column, got a table of shape {column.shape}.", argument=argument_name(argument)
        )


def _refuse_nulls(column: Any, argument: str) -> None:
    """Raise for nulls of polars and of pandas' extension types; a NaN in a column of floats is a float."""
    if callable(getattr(column, "null_count", None)):
        nulls = column.is_null()
    elif hasattr(column, "isna") and not isinstance(column.dtype, np.dtype):
        nulls = column.isna()
    else:
        return
    if any(nulls):
        _refuse_null(argument, list(nulls).index(True))


def _aware_rows(column: Any) -> "Aware | None":
    """Return the instants of a pandas or polars column with a time zone in UTC, or None if it has no time zone."""
    dtype = column.dtype
    if getattr(dtype, "time_zone", None):  # polars
        return Aware(column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy(), _zone(dtype.time_zone))
    if getattr(dtype, "tz", None) is None:
        return None
    if hasattr(column, "dt"):
        return Aware(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), dtype.tz)
    return Aware(column.tz_convert("UTC").tz_localize(None).to_numpy(), dtype.tz)


def _arrow_rows(column: Any, argument: str) -> NDArray[Any] | list[Any]:
    if column.null_count:
        _refuse_null(argument, column.is_null().to_pylist().index(True))
    zone = getattr(column.type, "tz", None)
    if str(column.type).startswith(("int", "uint", "float", "double", "timestamp", "halffloat")):
        rows = column.to_numpy(zero_copy_only=False) if not hasattr(column, "chunks") else column.to_numpy()
        if zone is None or argument != "times":
            return np.asarray(rows)
        return Aware(rows, _zone(zone))
    return list(column.to_pylist())


def _zone(name: str) -> tzinfo:
    """Return a time zone by its name or by an offset such as +02:00, which Arrow uses."""
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if offset is None:
        return ZoneInfo(name)
    span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
    return timezone(span if offset[1] == "+" else -span)


def _refuse_null(argument: str, row: int) -> None:
    raise KindError(f"{row_place(argument, row)} must not be null.", argument=argument_name(argument))


# --- kinds of values ------------------------------------------------------------------------------


def value_kind(value: Any) -> str:
    """Return the native kind of one value, or "object"."""
    if isinstance(value, (bool, np.bool_)) or kinds_of_time.is_integer(value):
        return "int64"
    return "float64" if isinstance(value, (float, np.floating)) else "object"


def column_kind(rows: NDArray[Any] | list[Any]) -> str:
    """Return the native kind of all rows together, or "object"."""
    if isinstance(rows, np.ndarray):
        return {"i": "int64", "u": "int64", "b": "int64", "f": "float64"}.get(rows.dtype.kind, "object")
    kinds = {value_kind(value) for value in rows}
    if kinds == {"int64", "float64"}:
        return "float64"
    return kinds.pop() if len(kinds) == 1 else "object"


# --- numbers --------------------------------------------------------------------------------------


def integers(rows: NDArray[Any] | list[Any], argument: str, wanted: str) -> NDArray[Any]:
    """Return rows as int64, or raise for the first that does not fit."""
    is_time = argument == "times"

    def fits(value: Any) -> bool:
        return kinds_of_time.is_integer(value) or (not is_time and isinstance(value, (bool, np.bool_)))

    if isinstance(rows, np.ndarray):
        if rows.ndim != 1 or rows.dtype.kind not in ("iu" if is_time else "iub"):
            _refuse_array(rows, argument, wanted)
        if rows.dtype.kind == "u" and rows.size and rows.max() > _INT64.max:
            refuse_row(rows.tolist(), argument, _is_int64, _FITS_INT64, ArgumentError)
        return np.ascontiguousarray(rows, dtype=np.int64)
    if not all(map(fits, rows)):
        refuse_row(rows, argument, fits, f"be {wanted}", KindError)
    try:
        return np.array(rows, dtype=np.int64)
    except OverflowError:
        refuse_row(rows, argument, _is_int64, _FITS_INT64, ArgumentError)
        raise


def reals(rows: NDArray[Any] | list[Any], argument: str, wanted: str, exact: bool) -> NDArray[Any]:
    """Return rows as float64, or raise for the first that does not fit; `exact` ones must not be rounded."""

    def fits(value: Any) -> bool:
        return isinstance(value, (float, np.floating)) or (
            kinds_of_time.is_integer(value) or (not exact and isinstance(value, (bool, np.bool_)))
        )

    def is_exact(value: Any) -> bool:
        return isinstance(value, (float, np.floating)) or _exactly(value)

    if isinstance(rows, np.ndarray):
        if rows.ndim != 1 or rows.dtype.kind not in ("iuf" if exact else "iubf"):
            _refuse_array(rows, argument, wanted)
        column = np.ascontiguousarray(rows, dtype=np.float64)
        if exact and rows.dtype.kind in "iu" and rows.size and np.abs(column).max() >= 2**53:
            refuse_row(rows.tolist(), argument, is_exact, _EXACT_FLOAT, ArgumentError)
        return column
    if not all(map(fits, rows)):
        refuse_row(rows, argument, fits, f"be {wanted}", KindError)
    if exact:
        refuse_row(rows, argument, is_exact, _EXACT_FLOAT, ArgumentError)
    try:
        return np.array([float(value) for value in rows], dtype=np.float64)
    except OverflowError:
        refuse_row(rows, argument, _has_float, "fit float64", ArgumentError)
        raise


def is_there(value: Any) -> bool:
    """Return whether a value is not null."""
    return not kinds_of_time.is_null(value)


def objects(rows: Rows) -> list[Any]:
    """Return rows as Python objects, but NumPy times unchanged because `tolist` may convert them to ints."""
    if isinstance(rows, list):
        return rows
    return list(rows) if rows.dtype.kind in "mM" else rows.tolist()


def _is_int64(value: int) -> bool:
    return bool(_INT64.min <= value <= _INT64.max)


def _has_float(value: Any) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _exactly(value: Any) -> bool:
    return _has_float(value) and int(float(value)) == value


def refuse_row(
    rows: list[Any],
    argument: str,
    fits: Callable[[Any], bool],
    requirement: str,
    error: type[ArgumentError] | type[KindError],
) -> None:
    """Raise for the first row that does not fit, if any; `requirement` follows "must" in the message."""
    for i, value in enumerate(rows):
        if not fits(value):
            raise error(
                f"{row_place(argument, i)} must {requirement}, got {shown(value)}.", argument=argument_name(argument)
            )


def _refuse_array(rows: NDArray[Any], argument: str, wanted: str) -> None:
    shape = "" if rows.ndim == 1 else f" of shape {rows.shape}"
    raise KindError(
        f"each row of {argument} must be {wanted}, got an array of {rows.dtype}{shape}.",
        argument=argument_name(argument),
    )
