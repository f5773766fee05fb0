"""Which windows the rows that a stream retains can answer, by the kinds of windows that it retains them for."""

from collections.abc import Iterable

from sash import durations
from sash.keyed.kinds import Kind
from sash.keyed.zones import DAYS

_WITHIN = {  # periods that begin no later than another one that a time lies in
    "day": ("day", "week", "month", "quarter", "year"),
    "week": ("week",),
    "month": ("month", "quarter", "year"),
    "quarter": ("quarter", "year"),
    "year": ("year",),
}


def covers(kept: Kind, wanted: Kind, unit: str | None) -> bool:
    """Return whether the rows that one window sees are all among those of another one.

    >>> covers(Kind("rows", 5), Kind("rows", 3), "us"), covers(Kind("span", 5), Kind("period", period="day"), "us")
    (True, False)
    >>> covers(Kind("period", period="year"), Kind("period", period="month"), "us")
    True
    """
    if wanted.kind == "period" and kept.kind == "period":
        return kept.period in _WITHIN[wanted.period]
    if wanted.kind == "period" and kept.kind == "span":
        return kept.size >= durations.ticks_of(f"{DAYS[wanted.period] + 1}d", unit, "windows")
    return wanted.kind == kept.kind and wanted.size <= kept.size


def uncovered(windows: Iterable[tuple[str, Kind]], kept: Iterable[Kind], unit: str | None) -> list[str]:
    """Return the names of the windows that need rows which are not retained for any of those that are kept."""
    kept = list(kept)
    return [name for name, wanted in windows if not any(covers(one, wanted, unit) for one in kept)]
