"""Kinds of time, and instants as ticks.

A window stores times as int64 wherever it can. The core converts ints, floats and pairs of ints itself. This module
recognizes the kind of a time and has the one conversion that needs a calendar: `Instants`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, argument_name, row_place, shown

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONG = timedelta(days=36500)  # fits int64 in nanoseconds, and is long enough to need no exact conversion beyond it
_MICROSECONDS = {"us": 1, "ms": 1_000, "s": 1_000_000}


def as_float(value: Any) -> float | None:
    """Return a NumPy number or an int as a float, and None for anything else."""
    return float(value) if isinstance(value, np.floating) or is_integer(value) else None


def as_number(value: Any) -> int | float | None:
    """Return a Python or NumPy number as a Python number, and None for anything else."""
    if isinstance(value, (bool, np.bool_)) or is_integer(value):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    return value if isinstance(value, (int, float)) else None


def is_integer(value: Any) -> bool:
    """Return whether this is a Python or NumPy int; neither bool nor timedelta64, NumPy's subclass of int, is one."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_null(value: Any) -> bool:
    """Return whether a value is null: None or pandas.NA, without importing pandas."""
    return value is None or type(value).__name__ == "NAType"


def is_pandas(time: Any) -> bool:
    """Return whether this is a pandas Timestamp, without importing pandas."""
    return isinstance(time, datetime) and hasattr(time, "to_datetime64")


def as_datetime64(time: Any) -> np.datetime64:
    """Return a date, datetime or Timestamp as a datetime64, in UTC if it has a time zone."""
    if isinstance(time, np.datetime64):
        return time
    if not isinstance(time, datetime):
        return np.datetime64(time, "D")
    if hasattr(time, "to_datetime64"):  # of pandas
        stamp: np.datetime64 = time.to_datetime64()
        return stamp
    aware = time.utcoffset() is not None
    return np.datetime64((time - (_EPOCH_UTC if aware else _EPOCH)) // _MICROSECOND, "us")


def kind_of(time: Any, argument: str = "time") -> tuple[str, "Instants | None"]:
    """Return the kind of a window whose first time this is, and for instants how they are stored."""
    if time is None or isinstance(time, (bool, np.bool_)):
        raise KindError(
            f"{argument} must be a number, a datetime or another ordered value, got {shown(time)}.",
            argument=argument_name(argument),
        )
    if is_integer(time):
        return "int", None
    if isinstance(time, (float, np.floating)):
        return "float", None
    if isinstance(time, tuple) and len(time) == 2 and all(map(is_integer, time)):
        return "pair", None
    if isinstance(time, (datetime, np.datetime64)):
        return "instant", Instants.like(time, argument)
    return "object", None


@dataclass(frozen=True)
class Instants:
    """The storage of a window's instants: int64 ticks of `unit` since 1970, returned in the type of the first one.

    Aware times are stored in UTC and returned in the zone of the first one. Naive and aware times do not mix. A time in
    another unit is converted if the conversion is exact, and raises otherwise.

    >>> from datetime import datetime
    >>> codec = Instants.like(datetime(1970, 1, 2))
    >>> codec.encode(datetime(1970, 1, 1, 0, 0, 1)), codec.decode(2_000_000)
    (1000000, datetime.datetime(1970, 1, 1, 0, 0, 2))
    """

    unit: str
    shown_as: str  # "datetime", "numpy" or "pandas"
    aware: bool = False
    zone: tzinfo | None = None

    @classmethod
    def like(cls, time: Any, argument: str = "time") -> "Instants":
        """Return the storage for times like this one."""
        _require_time(time, argument)
        if isinstance(time, np.datetime64):
            return cls(_unit_of(time.dtype, argument), "numpy")
        aware = time.utcoffset() is not None
        zone = time.tzinfo if aware else None
        if is_pandas(time):
            return cls(str(time.unit), "pandas", aware, zone)
        return cls("us", "datetime", aware, zone)

    @property
    def ticks_per_second(self) -> float:
        """The number of ticks in a second, below 1 where a tick is longer."""
        try:
            return float(np.timedelta64(1, "s") / np.ones(1, dtype=f"timedelta64[{self.unit}]")[0])
        except TypeError:
            raise KindError(
                f"time must have a unit of days or less for this monoid, got {self.unit}.", argument="time"
            ) from None

    def encode(self, time: Any, argument: str = "time") -> int:
        """Return the ticks of one instant."""
        is_instant = isinstance(time, (datetime, np.datetime64))
        if is_instant:
            _require_time(time, argument)
        aware = isinstance(time, datetime) and time.utcoffset() is not None
        if not is_instant or aware != self.aware:
            raise KindError(
                f"{argument} must be a {self.wanted}, as this window's times are, got {shown(time)}.",
                argument=argument_name(argument),
            )
        if isinstance(time, datetime) and not is_pandas(time):
            ticks = (time - (_EPOCH_UTC if aware else _EPOCH)) // _MICROSECOND
            if self.unit == "us":
                self._require_shown(np.asarray([ticks]), argument)
                return ticks
        return int(self.ticks(np.asarray([as_datetime64(time)]), argument)[0])

    def ticks(self, times: "np.ndarray[Any, Any]", argument: str = "times") -> "np.ndarray[Any, Any]":
        """Return the ticks of a datetime64 array."""
        missing = np.isnat(times)
        if missing.any():
            _refuse_nat(_first_place(argument, missing))
        with np.errstate(all="ignore"):
            converted = times.astype(f"datetime64[{self.unit}]")
            inexact = converted.astype(times.dtype) != times
        if inexact.any():
            raise ArgumentError(
                f"{_first_place(argument, inexact)} must be a whole number of this window's ticks of one {self.unit} "
                f"and fit int64, got {shown(times[inexact][0])}.",
                argument=argument_name(argument),
            )
        ticks: np.ndarray[Any, Any] = np.ascontiguousarray(converted.view(np.int64))
        self._require_shown(ticks, argument)
        return ticks

    def _require_shown(self, ticks: "np.ndarray[Any, Any]", argument: str) -> None:
        """Raise for instants that fit int64 but not the type they are returned in: datetime ends with the year 9999."""
        if self.shown_as != "datetime" or not ticks.size:
            return
        for at in (int(ticks.argmin()), int(ticks.argmax())):
            try:
                self.decode(int(ticks[at]))
            except (OverflowError, ValueError):
                instant = np.datetime64(int(ticks[at]), self.unit)  # type: ignore[call-overload]
                raise ArgumentError(
                    f"{row_place(argument, at)} must lie in the years 1 to 9999 in this window's zone, got {instant}.",
                    argument=argument_name(argument),
                ) from None

    def decode(self, ticks: int) -> Any:
        """Return the instant of a number of ticks, in the type of the first instant."""
        if self.shown_as == "datetime":
            microseconds = ticks if self.unit == "us" else ticks * _MICROSECONDS[self.unit]
            time = (_EPOCH_UTC if self.aware else _EPOCH) + microseconds * _MICROSECOND
            return time.astimezone(self.zone) if self.aware else time
        time64 = np.datetime64(ticks, self.unit)  # type: ignore[call-overload]
        if self.shown_as == "numpy":
            return time64
        import pandas

        stamp = pandas.Timestamp(time64)
        return stamp.tz_localize("UTC").tz_convert(self.zone) if self.aware else stamp

    def size(self, size: Any) -> int | None:
        """Return a difference of times in ticks, or None where it does not fit int64."""
        generic = isinstance(size, np.timedelta64) and np.datetime_data(size.dtype)[0] == "generic"
        if not isinstance(size, (timedelta, np.timedelta64)) or size != size or generic:
            raise KindError(
                f"size must be a timedelta because this window's times are datetimes, got {shown(size)}.",
                argument="size",
            )
        if isinstance(size, timedelta) and abs(size) > _LONG:
            return None if size > timedelta(0) else -1
        size64 = size.to_timedelta64() if hasattr(size, "to_timedelta64") else np.timedelta64(size)
        try:
            converted = size64.astype(f"timedelta64[{self.unit}]")
            exact = bool(converted.astype(size64.dtype) == size64)
        except TypeError:  # months and years have no fixed number of days
            exact = False
        if not exact:
            raise ArgumentError(
                f"size must be a whole number of this window's ticks of one {self.unit}, got {shown(size)}.",
                argument="size",
            )
        return int(converted.view(np.int64))

    @property
    def wanted(self) -> str:
        """What this window accepts, for error messages."""
        return "datetime with a time zone" if self.aware else "datetime without a time zone"


def _require_time(time: Any, argument: str) -> None:
    if time != time:  # NumPy's or pandas' NaT
        _refuse_nat(argument)


def _refuse_nat(place: str) -> None:
    raise ArgumentError(f"{place} must be a time, got NaT.", argument=argument_name(place))


def _unit_of(dtype: Any, argument: str) -> str:
    unit, multiple = np.datetime_data(dtype)
    if unit == "generic":
        raise ArgumentError(
            f"{argument} must have a unit such as datetime64[us], got a datetime64 without one.",
            argument=argument_name(argument),
        )
    return unit if multiple == 1 else f"{multiple}{unit}"


def _first_place(argument: str, invalid: "np.ndarray[Any, Any]") -> str:
    return row_place(argument, int(np.argmax(invalid)))
