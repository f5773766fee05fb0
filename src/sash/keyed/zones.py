"""Time zones as the core reads them: when their offsets from UTC change, found in the zones of the standard library."""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sash import _core
from sash.errors import ArgumentError, KindError, shown

DAYS = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}  # the longest; a zone may add up to one more
PERIODS = tuple(DAYS)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST, _LAST = datetime(1840, 1, 1, tzinfo=UTC), datetime(2503, 1, 1, tzinfo=UTC)  # before and after, nothing is new
_SETTLED = datetime(2100, 1, 1, tzinfo=UTC)  # from here on every year is like the one before
_STEPS = (timedelta(days=5), timedelta(days=25))  # in which no zone changes its offset and changes it back
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def zone_name(zone: Any) -> str:
    """Return the name of a time zone, or raise if there is none."""
    name = getattr(zone, "key", None) if isinstance(zone, tzinfo) else zone
    name = "UTC" if zone is UTC else name
    if not isinstance(name, str):
        raise KindError(
            f"zone must be the name of a time zone such as 'Europe/Berlin', got {shown(zone)}.", argument="zone"
        )
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ArgumentError(
            f"zone must be the name of a time zone such as 'Europe/Berlin', got {shown(zone)}.", argument="zone"
        ) from None
    return name


def calendar(period: str, zone: str | None, unit: str) -> "_core.Calendar":
    """Return the calendar of a period, in UTC without a zone, for times in a unit."""
    changes, offsets = changes_of("UTC" if zone is None else zone)
    return _core.Calendar(period, _PER_SECOND[unit], list(changes), list(offsets))


@lru_cache(maxsize=64)
def changes_of(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the seconds at which a zone's offset changes, and the offsets before, between and after them.

    >>> changes, offsets = changes_of("Asia/Kolkata")
    >>> changes[-1], offsets[-1]  # the end of a summer time in 1945
    (-764145000, 19800)
    """
    zone = ZoneInfo(name)
    changes: list[int] = []
    offsets = [_offset(zone, _FIRST)]
    at = _FIRST
    while at < _LAST:
        later = at + _STEPS[at >= _SETTLED]
        if _offset(zone, later) != offsets[-1]:
            change = _change(zone, at, later)
            changes.append((change - _EPOCH) // timedelta(seconds=1))
            offsets.append(_offset(zone, change))
            later = change
        at = later
    return tuple(changes), tuple(offsets)


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Return the first second that has another offset than a time before it, by bisection."""
    offset, low, high = _offset(zone, before), 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, before + timedelta(seconds=middle)) == offset:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


def _offset(zone: ZoneInfo, at: datetime) -> int:
    offset: timedelta = at.astimezone(zone).utcoffset()  # type: ignore[assignment]
    return offset.days * 86_400 + offset.seconds
