"""Durations: window sizes and the like, as text, timedeltas or numbers.

A size is a duration where times are timestamps and a number where they are numbers. Months and years raise because they
have no fixed length.
"""

import re
from datetime import timedelta
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, shown
from sash.times import is_integer

_UNITS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "microsecond", "microseconds"), 10**3),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 10**9),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 10**9),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * 10**9),
    **dict.fromkeys(("d", "day", "days"), 24 * 3600 * 10**9),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 24 * 3600 * 10**9),
}
_CALENDAR = re.compile(r"mo|month|months|q|quarter|quarters|y|year|years")
_DURATION = re.compile(r"\s*(\d+)\s*([a-zA-Zµ]+)\s*")
_WANTED = 'a duration such as "90s", "15 minutes", "1h" or "7d", or a timedelta'
_TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def nanoseconds(duration: Any, argument: str) -> int:
    """Return a duration in nanoseconds.

    >>> nanoseconds("15 minutes", "windows") // 10**9, nanoseconds("1h30m", "windows") // 10**9
    (900, 5400)
    """
    if isinstance(duration, np.timedelta64):
        return int(duration.astype("timedelta64[ns]").astype(np.int64))
    if isinstance(duration, timedelta):
        return (duration.days * 86400 + duration.seconds) * 10**9 + duration.microseconds * 1000
    if not isinstance(duration, str):
        raise KindError(f"{argument} must be {_WANTED}, got {shown(duration)}.", argument=argument)
    sign, text = (-1, duration[1:]) if duration.startswith("-") else (1, duration)
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise ArgumentError(f"{argument} must be {_WANTED}, got {shown(duration)}.", argument=argument)
    total = 0
    for part in parts:
        unit = part[2] if part[2] in _UNITS else part[2].lower()
        if _CALENDAR.fullmatch(unit):
            raise ArgumentError(
                f"{argument} must have a fixed length, such as 30d for a month, got {shown(duration)}.",
                argument=argument,
            )
        if unit not in _UNITS:
            raise ArgumentError(f"{argument} must be {_WANTED}, got {shown(duration)}.", argument=argument)
        total += int(part[1]) * _UNITS[unit]
    return sign * total


def _longest(unit: str | None) -> str:
    """Return how a message says which sizes are too large."""
    if unit is None:
        return "below 2**62"
    return f"at most {2**62 * _TICKS[unit] // (24 * 3600 * 10**9)} days because the times are in {unit}"


def ticks_of(duration: Any, unit: str | None, argument: str, *, least: int = 1) -> int:
    """Return a duration in the ticks of a time column, or a number unchanged where times are numbers."""
    if unit is None:
        if not is_integer(duration):
            raise KindError(
                f"{argument} must be an int because the times are ints, got {shown(duration)}.", argument=argument
            )
        ticks, rest = int(duration), 0
    else:
        ticks, rest = divmod(nanoseconds(duration, argument), _TICKS[unit])
    if rest:
        raise ArgumentError(
            f"{argument} must be a whole number of {unit}, the unit of the times, got {shown(duration)}.",
            argument=argument,
        )
    if not least <= ticks < 2**62:
        wanted = {1: "positive", 0: "zero or more"}.get(least, f"at least {least}")
        wanted = wanted if ticks < least else _longest(unit)
        raise ArgumentError(f"{argument} must be {wanted}, got {shown(duration)}.", argument=argument)
    return ticks


def listed(windows: Any) -> list[Any]:
    """Return window sizes as a list, also for a single one.

    >>> listed("1h"), listed(("1h", "7d"))
    (['1h'], ['1h', '7d'])
    """
    one = isinstance(windows, (str, int)) or not hasattr(windows, "__iter__")
    return [windows] if one else list(windows)


def name_of(duration: Any) -> str:
    """Return the name of a window in the columns of its results.

    >>> name_of("15 minutes"), name_of(timedelta(hours=1)), name_of(10)
    ('15minutes', '1h', '10')
    >>> name_of("100 rows"), name_of("day to date"), name_of("next 1h")
    ('100rows', 'day_to_date', 'next_1h')
    """
    if isinstance(duration, str):
        words = re.sub(r"\s+to\s+date\s*$", "_to_date", duration)
        return re.sub(r"\s+", "", re.sub(r"^\s*next\s+", "next_", words))
    if not isinstance(duration, (timedelta, np.timedelta64)):
        return str(duration)
    length = nanoseconds(duration, "windows")
    for unit in ("d", "h", "m", "s", "ms", "us"):
        if length % _UNITS[unit] == 0:
            return f"{length // _UNITS[unit]}{unit}"
    return f"{length}ns"
