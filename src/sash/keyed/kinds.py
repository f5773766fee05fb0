"""The kinds of windows: a span of time, the last rows, a calendar period to date, everything, a span of time ahead."""

import re
from typing import Any, NamedTuple

from sash import durations
from sash.errors import ArgumentError, shown
from sash.keyed.zones import PERIODS

_ROWS = re.compile(r"\s*(\d+)\s*rows?\s*")
_TO_DATE = re.compile(rf"\s*({'|'.join(PERIODS)})\s+to\s+date\s*")
_UNBOUNDED = re.compile(r"\s*unbounded\s*")
_AHEAD = re.compile(r"\s*next\s+(.+)")
_CALENDAR = re.compile(r"\s*(\d+)\s*([a-zA-Z]+)\s*")
_MOST_ROWS = 2**31

# What is written for a period in `every`, by itself or with a zone only.
_WORDS = {"month": "month", "mo": "month", "quarter": "quarter", "q": "quarter", "year": "year", "y": "year"}
_WITH_ZONE = {"day": "day", "d": "day", "week": "week", "w": "week"}


class Kind(NamedTuple):
    """What a window is: its size in ticks or rows, or the period that it is the beginning of."""

    kind: str  # "span", "rows", "period", "unbounded" or "ahead", as the core names them
    size: int = 0
    period: str = ""

    @property
    def counts(self) -> bool:
        """Whether it depends on how many rows there are, and does not begin at a time."""
        return self.kind in ("rows", "unbounded")


def kind_of(window: Any, unit: str | None) -> Kind:
    """Return the kind of a window over times in a unit.

    >>> kind_of("100 rows", "us"), kind_of("next 1h", "s").size, kind_of("month to date", "us").period
    (Kind(kind='rows', size=100, period=''), 3600, 'month')
    """
    text = window if isinstance(window, str) else ""
    if found := _ROWS.fullmatch(text):
        return Kind("rows", _rows(int(found[1]), window))
    if _UNBOUNDED.fullmatch(text):
        return Kind("unbounded")
    if found := _TO_DATE.fullmatch(text):
        if unit is None:
            raise ArgumentError(
                f"windows must be numbers or counts of rows because the times are ints, got {shown(window)}.",
                argument="windows",
            )
        return Kind("period", period=found[1])
    if found := _AHEAD.fullmatch(text):
        ahead: Any = int(found[1]) if unit is None and found[1].strip().isdigit() else found[1].strip()
        return Kind("ahead", durations.ticks_of(ahead, unit, "windows"))
    return Kind("span", durations.ticks_of(window, unit, "windows"))


def _rows(count: int, window: Any) -> int:
    if not 0 < count < _MOST_ROWS:
        raise ArgumentError(f"windows must be of 1 to 2**31 - 1 rows, got {shown(window)}.", argument="windows")
    return count


def is_ahead(window: Any) -> bool:
    """Return whether a window begins at its anchor."""
    return isinstance(window, str) and _AHEAD.fullmatch(window) is not None


def counts(window: Any) -> bool:
    """Return whether a window is one of rows, or unbounded."""
    return isinstance(window, str) and bool(_ROWS.fullmatch(window) or _UNBOUNDED.fullmatch(window))


def is_to_date(window: Any) -> bool:
    """Return whether a window is a calendar period to date."""
    return isinstance(window, str) and _TO_DATE.fullmatch(window) is not None


def calendar_step(every: Any, zone: str | None) -> str | None:
    """Return the period whose starts are the boundaries of `every`, or None if it is a fixed length of time.

    >>> calendar_step("1 month", None), calendar_step("1d", "Europe/Berlin"), calendar_step("1d", None)
    ('month', 'day', None)
    """
    text = every if isinstance(every, str) else durations.name_of(every)
    found = _CALENDAR.fullmatch(text)
    unit = found[2].lower() if found and found[2] != "M" else ""
    unit = unit.removesuffix("s") if len(unit) > 1 else unit
    if found is None or unit not in _WORDS | (_WITH_ZONE if zone is not None else {}):
        return None
    period = (_WORDS | _WITH_ZONE)[unit]
    if int(found[1]) == 7 and period == "day" and not isinstance(every, str):
        return "week"
    if int(found[1]) != 1:
        raise ArgumentError(
            f"every must be one calendar period, such as 1 {period}, got {shown(every)}.", argument="every"
        )
    return period
