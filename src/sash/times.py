"""Kinds of time, and instants as ticks.

A window keeps times as int64 wherever it can. Ints, floats and pairs of ints are turned into that by the core itself;
this module recognises kinds and holds the one conversion that needs a calendar: `Instants`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, shown

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONG = timedelta(days=36500)  # what fits int64 in nanoseconds, and more than enough to be exact about
_MICROSECONDS = {"us": 1, "ms": 1_000, "s": 1_000_000}


def as_float(value: Any) -> float | None:
    """Give a NumPy number as a float, and anything else as None."""
    return float(value) if isinstance(value, np.floating) or is_integer(value) else None


def as_number(value: Any) -> int | float | None:
    """Give a number, Python's or NumPy's, as Python's own; anything else as None."""
    if isinstance(value, (bool, np.bool_)) or is_integer(value):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    return value if isinstance(value, (int, float)) else None


def is_integer(value: Any) -> bool:
    """Tell whether this is an int, Python's or NumPy's; bool is not, nor is timedelta64, which NumPy calls one."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_null(value: Any) -> bool:
    """Tell whether a value is null: None, or the NA of pandas, which need not be imported."""
    return value is None or type(value).__name__ == "NAType"


def is_pandas(time: Any) -> bool:
    """Tell whether this is a pandas Timestamp, without importing pandas."""
    return isinstance(time, datetime) and hasattr(time, "to_datetime64")


def kind_of(time: Any, argument: str = "time") -> tuple[str, "Instants | None"]:
    """Give the kind of a window whose first time this is, and for instants how they are kept."""
    if time is None or isinstance(time, (bool, np.bool_)):
        raise KindError(f"{argument}: {shown(time)} is not a time; give a number, a datetime or another ordered value.")
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
    """How a window keeps instants: int64 ticks of `unit` since 1970, shown as the first one was given.

    Aware times are kept in UTC and shown in the first one's zone; naive and aware never mix. Another unit is converted
    where nothing is lost, and refused otherwise.

    >>> from datetime import datetime
    >>> kept = Instants.like(datetime(1970, 1, 2))
    >>> kept.encode(datetime(1970, 1, 1, 0, 0, 1)), kept.decode(2_000_000)
    (1000000, datetime.datetime(1970, 1, 1, 0, 0, 2))
    """

    unit: str
    shown_as: str  # "datetime", "numpy" or "pandas"
    aware: bool = False
    zone: tzinfo | None = None

    @classmethod
    def like(cls, time: Any, argument: str = "time") -> "Instants":
        """Give the way to keep times like this one."""
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
        """How many ticks a second has, less than one where a tick is longer."""
        try:
            return float(np.timedelta64(1, "s") / np.ones(1, dtype=f"timedelta64[{self.unit}]")[0])
        except TypeError:
            raise KindError(
                f"time: instants of one {self.unit} are no number of seconds apart; give days or less for this monoid."
            ) from None

    def encode(self, time: Any, argument: str = "time") -> int:
        """Give the ticks of one instant."""
        if not isinstance(time, (datetime, np.datetime64)):
            raise KindError(
                f"{argument}: {shown(time)} is not a datetime, but this window's times are; give {self.wanted}."
            )
        _require_time(time, argument)
        aware = isinstance(time, datetime) and time.utcoffset() is not None
        if aware != self.aware:
            given = "has a time zone" if aware else "has no time zone"
            raise KindError(f"{argument}: {shown(time)} {given}; this window takes {self.wanted}.")
        if isinstance(time, datetime) and not is_pandas(time):
            ticks = (time - (_EPOCH_UTC if aware else _EPOCH)) // _MICROSECOND
            if self.unit == "us":
                self._require_shown(np.asarray([ticks]), argument)
                return ticks
            given64 = np.datetime64(ticks, "us")
        else:
            given64 = time if isinstance(time, np.datetime64) else time.to_datetime64()  # type: ignore[attr-defined]
        return int(self.ticks(np.asarray([given64]), argument)[0])

    def ticks(self, times: "np.ndarray[Any, Any]", argument: str = "times") -> "np.ndarray[Any, Any]":
        """Give the ticks of a datetime64 array."""
        missing = np.isnat(times)
        if missing.any():
            raise ArgumentError(f"{_at(argument, missing)}: NaT is not a time; leave it out.")
        with np.errstate(all="ignore"):
            kept = times.astype(f"datetime64[{self.unit}]")
            changed = kept.astype(times.dtype) != times
        if changed.any():
            lost = times[changed][0]
            raise ArgumentError(
                f"{_at(argument, changed)}: {shown(lost)} is not a whole number of this window's ticks "
                f"of one {self.unit}, or too far away for them; give times of that unit."
            )
        ticks: np.ndarray[Any, Any] = np.ascontiguousarray(kept.view(np.int64))
        self._require_shown(ticks, argument)
        return ticks

    def _require_shown(self, ticks: "np.ndarray[Any, Any]", argument: str) -> None:
        """Refuse instants that could be kept but not shown: datetime ends with the year 9999."""
        if self.shown_as != "datetime" or not ticks.size:
            return
        for at in (int(ticks.argmin()), int(ticks.argmax())):
            try:
                self.decode(int(ticks[at]))
            except (OverflowError, ValueError):
                where = argument if argument == "time" else f"{argument}[{at}]"
                raise ArgumentError(
                    f"{where}: {np.datetime64(int(ticks[at]), self.unit)} is no datetime in this window's zone; "  # type: ignore[call-overload]
                    f"give one from the year 1 to 9999."
                ) from None

    def decode(self, ticks: int) -> Any:
        """Give the instant of so many ticks, as the first one was given."""
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
        """Give a difference of times in ticks, or None where it is longer than int64 can say."""
        generic = isinstance(size, np.timedelta64) and np.datetime_data(size.dtype)[0] == "generic"
        if not isinstance(size, (timedelta, np.timedelta64)) or size != size or generic:
            raise KindError(f"size: {shown(size)} is no difference of datetimes; give a timedelta.")
        if isinstance(size, timedelta) and abs(size) > _LONG:
            return None if size > timedelta(0) else -1
        given = size.to_timedelta64() if hasattr(size, "to_timedelta64") else np.timedelta64(size)
        try:
            kept = given.astype(f"timedelta64[{self.unit}]")
            exact = bool(kept.astype(given.dtype) == given)
        except TypeError:  # months and years are no number of days
            exact = False
        if not exact:
            raise ArgumentError(
                f"size: {shown(size)} is not a whole number of this window's ticks, one {self.unit}; give one that is."
            )
        return int(kept.view(np.int64))

    @property
    def wanted(self) -> str:
        """Say in words what this window takes."""
        return "datetimes with a time zone" if self.aware else "datetimes without a time zone"


def _require_time(time: Any, argument: str) -> None:
    if time != time:  # NaT, NumPy's or pandas'
        raise ArgumentError(f"{argument}: NaT is not a time; leave it out.")


def _unit_of(dtype: Any, argument: str) -> str:
    unit, multiple = np.datetime_data(dtype)
    if unit == "generic":
        raise ArgumentError(f"{argument}: a datetime64 without a unit is not a time; give it one, such as [us].")
    return unit if multiple == 1 else f"{multiple}{unit}"


def _at(argument: str, bad: "np.ndarray[Any, Any]") -> str:
    return argument if argument == "time" else f"{argument}[{int(np.argmax(bad))}]"
