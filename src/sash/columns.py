"""Batches on their way into the core: times and values as native columns.

A column is a contiguous int64 or float64 array, or a list of Python objects. Lists, tuples, iterators, NumPy arrays,
pandas, polars and Arrow columns are taken. A batch decides the kinds of a window that has none yet, as a whole; nothing
here changes a window.
"""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sash import times as kinds_of_time
from sash.errors import ArgumentError, KindError, shown
from sash.monoid import Monoid
from sash.times import Instants

if TYPE_CHECKING:
    from sash import _core

Kinds = tuple[str, Instants | None, str]
Column = NDArray[Any] | list[Any]

_INT64 = np.iinfo(np.int64)


def kinds_of(monoid: Monoid, entry: tuple[Any, Any]) -> Kinds:
    """Give the kinds of a window that starts with this time and value."""
    time, value = entry
    time_kind, codec = kinds_of_time.kind_of(time)
    return time_kind, codec, _allowed(monoid, time_kind, _value_kind(value))


def batch(window: "_core.Window", times: Any, values: Any) -> tuple[Kinds | None, Column, Column]:
    """Give a batch as two columns and the kinds they have; no kinds where the batch is empty and decides nothing."""
    time_rows, value_rows = _rows(times, "times"), _rows(values, "values")
    monoid, kinds = window.monoid, window._kinds  # after the rows: reading them may have run anybody's code
    _require_flat(time_rows, value_rows)
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


def _require_flat(times: Any, values: Any) -> None:
    pairs = isinstance(times, np.ndarray) and times.ndim == 2 and times.shape[1] == 2 and times.dtype.kind in "iu"
    for argument, rows in (("times", times), ("values", values)):
        if isinstance(rows, np.ndarray) and rows.ndim != 1 and not (pairs and rows is times):
            raise ArgumentError(f"{argument}: an array of shape {rows.shape} is no column; give one of one dimension.")


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
    if isinstance(column, (set, frozenset, dict)):
        raise KindError(f"{argument}: {shown(column)} has no order of rows; give a list or an array.")
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
    raise KindError(f"{argument}: {shown(column)} is no column; give a list, an array, or an Arrow or pandas column.")


def _refuse_nulls(column: Any, argument: str) -> None:
    """Refuse the nulls of polars, and of pandas' own types; a NaN in a column of floats is a float."""
    if callable(getattr(column, "null_count", None)):
        nulls = column.is_null()
    elif hasattr(column, "isna") and not isinstance(column.dtype, np.dtype):
        nulls = column.isna()
    else:
        return
    if any(nulls):
        _refuse_null(argument, list(nulls).index(True))


def _aware_rows(column: Any) -> "_Aware | None":
    """Give instants of pandas or polars that have a time zone, in UTC and with it."""
    dtype = column.dtype
    if getattr(dtype, "time_zone", None):  # polars
        return _Aware(column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy(), _zone(dtype.time_zone))
    if getattr(dtype, "tz", None) is None:
        return None
    if hasattr(column, "dt"):
        return _Aware(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), dtype.tz)
    return _Aware(column.tz_convert("UTC").tz_localize(None).to_numpy(), dtype.tz)


def _arrow_rows(column: Any, argument: str) -> NDArray[Any] | list[Any]:
    if column.null_count:
        _refuse_null(argument, column.is_null().to_pylist().index(True))
    zone = getattr(column.type, "tz", None)
    if str(column.type).startswith(("int", "uint", "float", "double", "timestamp", "halffloat")):
        rows = column.to_numpy(zero_copy_only=False) if not hasattr(column, "chunks") else column.to_numpy()
        if zone is None or argument != "times":
            return np.asarray(rows)
        return _Aware(rows, _zone(zone))
    return list(column.to_pylist())


def _zone(name: str) -> tzinfo:
    """Give a time zone by its name, or by an offset such as +02:00, as Arrow has them."""
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if offset is None:
        return ZoneInfo(name)
    span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
    return timezone(span if offset[1] == "+" else -span)


def _refuse_null(argument: str, row: int) -> None:
    raise KindError(f"{argument}[{row}]: null is neither a time nor a value; leave the row out.")


# --- times ----------------------------------------------------------------------------------------


def _time_kind(rows: NDArray[Any] | list[Any]) -> tuple[str, Instants | None]:
    if isinstance(rows, _Aware):
        unit = np.datetime_data(rows.instants.dtype)[0]
        return "instant", Instants(unit, "pandas" if unit == "ns" else "datetime", True, rows.zone)
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
    return _objects(rows)


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
                raise KindError(
                    f"times[{i}]: {shown(row)} is not a pair of ints, but this window's times are; give pairs."
                )
        flat = _integers([part for row in rows for part in row], "times", "an int")
        return flat.reshape(-1, 2)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        raise KindError(
            f"times: an array of {rows.dtype} is not one of pairs of ints, but this window's times are pairs."
        )
    return _integers(rows.reshape(-1), "times", "an int").reshape(-1, 2)


def _instants(rows: NDArray[Any] | list[Any], codec: Instants) -> NDArray[Any]:
    if isinstance(rows, _Aware):
        if not codec.aware:
            raise KindError(f"times: a column in time zone {rows.zone} came to a window that takes {codec.wanted}.")
        return codec.ticks(rows.instants)
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "M" and not codec.aware:
        return codec.ticks(rows)
    return np.array([codec.encode(time, f"times[{i}]") for i, time in enumerate(rows)], dtype=np.int64)


# --- values ---------------------------------------------------------------------------------------


def _value_kind(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)) or kinds_of_time.is_integer(value):
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
    native = dict(monoid.native)
    if time_kind == "object" or not native:
        return "object"
    kind = monoid.dtype or kind
    if "any" in native:
        return "any"
    if kind == "object" or kind in native:
        return kind
    return "float64"  # the only other native kind: ints are floats to it


def _value_column(rows: NDArray[Any] | list[Any], kind: str) -> Column:
    if kind == "int64":
        return _integers(rows, "values", "an int, but this window aggregates int64; give ints, or use dtype=float")
    if kind == "float64":
        return _reals(rows, "values", "a number; give floats or ints", exact=False)
    if kind == "any" and isinstance(rows, np.ndarray) and rows.dtype.kind in "if":
        return np.ascontiguousarray(rows, dtype=np.int64 if rows.dtype.kind == "i" else np.float64)
    return _objects(rows)


def _objects(rows: NDArray[Any] | list[Any]) -> list[Any]:
    """Give rows as Python objects; NumPy's times stay what they are, because as plain values they would be ints."""
    if isinstance(rows, list):
        return rows
    return list(rows) if rows.dtype.kind in "mM" else rows.tolist()


# --- numbers --------------------------------------------------------------------------------------


def _integers(rows: NDArray[Any] | list[Any], argument: str, wanted: str) -> NDArray[Any]:
    is_time = argument == "times"

    def fits(value: Any) -> bool:
        return kinds_of_time.is_integer(value) or (not is_time and isinstance(value, (bool, np.bool_)))

    if isinstance(rows, np.ndarray):
        if rows.ndim != 1 or rows.dtype.kind not in ("iu" if is_time else "iub"):
            raise KindError(f"{argument}: an array of {rows.dtype} holds something that is not {wanted}.")
        if rows.dtype.kind == "u" and rows.size and rows.max() > _INT64.max:
            _refuse_row(
                rows.tolist(),
                argument,
                lambda v: v <= _INT64.max,
                "does not fit int64; give ints from -2**63 to 2**63 - 1",
                ArgumentError,
            )
        return np.ascontiguousarray(rows, dtype=np.int64)
    if not all(map(fits, rows)):
        _refuse_row(rows, argument, fits, f"is not {wanted}", KindError)
    try:
        return np.array(rows, dtype=np.int64)
    except OverflowError:
        _refuse_row(
            rows,
            argument,
            lambda v: _INT64.min <= v <= _INT64.max,
            "does not fit int64; give ints from -2**63 to 2**63 - 1",
            ArgumentError,
        )
        raise


def _reals(rows: NDArray[Any] | list[Any], argument: str, wanted: str, exact: bool) -> NDArray[Any]:
    def fits(value: Any) -> bool:
        return isinstance(value, (float, np.floating)) or (
            kinds_of_time.is_integer(value) or (not exact and isinstance(value, (bool, np.bool_)))
        )

    def is_exact(value: Any) -> bool:
        return isinstance(value, (float, np.floating)) or _exactly(value)

    if isinstance(rows, np.ndarray):
        if rows.ndim != 1 or rows.dtype.kind not in ("iuf" if exact else "iubf"):
            raise KindError(f"{argument}: an array of {rows.dtype} holds something that is not {wanted}.")
        column = np.ascontiguousarray(rows, dtype=np.float64)
        if exact and rows.dtype.kind in "iu" and rows.size and np.abs(column).max() >= 2**53:
            _refuse_row(
                rows.tolist(), argument, is_exact, "is no exact float; give floats, or ints that are", ArgumentError
            )
        return column
    if not all(map(fits, rows)):
        _refuse_row(rows, argument, fits, f"is not {wanted}", KindError)
    if exact:
        _refuse_row(rows, argument, is_exact, "is no exact float; give floats, or ints that are", ArgumentError)
    try:
        return np.array([float(value) for value in rows], dtype=np.float64)
    except OverflowError:
        _refuse_row(rows, argument, _has_float, "does not fit float64; give smaller numbers", ArgumentError)
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
            raise error(f"{argument}[{i}]: {shown(value)} {wrong}.")
